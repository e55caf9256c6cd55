"""The journal of a sweep: which objects each lot is about to delete, and what became of them.

The first is written before the lot is sent, the second after.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from spark_core import lakegc_keys, schemas
from spark_core.errors import (
    ChainError,
    CorruptTableError,
    NotFoundError,
    ObjectExistsError,
    UnsafePlanError,
)
from spark_core.model import RunKey
from spark_core.records.documents import Count, Document, Flag, Instant, OfAMark
from spark_core.records.tables import DELETION_REPORT, manifest_key
from spark_core.spark.exchange import Source
from spark_core.spark.tasks import join_small
from spark_core.storage import ObjectStore

_WAY_ON = (
    "This is a file of lakegc's own, not of the server: the journal of a sweep. Bring it back as "
    "it was and run the same "
    "command again, or mark again under a new run key."
)

# A part holds a lot of ten to a thousand objects, so a Spark task reads several parts.
_ROWS_OF_A_TASK = 100_000

# intent-<sweep>.<round>.<task>.<attempt>.<number>-<rows>-<sha256>.parquet
_PART = re.compile(
    r"(?P<kind>intent|outcome)-(?P<sweep>[0-9a-f]+)(?P<batch>(?:\.\d+){4})"
    r"-(?P<rows>\d+)-(?P<sha256>[0-9a-f]{64})\.parquet"
)
_PLAN, _END = "_plan.json", "_ended.json"
# A file that a local store leaves if its process is killed while it writes; never a whole part.
_UNFINISHED = re.compile(r"\.lakegc-[0-9a-f]+\.part")

# What the parts say, with the hash of the address, and the process that wrote the row.
ROWS = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        *schemas.JOURNAL,
        pa.field("sweep", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class JournalPlan(OfAMark):
    """What ties a journal to what is swept.

    Attributes:
        run: Run key.
        instance: Which instance of the repository is swept.
        plan: sha256 of the manifest of the expired addresses.
        quarantine: Whether objects are moved aside instead of deleted.
    """

    CALLED: ClassVar[str] = "the plan of a journal"

    run: str
    instance: str
    plan: str
    quarantine: Flag


@dataclass(frozen=True)
class JournalEnd(Document):
    """Ends a journal whose sweep died: what it had moved to quarantine, and until when that stays.

    Nobody goes on with that sweep, and the days of each object are counted.

    Attributes:
        run: Run key of the sweep that died.
        ended_by: The run that ended its journal, under its own lease ...
        ended_at: ... and when.
        objects: Objects that lay in the run's quarantine then ...
        size_bytes: ... and their bytes.
        kept_seconds: How long each of them stays at least, from when it was moved.
        first_until: Until when the first of them stays; None if there are none.
        until: Until when the last of them does.
    """

    CALLED: ClassVar[str] = "the end of a journal"

    run: str
    ended_by: str
    ended_at: Instant
    objects: Count
    size_bytes: Count
    kept_seconds: Count
    first_until: Instant | None
    until: Instant | None

    @property
    def words(self) -> str:
        """What lay in quarantine then, and until when it stays at least."""
        if self.until is None:
            return "nothing of it lay in quarantine"
        until = f"{self.until:%Y-%m-%d %H:%M} UTC"
        return f"{self.objects:,} objects lay in quarantine, until {until} at least"


@dataclass(frozen=True)
class JournalPart:
    """One file of a journal, as its name describes it.

    Attributes:
        key: Key in the store.
        kind: `intent` or `outcome`.
        sweep: The process that wrote it.
        batch: The lot of that process.
        rows: Rows in it.
        sha256: Hex digest of its bytes.
    """

    key: str
    kind: str
    sweep: str
    batch: str
    rows: int
    sha256: str


@dataclass(frozen=True)
class Journal:
    """The journal of one run's sweeps; it travels to executors.

    It never adds to what is deleted: that is always the plan's objects, less those that the journal
    shows as done. So a lost part costs a question to the store, and a damaged part ends the sweep.

    Attributes:
        store: Rooted at the namespace.
        run: Run key.
        plan: sha256 of the manifest of the expired addresses that are swept; each part carries it.
    """

    store: ObjectStore
    run: str
    plan: str

    @property
    def folder(self) -> str:
        """Folder of the journal, ending in a slash."""
        return folder(self.run)

    def bind(self, instance: str, *, quarantine: bool = False) -> bool:
        """Tie the journal to its plan, once and for good, before the first lot.

        Args:
            instance: Which instance of the repository is swept.
            quarantine: Whether objects are moved aside instead of deleted.

        Returns:
            Whether an earlier sweep had begun it.

        Raises:
            ChainError: If it was begun for another plan.
            UnsafePlanError: If it was begun with quarantine and is to go on without, or the
                reverse.
            CorruptTableError: If the stored plan cannot be read.
        """
        key = _plan_key(self.run)
        begun = JournalPlan(self.run, instance, self.plan, quarantine)
        try:
            self.store.put_if_absent(key, begun.to_json())
        except ObjectExistsError:
            swept = JournalPlan.from_json(self.store.read(key), name=key)
            if swept == replace(begun, quarantine=not quarantine):
                raise UnsafePlanError(
                    f"run {self.run} of {self.store.root} was begun with quarantine = "
                    f"{_word(not quarantine)} and is to go "
                    f"on with quarantine = {_word(quarantine)}: its report could not say where "
                    "its objects are",
                    "A journal keeps the mode that it began with. "
                    f"With quarantine = {_word(quarantine)} begin a new run (`lakegc run`), which "
                    "takes what this one left; "
                    f"or set quarantine = {_word(not quarantine)} again and go on.",
                ) from None
            if swept != begun:
                raise ChainError(
                    f"run {self.run} of {self.store.root} was swept by another plan (its journal "
                    "is of manifest "
                    f"{swept.plan[:12]} of {swept.instance!r}, stored is {self.plan[:12]} of "
                    f"{instance!r}): what is "
                    "gone cannot be told from its journal",
                    "Mark again under a new run key.",
                ) from None
            return True
        return False

    def intend(self, batch: str, rows: pa.RecordBatch) -> None:
        """Write what a lot is about to delete.

        Args:
            batch: `<sweep>.<round>.<task>.<attempt>.<number>`, never given twice.
            rows: Columns of `schemas.JOURNAL`.
        """
        self._write("intent", batch, rows)

    def conclude(self, batch: str, rows: pa.RecordBatch) -> None:
        """Write what became of a lot; arguments as for `intend`."""
        self._write("outcome", batch, rows)

    def _write(self, kind: str, batch: str, rows: pa.RecordBatch) -> None:
        marks = {"lakegc.plan": self.plan, "lakegc.batch": f"{kind}-{batch}"}
        sink = io.BytesIO()
        table = pa.Table.from_batches([rows], schemas.JOURNAL).replace_schema_metadata(marks)
        alike = schemas.repeating(table.schema)
        pq.write_table(table, sink, compression="zstd", use_dictionary=alike)
        data = sink.getvalue()
        digest = hashlib.sha256(data).hexdigest()
        key = f"{self.folder}{kind}-{batch}-{rows.num_rows}-{digest}.parquet"
        try:
            self.store.put_if_absent(key, data)
        except ObjectExistsError:
            # The name contains the digest of the bytes: the client sent the request twice, for want
            # of the first answer.
            if self.store.read(key) != data:
                raise

    def parts(self) -> list[JournalPart]:
        """List the parts.

        Raises:
            CorruptTableError: If something else lies there.
        """
        found = []
        for batch in self.store.list(self.folder):
            for key in batch.column("key").to_pylist():
                name = key.removeprefix(self.folder)
                if name in (_PLAN, _END) or _UNFINISHED.fullmatch(name):
                    continue
                match = _PART.fullmatch(name)
                if match is None:
                    raise CorruptTableError(key, None, "no part of a journal by its name", _WAY_ON)
                found.append(
                    JournalPart(
                        key,
                        match["kind"],
                        match["sweep"],
                        match["batch"],
                        int(match["rows"]),
                        match["sha256"],
                    )
                )
        return sorted(found, key=lambda part: part.key)

    def source(self, parts: Sequence[JournalPart]) -> Source[Any]:
        """Return the rows of parts, to be read where they are wanted: columns of `ROWS`.

        A part whose bytes are not those that were written raises CorruptTableError when it is read.
        """
        tasks = join_small(parts, lambda part: part.rows, _ROWS_OF_A_TASK)
        return Source(ROWS, tasks, sum(part.rows for part in parts), partial(_read_all, self))

    def read(self, part: JournalPart) -> pa.RecordBatch:
        """Read one part after comparing its bytes with its name.

        Returns:
            Columns of `schemas.JOURNAL`.

        Raises:
            CorruptTableError: If it is damaged, under another part's name, or of another plan.
        """
        data = self.store.read(part.key)
        digest = hashlib.sha256(data).hexdigest()
        if digest != part.sha256:
            raise CorruptTableError(
                part.key, None, f"sha256 is {digest}, its name says {part.sha256}", _WAY_ON
            )
        table = pq.read_table(io.BytesIO(data))
        marks = table.schema.metadata or {}
        wanted = {
            b"lakegc.plan": self.plan,
            b"lakegc.batch": f"{part.kind}-{part.sweep}{part.batch}",
        }
        for name, value in wanted.items():
            if marks.get(name) != value.encode():
                raise CorruptTableError(
                    part.key,
                    None,
                    f"its {name.decode()} is {marks.get(name)!r}, wanted {value}",
                    _WAY_ON,
                )
        if table.num_rows != part.rows:
            raise CorruptTableError(
                part.key, None, f"{table.num_rows} rows, its name says {part.rows}", _WAY_ON
            )
        return (
            table.select(schemas.JOURNAL.names)
            .cast(schemas.JOURNAL)
            .combine_chunks()
            .to_batches()[0]
        )


def _word(is_so: bool) -> str:  # noqa: FBT001 - the word of this value
    return "true" if is_so else "false"


def folder(run: RunKey | str) -> str:
    """Return the folder of a run's journal, ending in a slash."""
    return lakegc_keys.of_run(lakegc_keys.JOURNAL, run)


def is_begun(store: ObjectStore, run: RunKey) -> bool:
    """Say whether a sweep was begun under a run key; one request."""
    return store.exists(_plan_key(run))


def begun(store: ObjectStore, run: RunKey) -> Journal:
    """Return the journal of a run's sweeps, bound to the plan that they began with.

    Raises:
        NotFoundError: If no sweep was begun.
        LakegcError: If its plan cannot be read.
    """
    key = _plan_key(run)
    return Journal(store, str(run), JournalPlan.from_json(store.read(key), name=key).plan)


def ended(store: ObjectStore, run: RunKey) -> JournalEnd | None:
    """Return the end of a journal whose sweep died; None if nobody has ended it; one request.

    Raises:
        CorruptTableError: If it is damaged.
    """
    key = end_key(run)
    try:
        return JournalEnd.from_json(store.read(key), name=key)
    except NotFoundError:
        return None


def is_open(run: RunKey, modified: Mapping[str, datetime]) -> bool:
    """Say whether something was journaled that no report tells, and nobody has ended the journal.

    Args:
        run: The run.
        modified: When its files were written, by key: those of its journal and of its report.
    """
    where, report = folder(run), modified.get(manifest_key(DELETION_REPORT, run))
    lots = [at for key, at in modified.items() if _PART.fullmatch(key.removeprefix(where))]
    is_told = report is not None and max(lots, default=report) <= report
    return bool(lots) and not is_told and end_key(run) not in modified


def end_key(run: RunKey) -> str:
    """Return the key of the end of a journal."""
    return folder(run) + _END


def _plan_key(run: RunKey | str) -> str:
    return folder(run) + _PLAN


def _read_all(journal: Journal, parts: Sequence[JournalPart]) -> Iterator[pa.RecordBatch]:
    # It compiles loops, which nobody needs who only loads the code location.
    from spark_core.addresses.address_hashes import with_address_hash

    for part in parts:
        rows = journal.read(part)
        sweep = pa.repeat(pa.scalar(part.sweep), rows.num_rows)
        (batch,) = with_address_hash(iter([rows.append_column("sweep", sweep)]))
        yield batch.cast(ROWS)
