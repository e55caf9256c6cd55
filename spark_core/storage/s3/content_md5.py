"""Content-MD5 for the bulk deletion: boto3 no longer sends it, older S3-like stores demand it.

Since botocore 1.36, a request that needs a checksum has only CRC32. AWS takes either. MinIO before
2025, PowerScale and others know only Content-MD5, and answer MissingContentMD5 (400) for the whole
request. Both are sent here: a store that knows the newer one loses nothing. DeleteObjects is the
only request of lakegc for which S3 wants a checksum.

References:
    boto3 1.36.0 changelog ("no longer automatically compute ... Content-MD5");
    Amazon S3 API reference, "DeleteObjects".
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

# In the endpoint of each zone with directory buckets.
_IN_A_ZONE = ".s3express-"


def add_md5(request: Any, **_: object) -> None:
    """Add Content-MD5 to a request that is about to be signed, also to a repeated one."""
    if _IN_A_ZONE in request.url:
        # Directory buckets know the newer checksums alone.
        return
    digest = hashlib.md5(request.body, usedforsecurity=False).digest()
    # A request that is sent again may be signed again.
    del request.headers["Content-MD5"]
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()
