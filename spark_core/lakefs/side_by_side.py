"""Ask about many things at once, a few side by side, and stop all at the first error."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

# How often a thread whose answer finds no room looks whether it should stop.
_LOOK_SECONDS = 0.05


def side_by_side(
    items: Sequence[_Item], ask: Callable[[_Item], Iterable[_Answer]], *, at_once: int
) -> Iterator[tuple[_Item, _Answer]]:
    """Ask about each item in a thread, at most `at_once` of them at a time.

    The answers come back in the caller's thread, so what is done with them needs
    no lock; what `ask` itself shares between items does. No more than `at_once`
    answers wait to be taken: whoever gives many or large ones gives them in
    lots, and a slow caller holds the asking up instead of filling the memory.

    The first error ends everything: nothing further is asked, what is under way
    stops at its next answer, and the error is raised once no thread is left. The
    same happens when the caller takes no more.

    Args:
        items: What to ask about, for example names of branches.
        ask: Gives the answers about one item: none, one or many. A generator is read as it goes.
        at_once: Items that are asked about at a time; 1 asks in the caller's thread.

    Yields:
        Item and answer. Those about one item come in their order. Those about different
        items come as they are ready: where the order matters, the caller sorts.

    Raises:
        Exception: What `ask` raised first; the text of an error names its item.
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
    """Threads that take items off one list and put answers in one queue."""

    def __init__(self, items: Sequence[_Item], ask: Callable[[_Item], Iterable[_Answer]], threads: int) -> None:
        self._ask = ask
        self._left = list(reversed(items))
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        # None: a thread found nothing left to ask about.
        self._given: queue.Queue[tuple[_Item, _Answer] | BaseException | None] = queue.Queue(threads)
        self._threads = [threading.Thread(target=self._work, name=f"lakegc-ask-{n}") for n in range(threads)]

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
        """Take an item off the list; None once nothing further is to be asked."""
        with self._lock:
            return None if self._stopped.is_set() or not self._left else (self._left.pop(),)

    def _give(self, what: tuple[_Item, _Answer] | BaseException | None) -> bool:
        """Put something in the queue as soon as there is room; say no once nobody takes it any more."""
        while not self._stopped.is_set():
            try:
                self._given.put(what, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False
