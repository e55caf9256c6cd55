"""Decide where the server ends a range: by its size, or by the hash of a key.

References:
    lakefs-facts 2.4; lakeFS v1.84 `pkg/graveler/committed/meta_range_writer.go`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_core.jit import compiled

# The server's defaults: a range ends at 20 MiB, or on average after 50,000 entries.
MAX_RANGE_SIZE_BYTES = 20 << 20
RANGE_RAGGEDNESS = 50_000


def ends_range(key: bytes, raggedness: int) -> bool:
    """Say whether the server ends a range after this key, whatever the size of the range."""
    return int(fnv1a_64(np.frombuffer(key, np.uint8))) % raggedness == 0


@compiled
def fnv1a_64(data: Any) -> int:
    """Hash bytes with FNV-1a, 64 bit; the result is unsigned."""
    value = np.uint64(0xCBF29CE484222325)
    for byte in data:
        value = (value ^ np.uint64(byte)) * np.uint64(0x100000001B3)
    return value  # type: ignore[return-value] # numba returns a Python int
