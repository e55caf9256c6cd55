"""The rows of table 1: each object's standing by name and age, and what is counted of a listing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.addresses.address_hashes import hashed
from spark_core.addresses.candidates import Limits
from spark_core.addresses.collectable import (
    NOT_NAMEABLE,
    TABLE_FILES,
    files_of_tables,
    fill_others,
    usual_seconds,
)
from spark_core.addresses.namespace import nested_repository, slice_batch
from spark_core.storage import ObjectStore
from spark_core.storage.classes import as_measured, bytes_by_class

# Begins the names of what is counted of single slices: objects for which one is listed again.
OPEN = "open:"

# The standings that end as time passes.
_WAITING = pa.array([rule.YOUNG, rule.UPLOAD])


def add_standings(batch: pa.RecordBatch, store: ObjectStore, limits: Limits) -> pa.RecordBatch:
    """Add slice, standing by name and age, and address hash to a store's listing."""
    keys = batch.column("key")
    standing = rule.standings(keys, batch.column("last_modified"), limits)
    if store.unsafe_names != NOT_NAMEABLE:
        # This kind of store would not delete these objects under exactly their own names. The
        # common cases of such names are part of the rule.
        is_unsafe = fill_others(
            usual_seconds(keys) >= 0,
            pa.scalar(False),
            partial(pc.match_substring_regex, pattern=store.unsafe_names),
            keys,
        )
        standing = pc.if_else(is_unsafe, rule.PROTECTED, standing)
    return pa.record_batch(
        [
            slice_batch(keys),
            keys,
            batch.column("size_bytes"),
            batch.column("last_modified"),
            batch.column("checksum"),
            standing,
            hashed(keys),
            batch.column("storage_class"),
        ],
        schema=schemas.NAMESPACE_SLICES,
    )


def measure(
    cutoff: datetime, prefix: str, unsafe_names: str, batch: pa.RecordBatch
) -> Mapping[str, int]:
    """Count what the checks and the report need of a listing."""
    old = _is_old(cutoff, batch)
    sizes = batch.column("size_bytes")
    other = batch.filter(pa.array(usual_seconds(batch.column("address")) < 0))
    keys, sizes_of_other = other.column("address"), other.column("size_bytes")
    unsafe = pc.match_substring_regex(keys, unsafe_names)
    return {
        "objects": batch.num_rows,
        "object_bytes": pc.sum(sizes).as_py() or 0,
        "old_objects": pc.sum(old).as_py() or 0,
        "old_bytes": pc.sum(pc.if_else(old, sizes, 0)).as_py() or 0,
        "unsafe_name_objects": pc.sum(unsafe).as_py() or 0,
        "unsafe_name_bytes": pc.sum(pc.if_else(unsafe, sizes_of_other, 0)).as_py() or 0,
        "nested_objects": sum(_is_nested(key, prefix) for key in _suspects(keys, prefix)),
        **_tables_past_lakefs(keys, sizes_of_other),
        **as_measured(bytes_by_class(batch)),
    }


def _tables_past_lakefs(keys: pa.StringArray, sizes: pa.Int64Array) -> dict[str, int]:
    """Count the metadata of tables that were written without lakeFS, where there is any."""
    found = {}
    for kind in TABLE_FILES:
        is_one = files_of_tables(keys, kind)
        if objects := pc.sum(is_one).as_py():
            found[f"{kind}_objects"] = objects
            found[f"{kind}_bytes"] = pc.sum(pc.if_else(is_one, sizes, 0)).as_py()
    return found


def _is_old(cutoff: datetime, batch: pa.RecordBatch) -> pa.BooleanArray:
    return pc.less(batch.column("last_modified"), pa.scalar(cutoff, schemas.INSTANT))


def measure_closed(
    closed_before: datetime, cutoff: datetime, prefix: str, unsafe_names: str, batch: pa.RecordBatch
) -> Mapping[str, int]:
    """Count so for the index, and name the slices that the next run lists again.

    An object that the store dates at or after the instant that closes its slice by name shows that
    somebody wrote there all the same. What a later run takes from the index is older than that,
    past the cutoff, has no unsafe name and lies in no nested repository. So it need not look at the
    addresses to count it.
    """
    counted, keys = measure(cutoff, prefix, unsafe_names, batch), batch.column("address")
    # A run that stands for an instant long ago has a cutoff before the other one.
    is_open = pc.or_(
        pc.invert(_is_old(min(closed_before, cutoff), batch)),
        pc.is_in(batch.column("standing"), value_set=_WAITING),
    )
    if counted["unsafe_name_objects"]:
        is_open = pc.or_(is_open, pc.match_substring_regex(keys, unsafe_names))
    if counted["nested_objects"]:
        is_open = pc.or_(is_open, _is_suspect(keys, prefix))
    names = batch.column("slice").filter(is_open).unique().to_pylist()
    return {**counted, **{f"{OPEN}{name}": 1 for name in names}}


def _suspects(keys: pa.StringArray, prefix: str) -> list[str]:
    """Return the few keys that could belong to a repository made inside this one's `data/`."""
    suspects: list[str] = keys.filter(_is_suspect(keys, prefix)).to_pylist()
    return suspects


def _is_suspect(keys: pa.StringArray, prefix: str) -> pa.BooleanArray:
    return pc.or_(pc.match_substring(keys, "/_lakefs/"), pc.match_substring(keys, f"/{prefix}/"))


def _is_nested(key: str, prefix: str) -> bool:
    """Say whether a key lies in a repository's tables.

    The tables have this server's prefix or the usual one.
    """
    return nested_repository(key) or nested_repository(key, protected_prefix=prefix)
