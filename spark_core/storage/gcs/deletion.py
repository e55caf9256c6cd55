"""Send a bulk deletion to GCS, once; the answer for each name is in `deletion_answers`.

The client's own batch ties answers to requests only by their order, and raises the last failure
for all. Here every part carries the number of its name.

References:
    Cloud Storage documentation, "Batch requests".
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from spark_core.storage.deletion import KeyAnswer
from spark_core.storage.gcs.deletion_answers import answers_by_name
from spark_core.storage.gcs.json_api import JsonApi

# The most parts that Google takes in one request.
MAX_PARTS = 100


def send_bulk(api: JsonApi, endpoint: str, urls: Mapping[str, str]) -> dict[str, KeyAnswer]:
    """Send one request, once.

    Args:
        api: The API.
        endpoint: Where it is.
        urls: The URL of each name; at most `MAX_PARTS`.

    Returns:
        An answer by name. A request that fails as a whole raises an error of the client.
    """
    content_type, body = batch_request(urls.values())
    answer = api.post_batch(endpoint, content_type, body)
    return answers_by_name([*urls], answer)


def batch_request(urls: Collection[str]) -> tuple[str, bytes]:
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
