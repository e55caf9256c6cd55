"""Table 2: read every staged object before any commit is looked at."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession

from spark_core import schemas, tables
from spark_core.datasources import frame_of, read_partitions, shared_counts
from spark_core.errors import LakegcError
from spark_core.lakefs import diff_addresses, read_uncommitted, scan_uncommitted, uncommitted_files
from spark_core.renewal import SCAN, Parts
from spark_core.run import Run
from spark_core.storage import ObjectStore
from spark_core.tables import Draft, Part, StoredTable, read_part

# Addresses of diffs that the driver holds; more are put down in the run's folder.
HELD = 100_000


def uncommitted_addresses(run: Run, slices: StoredTable) -> Draft:
    """Read the addresses of all staged entries, from every page of the server's scan.

    The server scans twice, the diff of every branch is read as well, and the
    union is used. A branch that is deleted in the middle of a scan makes it drop
    rows of other branches without a word (safety 2), and the scan omits staged
    absolute addresses that do not begin as the namespace does, letter by letter;
    every kind of store has some that lead inside it all the same
    (`S3://BUCKET/..`, `s3://x@BUCKET/..`, `http` for `https`, an absolute path; safety 23).
    The diffs have them all, and why they are complete stands in `lakefs.scans`.

    Args:
        run: The run.
        slices: The listing; staged entries must be read after it began.

    Returns:
        Columns of `schemas.UNCOMMITTED_ADDRESSES`; duplicates allowed. Rows lie
        inside the namespace, not necessarily under `data/`.

    Raises:
        IncompleteReadError: If a page claimed rows and no file is there, a scan does not come to an end, or a branch
            cannot be read.
    """
    began = run.begin(tables.UNCOMMITTED_ADDRESSES)
    run.require_same_instance(slices.manifest)
    staged = read_staged(run, slices.manifest.facts["table_prefix"])

    return Draft(
        tables.UNCOMMITTED_ADDRESSES,
        staged.frame,
        began,
        parents=(slices.manifest,),
        facts=staged.facts,
        measure=_measure,
        close=staged.close,
    )


@dataclass(frozen=True)
class Staged:
    """What is staged, read from the server to its end; its rows still lie in files.

    Attributes:
        frame: Columns of `schemas.UNCOMMITTED_ADDRESSES`; duplicates allowed.
        facts: Figures of it, complete once the frame was read.
        close: Takes the files away that lakegc itself put the rows of diffs in; the frame cannot be read any more then.
    """

    frame: DataFrame
    facts: Callable[[], Mapping[str, Any]]
    close: Callable[[], None]


def read_staged(run: Run, prefix: str, parts: Parts | None = None) -> Staged:
    """Read what is staged now: the server's scans, and the diff of every branch; see `uncommitted_addresses`.

    Args:
        run: The run.
        prefix: Where the server keeps its tables.
        parts: Says which of the scan and the branches are read; None for all.

    Returns:
        The union.

    Raises:
        IncompleteReadError: If a page claimed rows and no file is there, a scan does not come to an end, or a branch
            cannot be read.
    """
    scans = []
    if parts is None or parts.begin(SCAN):
        scans = scan_uncommitted(run.server, run.repository.id)
        if parts is not None:
            parts.end(SCAN)
    # Scans of one id have the same files.
    files = list(dict.fromkeys(file for scan in scans for file in uncommitted_files(run.store, scan, prefix)))
    counts = shared_counts(run.spark)
    frame = read_partitions(run.spark, schemas.UNCOMMITTED_ADDRESSES, files, partial(_read, run.store, counts))
    diffs = _Diffs(run.store, tables.folder(tables.UNCOMMITTED_ADDRESSES, run.key))
    try:
        read = diff_addresses(
            run.server, run.repository, run.namespace, diffs.keep, at_once=run.options.branches_at_once, turns=parts
        )
        staged = frame.unionByName(diffs.frame(run.spark))
    except BaseException:
        # Also of a mark that was interrupted: nobody else knows of these files.
        diffs.close()
        raise

    def facts() -> Mapping[str, Any]:
        files_read, file_rows = _read_of(files, counts.value)
        return {
            "server_runs": [scan.run_id for scan in scans],
            "pages": sum(scan.pages for scan in scans),
            # Scans of one id have the same files, and claim them twice.
            "pages_with_data": sum({scan.run_id: scan.pages_with_data for scan in scans}.values()),
            "files": len(files),
            "files_read": files_read,
            "file_rows": file_rows,
            "from_diffs": read.rows,
            "branches_read": read.branches,
            "branches_gone": read.gone,
            "branches_appeared": read.appeared,
        }

    return Staged(staged, facts, diffs.close)


class _Diffs:
    """Rows of diffs on their way to Spark: few are held, more go to Parquet files of their own.

    The underscore in their names keeps them out of Parquet readers' sight, like a manifest.
    """

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store = store
        self._name = f"{folder}_diffs-{uuid.uuid4().hex}"
        self._held: list[pa.RecordBatch] = []
        self._parts: list[Part] = []

    def keep(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        if sum(held.num_rows for held in self._held) < HELD:
            return
        key = f"{self._name}-{len(self._parts):05d}.parquet"
        written = self._store.write_parquet(key, iter(self._held), schemas.UNCOMMITTED_ADDRESSES)
        self._parts.append(Part(written.key, written.rows, written.size_bytes, written.sha256))
        self._held = []

    def frame(self, spark: SparkSession) -> DataFrame:
        schema = schemas.UNCOMMITTED_ADDRESSES
        # A few rows, which would otherwise be a part for each core.
        frame = frame_of(spark, pa.Table.from_batches(self._held, schema)).coalesce(1)
        if not self._parts:
            return frame
        return frame.unionByName(read_partitions(spark, schema, self._parts, partial(read_part, self._store, schema)))

    def close(self) -> None:
        keys = [part.key for part in self._parts]
        # What the store does not let go of is left for house-keeping, which knows the name; the rows are read already.
        with suppress(LakegcError):
            for begin in range(0, len(keys), self._store.delete_batch_size):
                self._store.delete(keys[begin : begin + self._store.delete_batch_size])


def _read(store: ObjectStore, counts: Accumulator[Counter[str]], file: str) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in read_uncommitted(store, file):
        rows += batch.num_rows
        yield batch
    counts.add(Counter({f"times {file}": 1, f"rows {file}": rows}))


def _read_of(files: Sequence[str], counts: Mapping[str, int]) -> tuple[int, int]:
    """Return how many of the files were read to their end, and their rows; a file that a retried task read twice counts once."""
    times = {file: counts.get(f"times {file}", 0) for file in files}
    rows = [counts.get(f"rows {file}", 0) // count for file, count in times.items() if count]
    return len(rows), sum(rows)


def _measure(batch: pa.RecordBatch) -> Mapping[str, int]:
    return {
        "staged": batch.num_rows,
        "staged_in_data": pc.sum(pc.starts_with(batch.column("address"), "data/")).as_py() or 0,
    }
