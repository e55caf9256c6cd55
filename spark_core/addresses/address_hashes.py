"""Hash columns of addresses to 64 bits, with the same result as Spark's `xxhash64`.

Only hashes travel between tasks. If two addresses have the same hash, an object may be kept that
could go, never the reverse. `Distinct` finds the rows of a table that repeat earlier ones, by two
hashes of each.

References:
    XXH64 of Yann Collet's xxHash; Spark `XXH64.hashUnsafeBytes` with seed 42.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

ADDRESS_HASH = pa.field("address_hash", pa.int64(), nullable=False)

# What Spark hashes a null to: its seed.
_OF_NULL = 42


def hashed(values: pa.Array) -> pa.Int64Array:
    """Hash each value of a column of text or bytes.

    Args:
        values: Strings or binaries.

    Returns:
        One number for each value, as Spark's `xxhash64` gives it; 42 for a null, as there.
    """
    # Who only loads the code location hashes nothing, and need not wait for numba.
    from spark_core.addresses.hash_loops import hash_all

    return pa.array(over_bytes(values, hash_all, of_null=_OF_NULL))


def over_bytes(values: pa.Array, loop: Callable[[Any, Any, Any], None], *, of_null: int) -> Any:
    """Make a number of the bytes of each value by a compiled loop; array of int64.

    Args:
        values: Strings or binaries.
        loop: Gets the bytes of all values, the places where they begin and the last one ends, and
            the numbers to fill.
        of_null: The number of a null.
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
        loop(content, starts, out)
        if values.null_count:
            out[np.asarray(values.is_null())] = of_null
    return out


def with_address_hash(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put the hash of its address in front of each row: the column `ADDRESS_HASH`."""
    for batch in batches:
        schema = pa.schema([ADDRESS_HASH, *batch.schema])
        yield pa.record_batch([hashed(batch.column("address")), *batch.columns], schema=schema)


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


class Numbered:
    """Different hashes and their numbers, which are found by one look each.

    Sorting a million hashes costs several times as much. It takes 16 to 24 bytes for each row.

    Attributes:
        of_rows: The number of each row's hash, from 0, in the order in which hashes first occur.
        hashes: The different hashes, by number.

    Examples:
        >>> numbered = Numbered(np.array([7, -2, 7]))
        >>> numbered.of_rows.tolist(), numbered.place(np.array([-2, 5])).tolist()
        ([0, 1, 0], [1, 2])
    """

    def __init__(self, hashes: Any) -> None:
        """Number the hashes of some rows.

        Args:
            hashes: Array of int64.
        """
        from spark_core.addresses.hash_loops import number_all

        self._slots = np.zeros(2 ** max(int(2 * hashes.size - 1).bit_length(), 1), np.int32)
        self.of_rows = np.empty(hashes.size, np.int32)
        distinct = np.empty(hashes.size, np.int64)
        self.hashes = distinct[: number_all(hashes, self._slots, distinct, self.of_rows)]

    def place(self, hashes: Any) -> Any:
        """Return the number of each hash; the count of all numbers for one that has none."""
        from spark_core.addresses.hash_loops import find_all

        found = np.empty(hashes.size, np.int32)
        find_all(hashes, self._slots, self.hashes, found)
        return found


def warm_up() -> None:
    """Compile or load the loops before the first task of a process needs them."""
    from spark_core.addresses.name_loops import seconds_of_all

    names = pa.array(["data/x"])
    Numbered(hashed(names).to_numpy()).place(hashed(names).to_numpy())
    Distinct().first(hashed(names), over_bytes(names, seconds_of_all, of_null=-1))


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
        from spark_core.addresses.hash_loops import first_of_its_kind

        one, other = first_hashes.to_numpy(zero_copy_only=False), second_hashes
        while self._count + len(one) > len(self._used) // 2:
            if len(self._used) >= 2 * max(self._at_most, len(one)):
                self._clear(len(self._used))
                break
            used, before = self._used.view(np.bool_), (self._one, self._other)
            self._clear(2 * len(used))
            self._count = first_of_its_kind(
                before[0][used], before[1][used], *self._table, np.empty(used.sum(), np.bool_)
            )
        found = np.empty(len(one), np.bool_)
        self._count += first_of_its_kind(one, other, *self._table, found)
        return found

    def _clear(self, slots: int) -> None:
        self._one, self._other = np.empty(slots, np.int64), np.empty(slots, np.int64)
        self._used = np.zeros(slots, np.bool_)
        self._count = 0

    @property
    def _table(self) -> tuple[Any, Any, Any]:
        return self._one, self._other, self._used
