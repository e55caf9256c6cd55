"""Table 2: read every staged object before any commit is looked at."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys, schemas
from spark_core.errors import LakegcError
from spark_core.lakefs import diff_addresses, read_uncommitted, scan_uncommitted, uncommitted_files
from spark_core.lakefs.answer_types import PreparedUncommitted
from spark_core.lakefs.staged_entries import DiffsRead
from spark_core.records import tables
from spark_core.records.figures import ListedFigures, StagedFigures, StagedReadFigures
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable, read_part
from spark_core.records.writing import Draft, StreamedRows
from spark_core.references.kept_objects import alive_hashes
from spark_core.references.parts_of_look import SCAN, LookParts
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.tasks import counting, deal_out
from spark_core.storage import ObjectStore

# Addresses of diffs that the driver holds until their number is known, and that it sends with the
# tasks. More are written into the run's folder.
HELD, SENT = 250_000, 10_000

# Bytes of a file for each of its rows, about: half of an address does not shrink.
_BYTES_OF_A_ROW = 32


def uncommitted_addresses(run: Run, slices: StoredTable) -> Draft:
    """Read the addresses of all staged entries, from every page of the server's scan.

    The server scans twice, the diff of every branch is read as well, and the union is used. If a
    branch is deleted in the middle of a scan, the scan silently drops rows of other branches
    (safety 2). The scan also omits staged absolute addresses that do not begin as the namespace
    does, letter by letter. Every kind of store has some that lead inside it all the same
    (`S3://BUCKET/..`, `s3://x@BUCKET/..`, `http` for `https`, an absolute path; safety 23). The
    diffs have them all. The module `lakefs.staged_entries` says why they are complete.

    Args:
        run: The run.
        slices: The listing; staged entries must be read after it began.

    Returns:
        Columns of `schemas.UNCOMMITTED_ADDRESSES`; duplicates allowed. Rows lie
        inside the namespace, not necessarily under `data/`.

    Raises:
        IncompleteReadError: If a page claimed rows and no file is there, a scan does not end, or a
            branch cannot be read.
    """
    began = run.begin(tables.UNCOMMITTED_ADDRESSES)
    run.require_same_instance(slices.manifest)
    listed = ListedFigures.of(slices.manifest)
    staged = read_staged(run, listed.table_prefix)

    return Draft(
        tables.UNCOMMITTED_ADDRESSES,
        StreamedRows(lambda: run.spark, staged.tasks, staged.read, staged.rows),
        began,
        parents=(slices.manifest,),
        figures=lambda measured, counted: StagedFigures(
            **vars(staged.figures(counted)), **measured
        ),
        measure=_measure,
        close=staged.close,
    )


# The input of a task: files of the server's scans, files with rows of diffs, or such rows
# themselves.
_Task = tuple[str | Part | pa.RecordBatch, ...]


@dataclass(frozen=True)
class Staged:
    """The staged entries: the server has answered in full, and the rows still lie in files.

    Attributes:
        tasks: Input of the executors.
        rows: How many rows there are, as far as the sizes of files tell.
        read: Yields columns of `schemas.UNCOMMITTED_ADDRESSES`, duplicates allowed, for one of the
            tasks; counts into its figures.
        figures: Says how they were read, from the figures of all tasks.
        close: Removes the files in which lakegc put the rows of diffs; nothing can be read any more
            then.
    """

    tasks: Sequence[_Task]
    rows: int
    read: Callable[[_Task, Counter[str]], Iterator[pa.RecordBatch]]
    figures: Callable[[Mapping[str, int]], StagedReadFigures]
    close: Callable[[], None]


def read_staged(run: Run, prefix: str, parts: LookParts | None = None) -> Staged:
    """Let the server write what is staged now: its scans, and the diff of every branch.

    See `uncommitted_addresses`.

    Args:
        run: The run.
        prefix: Prefix of the server's tables.
        parts: Decides whether the scan and which branches are read; None for all.

    Returns:
        The union of scans and diffs.

    Raises:
        IncompleteReadError: If a page claimed rows and no file is there, a scan does not end, or a
            branch cannot be read.
    """
    scans = []
    if parts is None or parts.begin(SCAN):
        scans = scan_uncommitted(run.server, run.repository.id)
        if parts is not None:
            parts.end(SCAN)
    # Scans of one id have the same files.
    files = {
        key: size
        for scan in scans
        for key, size in uncommitted_files(run.store, scan, prefix).items()
    }
    diffs = Diffs(run.store, tables.folder(tables.UNCOMMITTED_ADDRESSES, run.key), held=HELD)
    try:
        read = diff_addresses(
            run.server,
            run.repository,
            run.namespace,
            diffs.keep,
            at_once=run.options.branches_at_once,
            turns=parts,
        )
        rows = read.rows + sum(files.values()) // _BYTES_OF_A_ROW
        if not placement.driver_works(rows):
            diffs.put_down(SENT)
    except BaseException:
        # This also runs for a mark that was interrupted: nobody else knows of these files.
        diffs.close()
        raise

    sources = [*files, *diffs.parts, *diffs.held]
    tasks = deal_out(sources, run.reading_tasks(-(-len(sources) // run.options.read_threads)))
    figures = partial(_figures, scans, len(files), read)
    return Staged(tasks, rows, partial(_read, run.store), figures, diffs.close)


def _figures(
    scans: Sequence[PreparedUncommitted], files: int, read: DiffsRead, counted: Mapping[str, int]
) -> StagedReadFigures:
    """Compare what scans and diffs have with what was counted of them."""
    return StagedReadFigures(
        server_runs=tuple(scan.run_id for scan in scans),
        pages=sum(scan.pages for scan in scans),
        # Scans of one id have the same files, and claim them twice.
        pages_with_data=sum({scan.run_id: scan.pages_with_data for scan in scans}.values()),
        files=files,
        files_read=counted.get("files", 0),
        file_rows=counted.get("file_rows", 0),
        from_diffs=read.rows,
        branches_read=read.branches,
        branches_gone=read.gone,
        branches_appeared=read.appeared,
    )


class Diffs:
    """Rows of diffs on their way to the executors: few are held, more go to Parquet files.

    The underscore in the files' names hides them from Parquet readers, like a manifest.

    Args:
        store: Rooted at the namespace.
        folder: Folder of the files.
        schema: Columns of the rows.
        held: So many rows go to a file.
    """

    def __init__(
        self,
        store: ObjectStore,
        folder: str,
        schema: pa.Schema = schemas.STAGED_ADDRESSES,
        *,
        held: int | None = None,
    ) -> None:
        self._store, self._schema = store, schema
        self._most = SENT if held is None else held
        self._folder, self._unique = folder, uuid.uuid4().hex
        self.held: list[pa.RecordBatch] = []
        self._rows = 0
        self.parts: list[Part] = []

    def keep(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        self.held.append(batch)
        self._rows += batch.num_rows
        self.put_down(self._most)

    def put_down(self, most: int) -> None:
        """Write the rows that are held into a file, unless they are fewer than a number."""
        if self._rows < most:
            return
        key = self._folder + lakegc_keys.diffs(self._unique, len(self.parts))
        written = self._store.write_parquet(key, iter(self.held), self._schema)
        self.parts.append(Part(written.key, written.rows, written.size_bytes, written.sha256))
        self.held, self._rows = [], 0

    def close(self) -> None:
        """Remove the files."""
        keys = [part.key for part in self.parts]
        # House-keeping knows the name and removes what the store does not delete here. The rows are
        # already read.
        with suppress(LakegcError):
            for begin in range(0, len(keys), self._store.delete_batch_size):
                self._store.delete(keys[begin : begin + self._store.delete_batch_size])


def _read(store: ObjectStore, task: _Task, figures: Counter[str]) -> Iterator[pa.RecordBatch]:
    with counting(figures, store.requests):
        for source in task:
            if isinstance(source, pa.RecordBatch):
                batches = iter((source,))
            elif isinstance(source, Part):
                batches = read_part(store, schemas.STAGED_ADDRESSES, source)
            else:
                batches = _counted(read_uncommitted(store, source), figures)
            for batch in batches:
                hashes = alive_hashes(batch.column("address"))
                yield pa.record_batch(
                    [*batch.columns, hashes], schema=schemas.UNCOMMITTED_ADDRESSES
                )


def _counted(batches: Iterator[pa.RecordBatch], figures: Counter[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        figures["file_rows"] += batch.num_rows
        yield batch
    figures["files"] += 1


def _measure(batch: pa.RecordBatch) -> Mapping[str, int]:
    return {
        "staged": batch.num_rows,
        "staged_in_data": pc.sum(pc.starts_with(batch.column("address"), "data/")).as_py() or 0,
    }
