"""Copy bytes between buffers and read numbers from them: what all other loops stand on."""

from __future__ import annotations

from typing import Any, TypeAlias

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from spark_core.graveler.loops.statuses import CUT_VARINT, LONG_VARINT
from spark_core.jit import compiled

# NumPy arrays of uint8, int64 and int32. All numbers are int64, because numba computes in floats
# when they are mixed with unsigned ones. The type checker does not model that, so the arrays are
# `Any` to it.
Bytes: TypeAlias = Any
Longs: TypeAlias = Any
Ints: TypeAlias = Any

# Bytes that `copy_wide` copies.
WIDE = 16


@intrinsic
def _copy_wide(_context: Any, source: Any, source_at: Any, target: Any, target_at: Any) -> Any:
    """Copy 16 bytes at once; nobody checks that they lie inside the arrays."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        places = []
        for number in (0, 2):
            array = context.make_array(signature.args[number])(context, builder, values[number])
            places.append(builder.gep(array.data, [values[number + 1]]))
        size: Any = cgutils.intp_t(WIDE)
        move: Any = cgutils.raw_memcpy
        move(builder, places[1], places[0], size, 1)
        return context.get_dummy_value()

    return types.void(source, source_at, target, target_at), generate


def _copy_wide_slowly(source: Any, source_at: int, target: Any, target_at: int) -> None:
    """Do the same where numba does not compile."""
    target[target_at : target_at + WIDE] = source[source_at : source_at + WIDE]


_config: Any = numba.config
copy_wide: Any = _copy_wide_slowly if _config.DISABLE_JIT else _copy_wide


@compiled
def as_long(number: Any) -> int:
    """Widen a number of an array so that arithmetic with it is signed."""
    return np.int64(number)  # type: ignore[return-value] # to the compiler both are int64


@compiled
def copy(source: Bytes, source_at: int, target: Bytes, target_at: int, size: int) -> None:
    """Copy bytes between two arrays, or to a place 16 bytes or more behind them in the same one.

    Up to 15 bytes behind the copy may change, so a target is filled from front to back.
    """
    # numba needs no negative case for unsigned indexes.
    begin = np.uint64(source_at)
    at = np.uint64(target_at)
    if source_at + size + WIDE > source.size or target_at + size + WIDE > target.size:
        for j in range(np.uint64(size)):
            target[at + j] = source[begin + j]
        return
    done = 0
    while done < size:
        copy_wide(source, source_at + done, target, target_at + done)
        done += WIDE


@compiled
def gather(buffer: Bytes, starts: Longs, lengths: Longs, offsets: Ints, target: Bytes) -> None:
    """Copy pieces of a buffer one after another."""
    for i in range(starts.size):
        copy(buffer, starts[i], target, as_long(offsets[i]), lengths[i])


@compiled
def read_uvarint(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read an unsigned varint as int64 (2^63 and above come out negative).

    Go writes the shortest form; a longer form of the same number means a flipped bit.

    Returns:
        The value and the position after it, or 0 and the negated status.
    """
    if position < end and buffer[np.uint64(position)] < 128:
        return as_long(buffer[np.uint64(position)]), position + 1
    value = 0
    for i in range(10):
        if position + i >= end:
            return 0, -CUT_VARINT
        byte = as_long(buffer[np.uint64(position + i)])
        if byte < 128:
            if byte == 0 or (i == 9 and byte > 1):
                return 0, -LONG_VARINT
            return value | (byte << (7 * i)), position + i + 1
        value |= (byte & 127) << (7 * i)
    return 0, -LONG_VARINT
