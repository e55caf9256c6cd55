"""Many deletions in one request to GCS: what is sent, and what each part of the answer says.

The client's own batch ties answers to requests only by their order, and raises the last failure
for all. Here every part carries the number of its key. So no answer is taken for another key's
(Google promises no order), and a key without an answer stays unconfirmed.

References:
    Cloud Storage documentation, "Batch requests".
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from email.parser import BytesParser
from urllib.parse import urlsplit

from spark_core.storage.gcs.errors import GcsFailure, reason_of

# The most parts that Google takes in one request.
MAX_PARTS = 100

_ANSWERED = re.compile(r"<?response-lakegc\+(\d{1,3})>?")
_STATUS = re.compile(rb"\s*HTTP/[\d.]+ (\d{3})\b")


def batch_request(urls: Sequence[str]) -> tuple[str, bytes]:
    """Write a request that deletes several objects.

    Args:
        urls: One per object, percent-encoded, at most `MAX_PARTS`. Only the path of each is sent,
            as Google wants it.

    Returns:
        Content type and body.
    """
    boundary = f"lakegc-{secrets.token_hex(16)}"
    parts = [
        f"--{boundary}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"
        f"Content-ID: <lakegc+{number}>\r\n\r\nDELETE {urlsplit(url).path} "
        "HTTP/1.1\r\nContent-Length: 0\r\n\r\n\r\n"
        for number, url in enumerate(urls)
    ]
    return f'multipart/mixed; boundary="{boundary}"', "".join(
        [*parts, f"--{boundary}--\r\n"]
    ).encode("ascii")


def batch_answers(content_type: str, body: bytes) -> dict[int, GcsFailure]:
    """Read what each part says.

    Args:
        content_type: Content type of the answer, which names the boundary.
        body: Body of the answer.

    Returns:
        Status and reason by the number of the part, for successes too. Only clear parts are
        returned, so nothing at all for an answer that is no batch. A number that is answered twice
        has no answer: nobody can tell which one is true.
    """
    message = BytesParser().parsebytes(
        b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n" + body
    )
    answers: dict[int, list[GcsFailure]] = {}
    for part in message.walk():
        number = _ANSWERED.fullmatch(str(part.get("Content-ID", "")).strip())
        payload = part.get_payload(decode=True)
        if (
            number is None
            or not isinstance(payload, bytes)
            or (status := _STATUS.match(payload)) is None
        ):
            continue
        _, _, rest = payload.replace(b"\r\n", b"\n").partition(b"\n\n")
        answers.setdefault(int(number[1]), []).append(GcsFailure(int(status[1]), reason_of(rest)))
    return {number: parts[0] for number, parts in answers.items() if len(parts) == 1}
