"""Ask before each request that a store's client repeats by itself whether it may still be sent.

A client may repeat a deletion minutes later. The repeated requests also keep the pace of deletions.
Azure's client does so; S3's is told to send deletions once, and `storage/deletion.py` repeats them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from spark_core.storage.outcomes import Pace

_current: ContextVar[Pace | None] = ContextVar("lakegc_pace", default=None)


@contextmanager
def paced(pace: Pace) -> Iterator[None]:
    """Keep a pace in the calls of a client that the block makes.

    Each missing answer costs the client its whole timeout, and it tries again. Without the pace, it
    would send a deletion long after its permission ended.

    Args:
        pace: An error of it ends the call, and nothing more is sent.
    """
    token = _current.set(pace)
    try:
        yield
    finally:
        _current.reset(token)


def repeat_after(wait: Callable[[], None]) -> None:
    """Wait before a repetition as the client does, and then as this thread's pace does, if any."""
    pace = _current.get()
    if pace is None:
        wait()
        return
    pace.busy()
    wait()
    # The pace's own requests to the store, as for a lease, are not requests of this call.
    token = _current.set(None)
    try:
        pace()
    finally:
        _current.reset(token)
