"""The names of staged objects, and whether rules let the objects go under all of them.

A staged object has a name for each branch and path under which it is staged. The server tells no
names by address, so the diff of every branch is read, hidden ones too, as the mark reads them
(`lakefs.scans` says why they are complete). A commit takes an entry out of the staging area, so
names are read before commits: what is committed meanwhile is then found among the commits.

Doubt keeps. An object without a name that was read goes by no rule, whatever else says that it is
staged. What is staged unseen beside a committed entry (safety 14) is in no diff: the search for
twins finds it, as for everything that may go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame

from spark_core import schemas
from spark_core.addresses.namespace import Namespace
from spark_core.errors import IncompleteReadError, LakegcError
from spark_core.holds import Holds
from spark_core.lakefs import StagedEntries, diff_names, resolved
from spark_core.policies.document import UNCOMMITTED, Policy
from spark_core.policies.due import Due
from spark_core.policies.names import micros
from spark_core.records import reading, tables
from spark_core.records.manifest import Part
from spark_core.references.kept_objects import alive_hashes
from spark_core.references.uncommitted import Diffs
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.tasks import counted, dealt, read_counted
from spark_core.storage import ObjectStore

# What the server shows for bytes that are no UTF-8: nobody knows such a path.
_UNREADABLE = "\ufffd"
# The server cuts the dates of entries to whole seconds.
_CUT = 1_000_000
# Names of objects that go: where a branch shows one of these objects for a known reason.
TAKEN = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("branch", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class StagedName:
    """A name of a staged object.

    Attributes:
        branch: The branch.
        path: The path, as the server shows it.
        modified: The entry's date; None if the server says none.
    """

    branch: str
    path: str
    modified: datetime | None


@dataclass(frozen=True)
class StagedJudge:
    """Compares the names of a staged object with the rules that take staged objects.

    Attributes:
        rules: Number, branch, beginning of the path and period of each.
        held: Branches that a hold keeps as they are.
        instant: The run's instant in microseconds since 1970, less what clocks may be wrong by.
    """

    rules: Sequence[tuple[int, str | None, str, int]]
    held: frozenset[str]
    instant: int

    @classmethod
    def of(cls, policy: Policy, holds: Holds, instant: int) -> StagedJudge:
        """Make the judge of a document; without a rule for staged objects it takes nothing."""
        rules = [
            (number, rule.branch, rule.path, rule.periods[UNCOMMITTED].length)
            for number, rule in enumerate(policy.rules, start=1)
            # `removal` resets the entries that a rule with `effect: remove` names.
            if rule.is_enabled and not rule.removes and UNCOMMITTED in rule.periods
        ]
        return cls(
            tuple((*rule, length // timedelta(microseconds=1)) for *rule, length in rules),  # type: ignore[misc]
            held_branches(holds),
            instant,
        )

    def due(self, names: Sequence[StagedName], last_modified: int) -> Due | None:
        """Tell whether a staged object that is in no commit may go: only if due under each name.

        Args:
            names: Every name under which it is staged.
            last_modified: The store's date, in microseconds since 1970.

        Returns:
            The name that fell due last; None if the object stays.
        """
        last: Due | None = None
        for name in names:
            found = self._earliest(name, last_modified)
            if found is None or found.since > self.instant:
                return None
            if last is None or found.since > last.since:
                last = found
        return last

    def _earliest(self, name: StagedName, last_modified: int) -> Due | None:
        """Find the rule by which a name falls due first; as in S3, the earliest expiry counts."""
        if name.modified is None or _UNREADABLE in name.path or name.branch in self.held:
            return None
        start = max(micros(name.modified) + _CUT, last_modified)
        found = [
            Due(start + period, number, UNCOMMITTED, name.branch, name.path.encode())
            for number, branch, prefix, period in self.rules
            if branch is None or (branch == name.branch and name.path.startswith(prefix))
        ]
        return min(found, key=lambda due: due.since, default=None)


@dataclass(frozen=True)
class StagedNames:
    """The names of everything that is staged.

    Attributes:
        frame: Columns of `schemas.STAGED_NAMES`, held by the executors; None if any is unknown.
        count: Their number.
        problem: Why nobody knows them all; empty if somebody does.
    """

    frame: DataFrame | None
    count: int = 0
    problem: str = ""

    @property
    def is_small(self) -> bool:
        """Whether the driver may hold them."""
        return self.count <= reading.DRIVER_ROWS


def held_branches(holds: Holds) -> frozenset[str]:
    """Return the branches that a hold names: what is staged on them stays."""
    return frozenset(hold.value for hold in holds.holds if hold.kind == "branch")


def are_asked_for(policy: Policy) -> bool:
    """Say whether any rule of a document lets staged objects expire."""
    return bool(StagedJudge.of(policy, Holds(()), 0).rules)


@contextmanager
def read_names(run: Run) -> Iterator[StagedNames]:
    """Read the names of everything that is staged, on every branch.

    It costs a listing of the uncommitted changes of each branch, and of its entries around them.
    What cannot be read stops nothing: then no staged object goes by a rule.

    Args:
        run: The run.

    Yields:
        The names; held until the block ends.
    """
    diffs = Diffs(
        run.store, tables.folder(tables.UNCOMMITTED_ADDRESSES, run.key), schemas.STAGED_NAMES
    )
    frame: DataFrame | None = None
    try:
        try:
            rows = _read_diffs(run, diffs.keep)
            frame = _frame(run, [*diffs.parts, *diffs.held]).persist()
            found, count, _ = counted(frame)
            if count != rows:
                raise IncompleteReadError(f"Spark holds {count} of {rows} names of what is staged")
            names = StagedNames(found, count)
        except LakegcError as unknown:
            names = StagedNames(None, problem=unknown.found)
        yield names
    finally:
        if frame is not None:
            frame.unpersist()
        diffs.close()


def _read_diffs(run: Run, keep: Callable[[pa.RecordBatch], None]) -> int:
    """Read the diff of every branch; return the number of names.

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
    return read.rows


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


def _frame(run: Run, sources: Sequence[Part | pa.RecordBatch]) -> DataFrame:
    tasks = dealt(sources, run.options.range_partitions)
    return read_counted(run.spark, schemas.STAGED_NAMES, tasks, partial(_read, run.store))


def _read(store: ObjectStore, task: Sequence[Any], _figures: Any) -> Iterator[pa.RecordBatch]:
    for source in task:
        if isinstance(source, Part):
            yield from reading.read_part(store, schemas.STAGED_NAMES, source)
        else:
            yield source


def by_object(names: DataFrame) -> DataFrame:
    """Bring the names of each object together: columns address_hash and names, each name once.

    A hash that two objects share gives each the names of both, which can only keep them.
    """
    name = sf.struct("branch", "path", "modified")
    return names.groupBy("address_hash").agg(sf.sort_array(sf.collect_set(name)).alias("names"))


def names_in(rows: Sequence[Mapping[str, Any]]) -> list[StagedName]:
    """Read the names of an object back from a row of `by_object`."""
    return [
        StagedName(
            row["branch"],
            row["path"],
            None if row["modified"] is None else row["modified"].astimezone(UTC),
        )
        for row in rows
    ]


def taken_now(judge: StagedJudge, names: DataFrame, plan: DataFrame) -> DataFrame:
    """Find which objects of a plan rules take under every name under which they are staged now.

    Args:
        judge: Compares names with the rules.
        names: Columns of `schemas.STAGED_NAMES`.
        plan: Columns address and last_modified.

    Returns:
        Columns of `TAKEN`: every name of those objects, which commits may have as well.
    """
    hashed = plan.select("address", "last_modified", sf.xxhash64("address").alias("address_hash"))
    return (
        by_object(names)
        .join(hashed, on="address_hash", how="inner")
        .select("address", "last_modified", "names")
        .mapInArrow(partial(_taken, judge), spark_type(TAKEN))
    )


def _taken(judge: StagedJudge, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            names = names_in(row["names"])
            if judge.due(names, micros(row["last_modified"].astimezone(UTC))) is not None:
                rows += [
                    {"address": row["address"], "branch": name.branch, "path": name.path}
                    for name in names
                ]
        yield pa.RecordBatch.from_pylist(rows, schema=TAKEN)
