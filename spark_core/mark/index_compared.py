"""How the closed slices of the last index compare with what a clean run lists.

It decides nothing. A slice that was closed too early, or objects that came and went behind the
index's back, show themselves here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from spark_core import schemas
from spark_core.addresses.address_hashes import are_among, hashed
from spark_core.errors import LakegcError
from spark_core.index import choosing
from spark_core.index.choosing import Index
from spark_core.index.deletions import deleted_since
from spark_core.index.saved import Saved
from spark_core.records import reading
from spark_core.records.figures import ComparedFigures, ListedFigures
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark.exchange import Batches, Exchange, Sent, no_work, numbers_of

# An object; the last column is a hash of all that the store says of it.
_OBJECTS = pa.schema(
    [schemas.NAMESPACE_SLICES.field("address_hash"), pa.field("said", pa.int64(), nullable=False)]
)
_READ = pa.schema(
    [
        schemas.NAMESPACE_SLICES.field(name)
        for name in ("slice", "address_hash", "size_bytes", "last_modified", "checksum")
    ]
)


def compared_with_index(run: Run, slices: StoredTable) -> ComparedFigures | None:
    """Compare the listing of a clean run with the slices of the index before it.

    It costs one pass over the files of the index, and one over the listing.

    Args:
        run: A clean run.
        slices: Table 1.

    Returns:
        The figures; None if there is no index, if it cannot be read, or if the store itself was not
        listed.
    """
    if ListedFigures.of(slices.manifest).inventory is not None:
        return None
    saved = choosing.last_saved(run)
    if saved is None or not saved.slices:
        return None
    try:
        return _compared(run, slices, saved)
    except LakegcError:
        return None  # decides nothing, and the run takes nothing from it


def _compared(run: Run, slices: StoredTable, saved: Saved) -> ComparedFigures:
    chosen = partial(_chosen, Index(saved, saved.closed_before), deleted_since(run, saved))
    of_index = reading.source_of_parts(run.store, _READ, saved.slices)
    work = Exchange(
        {
            "index": of_index.through(_OBJECTS, chosen),
            "listed": slices.source(_READ.names).through(_OBJECTS, chosen),
        },
        _differing,
        _OBJECTS,
        no_work,
    )
    found, _ = work.run(lambda: run.spark, threads=run.options.read_threads)
    objects, lacking, extra, other = np.sum(np.array(found), axis=0).tolist()
    return ComparedFigures(
        run=saved.run,
        objects=objects,
        lacking_objects=lacking,
        extra_objects=extra,
        other_objects=other,
    )


def _chosen(index: Index, deleted: Any, batches: Batches) -> Batches:
    """Keep the objects of closed slices that no sweep deleted since: columns of `_OBJECTS`."""
    for batch in batches:
        names = batch.column("slice").dictionary_encode()
        is_closed = [not index.lists(name) for name in names.dictionary.to_pylist()]
        hashes = batch.column("address_hash").to_numpy()
        is_chosen = np.array(is_closed, np.bool_)[names.indices.to_numpy()]
        is_chosen &= ~are_among(hashes, deleted)
        said = hashed(batch.column("checksum")).to_numpy()
        for name in ("size_bytes", "last_modified"):
            said = said * 31 + batch.column(name).cast(pa.int64()).to_numpy()
        yield pa.record_batch([hashes[is_chosen], said[is_chosen]], schema=_OBJECTS)


def _differing(bucket: Mapping[str, pa.Table]) -> Sent[tuple[int, int, int, int]]:
    """Count the objects of the index, and those that are lacking, extra, or other than there."""
    index, listed = (
        {name: numbers_of(bucket[which][name]) for name in _OBJECTS.names}
        for which in ("index", "listed")
    )
    order = np.argsort(listed["address_hash"], kind="stable")
    hashes, said = listed["address_hash"][order], listed["said"][order]
    at = np.searchsorted(hashes, index["address_hash"])
    is_there = np.append(hashes, 0)[at] == index["address_hash"]
    is_there &= at < len(hashes)
    other = is_there & (np.append(said, 0)[at] != index["said"])
    count, there = len(index["address_hash"]), int(is_there.sum())
    return Sent((count, len(hashes) - there, count - there, int(other.sum())), {})
