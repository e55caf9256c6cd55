"""Which objects in quarantine something refers to: they stay when their days are over.

An object that a sweep took by a retention policy is still reached by commits, or staged. It stays
if it is held or hidden, or if the policy no longer names it. If commits reach it, it also stays if
it is staged. Once no commit reaches it and it is not staged, it is garbage like any other object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.checks import verdict
from spark_core.errors import IncompleteReadError
from spark_core.records import tables
from spark_core.records.reading import StoredTable
from spark_core.references import policy_rows
from spark_core.references.known_ranges import retained_hashes
from spark_core.references.twins import OBJECTS
from spark_core.run import Run
from spark_core.spark.exchange import (
    AnySource,
    Batches,
    Exchange,
    Sent,
    Source,
    no_work,
    numbers_of,
    source_of,
)
from spark_core.sweep import references_now
from spark_core.sweep.policy_now import ByPolicy

# The names of an object: its own, and that of its copy.
_BOTH = ("address", "key")
NAMES = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
    ]
)
_MARKED = (tables.COMMITTED_ADDRESSES.name, tables.UNCOMMITTED_ADDRESSES.name)
# What must all come to its comparison, by the names of sources.
_WHAT = {
    "names": "names of objects in quarantine that were to be looked for",
    **{name: f"rows of {name} that may need what is in quarantine" for name in _MARKED},
}
_PLAN = pa.schema([NAMES.field("address"), NAMES.field("size_bytes")])
_HASHES = pa.schema([NAMES.field("address_hash")])


@dataclass(frozen=True)
class Needed:
    """The part of the quarantine that something refers to.

    Attributes:
        began: The time by the run's clock before the first byte of moving data was read.
        hashes: Hashes of addresses of objects, and of keys of copies, that something refers to: an
            array of int64, sorted. Two names with one hash can only keep a copy.
    """

    began: datetime
    hashes: Any


# Finds which of these objects are needed: columns of `quarantine_days_over.OVER`.
FindNeeded: TypeAlias = Callable[[Source[Any]], Needed]


def needed_finder(run: Run) -> FindNeeded:
    """Return the function that finds which objects are needed.

    An object is needed if the mark reached it, or if it is referenced by what is read again now, as
    before a sweep. Both names of each object are looked for, because somebody may refer to the copy
    where it lies. The function remembers the mark's tables for one purge: what the mark reached
    never changes, so its tables are read once.

    Args:
        run: A run that is marked.
    """
    looks: list[_Looks] = []

    def find(over: Source[Any]) -> Needed:
        """Find which of these objects are needed.

        Raises:
            ChainError: If the run has no mark.
            IncompleteReadError: If a name got lost on the way: nobody would find that its object is
                needed.
            LakegcError: If anything could not be read to its end; then nothing is known, and
                nothing may be purged.
        """
        mark = verdict.load_mark(run)
        names = replace(over.through(NAMES, _names), rows=len(_BOTH) * over.rows)
        if not looks:
            looks.append(_Looks.begin(run, names, mark))
        began, now = looks[0].now(run, names, mark)
        return Needed(began, sorted_once(np.concatenate([looks[0].reached, now])))

    return find


@dataclass(frozen=True)
class _Looks:
    """What one purge finds out once.

    Attributes:
        reached: Hashes of names that the mark's commits reach, or that were staged; without what
            sweeps took by a retention policy, which is needed where the look of now finds it.
        again: Reads what refers to names now.
    """

    reached: Any
    again: Callable[..., references_now.ReferencesNow]

    @classmethod
    def begin(cls, run: Run, names: Source[Any], mark: Mapping[str, StoredTable]) -> _Looks:
        """Compare the names of what is in quarantine with the mark, and with earlier sweeps."""
        taken = policy_rows.taken_by_sweeps(run)
        counted: dict[str, AnySource] = {
            "names": names.through(_HASHES, _only_hashes),
            **dict(zip(_MARKED, _reached_by(run, mark), strict=True)),
        }
        taken_rows = taken or source_of(_HASHES.empty_table(), _HASHES)
        work = Exchange({**counted, "by_policy": taken_rows}, _reached, _HASHES, no_work)
        found, _ = work.run(lambda: run.spark, threads=run.options.read_threads)
        for name, source in counted.items():
            require_all(run, _WHAT[name], sum(one.came[name] for one in found), source.rows)
        reached, by_policy = (
            sorted_once(np.concatenate([getattr(one, name) for one in found]))
            for name in ("reached", "by_policy")
        )
        if not len(by_policy):
            return cls(reached, references_now.reader_of_references())
        own = names.through(OBJECTS, partial(_undated, by_policy))
        count = sum(one.own for one in found)
        by_policy_now = ByPolicy(own, count)
        return cls(reached, references_now.reader_of_references(by_policy_now))

    def now(
        self, run: Run, names: Source[Any], mark: Mapping[str, StoredTable]
    ) -> tuple[datetime, Any]:
        """Find what refers to names now.

        What is staged now is among it, unless a rule takes each of its staged names.

        Returns:
            When the look began, and the hashes of names that something refers to.
        """
        found = self.again(run, names.through(_PLAN, _planned), mark)
        return found.began, found.kept.hashes


def _reached_by(run: Run, mark: Mapping[str, StoredTable]) -> tuple[AnySource, AnySource]:
    """Say how it is read what the mark's commits reach, and what was staged."""
    committed, staged = (mark[table] for table in _MARKED)
    return retained_hashes(run, committed), staged.source(_HASHES.names)


def require_all(run: Run, what: str, came: int, wanted: int) -> None:
    """Refuse to answer where names got lost, or what refers to them.

    Raises:
        IncompleteReadError: Saying how many.
    """
    if came != wanted:
        raise IncompleteReadError(
            f"repository {run.repository.id}: Spark holds {came} of the {wanted} {what}",
            "Run again; if it stays, report it with this text and Spark's version.",
        )


def _names(batches: Batches) -> Batches:
    """Return both names of each object: columns of `NAMES`."""
    for batch in batches:
        for names in (batch.column(name) for name in _BOTH):
            yield pa.record_batch([hashed(names), names, batch.column("size_bytes")], schema=NAMES)


def _only_hashes(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(_HASHES.names)


def _planned(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(_PLAN.names)


def _undated(hashes: Any, batches: Batches) -> Batches:
    """Return the names with some hashes; nobody knows their age, so they are as old as can be."""
    old = pa.scalar(datetime(1970, 1, 1, tzinfo=UTC), OBJECTS.field("last_modified").type)
    for batch in batches:
        is_one = are_among(batch.column("address_hash").to_numpy(), hashes)
        some = batch.filter(pa.array(is_one)).select(_PLAN.names)
        dated = some.append_column("last_modified", pa.repeat(old, some.num_rows))
        yield dated.select(OBJECTS.names).cast(OBJECTS)


@dataclass(frozen=True)
class _Reached:
    """What the mark reached of a bucket.

    Attributes:
        came: Rows that came of each source.
        reached: Hashes of those that the mark reached, and no sweep took by a policy.
        by_policy: Hashes of those that it reached, and that a sweep took by a policy.
        own: How many names have one of the latter.
    """

    came: Mapping[str, int]
    reached: Any
    by_policy: Any
    own: int


def _reached(bucket: Mapping[str, pa.Table]) -> Sent[_Reached]:
    names, committed, staged, by_policy = (
        sorted_once(numbers_of(bucket[name]["address_hash"]))
        for name in ("names", *_MARKED, "by_policy")
    )
    reached = names[are_among(names, committed) | are_among(names, staged)]
    is_by_policy = are_among(reached, by_policy)
    came = {name: rows.num_rows for name, rows in bucket.items()}
    own = reached[is_by_policy]
    count = int(are_among(numbers_of(bucket["names"]["address_hash"]), own).sum())
    return Sent(_Reached(came, reached[~is_by_policy], own, count), {})
