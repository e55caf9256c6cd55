"""Lay out what the id of a table hashes."""

# ruff: noqa: PLR0917 - numba takes arrays by position

from __future__ import annotations

import numpy as np

from spark_core.graveler.loops.buffers import Bytes, Ints, Longs, as_long, copy
from spark_core.jit import compiled


@compiled
def put_length(number: int, target: Bytes, at: int) -> int:
    """Write a length as decimal text and return the position after it."""
    end = at + 1
    bound = 10
    while number >= bound:
        end += 1
        bound *= 10
    rest = np.uint64(number)
    place = np.uint64(end)
    for _ in range(end - at):
        place -= np.uint64(1)
        tenth = rest // np.uint64(10)
        target[place] = np.uint64(48) + rest - tenth * np.uint64(10)
        rest = tenth
    return end


@compiled
def hash_input(
    keys: Bytes,
    key_offsets: Ints,
    buffer: Bytes,
    value_starts: Longs,
    value_lengths: Longs,
    target: Bytes,
) -> int:
    """Lay out records as the table id hashes them: length, bytes and a bar, for key and for value.

    Args:
        keys: The keys, one after another.
        key_offsets: Where each begins, and the end of the last.
        buffer: The buffer that holds the values.
        value_starts: Where each value begins.
        value_lengths: Length of each value.
        target: Receives the text; needs the size of all keys and values and 22 bytes a record.

    Returns:
        Number of bytes used in `target`.
    """
    at = 0
    for i in range(value_starts.size):
        size = as_long(key_offsets[i + 1]) - as_long(key_offsets[i])
        at = put_length(size, target, at)
        copy(keys, as_long(key_offsets[i]), target, at, size)
        target[np.uint64(at + size)] = 124
        at += size + 1
        size = value_lengths[i]
        at = put_length(size, target, at)
        copy(buffer, value_starts[i], target, at, size)
        target[np.uint64(at + size)] = 124
        at += size + 1
    return at
