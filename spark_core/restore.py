"""Undo: bring the objects of a sweep back, out of quarantine or by what the store itself keeps, and prove that they are there.

Nothing is deleted here and no object is ever replaced. What a sweep has deleted
is told by its report; where it was killed before there was one, or after it had
taken up what an earlier one left, by its journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lease, quarantine, tables
from spark_core.errors import ChainError, CorruptTableError, NotFoundError
from spark_core.journal import Journal
from spark_core.phases import phase, restoring
from spark_core.run import Run
from spark_core.schemas import RESTORATIONS
from spark_core.storage.undo import BringBack, Lost, UndeleteOutcome, brought_back
from spark_core.tables import DELETION_REPORT, EXPIRED_ADDRESSES, NAMESPACE_SLICES, Manifest, TableSpec

FOLDER = f"{tables.ROOT}restores/"

BACK = ("restored", "already_there")

# Objects whose earlier description is looked up at once: one pass over two tables for so many.
_LOOKED_UP = 100_000
# Objects between two heartbeats of the lease.
_AT_ONCE = 500
_THREADS = 16
# Of those that are not back, how many the result names.
_NAMED = 1_000

# Called with each object that was asked for, as it is settled.
Tell = Callable[[UndeleteOutcome], None]


@dataclass
class Restored:
    """What a restore did.

    Attributes:
        objects: By outcome of `UndeleteOutcome`.
        size_bytes: By outcome.
        left: Some of those that are not back.
        record: Key of the table of all outcomes; None for a dry run.
    """

    objects: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)
    left: list[UndeleteOutcome] = field(default_factory=list)
    record: str | None = None

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for is back; of a dry run, could come back."""
        return not self.objects["failed"] and not self.objects["not_restorable"]

    def count(self, lost: Lost, outcome: UndeleteOutcome) -> None:
        """Add one object."""
        self.objects[outcome.outcome] += 1
        self.size_bytes[outcome.outcome] += lost.size_bytes
        if outcome.outcome not in (*BACK, "restorable") and len(self.left) < _NAMED:
            self.left.append(outcome)


def unheard(outcome: UndeleteOutcome) -> None:
    """Say nothing of an object."""


def restore(
    run: Run, addresses: Sequence[str] | None = None, *, dry_run: bool = False, tell: Tell = unheard
) -> Restored:
    """Bring back what the sweep of a run deleted.

    Args:
        run: The run whose sweep is undone.
        addresses: Only these, relative or in full; all that the sweep deleted when None.
        dry_run: Only say what could come back; writes nothing.
        tell: Told of each object.

    Returns:
        What became of them; the table of all outcomes is stored under `FOLDER`.

    Raises:
        ChainError: If the run was never swept.
        LeaseHeldError: If a collector is at work in the namespace.
    """
    wanted = None if addresses is None else list(dict.fromkeys(_relative(run, address) for address in addresses))
    done = Restored()
    with phase(lambda: restoring(done.objects["restored"])):
        _restore(run, wanted, done, tell, dry_run=dry_run)
    return done


def _restore(run: Run, wanted: Sequence[str] | None, done: Restored, tell: Tell, *, dry_run: bool) -> None:
    deleted = _deleted(run)
    if dry_run:
        for _ in _settle_all(run, deleted, wanted, done, tell, dry_run=True):
            pass
        return
    with lease.held(run, work="restore") as held:
        # Again: a sweep that ended in between has written down more.
        deleted, began = _deleted(run), run.now()
        key = f"{FOLDER}run_id={run.key}/{began:%Y-%m-%dT%H-%M-%S.%fZ}.parquet"
        rows = _settle_all(run, deleted, wanted, done, tell, beat=held.beat)
        run.store.write_parquet(key, (_as_batch(some, began) for some in rows), RESTORATIONS)
    done.record = key


def _relative(run: Run, address: str) -> str:
    return address.removeprefix(run.store.root)


_Settled = list[tuple[Lost, UndeleteOutcome]]


def _nothing() -> None:
    """Do nothing."""


def _settle_all(
    run: Run,
    deleted: Iterator[pa.Table],
    wanted: Sequence[str] | None,
    done: Restored,
    tell: Tell,
    *,
    dry_run: bool = False,
    beat: Callable[[], None] = _nothing,
) -> Iterator[_Settled]:
    """Bring back one lot after the other; yields what became of each."""
    unknown = set(wanted or ())
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakegc-restore") as pool:
        for rows in _in_lots(deleted, wanted):
            some = list(_described(run, rows))
            unknown.difference_update(lost.key for lost in some)
            for begin in range(0, len(some), _AT_ONCE):
                beat()
                lot = some[begin : begin + _AT_ONCE]
                outcomes = list(pool.map(partial(_bring_back, run, dry_run=dry_run), lot))
                settled = list(zip(lot, outcomes, strict=True))
                _note(done, settled, tell)
                yield settled
    strangers = [
        (
            Lost(address, 0),
            UndeleteOutcome(address, "not_restorable", f"run {run.key} deleted no object of that address"),
        )
        for address in sorted(unknown)
    ]
    _note(done, strangers, tell)
    yield strangers


def _note(done: Restored, settled: _Settled, tell: Tell) -> None:
    for lost, outcome in settled:
        done.count(lost, outcome)
        tell(outcome)


def _bring_back(run: Run, lost: Lost, *, dry_run: bool) -> UndeleteOutcome:
    return brought_back(run.store, lost, partial(_find, run, lost), dry_run=dry_run)


def _find(run: Run, lost: Lost) -> BringBack:
    """Find an object in the run's quarantine, else where the store keeps what is deleted."""
    aside = quarantine.key_of(run.key, lost.key)
    try:
        found = run.store.content(aside)
    except NotFoundError:
        return run.store.find_deleted(lost)
    if not lost.is_like(found):
        raise NotFoundError(
            f"in quarantine lies another object of that name ({found.size_bytes} bytes, deleted was one of {lost.size_bytes}): look "
            f"at {aside}"
        )

    def out_of_quarantine() -> None:
        # The copy stays until it is purged: a restore deletes nothing.
        run.store.copy(aside, lost.key)

    return out_of_quarantine


def _deleted(run: Run) -> Iterator[pa.Table]:
    """Yield what the sweep deleted or may have deleted; what is wrong with the run is told at once, not while iterating.

    Returns:
        Columns address and size_bytes, each address once.

    Raises:
        ChainError: If the run was never swept.
    """
    if not run.store.exists(tables.manifest_key(DELETION_REPORT, run.key)):
        return _intended(run)
    report = run.load(DELETION_REPORT)
    run.require_same_instance(report.manifest)
    gone = (_gone(batch) for batch in report.batches(["address", "size_bytes", "outcome"]))
    if not _may_be_continued(report.manifest):
        return gone
    # A later sweep took up what this report had left, and was killed before it made another one.
    return _each_once(chain(gone, _intents(run)))


def _may_be_continued(report: Manifest) -> bool:
    """Say whether the sweep of a report left objects, so that another one may have begun since."""
    facts = report.facts
    left = facts.get("refused_objects", 0) + facts.get("failed_objects", 0)
    return bool(left) or facts.get("planned_objects", report.rows) != report.rows


def _in_lots(deleted: Iterator[pa.Table], wanted: Sequence[str] | None) -> Iterator[pa.Table]:
    """Yield what is wanted of it, at most `_LOOKED_UP` rows at once."""
    value_set = None if wanted is None else pa.array(wanted, pa.string())
    waiting: list[pa.Table] = []
    rows = 0
    for some in deleted:
        chosen = some if value_set is None else some.filter(pc.is_in(some.column("address"), value_set=value_set))
        for begin in range(0, chosen.num_rows, _LOOKED_UP):
            piece = chosen.slice(begin, _LOOKED_UP)
            if rows + piece.num_rows > _LOOKED_UP:
                yield pa.concat_tables(waiting)
                waiting, rows = [], 0
            waiting, rows = [*waiting, piece], rows + piece.num_rows
    if rows:
        yield pa.concat_tables(waiting)


def _gone(batch: pa.RecordBatch) -> pa.Table:
    rows = pa.Table.from_batches([batch])
    return rows.filter(pc.equal(rows.column("outcome"), "deleted")).select(["address", "size_bytes"])


def _intended(run: Run) -> Iterator[pa.Table]:
    """Tell what a sweep without a report was about to delete: whether it did, the store knows better than anything written.

    Raises:
        ChainError: If there is no journal either.
    """
    intents = _intents(run)
    first = next(intents, None)
    if first is None:
        raise ChainError(
            f"run {run.key} of {run.repository.id} deleted nothing: it has neither a deletion report nor a journal. "
            "`lakegc report` names the runs of a repository."
        )
    return _each_once(chain([first], intents))


def _intents(run: Run) -> Iterator[pa.Table]:
    """Yield what the journal says that batches were about to delete."""
    expired = run.load(EXPIRED_ADDRESSES)
    run.require_same_instance(expired.manifest)
    journal = Journal(run.store, str(run.key), expired.manifest.sha256)
    for part in journal.parts():
        if part.kind == "intent":
            yield pa.Table.from_batches([journal.read(part)])


def _each_once(found: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield address and size_bytes; what an earlier round had not sent was intended again by a later one."""
    seen: set[str] = set()
    for some in found:
        addresses = some.column("address").to_pylist()
        new = [address not in seen for address in addresses]
        seen.update(addresses)
        yield some.select(["address", "size_bytes"]).filter(pa.array(new, pa.bool_()))


def _described(run: Run, deleted: pa.Table) -> Iterator[Lost]:
    """Yield each object with what the mark saw of it, as far as its tables are still there."""
    addresses = deleted.column("address").combine_chunks()
    modified = _column(run, EXPIRED_ADDRESSES, "last_modified", addresses)
    checksums = _column(run, NAMESPACE_SLICES, "checksum", addresses)
    for row in deleted.to_pylist():
        address = row["address"]
        yield Lost(address, row["size_bytes"], modified.get(address), checksums.get(address))


def _column(run: Run, spec: TableSpec, name: str, addresses: pa.Array) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        for batch in run.load(spec).batches(["address", name]):
            rows = batch.filter(pc.is_in(batch.column("address"), value_set=addresses))
            pairs = zip(rows.column("address").to_pylist(), rows.column(name).to_pylist(), strict=True)
            found.update((address, value) for address, value in pairs if value is not None)
    except (NotFoundError, ChainError, CorruptTableError):
        # Pruned by house-keeping, or damaged: then the size is what is known of an object, and undoing goes on.
        return found
    return found


def _as_batch(settled: _Settled, at: datetime) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array([lost.key for lost, _ in settled], pa.string()),
            pa.array([lost.size_bytes for lost, _ in settled], pa.int64()),
            pa.array([outcome.outcome for _, outcome in settled], pa.string()),
            pa.array([outcome.error for _, outcome in settled], pa.string()),
            pa.array([at] * len(settled), RESTORATIONS.field("restored_at").type),
        ],
        schema=RESTORATIONS,
    )
