"""Build one block of a table, and the short keys that an index has between blocks.

References:
    lakefs-facts 2.2; pebble at commit 65ff304d3d7a, `sstable/block.go`.
"""

from __future__ import annotations

from spark_core.graveler.wire import uvarint

BLOCK_SIZE = 4096
# A block above 90 % of its size is closed if the next entry would make it larger than its size.
_BLOCK_THRESHOLD = (BLOCK_SIZE * 90 + 99) // 100
DATA_RESTART_INTERVAL = 16
NO_RESTARTS = 2**31 - 1

SET = b"\x01" + bytes(7)
_SEPARATOR = b"\x11" + b"\xff" * 7
# The key of the index entry of an empty table.
_INVALID = b"\xff" + bytes(7)


class BlockBuilder:
    """Builds one block.

    Args:
        restart_interval: After so many entries a key is written whole.
    """

    def __init__(self, restart_interval: int) -> None:
        self._interval = restart_interval
        self._next_restart = 0
        self._buffer = bytearray()
        self._restarts = bytearray()
        self.entries = 0
        self.last_key = b""

    def add(self, key: bytes, value: bytes, sharable: int) -> None:
        """Append an entry whose key may share up to `sharable` bytes with the key before it."""
        shared = 0
        if self.entries == self._next_restart:
            self._next_restart = self.entries + self._interval
            self._restarts += len(self._buffer).to_bytes(4, "little")
        else:
            shared = _shared_length(key[:sharable], self.last_key)
        self._buffer += (
            uvarint(shared)
            + uvarint(len(key) - shared)
            + uvarint(len(value))
            + key[shared:]
            + value
        )
        self.entries += 1
        self.last_key = key

    @property
    def estimated_size(self) -> int:
        """Size of the block as it stands."""
        return len(self._buffer) + len(self._restarts) + 4

    def is_full_for(self, key_size: int, value_size: int) -> bool:
        """Say whether the block is closed before an entry of these sizes."""
        if self.entries == 0:
            return False
        size = self.estimated_size
        if size >= BLOCK_SIZE:
            return True
        if size <= _BLOCK_THRESHOLD:
            return False
        size += key_size + value_size + 4 + _uvarint_size(key_size) + _uvarint_size(value_size)
        if self.entries % self._interval == 0:
            size += 4
        return size > BLOCK_SIZE

    def finish(self) -> bytes:
        """Return the block."""
        restarts = bytes(self._restarts) or bytes(4)
        return bytes(self._buffer) + restarts + (len(restarts) // 4).to_bytes(4, "little")


def _shared_length(left: bytes, right: bytes) -> int:
    """Return the length of the common prefix, by halving, because slices compare fast."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while low < high - 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


def separator(key: bytes, following: bytes) -> bytes:
    """Return a short internal key: not below the internal `key`, below the user key `following`."""
    user = key[: -len(SET)]
    at = _shared_length(user, following)
    if at >= min(len(user), len(following)) or user[at] >= following[at]:
        return key
    if at < len(following) - 1 or user[at] + 1 < following[at]:
        return user[:at] + bytes([user[at] + 1]) + _SEPARATOR
    for i in range(at + 1, len(user)):
        if user[i] != 0xFF:
            return user[:i] + bytes([user[i] + 1]) + _SEPARATOR
    return key


def successor(key: bytes) -> bytes:
    """Return a short internal key that is not smaller than the last internal `key`."""
    if not key:
        return _INVALID
    user = key[: -len(SET)]
    for i, byte in enumerate(user):
        if byte != 0xFF:
            return user[:i] + bytes([byte + 1]) + _SEPARATOR
    return key


def _uvarint_size(number: int) -> int:
    return max(1, (number.bit_length() + 6) // 7)
