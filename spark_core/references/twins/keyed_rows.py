"""Rows by which candidates and entries of heads meet: one for each key that an object has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from spark_core.references.twins.evidence import (
    Used,
    begins_of,
    grouped,
    keys_of_candidates,
    keys_of_entries,
)
from spark_core.spark.exchange import numbers_of

# A row of a candidate's key, or of an entry's. The hashes are those of all candidates with the key,
# or of the entry's own object. A row without a path is for several entries.
KEYED = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        pa.field("is_entry", pa.bool_(), nullable=False),
        pa.field("branches", pa.int32(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),
        pa.field("last", pa.int64(), nullable=False),
        pa.field("is_outside", pa.bool_(), nullable=False),
        pa.field("head_path", pa.binary()),
        pa.field("entries", pa.int64(), nullable=False),
    ]
)

# Entries of one key whose paths a kernel sends on; of more, only their number.
_PATHS_OF_A_KEY = 20_000


def rows_with_keys(used: Used, bucket: Mapping[str, pa.Table]) -> pa.Table:
    """Give candidates and entries their keys: columns of `KEYED`.

    Args:
        used: What counts of what is known of contents.
        bucket: All that is known of some objects.
    """
    return pa.concat_tables([_of_candidates(used, bucket), _of_entries(used, bucket)])


def _of_candidates(used: Used, bucket: Mapping[str, pa.Table]) -> pa.Table:
    at, keys = keys_of_candidates(used, bucket)
    hashes, reach = (
        numbers_of(bucket["candidates"][name])[at] for name in ("address_hash", "branches")
    )
    keys, reach, first, last = grouped(
        keys, (np.maximum, reach), (np.minimum, hashes), (np.maximum, hashes)
    )
    return _rows(key=keys, branches=reach, first=first, last=last)


def _of_entries(used: Used, bucket: Mapping[str, pa.Table]) -> pa.Table:
    entries = bucket["entries"]
    own, is_outside = (numbers_of(entries[name]) for name in ("address_hash", "is_outside"))
    tables = [
        _rows(
            key=keys,
            is_entry=True,
            first=own,
            last=own,
            is_outside=is_outside,
            head_path=entries["head_path"],
        )
        for keys in keys_of_entries(used, bucket)
    ]
    return _without_paths(pa.concat_tables(tables))


def _rows(**columns: Any) -> pa.Table:
    """Make rows of `KEYED`; a column that is a single value has it in every row."""
    rows = len(columns["key"])
    usual = {"is_entry": False, "branches": 0, "is_outside": False, "entries": 1}
    return pa.table(
        [
            pa.repeat(pa.scalar(value, kind.type), rows)
            if value is None or isinstance(value, bool | int)
            else value
            for kind in KEYED
            for value in [{**usual, **columns}.get(kind.name)]
        ],
        schema=KEYED,
    )


def _without_paths(rows: pa.Table) -> pa.Table:
    """Of a key of very many entries, leave only the number of most of them."""
    if rows.num_rows <= _PATHS_OF_A_KEY:
        return rows
    keys, is_outside = numbers_of(rows["key"]), numbers_of(rows["is_outside"])
    order = np.argsort(keys, kind="stable")
    begins = begins_of(keys[order])
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - np.repeat(begins, np.diff(np.append(begins, len(keys))))
    is_many = rank >= _PATHS_OF_A_KEY
    if not is_many.any():
        return rows
    tables = [rows.filter(pa.array(~is_many))]
    for side in (False, True):
        some = keys[is_many & (is_outside == side)]
        of, number = grouped(some, (np.add, np.ones(len(some), np.int64)))
        # Not even a hash: as if each entry's object were none of the candidates.
        tables.append(
            _rows(key=of, is_entry=True, first=0, last=1, is_outside=side, entries=number)
        )
    return pa.concat_tables(tables)
