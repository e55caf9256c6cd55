"""A store in memory that lists in ordered pages from any name, for readers of long listings."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

import pyarrow as pa

from spark_core.schemas import INSTANT
from spark_core.storage.contract import OrderedStore
from spark_core.storage.listing_rows import ListedPage, listing_batch
from tests.support.memory_store import MemoryStore


def _nowhere(*_: object) -> NoReturn:
    raise NotImplementedError("it only lists")


class PagedStore(MemoryStore, OrderedStore):
    """Objects without content.

    Attributes:
        size: Objects of a page.
        answered: Called with what each request was asked (where the listing began, which page of
            it, counted from 0) and the names of its page; returns the names that it answers
            instead.
    """

    read_range = describe = transfer = open_sink = open_source = _nowhere

    def __init__(self, keys: Iterable[str], size: int) -> None:
        super().__init__()
        self.objects = dict.fromkeys(keys, b"")
        self.requests: Counter[str] = Counter()
        self.size = size
        self.answered: Callable[[str, int, list[str]], list[str]] = lambda _after, _number, page: (
            page
        )
        self._counting = threading.Lock()

    def pages(self, prefix: str, *, after: str = "") -> Iterator[ListedPage]:
        number, behind = 0, after
        while True:
            with self._counting:
                self.requests["list"] += 1
            left = sorted(
                key for key in list(self.objects) if key.startswith(prefix) and key > behind
            )
            page, behind = left[: self.size], left[self.size - 1] if len(left) >= self.size else ""
            is_last = len(left) <= self.size
            names = self.answered(after, number, page)
            yield ListedPage(_rows(names), is_last)
            if is_last:
                return
            number += 1

    def list(self, prefix: str) -> Iterator[pa.RecordBatch]:
        return (page.rows for page in self.pages(prefix))


def _rows(names: list[str]) -> pa.RecordBatch:
    return listing_batch(names, [1] * len(names), pa.array([0] * len(names), INSTANT))
