"""What the sweep of a run deleted, and what its mark saw of that.

The report of a sweep tells what it deleted. Its journal tells it where the sweep was killed before
it had a report, or after it had taken up what an earlier sweep left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import (
    ADDRESS_HASH,
    are_among,
    sorted_once,
    with_address_hash,
)
from spark_core.errors import ChainError, CorruptTableError, NotFoundError
from spark_core.recorded_work import Objects
from spark_core.records import reading, tables
from spark_core.records.journal import Journal, JournalPart
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.records.swept import may_go_on
from spark_core.records.tables import (
    DELETION_REPORT,
    EXPIRED_ADDRESSES,
    NAMESPACE_SLICES,
    TableSpec,
)
from spark_core.run import Run
from spark_core.spark.exchange import (
    AnySource,
    Batches,
    JoinedSource,
    Source,
    numbers_of,
    source_of,
)
from spark_core.spark.tasks import join_small
from spark_core.storage import ObjectStore

# Rows of small parts of a journal that one task reads, one part after the other.
_ROWS_READ_TOGETHER = 100_000

# Rows of a report or a journal, by the hash of the address.
_RECORDED = pa.schema(
    [
        ADDRESS_HASH,
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("is_deleted", pa.bool_(), nullable=False),
    ]
)
_WANTED = pa.schema([_RECORDED.field("address")])
_WANTED_BY_HASH = pa.schema([ADDRESS_HASH, *_WANTED])
# What is known of an object that is to be brought back.
_LOST = pa.schema(
    [
        _RECORDED.field("address"),
        _RECORDED.field("size_bytes"),
        pa.field("last_modified", EXPIRED_ADDRESSES.schema.field("last_modified").type),
        pa.field("checksum", NAMESPACE_SLICES.schema.field("checksum").type),
    ]
)


@dataclass(frozen=True)
class Deleted:
    """The record of what the sweep of a run deleted, or may have deleted.

    Attributes:
        report: Its report, if it left one.
        journal: Its journal; None where the report says all.
        intents: The parts of the journal that say what was about to be deleted.
    """

    report: StoredTable | None
    journal: Journal | None = None
    intents: Sequence[JournalPart] = ()

    @classmethod
    def read(cls, run: Run) -> Deleted:
        """Find the record.

        Raises:
            ChainError: If the run was never swept.
        """
        report = None
        if run.store.exists(tables.manifest_key(DELETION_REPORT, run.key)):
            report = run.load(DELETION_REPORT)
            if not may_go_on(report):
                return cls(report)
        # The journal is read if there is no report, or if a later sweep may have taken up what the
        # report had left and was killed before it made another one. The store knows better than any
        # record whether an object is gone.
        expired = run.load(EXPIRED_ADDRESSES)
        book = Journal(run.store, str(run.key), expired.manifest.sha256)
        intents = [part for part in book.parts() if part.kind == "intent"]
        if report is None and not intents:
            raise ChainError(
                f"run {run.key} of {run.repository.id} deleted nothing: it has neither a deletion "
                f"report nor a journal. `lakegc runs {run.repository.id}` shows which runs did."
            )
        return cls(report, book, intents)

    def objects(self, run: Run, wanted: Sequence[str] | None) -> Objects:
        """Say how what was deleted meets what the mark saw of it.

        Tables that are no longer there tell nothing.

        Args:
            run: The run.
            wanted: Only these addresses. Each is an object then, with a null for its size if it was
                not deleted.
        """
        records: list[AnySource] = []
        if self.report is not None:
            told = self.report.source(["address", "size_bytes", "outcome"])
            records.append(told.through(_RECORDED, _reported))
        if self.journal is not None:
            rows = sum(part.rows for part in self.intents)
            tasks = join_small(self.intents, lambda part: part.rows, _ROWS_READ_TOGETHER)
            records.append(Source(_RECORDED, tasks, rows, partial(_intended, self.journal)))
        sources: dict[str, AnySource] = {"deleted": JoinedSource(records)}
        hashes = None
        if wanted is not None:
            names = pa.table([pa.array(wanted, pa.string())], _WANTED)
            named = source_of(names, _WANTED).through(_WANTED_BY_HASH, with_address_hash)
            sources["wanted"] = named
            hashes = sorted_once(numbers_of(named.here(1)["address_hash"]))
        mark = {"last_modified": EXPIRED_ADDRESSES, "checksum": NAMESPACE_SLICES}
        beside = {name: _seen(run, spec, name, hashes) for name, spec in mark.items()}
        return Objects(sources, beside, _described, _LOST, ("address",))


def _reported(batches: Batches) -> Batches:
    for batch in with_address_hash(batches):
        is_deleted = pc.equal(batch.column("outcome"), "deleted")
        yield pa.record_batch([*batch.columns[:-1], is_deleted], schema=_RECORDED)


def _intended(journal: Journal, parts: Sequence[JournalPart]) -> Batches:
    read = (journal.read(part).select(["address", "size_bytes"]) for part in parts)
    for batch in with_address_hash(read):
        are_deleted = pa.repeat(pa.scalar(True), batch.num_rows)
        yield pa.record_batch([*batch.columns, are_deleted], schema=_RECORDED)


def _seen(run: Run, spec: TableSpec, name: str, wanted: Any) -> AnySource:
    """Say how what a table of the mark tells of objects is read: address and a column, by hash.

    A part that house-keeping pruned, or that is damaged, tells nothing. Then only the size of its
    objects is known, and the restore goes on.

    Args:
        run: The run.
        spec: The table.
        name: The column.
        wanted: Hashes of the addresses that are asked about, sorted; None for all.
    """
    parts: Sequence[Part] = ()
    with suppress(NotFoundError, ChainError, CorruptTableError):
        parts = run.load(spec).manifest.parts
    columns = pa.schema([spec.schema.field(column) for column in ("address", name)])
    rows = sum(part.rows for part in parts)
    read = partial(_read, run.store, columns, wanted)
    return Source(pa.schema([ADDRESS_HASH, *columns]), reading.join_small_parts(parts), rows, read)


def _read(store: ObjectStore, columns: pa.Schema, wanted: Any, parts: Sequence[Part]) -> Batches:
    for part in parts:
        with suppress(NotFoundError, CorruptTableError):
            for batch in with_address_hash(reading.read_part(store, columns, part)):
                if wanted is None:
                    yield batch
                else:
                    hashes = batch.column("address_hash").to_numpy()
                    yield batch.filter(pa.array(are_among(hashes, wanted)))


def _described(bucket: Mapping[str, pa.Table]) -> pa.Table:
    """Return what was deleted, and what the mark saw of it: columns of `_LOST`.

    An address may be in two batches of a journal, and in both records: it is one object.
    """
    deleted = bucket["deleted"]
    rows = _greatest(deleted.filter(deleted["is_deleted"]), "size_bytes")
    if "wanted" in bucket:
        rows = bucket["wanted"].select(["address"]).join(rows, "address")
    for name in ("last_modified", "checksum"):
        rows = rows.join(_greatest(bucket[name], name), "address")
    return rows.select(_LOST.names).cast(_LOST)


def _greatest(rows: pa.Table, name: str) -> pa.Table:
    """Return each address once, with its greatest value."""
    found = rows.group_by("address").aggregate([(name, "max")])
    return found.select(["address", f"{name}_max"]).rename_columns(["address", name])
