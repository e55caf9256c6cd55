"""The ids that lakeFS gives to objects, slices and runs: xids, ascending or descending in time.

References:
    `lakefs-facts` 1.1 (pkg/upload/path_provider.go, rs/xid v1.5.0).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
# 4000-01-01. A reverse-time xid holds the seconds from its instant until then, modulo 2**32.
_REVERSE_FROM = 64_060_588_800
_SLICE_OBJECTS = 50_000
_SLICE_AGE = timedelta(hours=1)
_LINK_SIGNATURE_MARK = ","


def encode_xid(seconds: int, tail: bytes) -> str:
    """Encode 12 bytes, the first 4 of them a time, as the 20 characters of an xid.

    Args:
        seconds: Value of the time field, modulo 2**32.
        tail: The 8 bytes after the time: machine, process, counter.

    Examples:
        >>> encode_xid(0, bytes(8))
        '00000000000000000000'
    """
    bits = int.from_bytes((seconds % 2**32).to_bytes(4, "big") + tail, "big") << 4
    return "".join(_ALPHABET[bits >> shift & 31] for shift in range(95, -1, -5))


def xid_seconds(xid: str) -> int:
    """Return the time field of an xid.

    Raises:
        ValueError: If the text is not an xid.
    """
    name = xid.partition(_LINK_SIGNATURE_MARK)[0]
    if len(name) != 20 or any(character not in _ALPHABET for character in name):
        raise ValueError(f"{xid!r} is not an xid")
    bits = 0
    for character in name:
        bits = bits << 5 | _ALPHABET.index(character)
    return bits >> 68


class IdSource:
    """Generates the ids of one server process.

    A slice is replaced after 50,000 objects or an hour, as on a real server. Turning the clock back
    by more than an hour also begins a new slice.

    Args:
        now: The sandbox's clock.
        slice_objects: Objects after which a slice is replaced.
        slice_age: Time after which a slice is replaced.
    """

    def __init__(
        self,
        now: Callable[[], datetime],
        *,
        slice_objects: int = _SLICE_OBJECTS,
        slice_age: timedelta = _SLICE_AGE,
    ) -> None:
        self._now = now
        self._most_objects, self._longest = slice_objects, slice_age
        # A real server puts machine and process here. Random bytes give new names after a restart
        # within one frozen second.
        self._process = secrets.token_bytes(5)
        self._counter = secrets.randbelow(1 << 20)
        self._slice = ""
        self._slice_started: datetime | None = None
        self._slice_objects = 0

    def _tail(self) -> bytes:
        self._counter = (self._counter + 1) % (1 << 24)
        return self._process + self._counter.to_bytes(3, "big")

    def ascending(self) -> str:
        """Make an xid; later ones sort after it."""
        return encode_xid(int(self._now().timestamp()), self._tail())

    def descending(self) -> str:
        """Make a reverse-time xid for a slice or a run; later ones sort before it."""
        return encode_xid(_REVERSE_FROM - int(self._now().timestamp()), self._tail())

    def object_address(self) -> str:
        """Make the relative address of a new object, `data/<slice>/<xid>`."""
        now = self._now()
        if (
            self._slice_started is None
            or self._slice_objects >= self._most_objects
            or abs(now - self._slice_started) >= self._longest
        ):
            self._slice = self.descending()
            self._slice_started = now
            self._slice_objects = 0
        self._slice_objects += 1
        return f"data/{self._slice}/{self.ascending()}"
