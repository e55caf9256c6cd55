"""Pages of a remote store's listing, and how they are read in all stores."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_core.errors import IncompleteReadError
from spark_core.storage.listing_rows import listing_batch


@dataclass(frozen=True)
class Page:
    """One page of a listing.

    Attributes:
        rows: Columns of `schemas.OBJECT_LISTING`.
        prefixes: The prefixes directly below, for a listing of one level; relative to the
            namespace.
        next: Where the next page begins; None at the end, empty if the store does not say.
    """

    rows: pa.RecordBatch
    prefixes: list[str]
    next: str | None


@dataclass(frozen=True)
class Listed:
    """A listing that is asked for.

    Attributes:
        root: The namespace, for an error.
        before: The namespace's part of every name; cut off.
        prefix: The prefix asked for, relative to the namespace.
        store: The kind of store, for an error.
        endpoint: Name of the endpoint's setting, for an error.
    """

    root: str
    before: str
    prefix: str
    store: str
    endpoint: str = "the endpoint"

    def names(self, found: Sequence[Any]) -> list[str]:
        """Return names relative to the namespace.

        Raises:
            IncompleteReadError: If one lies elsewhere, or is no name.
        """
        asked, cut = self.before + self.prefix, len(self.before)
        for name in found:
            if not isinstance(name, str) or not name.startswith(asked):
                raise self.unlike(f"the key {name!r}, which does not lie there")
        return [name[cut:] for name in found] if cut else list(found)

    def batch(self, *columns: Any) -> pa.RecordBatch:
        """Put columns of a page together, as `listing_batch` does.

        Raises:
            IncompleteReadError: If an object has a key or a size that cannot be.
        """
        try:
            return listing_batch(*columns)
        except ValueError as error:
            raise self.unlike(str(error)) from None

    def unlike(self, what: str) -> IncompleteReadError:
        """Return the error for an answer that this kind of store does not give."""
        return IncompleteReadError(
            f"the listing of {self.root}{self.prefix} answered {what}; the store does not list as "
            f"{self.store} does, "
            "so the listing cannot be trusted",
            f"Look at {self.endpoint}.",
        )

    def not_utf8(self, name: object) -> IncompleteReadError:
        """Return the error for a key that cannot be named."""
        return IncompleteReadError(
            f"the listing of {self.root}{self.prefix} holds a key that is not UTF-8 ({name!r}); it "
            "cannot be named, "
            "so the listing is not complete",
            "Look at it with the store's own tools and move it away.",
        )

    def no_listing(self) -> IncompleteReadError:
        """Return the error for an answer that is no page."""
        return IncompleteReadError(
            f"the listing of {self.root}{self.prefix} got an answer that is no listing (an empty "
            "page or one of a "
            "proxy); it was not taken for an empty directory",
            f"Look at {self.endpoint}.",
        )


def all_pages(
    listed: Listed, ask: Callable[[str], Page], require_next: Callable[[Page], None]
) -> Iterator[Page]:
    """Ask for the pages of a listing, one after the other.

    Args:
        listed: What is listed.
        ask: Asks for the page that begins where the page before said; empty for the first.
        require_next: Refuses a page that cannot follow those before it.

    Raises:
        IncompleteReadError: If a page does not say where the next one begins.
    """
    tokens, token = set[str](), ""
    while True:
        page = ask(token)
        require_next(page)
        yield page
        if page.next is None:
            return
        token = page.next
        if not token or token in tokens:
            raise IncompleteReadError(
                f"the listing of {listed.root}{listed.prefix} says that there is more but not "
                "where "
                f"({len(tokens) + 1} pages came)",
                f"The store does not list as {listed.store} does.",
            )
        tokens.add(token)


def md5_in_hex(md5: str | bytes | bytearray | None) -> str | None:
    """Return a base64 MD5 in hex; None for objects without one (sent or put together in parts)."""
    try:
        digest = (
            binascii.a2b_base64(md5, strict_mode=True)
            if isinstance(md5, str)
            else bytes(md5 or b"")
        )
    except ValueError:
        return None
    return digest.hex() if len(digest) == 16 else None
