"""Run calls about many items in a few threads, and stop all of them at the first error."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

# How often a thread that waits for room in the queue checks whether it should stop.
_LOOK_SECONDS = 0.05


def side_by_side(
    items: Sequence[_Item], ask: Callable[[_Item], Iterable[_Answer]], *, at_once: int
) -> Iterator[tuple[_Item, _Answer]]:
    """Call `ask` for each item in threads, at most `at_once` at a time.

    The answers are yielded in the caller's thread, so the caller needs no lock for
    them; what `ask` itself shares between items does need one. At most `at_once`
    answers wait in the queue, so a slow caller slows the threads down instead of
    filling the memory. An `ask` with many or large answers should batch them.

    The first error ends everything: no further item is begun, running calls stop at
    their next answer, and the error is raised when all threads have ended. The same
    happens when the caller stops iterating.

    Args:
        items: The items, for example names of branches.
        ask: Returns the answers about one item: none, one or many. A generator is read lazily.
        at_once: Number of items at a time; 1 runs in the caller's thread.

    Yields:
        Item and answer. Answers about one item keep their order. Answers about
        different items come as they are ready; the caller sorts where order matters.

    Raises:
        Exception: The first error of `ask`; the text of an error names its item.
        ValueError: If `at_once` is less than 1.
    """
    if at_once < 1:
        raise ValueError(f"at_once is {at_once}, wanted 1 or more")
    if min(at_once, len(items)) > 1:
        yield from _Asking(items, ask, min(at_once, len(items))).answers()
        return
    for item in items:
        for answer in ask(item):
            yield item, answer


class _Asking(Generic[_Item, _Answer]):
    """Threads that take items from one list and put answers into one queue."""

    def __init__(
        self, items: Sequence[_Item], ask: Callable[[_Item], Iterable[_Answer]], threads: int
    ) -> None:
        self._ask = ask
        self._left = list(reversed(items))
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        # None means that a thread found no item left.
        self._given: queue.Queue[tuple[_Item, _Answer] | BaseException | None] = queue.Queue(
            threads
        )
        self._threads = [
            threading.Thread(target=self._work, name=f"lakegc-ask-{n}") for n in range(threads)
        ]

    def answers(self) -> Iterator[tuple[_Item, _Answer]]:
        started: list[threading.Thread] = []
        try:
            for thread in self._threads:
                thread.start()
                started.append(thread)
            working = len(started)
            while working:
                found = self._given.get()
                if isinstance(found, BaseException):
                    raise found
                if found is None:
                    working -= 1
                else:
                    yield found
        finally:
            self._stopped.set()
            for thread in started:
                thread.join()

    def _work(self) -> None:
        try:
            while (item := self._next()) is not None:
                for answer in self._ask(item[0]):
                    if not self._give((item[0], answer)):
                        return
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._give(error)
        else:
            self._give(None)

    def _next(self) -> tuple[_Item] | None:
        """Take an item from the list; None if no further item is to be begun."""
        with self._lock:
            return None if self._stopped.is_set() or not self._left else (self._left.pop(),)

    def _give(self, what: tuple[_Item, _Answer] | BaseException | None) -> bool:
        """Put something into the queue when there is room; False once the caller has stopped."""
        while not self._stopped.is_set():
            try:
                self._given.put(what, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False
