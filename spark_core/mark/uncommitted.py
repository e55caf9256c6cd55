"""Table 2: read every staged object before any commit is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas, tables
from spark_core.datasources import read_partitions
from spark_core.lakefs import diff_addresses, read_uncommitted, scan_uncommitted, uncommitted_files
from spark_core.run import Run
from spark_core.storage import ObjectStore
from spark_core.tables import Draft, StoredTable

# Kinds of stores in which one object has several absolute addresses that the server takes from whoever links or stages.
_OF_MANY_SPELLINGS = ("local", "azure")


def uncommitted_addresses(run: Run, slices: StoredTable) -> Draft:
    """Read the addresses of all staged entries, from every page of the server's scan.

    The server scans at least twice and the union is used: a branch that is
    deleted (or deleted and made again) in the middle of a scan makes it drop rows
    of other branches without a word (safety 2, 30). The scan omits staged
    absolute addresses that do not begin as the namespace does, letter by letter,
    so where such an address can lead inside it all the same, the diff of every
    branch is read as well (safety 23): on a local blockstore, and in Azure, where
    `http` and `https` are one store and the server gives out only `https`. So it is when flat
    names are collected, which only entries of the old address type have.

    Args:
        run: The run.
        slices: The listing; staged entries must be read after it began.

    Returns:
        Columns of `schemas.UNCOMMITTED_ADDRESSES`; duplicates allowed. Rows lie
        inside the namespace, not necessarily under `data/`.

    Raises:
        IncompleteReadError: If a page claimed rows and no file is there, or the scan does not come to an end.
    """
    began = run.begin(tables.UNCOMMITTED_ADDRESSES)
    run.require_same_instance(slices.manifest)
    prefix = slices.manifest.facts["table_prefix"]
    scans = scan_uncommitted(run.server, run.repository.id)
    files = [file for scan in scans for file in uncommitted_files(run.store, scan, prefix)]
    frame = read_partitions(run.spark, schemas.UNCOMMITTED_ADDRESSES, files, partial(_read, run.store))
    from_diffs = 0
    if run.namespace.kind in _OF_MANY_SPELLINGS or run.options.flat:
        diffs = diff_addresses(run.server, run.repository.id, run.namespace)
        from_diffs = diffs.num_rows
        frame = frame.unionByName(run.spark.createDataFrame(diffs))

    def facts() -> Mapping[str, Any]:
        return {
            "server_runs": [scan.run_id for scan in scans],
            "pages": sum(scan.pages for scan in scans),
            "pages_with_data": sum(scan.pages_with_data for scan in scans),
            "files": len(files),
            "from_diffs": from_diffs,
        }

    return Draft(
        tables.UNCOMMITTED_ADDRESSES,
        frame.coalesce(run.options.table_parts),
        began,
        parents=(slices.manifest,),
        facts=facts,
        measure=_measure,
    )


def _read(store: ObjectStore, file: str) -> Iterator[pa.RecordBatch]:
    yield from read_uncommitted(store, file)


def _measure(batch: pa.RecordBatch) -> Mapping[str, int]:
    return {
        "staged": batch.num_rows,
        "staged_in_data": pc.sum(pc.starts_with(batch.column("address"), "data/")).as_py() or 0,
    }
