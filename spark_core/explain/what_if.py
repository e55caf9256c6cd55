"""What other rules would let go: one pass over lakeFS's tables answers for all of them.

For each object it finds under how many of the rules asked about some retained commit has it. The
objects are those of a stored mark's listing whose names and ages let them go, and that no sweep has
deleted since. Hidden entries (`hidden_entries`) are not looked for, so answers are upper bounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame

from spark_core import graveler, holds, retention
from spark_core.addresses import candidates as rule
from spark_core.explain.read_before import require_full
from spark_core.model import Refs, RetentionRules
from spark_core.plain_text import counted
from spark_core.records import tables
from spark_core.references.commits import read_commits, tables_prefix
from spark_core.references.explanations import AT_THE_TOP, NO_BRANCH, UNREADABLE
from spark_core.references.range_entries import read_whole, resolved
from spark_core.references.ranges import TableReader, tasks_of
from spark_core.run import Run
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import interleaved, read_partitions, run_tasks

DAYS = (1, 3, 7, 14, 21, 30, 60, 90)
# Days from now for which the rules of now are asked.
AHEAD = (7, 30)
TOP = 10

_METARANGES_OF_A_TASK = 32
# Sums that the driver takes: folders at the top times answers. Beyond that, no folders are shown.
_MOST_SUMS, _TOO_MANY = 200_000, "(more than can be shown)"
NEVER_COMMITTED = "(never committed)"

_KEEPER, _FOLDER, _BRANCH = "keeper", "folder", "branch"
# Later than any date that a rule of now can keep a commit to.
_FAR = timedelta(days=300 * 365)


@dataclass(frozen=True)
class Freed:
    """What would be free under some rules.

    Attributes:
        name: The rules in words.
        objects: Number of objects.
        size_bytes: Their bytes.
        by_prefix: Name, objects and bytes of the folders at the top with most bytes.
        by_branch: Name, objects and bytes of the branches with most bytes; an object counts for the
            branch whose commits keep it longest under the rules of now.
    """

    name: str
    objects: int
    size_bytes: int
    by_prefix: tuple[tuple[str, int, int], ...]
    by_branch: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class WhatIf:
    """The answers, from a stored mark's listing and the refs as they are now.

    Attributes:
        repository: Repository id.
        run: The run whose listing was read.
        never_committed: Objects and bytes that no commit has, in every answer.
        swept: Objects and bytes of the listing that sweeps have deleted since; in no answer.
        answers: One for each question, in the order asked.
        price_per_gb_month: Of the settings; None if they have none.
        asked_at: Before the refs, the commits and the reports of sweeps were read.
    """

    repository: str
    run: str
    never_committed: tuple[int, int]
    swept: tuple[int, int]
    answers: tuple[Freed, ...]
    price_per_gb_month: float | None
    asked_at: datetime

    def to_json(self) -> str:
        """Return it as one JSON object."""
        return json.dumps(asdict(self), indent=2, default=datetime.isoformat)


@dataclass(frozen=True)
class _Question:
    """Rules that retain less from one to the next, and what each of them retains."""

    names: Sequence[str]
    retained: Sequence[frozenset[str]]

    def level(self, commit_id: str) -> int:
        """Return under how many of the rules a commit is retained."""
        return sum(commit_id in retained for retained in self.retained)


def what_if(run: Run, days: Sequence[int] = DAYS, rules: RetentionRules | None = None) -> WhatIf:
    """Say what would be free under other rules, and next week and month under the rules of now.

    It reads the refs anew, every metarange and range of the repository once, and the listing and
    the staged entries of a stored mark. Nothing is changed.

    Args:
        run: A full run with a mark.
        days: Days that every branch would keep, each for itself.
        rules: Other rules, answered exactly.

    Raises:
        ChainError: If the run has no mark, or is an optimized one.
        CorruptTableError: If a table of lakeFS cannot be read whole.
    """
    require_full(run)
    asked_at = run.now()
    slices = run.load(tables.NAMESPACE_SLICES)
    prefix = tables_prefix(run)
    found = read_commits(run, prefix)
    questions = _questions(run, found.refs, found.rules, days, rules)
    names, keepers = _keepers(found.refs, found.rules, run.now())
    reader = TableReader.of(run, prefix)
    metaranges: dict[str, list[int]] = {}
    for commit in found.refs.commits.values():
        if commit.metarange_id:
            own = [*(question.level(commit.id) for question in questions), keepers[commit.id]]
            before = metaranges.get(commit.metarange_id, [0] * len(own))
            metaranges[commit.metarange_id] = list(map(max, before, own))
    ranges = _ranges(run, reader, metaranges, len(questions))
    staged = run.load(tables.UNCOMMITTED_ADDRESSES).frame(run.spark, ["address_hash"])
    candidates = slices.frame(
        run.spark, ["address", "address_hash", "size_bytes", "standing"]
    ).where(sf.col("standing") == rule.CANDIDATE)
    deleted = _deleted_since(run)
    listed = candidates.join(staged, on="address_hash", how="left_anti")
    if deleted is not None:
        listed = listed.join(deleted, on="address", how="left_anti")
    entries = _entries(run, reader, ranges, len(questions))
    found_sums = _sums(listed, entries, len(questions), len(names))
    swept = (0, 0) if deleted is None else _swept(candidates, deleted)
    return _answers(run, found_sums, questions, names, swept, asked_at=asked_at)


def _deleted_since(run: Run) -> DataFrame | None:
    """Return the addresses that sweeps of this run and of later ones have deleted: one column.

    What was restored since counts as deleted until the next mark lists it.
    """
    found = None
    for key in tables.runs(run.store, tables.DELETION_REPORT.folder):
        if key < run.key:
            continue
        try:
            stored = replace(run, key=key).load(tables.DELETION_REPORT)
        except UNREADABLE:
            # A sweep that did not end has no report yet.
            continue
        gone = stored.frame(run.spark, ["address", "outcome"]).where(
            sf.col("outcome").isin("deleted", "already_gone")
        )
        found = gone if found is None else found.unionByName(gone)
    return None if found is None else found.select("address")


@surfacing_errors()
def _swept(candidates: DataFrame, deleted: DataFrame) -> tuple[int, int]:
    sums = candidates.join(deleted, on="address", how="left_semi").agg(
        sf.count("*").alias("objects"), sf.sum("size_bytes").alias("size_bytes")
    )
    return _total(sums.toArrow())


def _keepers(
    refs: Refs, rules: RetentionRules | None, now: datetime
) -> tuple[list[str], dict[str, int]]:
    """Number the commits by how long the rules of now keep them, and by the branch that does.

    Args:
        refs: The commit graph.
        rules: The rules of now.
        now: The present instant.

    Returns:
        Names of branches; and for each commit its place in that order, times their number, plus
        the number of its branch. So the largest number of an object's commits tells the branch.
    """
    names = [NO_BRANCH, *sorted(branch.id for branch in refs.branches)]
    number = {name: at for at, name in enumerate(names)}
    days = rules or RetentionRules(0)
    # Far in the future, every commit that is no head has expired.
    _, expired = retention.decide(refs, days, now + _FAR, tags_protect=False)
    of_commit = {
        one.commit_id: (one.replaced_at + timedelta(days=one.days), number[one.branch or NO_BRANCH])
        for one in expired
    }
    forever = datetime.max.replace(tzinfo=UTC)
    for branch in sorted(refs.branches, key=lambda one: (days.days_for(one.id), one.id)):
        of_commit[branch.commit_id] = (forever, number[branch.id])
    unknown = (forever, number[NO_BRANCH])
    order = sorted(refs.commits, key=lambda id_: of_commit.get(id_, unknown))
    return names, {
        id_: at * len(names) + of_commit.get(id_, unknown)[1]
        for at, id_ in enumerate(order, start=1)
    }


def _questions(
    run: Run,
    refs: Refs,
    now: RetentionRules | None,
    days: Sequence[int],
    rules: RetentionRules | None,
) -> list[_Question]:
    held = holds.load(run.store).commits(refs)

    def retained(asked: RetentionRules | None, ahead: int = 0) -> frozenset[str]:
        found = retention.retained_commits(
            refs,
            asked,
            run.now() + timedelta(days=ahead),
            clock_margin=run.options.clock_margin,
            tags_protect=run.options.tags_protect,
        )
        return frozenset(one.commit_id for one in retention.with_holds(found, held))

    longest_first = sorted(set(days), reverse=True)
    questions = [
        _Question(
            [f"every branch keeps {counted(count, 'day')}" for count in longest_first],
            [retained(RetentionRules(count)) for count in longest_first],
        ),
        _Question(
            [
                "the rules of now",
                *(f"the rules of now, in {counted(count, 'day')}" for count in AHEAD),
            ],
            [retained(now), *(retained(now, count) for count in AHEAD)],
        ),
    ]
    if rules is not None:
        questions.append(_Question(["the rules asked about"], [retained(rules)]))
    return questions


def _level(number: int) -> str:
    return f"level_{number}"


def _schema(questions: int, *fields: pa.Field) -> pa.Schema:
    numbers = [pa.field(name, pa.int64()) for name in _numbers(questions)]
    return pa.schema([*fields, *numbers])


def _numbers(questions: int) -> list[str]:
    """Name the numbers of a commit, of which the largest counts: its levels and its keeper."""
    return [*(_level(at) for at in range(questions)), _KEEPER]


def _ranges(
    run: Run, reader: TableReader, metaranges: Mapping[str, Sequence[int]], questions: int
) -> pa.Table:
    """Read metaranges; return each range once, with its highest levels."""
    items = list(metaranges.items())
    each = max(_METARANGES_OF_A_TASK, -(-len(items) // run.options.range_partitions))
    parts = [items[begin : begin + each] for begin in range(0, len(items), each)]
    told = run_tasks(
        lambda: run.spark,
        parts,
        partial(_read_metaranges, reader, questions),
        is_small=len(parts) <= 1,
    )
    return _highest(told, questions)


def _range_schema(questions: int) -> pa.Schema:
    return _schema(
        questions,
        pa.field("range_id", pa.string()),
        pa.field("count", pa.int64()),
        pa.field("min_key", pa.binary()),
    )


def _highest(some: Sequence[pa.Table], questions: int) -> pa.Table:
    schema = _range_schema(questions)
    names = _numbers(questions)
    merged = (
        pa.concat_tables([schema.empty_table(), *some])
        .group_by(["range_id", "count"])
        .aggregate([("min_key", "min"), *((name, "max") for name in names)])
    )
    return merged.rename_columns(schema.names).cast(schema)


def _read_metaranges(
    reader: TableReader, questions: int, _number: int, some: Sequence[tuple[str, Sequence[int]]]
) -> pa.Table:
    def read(one: tuple[str, Sequence[int]]) -> Iterator[pa.RecordBatch]:
        id_, levels = one
        found = graveler.read_metarange(reader.read(id_), name=reader.name(id_), expected_id=id_)
        columns = [found.column(name) for name in ("range_id", "count", "min_key")]
        columns += [pa.repeat(pa.scalar(level, pa.int64()), found.num_rows) for level in levels]
        yield pa.record_batch(columns, schema=_range_schema(questions))

    batches = interleaved(some, read, threads=reader.threads)
    return _highest([pa.Table.from_batches(batches, _range_schema(questions))], questions)


def _entries(run: Run, reader: TableReader, ranges: pa.Table, questions: int) -> DataFrame:
    """Read every range: address_hash, its folder at the top, and the numbers of each entry."""
    schema = _schema(
        questions, pa.field("address_hash", pa.int64()), pa.field(_FOLDER, pa.string())
    )
    tasks = tasks_of(ranges, run.options.range_partitions)
    rows = pc.sum(ranges["count"]).as_py() or 0
    return read_partitions(
        run.spark, schema, tasks, partial(_read_ranges, reader, schema), rows=rows
    )


def _read_ranges(
    reader: TableReader, schema: pa.Schema, ranges: pa.Table
) -> Iterator[pa.RecordBatch]:
    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        entries = resolved(reader.namespace, read_whole(reader, row), is_head=True)
        # Of a path that is not UTF-8, the rest is shown.
        paths = entries.column("head_path").to_pylist()
        folders = [path.partition(b"/") for path in paths]
        names = [
            (name + slash).decode(errors="replace") if slash else AT_THE_TOP
            for name, slash, _ in folders
        ]
        columns = [entries.column("address_hash"), pa.array(names, pa.string())]
        columns += [
            pa.repeat(pa.scalar(row[name], pa.int64()), entries.num_rows)
            for name in schema.names[2:]
        ]
        yield pa.record_batch(columns, schema=schema)

    yield from interleaved(ranges.to_pylist(), read, threads=reader.threads)


@surfacing_errors()
def _sums(listed: DataFrame, entries: DataFrame, questions: int, branches: int) -> pa.Table:
    """Sum up the objects by their levels, once by folder and once by branch.

    Returns:
        Columns kind (`folder` or `branch`), name (of a branch its number; null for what no commit
        has), the levels, objects and size_bytes.
    """
    levels = [_level(at) for at in range(questions)]
    known = entries.groupBy("address_hash").agg(
        sf.min(_FOLDER).alias(_FOLDER),
        *(sf.max(name).alias(name) for name in _numbers(questions)),
    )
    branch = (sf.col(_KEEPER) % branches).cast("string")
    both = sf.array(
        sf.struct(sf.lit(_FOLDER).alias("kind"), sf.col(_FOLDER).alias("name")),
        sf.struct(sf.lit(_BRANCH).alias("kind"), branch.alias("name")),
    )
    counted = sf.count("*").alias("objects"), sf.sum("size_bytes").alias("size_bytes")
    sums = (
        listed.join(known, on="address_hash", how="left")
        .select(sf.explode(both).alias("group"), *levels, "size_bytes")
        .groupBy("group.kind", "group.name", *levels)
        .agg(*counted)
    )
    told = sums.limit(_MOST_SUMS + 1).toArrow()
    if told.num_rows > _MOST_SUMS:
        added = [sf.sum(name).alias(name) for name in ("objects", "size_bytes")]
        told = sums.groupBy("kind", sf.lit(_TOO_MANY).alias("name"), *levels).agg(*added).toArrow()
    return told


def _answers(
    run: Run,
    sums: pa.Table,
    questions: Sequence[_Question],
    branches: Sequence[str],
    swept: tuple[int, int],
    *,
    asked_at: datetime,
) -> WhatIf:
    by_folder, by_branch = (
        sums.filter(pc.equal(sums["kind"], kind)) for kind in (_FOLDER, _BRANCH)
    )
    named = {str(at): name for at, name in enumerate(branches)}
    answers = []
    for at, question in enumerate(questions):
        for number, name in enumerate(question.names):
            free = _free(by_folder, _level(at), number)
            branch_rows = tuple(
                (named.get(told, told), objects, size_bytes)
                for told, objects, size_bytes in _grouped(_free(by_branch, _level(at), number))
            )
            answers.append(Freed(name, *_total(free), tuple(_grouped(free)), branch_rows))
    never = by_folder.filter(pc.is_null(by_folder[_level(0)]))
    return WhatIf(
        run.repository.id,
        str(run.key),
        _total(never),
        swept,
        tuple(answers),
        run.options.price_per_gb_month,
        asked_at,
    )


def _free(sums: pa.Table, level: str, number: int) -> pa.Table:
    """Choose what these rules do not retain: a higher level than their number is retained."""
    return sums.filter(pc.less_equal(pc.fill_null(sums[level], 0), number))


def _grouped(free: pa.Table) -> list[tuple[str, int, int]]:
    """Sum up by name: those with most bytes."""
    at = free.schema.get_field_index("name")
    by_name = (
        free.set_column(at, "name", pc.fill_null(free["name"], NEVER_COMMITTED))
        .group_by("name")
        .aggregate([("objects", "sum"), ("size_bytes", "sum")])
        .sort_by([("size_bytes_sum", "descending"), ("name", "ascending")])
    )
    return [tuple(row.values()) for row in by_name.slice(0, TOP).to_pylist()]


def _total(sums: pa.Table) -> tuple[int, int]:
    return pc.sum(sums["objects"]).as_py() or 0, pc.sum(sums["size_bytes"]).as_py() or 0
