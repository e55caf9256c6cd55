"""The pace of deletions, kept also by the requests that boto3 sends again by itself, minutes later if it likes."""

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
        pace: Called before each request but the first, before which the caller calls it.
        is_sent: The first was sent.
    """

    pace: Pace
    is_sent: bool = False


_current: ContextVar[_Paced | None] = ContextVar("lakegc_s3_pace", default=None)


@contextmanager
def paced(pace: Pace) -> Iterator[None]:
    """Keep a pace in the one call of the client that the block makes.

    An answer that does not come costs the client's whole patience, time and
    again: unasked, it would send a deletion long after what allowed it.

    Args:
        pace: What it raises ends the call, and nothing more is sent.
    """
    token = _current.set(_Paced(pace))
    try:
        yield
    finally:
        _current.reset(token)


def keep_pace(**_: object) -> None:
    """Call the pace of this thread, if it has one; a handler of boto3's `before-send`, called for each attempt."""
    call = _current.get()
    if call is None:
        return
    if call.is_sent:
        # What the pace itself asks of the store, as for a lease, is no request of this call.
        token = _current.set(None)
        try:
            call.pace()
        finally:
            _current.reset(token)
    call.is_sent = True
