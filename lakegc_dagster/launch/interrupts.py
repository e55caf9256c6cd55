"""Ctrl-C while runs work in threads: Python gives it to the main thread, and the rest must hear."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import dagster as dg

from spark_core.errors import INTERRUPTED
from spark_core.interrupts import AGAIN

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
            _raise_in(thread, dg.DagsterExecutionInterruptedError)
        sys.stderr.write(AGAIN)
        raise KeyboardInterrupt


def _raise_in(thread: int, kind: Any) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
