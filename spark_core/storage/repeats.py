"""Ask before each request that a store's client repeats by itself whether it may still be sent.

A client may repeat a deletion minutes later. The repeated requests also keep the pace of deletions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from spark_core.storage.contract import Pace


@dataclass
class _Paced:
    """One call of a client.

    Attributes:
        pace: Called before each request but the first; the caller calls it before the first.
        is_sent: The first was sent.
    """

    pace: Pace
    is_sent: bool = False


_current: ContextVar[_Paced | None] = ContextVar("lakegc_pace", default=None)


@contextmanager
def paced(pace: Pace) -> Iterator[None]:
    """Keep a pace in the calls of a client that the block makes.

    Each missing answer costs the client its whole timeout, and it tries again. Without the pace, it
    would send a deletion long after its permission ended.

    Args:
        pace: An error of it ends the call, and nothing more is sent.
    """
    token = _current.set(_Paced(pace))
    try:
        yield
    finally:
        _current.reset(token)


def before_attempt() -> None:
    """Call this thread's pace, if any, except before the first request of a block."""
    call = _current.get()
    if call is None:
        return
    if call.is_sent:
        before_repetition()
    call.is_sent = True


def before_repetition() -> None:
    """Call this thread's pace, if any."""
    call = _current.get()
    if call is None:
        return
    # The pace's own requests to the store, as for a lease, are not requests of this call.
    token = _current.set(None)
    try:
        call.pace()
    finally:
        _current.reset(token)
