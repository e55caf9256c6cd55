"""Check that a listing's names come in order; a repeated page or a jump back shows itself so.

S3, Azure Blob and GCS list by the bytes of the name. So a listing that goes backwards cannot be
whole: a cache before the store answered for another page, or the store lost its place. Nobody would
miss the names that it skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.errors import IncompleteReadError
from spark_core.storage.listing_pages import Page


class InOrder:
    """Watches the names of one listing, page by page.

    Args:
        where: What is listed, for the message.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._last: str | None = None

    def require(self, names: pa.StringArray | Sequence[str]) -> None:
        """Refuse a page that does not go on after the end of the page before.

        Raises:
            IncompleteReadError: If a name is not greater, byte by byte, than the one before it.
        """
        page = pa.array(names, pa.string()) if not isinstance(names, pa.Array) else names
        if not len(page):
            return
        before = pa.concat_arrays(
            [pa.array([self._last], pa.string()), page.slice(0, len(page) - 1)]
        )
        # Arrow compares strings by their bytes. The first name of all has no name before it.
        ascends = pc.fill_null(pc.less(before, page), True)
        if not pc.all(ascends).as_py():
            at = pc.index(ascends, False).as_py()
            raise IncompleteReadError(
                f"the listing of {self._where} is not in order: {page[at].as_py()!r} came after "
                f"{before[at].as_py()!r}. A page "
                "came twice, or the store does not list by the bytes of the names, so it cannot "
                "be known to be whole",
                "Run again; if it stays so, look for a cache or proxy before the store.",
            )
        self._last = page[-1].as_py()


def require_in_order(where: str) -> Callable[[Page], None]:
    """Return a function that refuses a page with names not behind those of the pages before it."""
    objects, prefixes = InOrder(where), InOrder(where)

    def require(page: Page) -> None:
        objects.require(page.rows.column("key"))
        prefixes.require(page.prefixes)

    return require


def behind(batch: pa.RecordBatch, after: str) -> pa.RecordBatch:
    """Return a page's objects with keys greater than `after`; some stores also list others."""
    return batch.filter(pc.greater(batch.column("key"), after)) if after else batch


def gathered(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Join small batches into batches of at least `rows` rows; the last one may be smaller."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.concat_batches(waiting)
            waiting, count = [], 0
    if count:
        yield pa.concat_batches(waiting)
