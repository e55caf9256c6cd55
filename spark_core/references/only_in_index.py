"""Addresses of entries whose objects only the index has: the run did not list their slices."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import are_among, hashed
from spark_core.addresses.namespace import slice_batch
from spark_core.index.choosing import is_before
from spark_core.index.entry_numbers import in_numbers
from spark_core.records.figures import IndexFigures
from spark_core.references.choosing_entries import Alike
from spark_core.spark.exchange import Batches


def that_may_clear(index: IndexFigures, sizes: Any, batches: Batches) -> pa.StringArray:
    """Return those that may clear an object, as they have one of some sizes; None for any size."""
    found = [pa.array([], pa.string())]
    for batch in batches:
        names = batch.column("address")
        is_asked = pc.and_(pc.starts_with(names, "data/"), _are_taken(index, names))
        if sizes is not None:
            has_size = are_among(batch.column("size_bytes").to_numpy(), sizes)
            is_asked = pc.and_(is_asked, pa.array(has_size))
        found.append(names.filter(is_asked))
    return pa.concat_arrays(found).unique()


def with_content(index: IndexFigures, alike: Alike, batches: Batches) -> pa.StringArray:
    """Return those that may have the content of some objects."""
    found = [pa.array([], pa.string())]
    for batch in batches:
        names = batch.column("address")
        numbers = in_numbers(batch.append_column("address_hash", hashed(names)))
        found.append(names.filter(pc.and_(_are_taken(index, names), pa.array(alike(numbers)))))
    return pa.concat_arrays(found).unique()


def _are_taken(index: IndexFigures, addresses: pa.StringArray) -> pa.BooleanArray:
    """Say which addresses lie in slices that the run did not list."""
    slices = slice_batch(addresses).dictionary_encode()
    taken = [
        is_before(name, index.listed_since) and name not in index.open_slices
        for name in slices.dictionary.to_pylist()
    ]
    return pa.array(taken, pa.bool_()).take(slices.indices)
