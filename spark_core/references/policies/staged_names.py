"""Read under which branches and paths objects are staged, and which of a plan rules take.

The server tells no names by address, so the diff of every branch is read, hidden ones too, as the
mark reads them (`lakefs.staged_entries` says why they are complete). A commit takes an entry out of
the staging area, so names are read before commits: what is committed meanwhile is then found among
the commits.

What is staged unseen beside a committed entry (safety 14) is in no diff: the search for twins finds
it, as for everything that may go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.addresses.namespace import Namespace
from spark_core.errors import IncompleteReadError, LakegcError
from spark_core.lakefs import StagedEntries, diff_names, resolved
from spark_core.records import reading, rows_aside, tables
from spark_core.records.manifest import Part
from spark_core.references.kept_objects import alive_hashes
from spark_core.references.policies.canonical_names import micros
from spark_core.references.policies.staged_due import StagedJudge, StagedName
from spark_core.references.uncommitted_addresses import Diffs
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, Source
from spark_core.spark.tasks import deal_out
from spark_core.storage import ObjectStore

# Objects of a plan; those of a sweep that knows no dates have one that is before all.
DATED = pa.schema([schemas.NAMESPACE_SLICES.field(name) for name in ("address", "last_modified")])
HASHED = pa.schema([schemas.NAMESPACE_SLICES.field("address_hash"), *DATED])
# Names of objects that go: where a branch shows one of these objects for a known reason.
TAKEN = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("branch", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class StagedNames:
    """The names of everything that is staged.

    Attributes:
        rows: Columns of `schemas.STAGED_NAMES`; None if any is unknown.
        problem: Why nobody knows them all; empty if somebody does.
    """

    rows: AnySource | None
    problem: str = ""

    @property
    def count(self) -> int:
        """Their number."""
        return 0 if self.rows is None else self.rows.rows


@contextmanager
def read_names(run: Run) -> Iterator[StagedNames]:
    """Read the names of everything that is staged, on every branch.

    It costs a listing of the uncommitted changes of each branch, and of its entries around them.
    What cannot be read stops nothing: then no staged object goes by a rule.

    Args:
        run: The run.

    Yields:
        The names; they can be read until the block ends.
    """
    diffs = Diffs(
        run.store, tables.folder(tables.UNCOMMITTED_ADDRESSES, run.key), schemas.STAGED_NAMES
    )
    try:
        try:
            _read_diffs(run, diffs.keep)
            names = StagedNames(_source(run, [*diffs.parts, *diffs.held]))
        except LakegcError as unknown:
            names = StagedNames(None, unknown.found)
        yield names
    finally:
        diffs.close()


def _read_diffs(run: Run, keep: Callable[[pa.RecordBatch], None]) -> None:
    """Read the diff of every branch.

    Raises:
        LakegcError: If a branch was not read to its end.
    """
    read = diff_names(
        run.server,
        run.repository,
        partial(_names_of, run.namespace),
        keep,
        at_once=run.options.branches_at_once,
    )
    if read.appeared:
        raise IncompleteReadError(
            f"{read.appeared} branches of repository {run.repository.id} appeared while the staged "
            "entries of the others were read, again and again"
        )


def _names_of(namespace: Namespace, branch: str, entries: StagedEntries) -> pa.RecordBatch:
    addresses = resolved(namespace, [address for _, address, _ in entries])
    inside = addresses.is_valid()
    columns = [
        pa.array([branch] * len(entries), pa.string()),
        pa.array([path for path, *_ in entries], pa.string()),
        pa.array([date for *_, date in entries], schemas.INSTANT),
    ]
    return pa.record_batch(
        [alive_hashes(addresses.drop_null()), *(column.filter(inside) for column in columns)],
        schema=schemas.STAGED_NAMES,
    )


def _source(run: Run, some: Sequence[Part | pa.RecordBatch]) -> AnySource:
    rows = sum(one.rows if isinstance(one, Part) else one.num_rows for one in some)
    tasks = deal_out(some, run.reading_tasks(len(some)))
    return Source(schemas.STAGED_NAMES, tasks, rows, partial(_read, run.store))


def _read(store: ObjectStore, task: Sequence[Any]) -> Batches:
    for one in task:
        if isinstance(one, Part):
            yield from reading.read_part(store, schemas.STAGED_NAMES, one)
        else:
            yield one


def names_of_objects(rows: pa.Table, wanted: pa.ChunkedArray) -> dict[int, list[StagedName]]:
    """Bring the names of each object together, each name once.

    A hash that two objects share gives each the names of both, which can only keep them.

    Args:
        rows: Columns of `schemas.STAGED_NAMES`.
        wanted: Hashes of the objects.
    """
    columns = schemas.STAGED_NAMES.names
    some = rows.filter(pc.is_in(rows["address_hash"], wanted.combine_chunks()))
    distinct = some.group_by(columns).aggregate([])
    found: dict[int, list[StagedName]] = defaultdict(list)
    for row in distinct.sort_by([(name, "ascending") for name in columns]).to_pylist():
        found[row.pop("address_hash")].append(StagedName(**row))
    return found


def taken_now(run: Run, judge: StagedJudge, names: AnySource, plan: AnySource) -> AnySource:
    """Find which objects of a plan rules take under every name under which they are staged now.

    Args:
        run: The run.
        judge: Compares names with the rules.
        names: Columns of `schemas.STAGED_NAMES`.
        plan: Columns of `DATED`.

    Returns:
        Columns of `TAKEN`: every name of those objects, which commits may have as well.

    Raises:
        IncompleteReadError: If names got lost on their way to the objects.
    """
    target = rows_aside.target_of(run.store, run.key, TAKEN)
    sources: dict[str, AnySource] = {"names": names, "plan": plan.through(HASHED, with_hashes)}
    came, receipts = Exchange(
        sources, partial(_due_entries, judge), TAKEN, partial(rows_aside.put_aside, target)
    ).run(lambda: run.spark, threads=run.options.read_threads)
    rows_aside.require_all(run.repository.id, {"names": sum(came)}, {"names": names.rows})
    return rows_aside.source_of(run.store, TAKEN, receipts)


def with_hashes(batches: Batches) -> Batches:
    """Give objects the hashes of their addresses: columns of `HASHED`."""
    for batch in batches:
        addresses = batch.column("address")
        yield pa.record_batch(
            [hashed(addresses), addresses, batch.column("last_modified")], schema=HASHED
        )


def _due_entries(judge: StagedJudge, bucket: Mapping[str, pa.Table]) -> Sent[int]:
    names, plan = bucket["names"], bucket["plan"]
    known = names_of_objects(names, plan["address_hash"])
    named = plan.filter(pc.is_in(plan["address_hash"], names["address_hash"].combine_chunks()))
    rows = [
        {"address": one["address"], "branch": name.branch, "path": name.path}
        for one in named.to_pylist()
        if judge.due(known[one["address_hash"]], micros(one["last_modified"])) is not None
        for name in known[one["address_hash"]]
    ]
    taken = pa.Table.from_pylist(rows, schema=TAKEN)
    return Sent(names.num_rows, {rows_aside.place_of(plan): taken})
