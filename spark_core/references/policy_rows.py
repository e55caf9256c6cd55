"""The objects of a mark that go by its retention policy, although entries lead to them.

The room `policies` names them and says what waits; here they are only read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.errors import ChainError
from spark_core.fates import Fate
from spark_core.records import reading, tables, writing
from spark_core.records.figures import (
    ExpiredFigures,
    PolicyExpirationsFigures,
    PolicyFigures,
    SumFigures,
)
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Target, Written
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, numbers_of

# Names under which objects are staged.
STAGED_NAMES = pa.schema(
    [pa.field(name, pa.string(), nullable=False) for name in ("address", "branch", "path")]
)

# What goes by a policy.
GOING = pa.schema(
    [
        *schemas.EXPIRED_ADDRESSES,
        *(schemas.POLICY_EXPIRATIONS.field(name) for name in ("rule", "action", "branch", "path")),
    ]
)

# Of the table `fates`: what goes, and why.
_FATES = pa.schema([schemas.FATES.field(name) for name in ("fate", "address")])
# What sweeps by a policy took.
TAKEN = pa.schema([pa.field("address_hash", pa.int64(), nullable=False)])
# The outcomes of a sweep.
OUTCOMES = pa.schema([schemas.DELETION_REPORT.field(name) for name in ("address", "outcome")])
# Those of objects that it did not take.
_NOT_TAKEN = ("kept", "already_gone")


@dataclass(frozen=True)
class PolicyRows:
    """What goes by a policy.

    Attributes:
        table: The stored table of everything that the policy names.
        named: Its figures.
        rules: Numbers of the rules whose objects go.
    """

    table: StoredTable
    named: PolicyExpirationsFigures
    rules: tuple[int, ...]

    @property
    def total(self) -> tuple[int, int]:
        """Objects and bytes."""
        rows = [row for row in self.named.by_rule if row[0] in self.rules]
        return sum(row[2] for row in rows), sum(row[3] for row in rows)

    @property
    def staged(self) -> tuple[int, int]:
        """Objects and bytes of those that are staged, which no commit has."""
        rows = [row for row in self.named.staged_by_rule or () if row[0] in self.rules]
        return sum(row[1] for row in rows), sum(row[2] for row in rows)

    def source(self, run: Run) -> AnySource:
        """Return the objects to be read where they are wanted: columns of `GOING`, key address."""
        rows = reading.source_of_parts(run.store, GOING, self.table.manifest.parts)
        return rows.through(GOING, partial(_of_rules, self.rules))

    def staged_names(self, run: Run) -> AnySource | None:
        """Return a name of each staged object: columns of `STAGED_NAMES`; None for none."""
        return self.source(run).through(STAGED_NAMES, _staged) if self.staged[0] else None

    @staticmethod
    def objects_of(expired: StoredTable) -> int:
        """Return how many objects of a plan go by the policy."""
        figures = ExpiredFigures.of(expired.manifest).policy
        return 0 if figures is None else figures.objects

    def figures(self, left: SumFigures) -> PolicyFigures:
        """Return the figures of the objects that are left to go, from their sums."""
        named = self.named
        return PolicyFigures(
            manifest=self.table.manifest.sha256,
            version=named.policy_version,
            digest=named.policy_digest,
            rules=self.rules,
            objects=left.expired_objects,
            bytes=left.expired_bytes,
            set_by=named.policy_set_by,
            confirmed_by=named.confirmed_by or "",
            confirmed_at=named.confirmed_at or "",
            by_reason=left.by_reason,
        )


def _of_rules(rules: Sequence[int], batches: Batches) -> Batches:
    for batch in batches:
        yield batch.filter(pc.is_in(batch.column("rule"), pa.array(rules, pa.int32())))


def _staged(batches: Batches) -> Batches:
    for batch in batches:
        # Any other action tells where an object was committed.
        staged = batch.filter(pc.equal(batch.column("action"), "uncommitted"))
        yield staged.select(STAGED_NAMES.names).cast(STAGED_NAMES)


def of_mark(run: Run, parents: Sequence[StoredTable]) -> PolicyRows | None:
    """Return what goes by the policy of a run that is being marked; None for nothing.

    A run that stays within a mark of lakeFS's own job lets nothing go by a policy.

    Args:
        run: The run.
        parents: Tables 1 to 4.

    Raises:
        ChainError: If the policy was compared with another attempt of the tables.
        CorruptTableError: If the manifest is not as it was written.
    """
    if not run.options.policies_let_go or run.reference_mark is not None:
        return None
    if not run.store.exists(tables.manifest_key(tables.POLICY_EXPIRATIONS, run.key)):
        return None
    table = run.load(tables.POLICY_EXPIRATIONS, anew=True)
    if dict(table.manifest.parents) != {
        parent.manifest.table: parent.manifest.sha256 for parent in parents
    }:
        raise ChainError(
            f"policy_expirations of run {run.key} of {run.repository.id} was made from other "
            "attempts of the mark's tables than expired_addresses is to be",
            "Materialize policy_expirations again, then expired_addresses.",
        )
    named = PolicyExpirationsFigures.of(table.manifest)
    takes_any = bool(named.takes_rules and table.manifest.rows)
    return PolicyRows(table, named, named.takes_rules) if takes_any else None


def note_before_deleting(run: Run, expired: StoredTable) -> None:
    """Store which objects of a plan go by a policy, before the first is deleted.

    Later marks find entries of them whose object is gone, and know why. `note_what_went` takes out
    what the sweep did not take.

    Raises:
        LakegcError: If the store refuses; then nothing may be deleted.
    """
    key = tables.manifest_key(tables.POLICY_DELETIONS, run.key)
    if run.store.exists(key):
        there = run.load(tables.POLICY_DELETIONS)
        if there.manifest.parents == {expired.manifest.table: expired.manifest.sha256}:
            return
    _note(run, expired, _of_plan(run, expired))


def note_what_went(run: Run, expired: StoredTable, report: AnySource) -> None:
    """Store which objects a policy took, once their outcomes are known.

    What a sweep kept, or found gone before it sent anything, is missing if a later mark does not
    find it. What the store refused or did not answer for stays noted, since another sweep of the
    run may take it, or a request that was sent.

    Args:
        run: The run.
        expired: The plan.
        report: Columns of `OUTCOMES`, of the whole plan.
    """
    found = report.through(TAKEN, _not_taken).each(lambda: run.spark, _hashes_in)
    left = sorted_once(np.concatenate([np.empty(0, np.int64), *found]))
    if len(left):
        own = _of_plan(run, expired)
        _note(run, expired, own.through(own.schema, partial(_without, left)))


def _of_plan(run: Run, expired: StoredTable) -> AnySource:
    """Return what of a plan goes by its policy: columns of `schemas.POLICY_DELETIONS`.

    A rule names more than that: a branch may answer from an object, or could not be asked.
    """
    fates = reading.load_table(run.store, tables.FATES, run.key, around=expired)
    rows = reading.source_of_parts(run.store, _FATES, fates.manifest.parts)
    return rows.through(schemas.POLICY_DELETIONS, _taken)


def _taken(batches: Batches) -> Batches:
    for batch in batches:
        some = batch.filter(pc.equal(batch.column("fate"), Fate.TAKEN_BY_POLICY.value))
        yield some.select(schemas.POLICY_DELETIONS.names).cast(schemas.POLICY_DELETIONS)


def _note(run: Run, expired: StoredTable, own: AnySource) -> None:
    spec, began = tables.POLICY_DELETIONS, run.now()
    target = Target(run.store, tables.folder(spec, run.key), writing.new_attempt(), spec.schema)
    write = partial(writing.write_parts, target, 0)
    receipts = writing.removed_on_failure(target, lambda: own.each(lambda: run.spark, write))
    run.keep(Draft(spec, Written(target.attempt, receipts), began, parents=[expired.manifest]))


def _not_taken(batches: Batches) -> Batches:
    outcomes = pa.array(_NOT_TAKEN)
    return _hashed(batch.filter(pc.is_in(batch.column("outcome"), outcomes)) for batch in batches)


def _hashed(batches: Batches) -> Batches:
    for batch in batches:
        yield pa.record_batch([hashed(batch.column("address"))], schema=TAKEN)


def _hashes_in(batches: Batches) -> Any:
    found = [numbers_of(batch.column("address_hash")) for batch in batches]
    return np.concatenate([np.empty(0, np.int64), *found])


def _without(left: Any, batches: Batches) -> Batches:
    """Leave out objects; two of one hash are out together, and are missing if they are lost."""
    for batch in batches:
        hashes = numbers_of(hashed(batch.column("address")))
        yield batch.filter(pa.array(~are_among(hashes, left)))


def taken_by_sweeps(run: Run) -> AnySource | None:
    """Return what sweeps by a policy took: column address_hash, duplicates allowed.

    Of a sweep that has no report yet it is what the sweep set out to take.

    It costs a listing of folders, and for each of those sweeps its manifest; its parts are read
    where the hashes are.

    Returns:
        None if there were no such sweeps.

    Raises:
        CorruptTableError: If one of their tables is damaged.
    """
    keys = tables.runs(run.store, tables.POLICY_DELETIONS.folder)
    stored = [reading.load_table(run.store, tables.POLICY_DELETIONS, key) for key in keys]
    # An earlier repository of the same name had other objects.
    own = [table for table in stored if table.manifest.instance == run.instance]
    parts = [part for table in own for part in table.manifest.parts]
    if not parts:
        return None
    rows = reading.source_of_parts(run.store, schemas.POLICY_DELETIONS, parts)
    return rows.through(TAKEN, _hashed)


def of_plan(run: Run, expired: StoredTable) -> PolicyRows | None:
    """Return what of a stored plan goes by a policy; None for nothing.

    Args:
        run: The run.
        expired: Its expired addresses.

    Raises:
        ChainError: If the table that the plan was made with is gone, or another lies in its place.
    """
    figures = ExpiredFigures.of(expired.manifest).policy
    if figures is None or not figures.objects:
        return None
    table = run.load(tables.POLICY_EXPIRATIONS, anew=True)
    if table.manifest.sha256 != figures.manifest:
        raise ChainError(
            f"policy_expirations of run {run.key} of {run.repository.id} is not the table that its "
            f"plan was made with (manifest {table.manifest.sha256[:12]}, the plan says "
            f"{figures.manifest[:12]})",
            "Mark again under a new run key.",
        )
    return PolicyRows(table, PolicyExpirationsFigures.of(table.manifest), figures.rules)
