"""Ask before each request that boto3 repeats by itself whether a deletion may still be sent.

boto3 may repeat a request minutes later. The repeated requests also keep the pace of deletions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from spark_core.storage.contract import Pace


@dataclass
class _Paced:
    """One call of the client.

    Attributes:
        pace: Called before each request but the first; the caller calls it before the first.
        is_sent: The first was sent.
    """

    pace: Pace
    is_sent: bool = False


_current: ContextVar[_Paced | None] = ContextVar("lakegc_s3_pace", default=None)


@contextmanager
def paced(pace: Pace) -> Iterator[None]:
    """Keep a pace in the one call of the client that the block makes.

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


def keep_pace(**_: object) -> None:
    """Call this thread's pace, if any; a handler of boto3's `before-send`, called per attempt."""
    call = _current.get()
    if call is None:
        return
    if call.is_sent:
        # The pace's own requests to the store, as for a lease, are not requests of this call.
        token = _current.set(None)
        try:
            call.pace()
        finally:
            _current.reset(token)
    call.is_sent = True
