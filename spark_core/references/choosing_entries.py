"""Choose entries of ranges in numbers: by their objects, their sizes or their contents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.index import entry_numbers as indexed
from spark_core.spark.exchange import Batches

# Chooses entries, columns of `schemas.INDEXED_ENTRIES`: an array of booleans.
Chooses: TypeAlias = Callable[[pa.RecordBatch], Any]


def with_hashes(hashes: Any) -> Chooses:
    """Choose the entries of objects that have one of some hashes, sorted and once."""
    return partial(_with_hashes, hashes)


def _with_hashes(hashes: Any, entries: pa.RecordBatch) -> Any:
    return are_among(entries.column("address_hash").to_numpy(), hashes)


def that_may_hide(sizes: Any, absent: Any) -> Chooses:
    """Choose the entries behind which an object may hide, as far as they lie below `data/`.

    Args:
        sizes: Sizes of objects, sorted and once.
        absent: Hashes of addresses without an object, sorted and once.
    """
    return partial(_may_hide, sizes, absent)


def _may_hide(sizes: Any, absent: Any, entries: pa.RecordBatch) -> Any:
    return are_among(entries.column("size_bytes").to_numpy(), sizes) | _with_hashes(absent, entries)


@dataclass(frozen=True)
class Alike:
    """Chooses the entries below `data/` that may have the content of some objects.

    Attributes:
        sizes: Sizes of the objects, sorted and once.
        untold: Sizes of those of which the store tells no MD5.
        told: Of the others, hashes of size and MD5.
    """

    sizes: Any
    untold: Any
    told: Any

    @classmethod
    def of(cls, objects: Batches) -> Alike:
        """Make it of objects: columns size_bytes and checksum."""
        sizes, untold, told = ([np.empty(0, np.int64)] for _ in range(3))
        for batch in objects:
            numbers, checksum = batch.column("size_bytes").to_numpy(), batch.column("checksum")
            is_told = indexed.are_md5s(checksum)
            sizes.append(sorted_once(numbers))
            untold.append(sorted_once(numbers[~is_told]))
            contents = _contents(numbers, hashed(checksum).to_numpy())
            told.append(sorted_once(contents[is_told]))
        return cls(*(sorted_once(np.concatenate(each)) for each in (sizes, untold, told)))

    @classmethod
    def any_of(cls, some: Sequence[Alike]) -> Alike:
        """Choose what any of them chooses."""
        none = np.empty(0, np.int64)
        return cls(
            *(
                sorted_once(np.concatenate([none, *(getattr(one, name) for one in some)]))
                for name in ("sizes", "untold", "told")
            )
        )

    def __call__(self, entries: pa.RecordBatch) -> Any:
        """Choose among entries: columns of `schemas.INDEXED_ENTRIES`."""
        numbers, checksum, flags = (
            entries.column(name).to_numpy() for name in ("size_bytes", "checksum", "flags")
        )
        is_told = flags & indexed.MD5 != 0
        is_alike = np.where(
            is_told,
            are_among(numbers, self.untold) | are_among(_contents(numbers, checksum), self.told),
            are_among(numbers, self.sizes),
        )
        return is_alike & (flags & indexed.IN_DATA != 0)


def _contents(sizes: Any, checksums: Any) -> Any:
    return sizes * 31 + checksums
