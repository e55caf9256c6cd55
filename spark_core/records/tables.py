"""The stored tables of a run: where they lie, their Parquet parts, and the manifests that chain them in order."""

from __future__ import annotations

import hashlib
import io
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from spark_core import layout, schemas
from spark_core.errors import (
    OF_A_RUN,
    ChainError,
    ClosedPartitionError,
    CorruptTableError,
    LakegcError,
    NotFoundError,
    ObjectExistsError,
    VerdictError,
)
from spark_core.model import RunKey
from spark_core.records.sealed import seal, unseal
from spark_core.schemas import spark_type
from spark_core.spark import tasks
from spark_core.spark.tasks import frame_of, read_partitions, run_over, run_tasks
from spark_core.storage import ObjectStore

MANIFEST_FORMAT = 2
# Read as well: every format of a release (see `sealed`). 2: 0.1.0; 1 was never released.
MANIFEST_FORMATS = (2,)

# A part is read into memory whole, to compare its hash before any row is believed.
MAX_PART_ROWS = 1_000_000

# A table that is not larger than both is read by the driver: starting tasks would take longer than reading it. Constants,
# so what comes to the driver does not grow with the number of objects; a larger table is read by executors alone.
DRIVER_ROWS = 10_000
DRIVER_BYTES = 2**22
# Rows of such a table that are worth a task of their own.
_ROWS_OF_A_TASK = 1_000
# Rows of small parts of a larger one that one task reads, one part after the other.
_ROWS_READ_TOGETHER = 100_000

Task = TypeVar("Task")
Measure = Callable[[pa.RecordBatch], Mapping[str, int]]

_PART = re.compile(layout.PART)

# Of a draft: whatever is stored already may be replaced.
ANYTHING = "anything"


@dataclass(frozen=True)
class TableSpec:
    """What a table is called, where it lies and which tables it is made from.

    Attributes:
        name: Name of the asset.
        folder: Folder under `layout.ROOT`.
        schema: Columns.
        parents: Tables whose manifests it names.
    """

    name: str
    folder: str
    schema: pa.Schema
    parents: tuple[str, ...]


NAMESPACE_SLICES = TableSpec("namespace_slices", layout.SLICES, schemas.NAMESPACE_SLICES, ())
UNCOMMITTED_ADDRESSES = TableSpec(
    "uncommitted_addresses", layout.UNCOMMITTED, schemas.UNCOMMITTED_ADDRESSES, ("namespace_slices",)
)
RETAINED_COMMITS = TableSpec("retained_commits", layout.COMMITS, schemas.RETAINED_COMMITS, ("uncommitted_addresses",))
COMMITTED_ADDRESSES = TableSpec(
    "committed_addresses", layout.COMMITTED, schemas.COMMITTED_ADDRESSES, ("retained_commits",)
)
EXPIRED_ADDRESSES = TableSpec(
    "expired_addresses",
    layout.ADDRESSES,
    schemas.EXPIRED_ADDRESSES,
    ("namespace_slices", "uncommitted_addresses", "retained_commits", "committed_addresses"),
)
DELETION_REPORT = TableSpec("deletion_report", layout.REPORTS, schemas.DELETION_REPORT, ("expired_addresses",))
# Made for the report of a run that verifies a mark of lakeFS's own job; decides nothing.
REFERENCE_ADDRESSES = TableSpec(
    "reference_addresses",
    layout.REFERENCE,
    schemas.REFERENCE_ADDRESSES,
    (*EXPIRED_ADDRESSES.parents, "expired_addresses"),
)
# Made beside the expired addresses where any is missing; names them all, and decides nothing.
MISSING_ADDRESSES = TableSpec("missing_addresses", layout.MISSING, schemas.MISSING_ADDRESSES, EXPIRED_ADDRESSES.parents)

MARK_TABLES = (NAMESPACE_SLICES, UNCOMMITTED_ADDRESSES, RETAINED_COMMITS, COMMITTED_ADDRESSES, EXPIRED_ADDRESSES)
ALL_TABLES = (*MARK_TABLES, DELETION_REPORT)
BY_NAME = {spec.name: spec for spec in ALL_TABLES}

# Tables that a run has only where there is something to say in them.
_BESIDE = (REFERENCE_ADDRESSES, MISSING_ADDRESSES)

# Tables about a mark rather than of it: its verdict does not close them.
_AFTER_THE_VERDICT = (DELETION_REPORT, REFERENCE_ADDRESSES)


@dataclass(frozen=True)
class Part:
    """One Parquet file of a table.

    Attributes:
        key: Key in the store.
        rows: Rows in it.
        size_bytes: Its size.
        sha256: Hex digest of its bytes.
    """

    key: str
    rows: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a stored table consists of and how it came to be.

    Attributes:
        table: Name of the table.
        repository: Repository id.
        instance: Which instance of that repository (name, creation date, namespace).
        run: Run key.
        attempt: Unique id of the materialization.
        reading_began: Before the first byte of its sources was read.
        reading_ended: After the last byte was written.
        parents: Table name -> sha256 of the manifest it was made from.
        parts: Its files.
        facts: Figures and answers recorded while it was made; JSON values only.
        beside: Files beside the table, which only later steps of lakegc read.
    """

    table: str
    repository: str
    instance: str
    run: str
    attempt: str
    reading_began: datetime
    reading_ended: datetime
    parents: Mapping[str, str]
    parts: tuple[Part, ...]
    facts: Mapping[str, Any]
    beside: tuple[Part, ...] = ()

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def size_bytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.size_bytes for part in self.parts)

    @property
    def sha256(self) -> str:
        """Hex digest of the manifest as stored; children name their parents by it."""
        return hashlib.sha256(self.to_json()).hexdigest()

    def to_json(self) -> bytes:
        """Write the manifest, with the digest of itself; equal manifests give equal bytes.

        Later tables are made, and checks passed, by its figures: one in which a digit is damaged must not be believed until
        a verdict binds it.
        """
        document = {
            "format": MANIFEST_FORMAT,
            "table": self.table,
            "repository": self.repository,
            "instance": self.instance,
            "run": self.run,
            "attempt": self.attempt,
            "reading_began": self.reading_began.isoformat(),
            "reading_ended": self.reading_ended.isoformat(),
            "parents": dict(self.parents),
            "parts": [vars(part) for part in self.parts],
            "facts": dict(self.facts),
            **({"beside": [vars(part) for part in self.beside]} if self.beside else {}),
        }
        # Once there and back, so that the digest is of what a reader finds.
        return seal(json.loads(json.dumps(document)))

    @classmethod
    def from_json(cls, data: bytes, *, name: str) -> Manifest:
        """Read a manifest back.

        Args:
            data: The bytes as stored.
            name: Key, for the message.

        Raises:
            CorruptTableError: If it is not a manifest of this format, byte for byte as it was written.
        """
        try:
            document = unseal(data, name=name, formats=MANIFEST_FORMATS)
        except VerdictError as other:
            raise CorruptTableError(
                name,
                None,
                f"a manifest of another format, wanted {MANIFEST_FORMAT}; use the lakegc that wrote it",
                OF_A_RUN,
            ) from other
        try:
            return cls(
                table=document["table"],
                repository=document["repository"],
                instance=document["instance"],
                run=document["run"],
                attempt=document["attempt"],
                reading_began=datetime.fromisoformat(document["reading_began"]),
                reading_ended=datetime.fromisoformat(document["reading_ended"]),
                parents=document["parents"],
                parts=tuple(Part(**part) for part in document["parts"]),
                facts=document["facts"],
                beside=tuple(Part(**part) for part in document.get("beside", ())),
            )
        except (ValueError, KeyError, TypeError) as problem:
            raise CorruptTableError(
                name, None, f"not a manifest of a lakegc table ({problem!r})", OF_A_RUN
            ) from problem


@dataclass(frozen=True)
class Source:
    """Rows that tasks read from somewhere, and write to the table as they come.

    Attributes:
        spark: The session.
        tasks: One picklable value per task, as for `run_tasks`.
        read: Yields the rows of one task, and counts into its figures what it did for them. Runs on an executor.
        is_small: As for `run_tasks`.
    """

    spark: Callable[[], SparkSession]
    tasks: Sequence[Any]
    read: Callable[[Any, Counter[str]], Iterator[pa.RecordBatch]]
    is_small: bool = False


@dataclass(frozen=True)
class Written:
    """Rows that lie in the table's folder already, as parts of the given attempt.

    Attributes:
        attempt: Unique id of the materialization, part of every name.
        receipts: What was written.
        beside: What was written beside the table, for later steps of lakegc alone.
    """

    attempt: str
    receipts: Sequence[Receipt]
    beside: Sequence[Receipt] = ()


@dataclass(frozen=True)
class Draft:
    """A table that is decided but not yet stored.

    Attributes:
        spec: Which table.
        content: A lazy frame, what tasks read, what is written already, or a small table in memory.
        reading_began: Before the first source was read.
        parents: Manifests it was made from.
        facts: Gets the figures of all tasks, once the content is stored.
        measure: Counts per batch that are summed up into the facts while the table is written.
        replaces: sha256 of the manifest that it replaces, None for none; what somebody else has stored meanwhile stands.
        close: Called at the end, whether the table could be stored or not: takes away what only the content was read from.
    """

    spec: TableSpec
    content: DataFrame | pa.Table | Source | Written
    reading_began: datetime
    parents: Sequence[Manifest]
    facts: Callable[[Counter[str]], Mapping[str, Any]] = lambda _: {}
    measure: Measure | None = None
    replaces: str | None = ANYTHING
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class StoredTable:
    """A table read back: its manifest, and its rows on demand."""

    manifest: Manifest
    store: ObjectStore

    @property
    def is_small(self) -> bool:
        """Whether the driver reads it by itself, and may hold it."""
        return are_small(self.manifest.parts)

    def frame(self, spark: SparkSession, columns: Sequence[str] | None = None) -> DataFrame:
        """Read the table as a frame; a small one is read here and now, a larger one by whoever runs the frame.

        Args:
            spark: The session.
            columns: Columns to read; all by default.

        Returns:
            The columns asked for, in the schema's order.

        Raises:
            CorruptTableError: If the bytes of a part are not those of the manifest: from here for a small table, when
                the frame is run for a larger one.
        """
        return frame_of_parts(spark, self.store, self._schema(columns), self.manifest.parts)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the table here, without Spark; for tables that do not grow with the number of objects."""
        for part in self.manifest.parts:
            yield from read_part(self.store, self._schema(columns), part)

    def _schema(self, columns: Sequence[str] | None) -> pa.Schema:
        schema = {**BY_NAME, **{spec.name: spec for spec in _BESIDE}}[self.manifest.table].schema
        return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def frame_of_parts(spark: SparkSession, store: ObjectStore, schema: pa.Schema, parts: Sequence[Part]) -> DataFrame:
    """Make a frame of Parquet parts, each compared with its hash before a row of it is believed.

    Args:
        spark: The session.
        store: Where they lie.
        schema: Columns to read.
        parts: What was written.

    Returns:
        The columns of `schema`: a partition per part, or several small ones, read by executors when the frame is run; or,
        when all parts together are within `DRIVER_ROWS` and `DRIVER_BYTES`, their rows in no more partitions than are worth a task.

    Raises:
        CorruptTableError: If a part that is read here is not what was written.
    """
    if not are_small(parts):
        return read_partitions(spark, schema, together(parts), partial(_read_parts, store, schema))
    batches = [batch for part in parts for batch in read_part(store, schema, part)]
    content = frame_of(spark, pa.Table.from_batches(batches, schema), spark_type(schema))
    rows = sum(part.rows for part in parts)
    return content.coalesce(max(1, -(-rows // _ROWS_OF_A_TASK)))


def together(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Put parts together that are too small for a task of their own."""
    return tasks.together(parts, lambda part: part.rows, _ROWS_READ_TOGETHER)


def _read_parts(store: ObjectStore, schema: pa.Schema, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from read_part(store, schema, part)


def are_small(parts: Sequence[Part]) -> bool:
    """Tell whether parts are within `DRIVER_ROWS` and `DRIVER_BYTES` together."""
    return sum(part.rows for part in parts) <= DRIVER_ROWS and sum(part.size_bytes for part in parts) <= DRIVER_BYTES


def read_part(store: ObjectStore, schema: pa.Schema, part: Part) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one part after its bytes were compared with the manifest.

    Raises:
        CorruptTableError: If the bytes, the rows or the columns are not those that were written.
    """
    data = store.read(part.key)
    digest = hashlib.sha256(data).hexdigest()
    if digest != part.sha256:
        raise CorruptTableError(part.key, None, f"sha256 is {digest}, the manifest says {part.sha256}", OF_A_RUN)
    parquet = pq.ParquetFile(io.BytesIO(data))
    if parquet.metadata.num_rows != part.rows:
        raise CorruptTableError(
            part.key, None, f"{parquet.metadata.num_rows} rows, the manifest says {part.rows}", OF_A_RUN
        )
    missing = [name for name in schema.names if name not in parquet.schema_arrow.names]
    if missing:
        raise CorruptTableError(
            part.key, None, f"lacks the columns {missing}: it was written by an earlier lakegc", OF_A_RUN
        )
    for batch in parquet.iter_batches(batch_size=20_000, columns=schema.names):
        yield batch.select(schema.names).cast(schema)


def folder(spec: TableSpec, run: RunKey) -> str:
    """Return the folder of a table of a run, ending in a slash."""
    return layout.of_run(spec.folder, run)


def manifest_key(spec: TableSpec, run: RunKey) -> str:
    """Return the key of a table's manifest."""
    return layout.manifest_key(spec.folder, run)


def runs(store: ObjectStore, where: str = layout.ADDRESSES) -> list[RunKey]:
    """Return the runs that have a folder of a kind, newest first: everybody learns from here which runs there are.

    One request for each thousand of them. A folder is no proof that what belongs in it was written to its end.

    Args:
        store: Rooted at the namespace.
        where: Kind of folder under `_lakefs/retention/gc/`; that of the expired addresses when left out.
    """
    found = (layout.run_of(prefix) for prefix in store.children(f"{layout.ROOT}{where}/")[0])
    return sorted((key for key in found if key is not None), reverse=True)


def require_open(store: ObjectStore, spec: TableSpec, run: RunKey) -> None:
    """Refuse to make a table of a mark again once the run has a verdict.

    Raises:
        ClosedPartitionError: If the verdict exists.
    """
    if spec not in _AFTER_THE_VERDICT and store.exists(layout.verdict_key(run)):
        raise ClosedPartitionError(
            f"run {run} of {store.root} is already marked: it has a verdict, and {spec.name} is one of the tables that "
            "the verdict speaks of",
            "Use a new run key to mark again.",
        )


def lying(store: ObjectStore, spec: TableSpec, run: RunKey) -> set[str]:
    """List everything in the folder of a table of a run."""
    return {key for batch in store.list(folder(spec, run)) for key in batch.column("key").to_pylist()}


def store_table(
    store: ObjectStore,
    draft: Draft,
    *,
    repository: str,
    instance: str,
    run: RunKey,
    now: Callable[[], datetime],
    before: AbstractSet[str],
) -> Manifest:
    """Write a draft as Parquet parts and its manifest, and take the parts of an earlier attempt away.

    The manifest is put after the last part, so a table whose writing broke off
    does not exist. That goes for the deletion report, too: what is gone stands in
    the journal of its sweep, from which the report can be made again.

    Args:
        store: Rooted at the namespace.
        draft: What to store; a frame is run by this.
        repository: Repository id.
        instance: Which instance of it.
        run: Run key.
        now: Tells the time, to note when the reading ended.
        before: What `lying` told: parts that somebody else writes meanwhile are theirs.

    Returns:
        The manifest as stored.

    Raises:
        ClosedPartitionError: If the run has a verdict.
        ChainError: If somebody else has stored the table, and the draft does not replace that one.
        LakegcError: What reading the sources raised.
    """
    _require_replaceable(store, draft, run)
    where = folder(draft.spec, run)
    attempt = draft.content.attempt if isinstance(draft.content, Written) else new_attempt()
    target = Target(store, where, attempt, draft.spec.schema, draft.measure)
    receipts = removed_on_failure(target, lambda: _write(draft, target))
    measured, figures = summed(receipts)
    facts = {**measured, **draft.facts(figures)}
    manifest = Manifest(
        table=draft.spec.name,
        repository=repository,
        instance=instance,
        run=str(run),
        attempt=attempt,
        reading_began=draft.reading_began,
        reading_ended=now(),
        parents={parent.table: parent.sha256 for parent in draft.parents},
        parts=parts_of(receipts),
        facts=facts,
        beside=parts_of(draft.content.beside) if isinstance(draft.content, Written) else (),
    )
    try:
        require_open(store, draft.spec, run)
        _require_replaceable(store, draft, run)
        _put_manifest(store, draft, run, manifest)
    except (ChainError, ClosedPartitionError):
        remove_attempt(store, where, attempt)
        raise
    own = {part.key for part in parts_of(receipts)} if _is_by_driver(draft) else _parts_in(store, where)
    _remove_unnamed(store, {key for key in before if _PART.fullmatch(key.removeprefix(where))}, own, manifest)
    return manifest


def _is_by_driver(draft: Draft) -> bool:
    """Say whether no task wrote, of which a try that was cut off may have left parts behind."""
    content = draft.content
    return isinstance(content, pa.Table) or (isinstance(content, Source) and content.is_small)


def _write(draft: Draft, target: Target) -> Sequence[Receipt]:
    content = draft.content
    match content:
        case Written():
            return content.receipts
        case Source():
            work = partial(write_read, target, content.read)
            return run_tasks(content.spark, content.tasks, work, is_small=content.is_small)
        case pa.Table():
            return [write_parts(target, 0, iter(content.cast(target.schema).to_batches()))]
        case _:
            return run_over(content, partial(write_parts, target))


def _require_replaceable(store: ObjectStore, draft: Draft, run: RunKey) -> None:
    if draft.replaces == ANYTHING:
        return
    try:
        there = hashlib.sha256(store.read(manifest_key(draft.spec, run))).hexdigest()
    except NotFoundError:
        there = None
    if there != draft.replaces:
        raise _stored_by_another(store, draft, run)


def _put_manifest(store: ObjectStore, draft: Draft, run: RunKey, manifest: Manifest) -> None:
    key, content = manifest_key(draft.spec, run), manifest.to_json()
    if draft.replaces is not None:
        store.put(key, content)
        return
    try:
        store.put_if_absent(key, content)
    except ObjectExistsError as stands:
        # Ours, where the first answer was lost and the client asked again.
        if store.read(key) != content:
            raise _stored_by_another(store, draft, run) from stands


def _stored_by_another(store: ObjectStore, draft: Draft, run: RunKey) -> ChainError:
    return ChainError(
        f"{draft.spec.name} of run {run} of {store.root} was stored by another process while this one worked; that one "
        "stands, and this one stores none. Look at it with `lakegc report`; where it names what was not deleted, run the same "
        "command again."
    )


def load_table(store: ObjectStore, spec: TableSpec, run: RunKey) -> StoredTable:
    """Read a table's manifest.

    Raises:
        ChainError: If the table was not made in this run, or its manifest is another table's.
        CorruptTableError: If the manifest cannot be read.
    """
    key = manifest_key(spec, run)
    try:
        data = store.read(key)
    except NotFoundError as missing:
        raise ChainError(
            f"run {run} of {store.root} has no {spec.name} ({key} does not exist)",
            "Materialize the run from its beginning (`lakegc mark`).",
        ) from missing
    manifest = Manifest.from_json(data, name=key)
    if manifest.table != spec.name or manifest.run != str(run):
        raise ChainError(
            f"{key} is the manifest of {manifest.table} of run {manifest.run}, wanted {spec.name} of run {run}",
            "Files of a run must not be moved; mark again under a new run key.",
        )
    return StoredTable(manifest, store)


@dataclass(frozen=True)
class Receipt:
    """What one task wrote.

    Attributes:
        parts: The files.
        measured: What `Target.measure` counted in them.
        figures: What reading the rows counted.
    """

    parts: tuple[Part, ...]
    measured: Mapping[str, int]
    figures: Mapping[str, int] = field(default_factory=dict)


def summed(receipts: Sequence[Receipt]) -> tuple[Counter[str], Counter[str]]:
    """Add up what receipts measured, and their figures."""
    measured, figures = Counter[str](), Counter[str]()
    for receipt in receipts:
        measured.update(receipt.measured)
        figures.update(receipt.figures)
    return measured, figures


def parts_of(receipts: Sequence[Receipt]) -> tuple[Part, ...]:
    """Return the files of all tasks, by name."""
    return tuple(sorted((part for receipt in receipts for part in receipt.parts), key=lambda part: part.key))


@dataclass(frozen=True)
class Target:
    """Where and how an executor writes the parts of one attempt.

    Attributes:
        store: Rooted at the namespace.
        folder: Where, ending in a slash.
        attempt: Unique id, part of every name.
        schema: Columns.
        measure: Counts per batch that are summed up.
        name: How the files are called: `part`, or what begins with an underscore for files that are none of the table's.
    """

    store: ObjectStore
    folder: str
    attempt: str
    schema: pa.Schema
    measure: Measure | None = None
    name: str = "part"


def write_parts(target: Target, number: int, batches: Iterator[pa.RecordBatch]) -> Receipt:
    """Write the rows of one task as parts of at most `MAX_PART_ROWS` rows; runs on an executor."""
    measured: Counter[str] = Counter()
    parts: list[Part] = []
    pending: pa.RecordBatch | None = None
    # A cluster may run a task again while the first try, cut off from the driver, still writes: never to the same name.
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

    # `select` and `cast` make Spark's order and nullability those of the schema; a null where none may be raises.
    filled = (batch.select(target.schema.names).cast(target.schema) for batch in batches if batch.num_rows)
    pending = next(filled, None)
    while pending is not None:
        key = target.folder + layout.part(target.name, number, len(parts), unique)
        written = target.store.write_parquet(key, rows_of_one_part(), target.schema)
        parts.append(Part(written.key, written.rows, written.size_bytes, written.sha256))
    return Receipt(tuple(parts), measured)


def write_read(
    target: Target, read: Callable[[Task, Counter[str]], Iterator[pa.RecordBatch]], number: int, task: Task
) -> Receipt:
    """Write what a task reads; runs on an executor."""
    figures = Counter[str]()
    written = write_parts(target, number, read(task, figures))
    return replace(written, figures=dict(figures))


def new_attempt() -> str:
    """Return the id of a materialization; it is part of the name of every file that is written for it."""
    return uuid.uuid4().hex


def removed_on_failure(target: Target, write: Callable[[], Task]) -> Task:
    """Do what writes parts; where it fails, take away what is written."""
    try:
        return write()
    except BaseException:
        with suppress(LakegcError):
            remove_attempt(target.store, target.folder, target.attempt)
        raise


def remove_attempt(store: ObjectStore, where: str, attempt: str) -> None:
    """Take away what tasks wrote of an attempt that failed as a whole."""
    _remove(store, [key for key in _parts_in(store, where) if attempt in key])


def _remove(store: ObjectStore, keys: Sequence[str]) -> None:
    for begin in range(0, len(keys), store.delete_batch_size):
        store.delete(keys[begin : begin + store.delete_batch_size])


def _parts_in(store: ObjectStore, where: str) -> set[str]:
    found = (key for batch in store.list(where) for key in batch.column("key").to_pylist())
    return {key for key in found if _PART.fullmatch(key.removeprefix(where))}


def _remove_unnamed(store: ObjectStore, earlier: AbstractSet[str], found: AbstractSet[str], manifest: Manifest) -> None:
    """Delete the parts of earlier attempts, and those of this one that a task which was run again left behind."""
    own = {key for key in found if manifest.attempt in key}
    _remove(store, sorted((earlier | own) - {part.key for part in (*manifest.parts, *manifest.beside)}))
