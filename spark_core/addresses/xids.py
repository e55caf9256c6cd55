"""Read the times in the server's names: object ids and reverse-time slice ids.

An id is 12 bytes in 20 characters of base32hex, lower case. Its first four bytes are unix seconds,
big endian.

References:
    rs/xid v1.5.0 (the form), lakeFS `pkg/upload/path_provider.go` (the reverse time of slices).
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ALPHABET = "0123456789abcdefghijklmnopqrstuv"

# 96 bits fill 19 characters and one bit of the twentieth, which is `0` or `g`. With another last
# character the name only looks like an id.
XID = r"[0-9a-v]{19}[0g]"

# The largest value of four bytes, in the year 2106.
LAST_SECOND = 2**32 - 1

_XID = re.compile(XID)
_NAME = rf"(?:^|/)(?P<id>{XID})(?:,[^/]*)?$"
_PLACES = 32 ** np.arange(6, -1, -1, dtype=np.int64)
_VALUES = np.full(256, 255, dtype=np.uint8)
_VALUES[np.frombuffer(ALPHABET.encode(), dtype=np.uint8)] = np.arange(32, dtype=np.uint8)


def _seconds(name: str) -> int | None:
    """Return the four leading bytes of an id as a number; None when the name is no id."""
    if not _XID.fullmatch(name):
        return None
    # 7 characters are 35 bits, of which 32 belong to the time.
    return int(name[:7], 32) >> 3


def xid_seconds(name: str) -> int | None:
    """Return the time in the name of an object, in unix seconds; None when the name is no id.

    Args:
        name: Only the last segment. Up to the comma that separates a signature it must be an id.
    """
    return _seconds(name.partition(",")[0])


def first_id(seconds: int) -> str:
    """Return a string greater than every earlier id, and less than every id from this second on.

    Args:
        seconds: Unix seconds, at most `LAST_SECOND`.

    Examples:
        >>> first_id(1670433808)
        'ce8co40'
        >>> "ce8co3vvvvvvvvvvvvvg" < first_id(1670433808) < "ce8co400000000000000"
        True
    """
    value = seconds << 3
    return "".join(ALPHABET[value >> 5 * place & 31] for place in range(6, -1, -1))


def xid_time_batch(addresses: pa.StringArray) -> pa.TimestampArray:
    """Return when each address was allocated, before its upload began.

    Args:
        addresses: Any addresses; null gives null.

    Returns:
        Microseconds in UTC, same length, null where the name is no id.
    """
    ids = pc.struct_field(pc.extract_regex(addresses, _NAME), "id")
    known = pc.is_valid(ids).to_numpy(zero_copy_only=False)
    letters = np.frombuffer(
        pc.binary_join(_one_list(ids.drop_null()), "").cast(pa.binary())[0].as_buffer(),
        dtype=np.uint8,
    )
    digits = _VALUES[letters.reshape(-1, 20)[:, :7]].astype(np.int64)
    micros = np.zeros(len(ids), dtype=np.int64)
    micros[known] = ((digits @ _PLACES) >> 3) * 1_000_000
    return pa.array(micros, mask=~known).cast(pa.timestamp("us", tz="UTC"))


def _one_list(values: pa.StringArray) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
