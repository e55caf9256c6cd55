"""Split the values of records into identity and payload.

References:
    lakeFS v1.84 `pkg/graveler/committed/value.go`.
"""

# ruff: noqa: PLR0917 - numba takes arrays by position

from __future__ import annotations

from spark_core.graveler.loops.buffers import Bytes, Longs, read_uvarint
from spark_core.graveler.loops.statuses import AFTER_VALUE, BEYOND_VALUE, NEGATIVE_LENGTH, OK
from spark_core.jit import compiled


@compiled
def read_length(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read a zig-zag length that must fit before `end`.

    Returns:
        The length, and the position after it or the negated status.
    """
    number, at = read_uvarint(buffer, position, end)
    if at < 0:
        return 0, at
    if number & 1:
        return 0, -NEGATIVE_LENGTH
    length = (number >> 1) & 0x7FFFFFFFFFFFFFFF
    if length > end - at:
        return 0, -BEYOND_VALUE
    return length, at


@compiled
def split_values(
    buffer: Bytes,
    value_starts: Longs,
    value_lengths: Longs,
    identity_starts: Longs,
    identity_lengths: Longs,
    payload_starts: Longs,
    payload_lengths: Longs,
) -> tuple[int, int]:
    """Split values into identity and payload.

    Returns:
        Status and position.
    """
    for i in range(value_starts.size):
        begin = value_starts[i]
        end = begin + value_lengths[i]
        length, at = read_length(buffer, begin, end)
        if at < 0:
            return -at, begin
        identity_starts[i] = at
        identity_lengths[i] = length
        length, at = read_length(buffer, at + length, end)
        if at < 0:
            return -at, begin
        if at + length != end:
            return AFTER_VALUE, begin
        payload_starts[i] = at
        payload_lengths[i] = length
    return OK, 0
