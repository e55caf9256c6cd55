"""Content-MD5 for the bulk deletion, which boto3 no longer sends and older S3-compatible stores demand.

Since botocore 1.36 the only checksum of a request that needs one is CRC32. AWS
takes either; MinIO before 2025, PowerScale and others know only Content-MD5 and
answer MissingContentMD5 (400) for the whole request. Both go along here: a store
that knows the newer one loses nothing. DeleteObjects is the only request of
lakegc that S3 wants with a checksum.

References:
    boto3 1.36.0 changelog ("no longer automatically compute ... Content-MD5");
    Amazon S3 API reference, "DeleteObjects".
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any


def send_md5(boto: Any) -> None:
    """Let a client send Content-MD5 with each bulk deletion, repeated ones too."""
    # Only here is the body what goes over the wire, and the header is signed with the rest.
    boto.meta.events.register("before-sign.s3.DeleteObjects", _add_md5)


def _add_md5(request: Any, **_: object) -> None:
    digest = hashlib.md5(request.body, usedforsecurity=False).digest()
    # A request that is sent again may be signed again.
    del request.headers["Content-MD5"]
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()
