"""Which candidates branches read from, of all that they showed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import hashed, sorted_once
from spark_core.references.head_entries import HeadEntries
from spark_core.references.twins.asking import SHOWN
from spark_core.references.twins.branch_answers import READ_BY_BRANCH
from spark_core.references.twins.candidates_by_time import Candidates, rows_with_hashes
from spark_core.spark.exchange import AnySource


def read_by_branches(
    shown: pa.Table, candidates: Candidates, heads: HeadEntries, staged_names: AnySource | None
) -> pa.Table:
    """Return the candidates among what branches showed.

    Args:
        shown: What they showed: columns of `SHOWN`.
        candidates: The objects that are left to go.
        heads: The entries of branch heads.
        staged_names: As for `search.find`.

    Returns:
        Columns of `READ_BY_BRANCH`.
    """
    named = candidates.named(sorted_once(_hashes(shown)))
    shown = shown.filter(pc.is_in(shown["address"], named["address"].combine_chunks()))
    if not shown.num_rows:
        return READ_BY_BRANCH.empty_table()
    shown = _without_own(_without_named(shown, staged_names, heads), heads)
    first = (
        shown.sort_by([(name, "ascending") for name in SHOWN.names])
        .group_by("address", use_threads=False)
        .aggregate([("path", "first"), ("branch", "first")])
        .rename_columns(SHOWN.names)
    )
    read = first.add_column(0, "address_hash", pa.array(_hashes(first))).cast(READ_BY_BRANCH)
    return read.sort_by("address_hash")


def _without_named(shown: pa.Table, staged_names: AnySource | None, heads: HeadEntries) -> pa.Table:
    """Leave out the staged names that a retention policy takes, on their branches."""
    if staged_names is None:
        return shown
    hashes = sorted_once(_hashes(shown))
    known = rows_with_hashes(staged_names, "address", hashes, heads.spark)
    return shown.join(known, SHOWN.names, join_type="left anti")


def _without_own(shown: pa.Table, heads: HeadEntries) -> pa.Table:
    """Leave out what a branch shows because its head has it, and heads agree on the path.

    A retention policy may name an object that a head has. That the head's branch answers with
    it is no sign of another entry. No head has any other candidate.
    """
    # A path that is no UTF-8 never equals one that a branch shows.
    paths = shown["path"].cast(pa.binary()).combine_chunks()
    hashes = sorted_once(hashed(paths).to_numpy())
    there = rows_with_hashes(heads.rows(), "head_path", hashes, heads.spark)
    at: dict[bytes, set[str]] = {}
    for path, address in zip(
        there["head_path"].to_pylist(), there["address"].to_pylist(), strict=True
    ):
        at.setdefault(path, set()).add(address)
    names = zip(shown["address"].to_pylist(), paths.to_pylist(), strict=True)
    is_other = [at.get(path) != {address} for address, path in names]
    return shown.filter(pa.array(is_other, pa.bool_()))


def _hashes(shown: pa.Table) -> Any:
    return hashed(shown["address"].combine_chunks()).to_numpy()
