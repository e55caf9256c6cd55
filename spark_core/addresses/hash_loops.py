"""The compiled loops of `address_hashes`: they call nothing from another file."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_core.jit import compiled

_SEED = np.uint64(42)
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


@compiled
def first_of_its_kind(one: Any, other: Any, ones: Any, others: Any, used: Any, found: Any) -> int:  # noqa: PLR0917 - numba takes arrays by position
    """Mark the rows that are the first of their kind in a table of hashes, and count them."""
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
def _slot(number: Any, mask: int) -> Any:
    # Neighbours share their upper bits, where they are of one bucket.
    mixed = np.uint64(number) * _P1
    return np.int64(mixed >> np.uint64(32)) & mask


@compiled
def number_all(hashes: Any, slots: Any, distinct: Any, numbers: Any) -> int:
    """Give each hash the number of its first occurrence among different ones, and count those.

    A slot holds a number and one more, or nothing; there are a power of two of them.
    """
    mask = len(slots) - 1
    count = 0
    for row in range(len(hashes)):
        slot = _slot(hashes[row], mask)
        while slots[slot] and distinct[slots[slot] - 1] != hashes[row]:
            slot = (slot + 1) & mask
        if not slots[slot]:
            distinct[count] = hashes[row]
            count += 1
            slots[slot] = count
        numbers[row] = slots[slot] - 1
    return count


@compiled
def find_all(hashes: Any, slots: Any, distinct: Any, numbers: Any) -> None:
    """Give each hash its number from the slots that `number_all` filled; else their count."""
    mask = len(slots) - 1
    for row in range(len(hashes)):
        slot = _slot(hashes[row], mask)
        while slots[slot] and distinct[slots[slot] - 1] != hashes[row]:
            slot = (slot + 1) & mask
        numbers[row] = slots[slot] - 1 if slots[slot] else len(distinct)


@compiled
def join_sayings(  # noqa: PLR0917 - numba takes arrays by position
    numbers: Any, bits: Any, sizes: Any, sized: int, differ: int, all_bits: Any, all_sizes: Any
) -> None:
    """Join bits and sizes of rows by the numbers of their hashes.

    A row gives a size if it has the bit `sized`; `differ` is set where two rows give two sizes.
    """
    for row in range(len(numbers)):
        number = numbers[row]
        if bits[row] & sized:
            if not all_bits[number] & sized:
                all_sizes[number] = sizes[row]
            elif all_sizes[number] != sizes[row]:
                all_bits[number] |= differ
        all_bits[number] |= bits[row]


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
def hash_all(data: Any, starts: Any, out: Any) -> None:
    """Hash each value of a column of bytes."""
    for row in range(len(out)):
        out[row] = np.int64(_hash_one(data, int(starts[row]), int(starts[row + 1])))
