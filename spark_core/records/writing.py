"""Write the rows of a table as Parquet parts; `storing` puts the manifest that names them."""

from __future__ import annotations

import base64
import io
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

import pyarrow as pa

from spark_core import lakegc_keys
from spark_core.errors import LakegcError
from spark_core.records.figures import Figures
from spark_core.records.manifest import Manifest, Part
from spark_core.records.tables import TableSpec
from spark_core.spark.session import Spark
from spark_core.spark.tasks import attempt
from spark_core.storage import ObjectStore, parquet

# A part is read into memory whole, to compare its hash before its rows are used.
MAX_PART_ROWS = 1_000_000

# Bytes of a file that lies in the manifest of the table around its own.
HELD_BYTES = 2**17

Task = TypeVar("Task")
Measure = Callable[[pa.RecordBatch], Mapping[str, int]]

PART = re.compile(rf"{lakegc_keys.PART}|{lakegc_keys.INDEXED}")

# Value of `Draft.replaces`: whatever is stored already may be replaced.
ANYTHING = "anything"


@dataclass(frozen=True)
class StreamedRows:
    """Rows that tasks read from a source, and write to the table as they come.

    Attributes:
        spark: The session.
        tasks: One picklable value per task, as for `run_tasks`.
        read: Yields the rows of one task, and counts its work into the task's figures. Runs on an
            executor.
        rows: How many rows there are in all, for `run_tasks`.
    """

    spark: Spark
    tasks: Sequence[Any]
    read: Callable[[Any, Counter[str]], Iterator[pa.RecordBatch]]
    rows: int


@dataclass(frozen=True)
class Written:
    """Rows that lie in the table's folder already, as parts of the given attempt.

    Attributes:
        attempt: Unique id of the materialization, part of every name.
        receipts: What tasks wrote.
        beside: Files written beside the table, only for later steps of lakegc.
        is_all: Whether `receipts` and `beside` have every file that was written of the attempt.
    """

    attempt: str
    receipts: Sequence[Receipt]
    beside: Sequence[Receipt] = ()
    is_all: bool = False


@dataclass(frozen=True)
class Draft:
    """A table that is decided but not yet stored.

    Attributes:
        spec: Which table.
        content: A source that tasks read, rows that are already written, or a small table in
            memory.
        reading_began: Before the first source was read.
        parents: Manifests it was made from.
        figures: Makes the table's figures, once the content is stored, from what `measure` counted
            and from the figures of all tasks.
        measure: Counts per batch that are summed up while the table is written.
        replaces: sha256 of the manifest that it replaces, None for none. A table that somebody else
            has stored meanwhile stands.
        is_enclosed: Whether its manifest will lie in that of the table around it, not by itself.
        encloses: Manifests of tables that were made on the way, and are enclosed.
        close: Called at the end, whether the table could be stored or not. It deletes files that
            only the content was read from.
    """

    spec: TableSpec
    content: pa.Table | StreamedRows | Written
    reading_began: datetime
    parents: Sequence[Manifest]
    figures: Callable[[Mapping[str, Any], Counter[str]], Figures] = lambda _, __: Figures()
    measure: Measure | None = None
    replaces: str | None = ANYTHING
    is_enclosed: bool = False
    encloses: Sequence[Manifest] = ()
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Receipt:
    """What one task wrote.

    Attributes:
        parts: The files.
        measured: What `Target.measure` counted in them.
        figures: What reading the rows counted.
        by_driver: Whether the driver wrote them, so that no interrupted try left other files.
    """

    parts: tuple[Part, ...]
    measured: Mapping[str, int]
    figures: Mapping[str, int] = field(default_factory=dict)
    by_driver: bool = True


@dataclass(frozen=True)
class Target:
    """Where and how an executor writes the parts of one attempt.

    Attributes:
        store: Rooted at the namespace.
        folder: Folder of the parts, ending in a slash.
        attempt: Unique id, part of every name.
        schema: Columns.
        measure: Counts per batch that are summed up.
        name: Name of the files: `part`, or a name with an underscore first for files beside the
            table.
        holds: A file that the driver writes, and that is no larger than this, is not stored: its
            bytes lie in its `Part`, so in the manifest that names it.
    """

    store: ObjectStore
    folder: str
    attempt: str
    schema: pa.Schema
    measure: Measure | None = None
    name: str = "part"
    holds: int = 0


def summed(receipts: Sequence[Receipt]) -> tuple[Counter[str], Counter[str]]:
    """Add up the measures of receipts, and their figures."""
    measured, figures = Counter[str](), Counter[str]()
    for receipt in receipts:
        measured.update(receipt.measured)
        figures.update(receipt.figures)
    return measured, figures


def parts_of(receipts: Sequence[Receipt]) -> tuple[Part, ...]:
    """Return the files of all tasks, by name."""
    return tuple(
        sorted((part for receipt in receipts for part in receipt.parts), key=lambda part: part.key)
    )


def write_parts(target: Target, number: int, batches: Iterator[pa.RecordBatch]) -> Receipt:
    """Write the rows of a task as parts of at most `MAX_PART_ROWS`; runs on an executor."""
    measured: Counter[str] = Counter()
    parts: list[Part] = []
    pending: pa.RecordBatch | None = None
    # A cluster may run a task again while the first try, cut off from the driver, still writes. So
    # no two tries write to the same name.
    unique = f"{target.attempt}-{uuid.uuid4().hex[:8]}"

    def rows_of_one_part() -> Iterator[pa.RecordBatch]:
        nonlocal pending
        rows = 0
        while pending is not None and (rows == 0 or rows + pending.num_rows <= MAX_PART_ROWS):
            batch, rows = pending, rows + pending.num_rows
            pending = next(filled, None)
            if target.measure is not None:
                measured.update(target.measure(batch))
            yield batch

    # A null that the schema forbids raises.
    filled = (
        batch.select(target.schema.names).cast(target.schema) for batch in batches if batch.num_rows
    )
    by_driver = attempt() is None
    pending = next(filled, None)
    while pending is not None:
        key = target.folder + lakegc_keys.part(target.name, number, len(parts), unique)
        parts.append(_write_part(target, key, rows_of_one_part(), holds=by_driver))
    return Receipt(tuple(parts), measured, by_driver=by_driver)


def _write_part(
    target: Target, key: str, batches: Iterator[pa.RecordBatch], *, holds: bool
) -> Part:
    """Write one file, or hold its bytes if it is small and may be held."""
    if not holds or not target.holds:
        written = target.store.write_parquet(key, batches, target.schema)
        return Part(written.key, written.rows, written.size_bytes, written.sha256)
    sink = io.BytesIO()
    rows, size_bytes, sha256, _ = parquet.write(sink, batches, target.schema)
    data = sink.getvalue()
    if size_bytes > target.holds:
        target.store.put(key, data)
        target.store.small_files.keep(key, data)
        return Part(key, rows, size_bytes, sha256)
    return Part(key, rows, size_bytes, sha256, base64.b64encode(data).decode())


def write_read(
    target: Target,
    read: Callable[[Task, Counter[str]], Iterator[pa.RecordBatch]],
    number: int,
    task: Task,
) -> Receipt:
    """Write the rows that a task reads; runs on an executor."""
    figures = Counter[str]()
    written = write_parts(target, number, read(task, figures))
    return replace(written, figures=dict(figures))


def new_attempt() -> str:
    """Return a new id of a materialization; the name of each of its files contains it."""
    return uuid.uuid4().hex


def removed_on_failure(target: Target, write: Callable[[], Task]) -> Task:
    """Call a function that writes parts; if it fails, delete the parts it has written."""
    try:
        return write()
    except BaseException:
        with suppress(LakegcError):
            remove_attempt(target.store, target.folder, target.attempt)
        raise


def remove_attempt(store: ObjectStore, where: str, attempt: str) -> None:
    """Delete the files that tasks wrote of an attempt that failed as a whole."""
    remove(store, [key for key in parts_in(store, where) if attempt in key])


def remove(store: ObjectStore, keys: Sequence[str]) -> None:
    """Delete files, in as many requests as it takes."""
    for begin in range(0, len(keys), store.delete_batch_size):
        store.delete(keys[begin : begin + store.delete_batch_size])


def parts_in(store: ObjectStore, where: str) -> set[str]:
    """List the parts in a folder, whoever wrote them."""
    found = (key for batch in store.list(where) for key in batch.column("key").to_pylist())
    return {key for key in found if PART.fullmatch(key.removeprefix(where))}
