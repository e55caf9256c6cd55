"""Small files that never change under their name, remembered while a run is being marked.

A mark reads what it has just written, some of it several times. A sweep, and everything else, reads
what the store has.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

# Bytes of a file that is remembered, of one that is known to be read again, and of all of them.
LARGEST = 2**18
LARGEST_READ_AGAIN = 2**24
MOST = 2**25


class SmallFiles:
    """Remembers the bytes of small files, the last used ones; threads may share it."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, bytes] | None = None
        self._bytes = 0
        self._lock = Lock()

    def begin(self) -> None:
        """Begin to remember, with nothing."""
        with self._lock:
            self._files, self._bytes = OrderedDict(), 0

    def end(self) -> None:
        """Forget everything, and remember nothing any more."""
        with self._lock:
            self._files = None

    def takes(self, size_bytes: int) -> bool:
        """Say whether a file of a size would be remembered now."""
        with self._lock:
            return self._files is not None and size_bytes <= LARGEST

    def get(self, key: str) -> bytes | None:
        """Return the bytes of a file; None if they are not remembered."""
        with self._lock:
            if self._files is None or key not in self._files:
                return None
            self._files.move_to_end(key)
            return self._files[key]

    def keep(self, key: str, data: bytes, *, again: bool = False) -> None:
        """Remember the bytes of a file if they are few, or less few if it will be read again."""
        with self._lock:
            largest = LARGEST_READ_AGAIN if again else LARGEST
            if self._files is None or len(data) > largest:
                return
            self._bytes += len(data) - len(self._files.pop(key, b""))
            self._files[key] = data
            while self._bytes > MOST:
                self._bytes -= len(self._files.popitem(last=False)[1])
