"""Hash columns of addresses to 64 bits, with the same result as Spark's `xxhash64`.

Only hashes travel between tasks. If two addresses have the same hash, an object may be kept that
could go, never the reverse. `Distinct` finds the rows of a table that repeat earlier ones, by two
hashes of each.

References:
    XXH64 of Yann Collet's xxHash; Spark `XXH64.hashUnsafeBytes` with seed 42.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spark_core.jit import compiled

_SEED = np.uint64(42)
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


def hashed(values: pa.Array) -> pa.Int64Array:
    """Hash each value of a column of text or bytes.

    Args:
        values: Strings or binaries.

    Returns:
        One number for each value, as `pyspark.sql.functions.xxhash64` gives it; 42 for a null, as
        there.
    """
    if not pa.types.is_string(values.type) and not pa.types.is_binary(values.type):
        values = values.cast(pa.binary())
    out = np.empty(len(values), dtype=np.int64)
    if len(values):
        _, offsets, data = values.buffers()
        starts = np.frombuffer(offsets, dtype=np.int32)[
            values.offset : values.offset + len(values) + 1
        ]
        content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
        _hash_all(content, starts, out)
        if values.null_count:
            out[np.asarray(values.is_null())] = int(_SEED)
    return pa.array(out)


def sorted_once(numbers: Any) -> Any:
    """Sort numbers, and leave each in once.

    numpy sorts 64-bit integers by vector instructions. Its `unique` takes them through a table of
    hashes first: of 12 million hashes that took seventy times as long (numpy 2.4).
    """
    found = np.sort(numbers)
    is_first = np.empty(len(found), np.bool_)
    is_first[:1] = True
    np.not_equal(found[1:], found[:-1], out=is_first[1:])
    return found[is_first]


def are_among(numbers: Any, wanted: Any) -> Any:
    """Say of each number whether it is a wanted one.

    The cost is that of sorting `numbers`, however many are wanted.

    Args:
        numbers: An array, of hashes for example.
        wanted: Sorted, each once.

    Returns:
        An array of booleans, one for each number.
    """
    if not len(wanted):
        return np.zeros(len(numbers), np.bool_)
    # Sorted numbers are found much sooner: each search begins where the one before ended.
    order = np.argsort(numbers)
    at = np.minimum(np.searchsorted(wanted, numbers[order]), len(wanted) - 1)
    found = np.empty(len(numbers), np.bool_)
    found[order] = wanted[at] == numbers[order]
    return found


def place_among(numbers: Any, among: Any) -> Any:
    """Return where each number is among sorted ones; the number of those if it is not there."""
    # Sorted numbers are found much sooner: each search begins where the one before ended.
    order = np.argsort(numbers)
    at = np.searchsorted(among, numbers[order])
    at[np.append(among, 0)[at] != numbers[order]] = among.size
    found = np.empty(numbers.size, np.int64)
    found[order] = at
    return found


def warm_up() -> None:
    """Compile or load the loops before the first task of a process needs them."""
    Distinct().first(hashed(pa.array(["data/x"])), np.zeros(1, np.int64))


class Distinct:
    """Tells which rows are the first of their kind, within a fixed amount of memory.

    When it is full, it forgets everything, and rows that it saw before count as the first of their
    kind again. So it suits tables that allow duplicates. It compares 128 bits of hashes: rows that
    agree in all of them count as one.
    """

    def __init__(self, *, at_most: int = 2**21) -> None:
        """Begin with nothing seen.

        Args:
            at_most: How many kinds it remembers, 32 bytes for each; a power of two.
        """
        self._at_most = at_most
        self._count = 0
        self._clear(2**10)

    def first(self, first_hashes: pa.Int64Array, second_hashes: Any) -> Any:
        """Say of each row whether it is the first of its kind.

        Rows are of one kind if both of their hashes are equal.

        Args:
            first_hashes: One hash of each row.
            second_hashes: Another hash of each row, as an array of int64.

        Returns:
            An array of booleans, one for each row.
        """
        one, other = first_hashes.to_numpy(zero_copy_only=False), second_hashes
        while self._count + len(one) > len(self._used) // 2:
            if len(self._used) >= 2 * max(self._at_most, len(one)):
                self._clear(len(self._used))
                break
            used, before = self._used.view(np.bool_), (self._one, self._other)
            self._clear(2 * len(used))
            self._count = _first(
                before[0][used], before[1][used], *self._table, np.empty(used.sum(), np.bool_)
            )
        found = np.empty(len(one), np.bool_)
        self._count += _first(one, other, *self._table, found)
        return found

    def _clear(self, slots: int) -> None:
        self._one, self._other = np.empty(slots, np.int64), np.empty(slots, np.int64)
        self._used = np.zeros(slots, np.bool_)
        self._count = 0

    @property
    def _table(self) -> tuple[Any, Any, Any]:
        return self._one, self._other, self._used


# The compiled functions stand below and call nothing from another file.


@compiled
def _first(one: Any, other: Any, ones: Any, others: Any, used: Any, found: Any) -> int:  # noqa: PLR0917 - numba takes arrays by position
    mask = len(used) - 1
    added = 0
    for row in range(len(one)):
        # With the first hash alone, rows of one address would fill neighbouring slots.
        slot = (one[row] ^ (other[row] >> 7)) & mask
        while used[slot] and (ones[slot] != one[row] or others[slot] != other[row]):
            slot = (slot + 1) & mask
        found[row] = not used[slot]
        if not used[slot]:
            used[slot] = True
            ones[slot] = one[row]
            others[slot] = other[row]
            added += 1
    return added


@compiled
def _rotated(value: Any, bits: int) -> Any:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@compiled
def _word(data: Any, at: int) -> Any:
    value = np.uint64(0)
    for byte in range(8):
        value |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
    return value


@compiled
def _round(lane: Any, word: Any) -> Any:
    return _rotated(lane + word * _P2, 31) * _P1


@compiled
def _merged(value: Any, lane: Any) -> Any:
    return (value ^ _round(np.uint64(0), lane)) * _P1 + _P4


@compiled
def _hash_one(data: Any, at: int, end: int) -> Any:
    length = end - at
    if length >= 32:
        a, b, c, d = _SEED + _P1 + _P2, _SEED + _P2, _SEED, _SEED - _P1
        while at + 32 <= end:
            a = _round(a, _word(data, at))
            b = _round(b, _word(data, at + 8))
            c = _round(c, _word(data, at + 16))
            d = _round(d, _word(data, at + 24))
            at += 32
        value = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
        value = _merged(_merged(_merged(_merged(value, a), b), c), d)
    else:
        value = _SEED + _P5
    value += np.uint64(length)
    while at + 8 <= end:
        value = _rotated(value ^ _round(np.uint64(0), _word(data, at)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        half = np.uint64(0)
        for byte in range(4):
            half |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
        value = _rotated(value ^ (half * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        value = _rotated(value ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    value = (value ^ (value >> np.uint64(33))) * _P2
    value = (value ^ (value >> np.uint64(29))) * _P3
    return value ^ (value >> np.uint64(32))


@compiled
def _hash_all(data: Any, starts: Any, out: Any) -> None:
    for row in range(len(out)):
        out[row] = np.int64(_hash_one(data, int(starts[row]), int(starts[row + 1])))
