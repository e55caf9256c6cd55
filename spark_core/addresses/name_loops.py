"""The compiled loop of `usual_names`: it calls nothing from another file."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_core.jit import compiled

_OF_SIGNATURES = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-"
# Of each byte: its value as a digit of an id, and whether a signature may have it.
_DIGITS = np.full(256, 255, np.uint8)
_DIGITS[np.frombuffer(b"0123456789abcdefghijklmnopqrstuv", np.uint8)] = np.arange(32)
_SIGNS = np.zeros(256, np.bool_)
_SIGNS[np.frombuffer(_OF_SIGNATURES, np.uint8)] = True

# Where the parts of a name begin: data/ID/ID,SIGNATURE
_SLICE, _OBJECT, _COMMA, _END_OF_SIGNED = 5, 26, 46, 90
_COMMON = np.frombuffer(b"data/", np.uint8)


@compiled
def _is_id(data: Any, at: int) -> Any:
    for place in range(at, at + 20):
        if _DIGITS[data[place]] == 255:
            return False
    # 96 bits: the last character has one of them.
    return _DIGITS[data[at + 19]] & 15 == 0


@compiled
def _is_usual(data: Any, at: int, length: int) -> Any:
    if length not in (_COMMA, _END_OF_SIGNED) or data[at + _OBJECT - 1] != 47:
        return False
    for place in range(_SLICE):
        if data[at + place] != _COMMON[place]:
            return False
    if not _is_id(data, at + _SLICE) or not _is_id(data, at + _OBJECT):
        return False
    if length == _COMMA:
        return True
    for place in range(at + _COMMA + 1, at + _END_OF_SIGNED):
        if not _SIGNS[data[place]]:
            return False
    return data[at + _COMMA] == 44


@compiled
def seconds_of_all(data: Any, starts: Any, out: Any) -> None:
    """Read the time in each usual name; -1 stands for any other name."""
    for row in range(len(out)):
        at = int(starts[row])
        out[row] = -1
        if _is_usual(data, at, int(starts[row + 1]) - at):
            seconds = 0
            for place in range(at + _OBJECT, at + _OBJECT + 7):
                seconds = seconds << 5 | int(_DIGITS[data[place]])
            out[row] = seconds >> 3
