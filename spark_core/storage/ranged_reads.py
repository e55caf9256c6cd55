"""Reads of a part of an object: a part must never pass for the whole."""

from __future__ import annotations

from spark_core.errors import IncompleteReadError


def exact_range(data: bytes, root: str, key: str, start: int, length: int) -> bytes:
    """Return the result of a ranged read if it has the length asked for.

    Raises:
        IncompleteReadError: If it is shorter.
    """
    if len(data) != length:
        raise IncompleteReadError(
            f"{root}{key} ends before byte {start + length}: {len(data)} of the {length} "
            f"bytes from {start} came",
            "The object was cut off or replaced: compare its size with what refers to it, and run "
            "again.",
        )
    return data
