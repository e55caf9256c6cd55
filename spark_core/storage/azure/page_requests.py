"""Ask for a page of a listing, and take the answer before the client makes objects of it."""

from __future__ import annotations

from typing import Any

from azure.storage.blob import ContainerClient


class _Taken(Exception):  # noqa: N818 - no error, but the way out of the client with an answer
    """The answer to a listing."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.body = body


def ask_page(container: ContainerClient, prefix: str, marker: str, *, deep: bool) -> bytes:
    """Return the body of a page.

    Args:
        container: Where.
        prefix: What all names begin with.
        marker: Where the page begins; empty for the first.
        deep: Everything below the prefix, else one level.
    """

    def take(answer: Any) -> None:
        if answer.http_response.status_code == 200:
            raise _Taken(answer.http_response.body())

    listing = (container.list_blobs if deep else container.walk_blobs)(
        name_starts_with=prefix, include=["metadata"], raw_response_hook=take
    )
    try:
        next(listing.by_page(marker or None))
    except _Taken as taken:
        return taken.body
    raise ValueError("neither a page nor an error")
