"""Work that an interrupt asks to end, and that comes to its own end."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from spark_core.errors import INTERRUPTED

Result = TypeVar("Result")

AGAIN = "\nending what is under way; Ctrl-C again ends it at once\n"
# A thread that Python itself interrupts hears of it between two waits.
_HEARS_EVERY_SECONDS = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def to_its_end(work: Callable[[], Result], stop: Callable[[], None]) -> Result:
    """Do work that an interrupt does not break off: it is asked to end, and waited for.

    Args:
        work: Done in a thread of its own.
        stop: Asks it to end soon.

    Returns:
        What the work returns.

    Raises:
        BaseException: The interrupt, after the work has ended; a second one at once. Else the error
            of the work.
    """
    ended: Future[Result] = Future()

    def run() -> None:
        try:
            ended.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            ended.set_exception(error)

    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if is_main and callable(before):
        # Spark's own handler cancels tasks, which kills them in the middle of a request.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=run, name="lakegc-work", daemon=True).start()
        while not ended.done():
            wait([ended], _HEARS_EVERY_SECONDS)
    except BaseException:
        sys.stderr.write(AGAIN if is_main else "")
        stop()
        wait([ended])
        raise
    finally:
        if is_main and callable(before):
            signal.signal(signal.SIGINT, before)
    return ended.result()


@contextmanager
def sigterm_is_heard() -> Iterator[None]:
    """Let SIGTERM end work as Ctrl-C does; the default ends the process in the middle of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Interrupts:
    """Ends the runs of several threads; each ends as one in the main thread would.

    The first signal is raised in each of them, and is heard when its call to a server, a store or
    Spark has ended. The second ends the process at once, which any run survives: its tables are
    stored whole or not at all, and a sweep goes on from its journal.
    """

    def __init__(self) -> None:
        self._threads = set[int]()
        self._came = False

    @contextmanager
    def heard_here(self) -> Iterator[None]:
        """Let a signal end what this thread does in the block.

        Raises:
            KeyboardInterrupt: If a signal came before the block.
        """
        own = threading.get_ident()
        # Before the question, so that a signal between both is heard.
        self._threads.add(own)
        try:
            if self._came:
                raise KeyboardInterrupt
            yield
        finally:
            self._threads.discard(own)

    @contextmanager
    def passed_on(self) -> Iterator[None]:
        """Pass signals on to the threads, if this is the main one; put the old handlers back."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.getsignal(each) for each in _SIGNALS}
        try:
            for each in _SIGNALS:
                signal.signal(each, self._pass_on)
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _pass_on(self, _signal: int, _frame: FrameType | None) -> None:
        if self._came:
            os._exit(INTERRUPTED)
        self._came = True
        for thread in list(self._threads):
            _raise_in(thread)
        sys.stderr.write(AGAIN)
        raise KeyboardInterrupt


def _raise_in(thread: int) -> None:
    raised: Any = ctypes.py_object(KeyboardInterrupt)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
