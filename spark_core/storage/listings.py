"""Listings side by side: many prefixes at once, and long ones from several names on at once.

The next page of a listing can be asked for only after the page before it. So a prefix of 50 pages
takes 50 answers one after the other. Some stores list in order and from any name on. There, an idle
thread guesses a time in the middle of the rest and asks for the names after it: names of objects
begin with their time. The names that it finds begin a new stretch.

Each stretch is read until the name at which the next one begins. So the joined result is one
unbroken listing, wherever it was cut. A bad guess costs a request. No object is left out or listed
twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.xids import first_id
from spark_core.errors import IncompleteReadError, LakegcError
from spark_core.spark.tasks import interleaved
from spark_core.storage.contract import ObjectStore, OrderedStore
from spark_core.storage.listing_order import gathered
from spark_core.storage.listing_rows import LISTING_BATCH_ROWS, ListedPage
from spark_core.storage.listing_stretches import Cut, Folder, Stretch

_NOTHING = pa.RecordBatch.from_pylist([], schema=schemas.OBJECT_LISTING)


def list_below(
    store: ObjectStore, prefixes: Iterable[str], *, threads: int
) -> Iterator[pa.RecordBatch]:
    """List everything below some prefixes, none of which lies in another.

    Args:
        store: Where.
        prefixes: As for `ObjectStore.list`; the next one is taken when a thread is free for it.
        threads: How many requests are under way at once.

    Yields:
        Columns of `schemas.OBJECT_LISTING`, each key once, no order.

    Raises:
        IncompleteReadError: If a listing cannot be read to its end, or two answers to it contradict
            each other. The caller must then drop what was yielded before.
    """
    if isinstance(store, OrderedStore):
        return gathered(_Listings(store, prefixes, threads).rows(), LISTING_BATCH_ROWS)
    return interleaved(prefixes, store.list, threads=threads)


def listed_together(
    store: ObjectStore, parent: str, folders: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """List some of the folders below a prefix, in as few requests as possible.

    If the store lists in order, one listing goes through all of them. When a page ends between two
    folders, it jumps to the next one. At worst it takes hardly more requests than a listing of
    each, however much lies between the folders. If they hold little, it takes one request instead
    of one for each.

    Args:
        store: Where.
        parent: The prefix that the folders lie below; ends in a slash.
        folders: Their names, without a slash.

    Yields:
        As `list_below`.

    Raises:
        IncompleteReadError: If the listing cannot be read to its end.
    """
    left = sorted(f"{parent}{name}/" for name in set(folders))
    if not isinstance(store, OrderedStore):
        for folder in left:
            yield from store.list(folder)
        return
    while left:
        for page in store.pages(parent, after=left[0]):
            keys = page.rows.column("key")
            if len(keys):
                wanted = [pc.starts_with(keys, folder) for folder in left]
                yield page.rows.filter(reduce(pc.or_, wanted))
                last = keys[-1].as_py()
                left = [folder for folder in left if last < folder or last.startswith(folder)]
            if page.is_last:
                return
            if not left or (len(keys) and last < left[0]):
                break


@dataclass
class _Listings:
    """All listings of one call: one thread decides here, the others each ask for a page."""

    store: OrderedStore
    prefixes: Iterable[str]
    threads: int
    _unread: list[Stretch] = field(default_factory=list)
    _asked: dict[Future[ListedPage], Stretch | Cut] = field(default_factory=dict)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield what the pages hold."""
        waiting = iter(self.prefixes)
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakegc-list") as pool:
            try:
                self._ask(pool, waiting)
                while self._asked:
                    done, _ = wait(self._asked, return_when=FIRST_COMPLETED)
                    found = [self._taken(pool, self._asked.pop(future), future) for future in done]
                    # Before the rows are worked on, so that the requests never wait for that.
                    self._ask(pool, waiting)
                    yield from found
            finally:
                for future in self._asked:
                    future.cancel()

    def _ask(self, pool: ThreadPoolExecutor, waiting: Iterator[str]) -> None:
        """Let free threads begin with the next prefixes; if none is left, cut the longest rest."""
        while len(self._asked) < self.threads and (prefix := next(waiting, None)) is not None:
            stretch = Stretch(Folder(prefix), self.store.pages(prefix))
            self._unread.append(stretch)
            self._asked[pool.submit(_page, stretch.pages, prefix)] = stretch
        free = self.threads - len(self._asked)
        worth = (
            [(*found, stretch) for stretch in self._unread if (found := stretch.cut())]
            if free
            else []
        )
        for _, second, stretch in sorted(worth, key=itemgetter(0), reverse=True)[:free]:
            prefix = stretch.folder.prefix
            cut = Cut(stretch, second, self.store.pages(prefix, after=prefix + first_id(second)))
            stretch.cut_after = stretch.read
            self._asked[pool.submit(_page, cut.pages, prefix)] = cut

    def _taken(
        self, pool: ThreadPoolExecutor, asked: Stretch | Cut, future: Future[ListedPage]
    ) -> pa.RecordBatch:
        """Take a page, and ask for the next one of its stretch; return the rows only it has."""
        if isinstance(asked, Cut) and isinstance(future.exception(), LakegcError):
            # The store does not answer this guess. The stretch before it reads the same names.
            asked.stretch.folder.is_cut = False
            return _NOTHING
        page = future.result()
        stretch = self._begun(asked, page) if isinstance(asked, Cut) else asked
        if stretch is None:
            return page.rows.slice(0, 0)
        rows, is_end = self._own(stretch, page)
        stretch.read += 1
        if rows.num_rows:
            stretch.last = rows.column("key")[-1].as_py()
        if stretch.began is None and rows.num_rows:
            stretch.began = stretch.folder.seconds(rows.column("key")[0].as_py())
        if stretch.folder.first is None:
            stretch.folder.first = stretch.began
        if is_end:
            self._unread.remove(stretch)
        else:
            self._asked[pool.submit(_page, stretch.pages, stretch.folder.prefix)] = stretch
        return rows

    def _begun(self, cut: Cut, page: ListedPage) -> Stretch | None:
        """Begin a stretch at the first name after a cut; None if there is nothing left to share."""
        before = cut.stretch
        if not page.rows.num_rows and not page.is_last:
            # The store may list from the beginning and not from a name on.
            before.folder.is_cut = False
            return None
        first = page.rows.column("key")[0].as_py() if page.rows.num_rows else None
        if first is not None and first <= before.last:
            # The stretch was read past this meanwhile.
            return None
        none_from, before.none_from = before.none_from, cut.second
        if first is None or (before.end is not None and first >= before.end):
            return None
        stretch = Stretch(before.folder, cut.pages, end=before.end, none_from=none_from)
        before.end = first
        self._unread.append(stretch)
        return stretch

    def _own(self, stretch: Stretch, page: ListedPage) -> tuple[pa.RecordBatch, bool]:
        """Return the rows before the next stretch, and whether the stretch ends on this page."""
        if stretch.end is None:
            return page.rows, page.is_last
        keys = page.rows.column("key")
        count = pc.sum(pc.less(keys, stretch.end)).as_py() or 0
        rows = page.rows.slice(0, count)
        is_past = count < len(keys)
        if is_past and keys[count].as_py() == stretch.end:
            return rows, True
        if is_past or page.is_last:
            return rows, self._is_gone(
                stretch, keys[count - 1].as_py() if count else stretch.last, is_past=is_past
            )
        return rows, False

    def _is_gone(self, stretch: Stretch, last: str, *, is_past: bool) -> bool:
        """Ask once more if a stretch ended without the object at which the next one begins.

        An object that was deleted meanwhile is also gone in this answer. An object that was
        written meanwhile lies after all that there was, so the stretch goes on with this answer.
        """
        prefix, end = stretch.folder.prefix, stretch.end
        pages = self.store.pages(prefix, after=last)
        page = next(pages)
        keys = page.rows.column("key")
        if pc.all(pc.greater(keys, end)).as_py() is not False and (len(keys) or page.is_last):
            return True
        if is_past:
            raise IncompleteReadError(
                f"the listing of {self.store.root}{prefix} went on behind {last!r} without "
                f"{end!r}, which another answer to it "
                "holds; it cannot be known to be whole",
                "Run again; if it stays so, look for a cache or proxy before the store.",
            )
        stretch.pages = chain([page], pages)
        return False


def _page(pages: Iterator[ListedPage], prefix: str) -> ListedPage:
    """Ask for the next page; runs on a thread."""
    page = next(pages, None)
    if page is None:
        raise IncompleteReadError(
            f"the listing of {prefix} ended before its last page", "Run again."
        )
    return page
