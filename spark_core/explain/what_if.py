"""What other rules would let go: one pass over lakeFS's tables answers for all of them.

For each object it finds under how many of the rules asked about some retained commit has it. The
objects are those of a stored mark's listing that its names and ages let go; entries that hide
(`hidden_entries`) are not asked for, so the answers are upper bounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame

from spark_core import graveler, retention
from spark_core.addresses import candidates as rule
from spark_core.mark import holds
from spark_core.mark.commits import read_commits, tables_prefix
from spark_core.mark.committed import TableReader, read_whole, resolved, tasks_of
from spark_core.model import Refs, RetentionRules
from spark_core.records import tables
from spark_core.run import Run
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import interleaved, read_partitions, run_tasks

DAYS = (1, 3, 7, 14, 21, 30, 60, 90)
# Days from now for which the rules of now are asked.
AHEAD = (7, 30)
TOP = 10

_METARANGES_OF_A_TASK = 32
# Sums that the driver takes: folders at the top times answers. Beyond them folders are not told.
_MOST_SUMS, _TOO_MANY = 200_000, "(more folders than can be told)"


@dataclass(frozen=True)
class Freed:
    """What would be free under some rules.

    Attributes:
        name: The rules in words.
        objects: Number of objects.
        size_bytes: Their bytes.
        by_prefix: Name, objects and bytes of the folders at the top with most bytes.
    """

    name: str
    objects: int
    size_bytes: int
    by_prefix: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class WhatIf:
    """The answers, from a stored mark's listing and the refs as they are now.

    Attributes:
        repository: Repository id.
        run: The run whose listing was read.
        never_committed: Objects and bytes that no commit has, in every answer.
        answers: One for each question, in the order asked.
    """

    repository: str
    run: str
    never_committed: tuple[int, int]
    answers: tuple[Freed, ...]

    def to_json(self) -> str:
        """Return it as one JSON object."""
        return json.dumps(asdict(self), indent=2)


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
        run: A run with a mark.
        days: Days that every branch would keep, each for itself.
        rules: Other rules, answered exactly.

    Raises:
        ChainError: If the run has no mark.
        CorruptTableError: If a table of lakeFS cannot be read whole.
    """
    slices = run.load(tables.NAMESPACE_SLICES)
    prefix = tables_prefix(run)
    found = read_commits(run, prefix)
    questions = _questions(run, found.refs, found.rules, days, rules)
    levels = {
        commit.id: [question.level(commit.id) for question in questions]
        for commit in found.refs.commits.values()
    }
    reader = TableReader.of(run, prefix)
    metaranges: dict[str, list[int]] = {}
    for commit in found.refs.commits.values():
        if commit.metarange_id:
            before = metaranges.get(commit.metarange_id, [0] * len(questions))
            metaranges[commit.metarange_id] = list(map(max, before, levels[commit.id]))
    ranges = _ranges(run, reader, metaranges, len(questions))
    staged = run.load(tables.UNCOMMITTED_ADDRESSES).frame(run.spark, ["address_hash"])
    listed = (
        slices.frame(run.spark, ["address", "address_hash", "size_bytes", "standing"])
        .where(sf.col("standing") == rule.CANDIDATE)
        .join(staged, on="address_hash", how="left_anti")
    )
    return _answered(run, listed, _entries(run, reader, ranges, len(questions)), questions)


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
            [f"every branch keeps {_days(count)}" for count in longest_first],
            [retained(RetentionRules(count)) for count in longest_first],
        ),
        _Question(
            ["the rules of now", *(f"the rules of now, in {_days(count)}" for count in AHEAD)],
            [retained(now), *(retained(now, count) for count in AHEAD)],
        ),
    ]
    if rules is not None:
        questions.append(_Question(["the rules asked about"], [retained(rules)]))
    return questions


def _level(number: int) -> str:
    return f"level_{number}"


def _schema(questions: int, *fields: pa.Field) -> pa.Schema:
    return pa.schema([*fields, *(pa.field(_level(at), pa.int32()) for at in range(questions))])


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
    names = [_level(at) for at in range(questions)]
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
        columns += [pa.repeat(pa.scalar(level, pa.int32()), found.num_rows) for level in levels]
        yield pa.record_batch(columns, schema=_range_schema(questions))

    batches = interleaved(some, read, threads=reader.threads)
    return _highest([pa.Table.from_batches(batches, _range_schema(questions))], questions)


def _entries(run: Run, reader: TableReader, ranges: pa.Table, questions: int) -> DataFrame:
    """Read every range: address_hash, its folder at the top, and the levels of each entry."""
    schema = _schema(
        questions, pa.field("address_hash", pa.int64()), pa.field("prefix", pa.string())
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
        # Paths that are no UTF-8 are told by what of them is.
        paths = entries.column("head_path").to_pylist()
        folders = [path.partition(b"/") for path in paths]
        names = [
            (name + slash if slash else b"").decode(errors="replace") for name, slash, _ in folders
        ]
        columns = [entries.column("address_hash"), pa.array(names, pa.string())]
        columns += [
            pa.repeat(pa.scalar(row[name], pa.int32()), entries.num_rows)
            for name in schema.names[2:]
        ]
        yield pa.record_batch(columns, schema=schema)

    yield from interleaved(ranges.to_pylist(), read, threads=reader.threads)


@surfacing_errors()
def _answered(
    run: Run, listed: DataFrame, entries: DataFrame, questions: Sequence[_Question]
) -> WhatIf:
    names = [_level(at) for at in range(len(questions))]
    known = entries.groupBy("address_hash").agg(
        sf.min("prefix").alias("prefix"), *(sf.max(name).alias(name) for name in names)
    )
    sums = (
        listed.join(known, on="address_hash", how="left")
        .groupBy("prefix", *names)
        .agg(sf.count("*").alias("objects"), sf.sum("size_bytes").alias("size_bytes"))
    )
    told = sums.limit(_MOST_SUMS + 1).toArrow()
    if told.num_rows > _MOST_SUMS:
        told = (
            sums.groupBy(sf.lit(_TOO_MANY).alias("prefix"), *names)
            .agg(sf.sum("objects").alias("objects"), sf.sum("size_bytes").alias("size_bytes"))
            .toArrow()
        )
    answers = [
        _freed(told, names[at], question.names[number], number)
        for at, question in enumerate(questions)
        for number in range(len(question.names))
    ]
    never = told.filter(pc.is_null(told[names[0]]))
    return WhatIf(run.repository.id, str(run.key), _total(never), tuple(answers))


def _freed(sums: pa.Table, level: str, name: str, number: int) -> Freed:
    """Sum up what the rules of a number do not retain: they retain what has a higher level."""
    free = sums.filter(pc.less_equal(pc.fill_null(sums[level], 0), number))
    by_prefix = (
        free.set_column(0, "prefix", pc.fill_null(free["prefix"], ""))
        .group_by("prefix")
        .aggregate([("objects", "sum"), ("size_bytes", "sum")])
        .sort_by([("size_bytes_sum", "descending"), ("prefix", "ascending")])
    )
    top = tuple(tuple(row.values()) for row in by_prefix.slice(0, TOP).to_pylist())
    return Freed(name, *_total(free), top)


def _total(sums: pa.Table) -> tuple[int, int]:
    return pc.sum(sums["objects"]).as_py() or 0, pc.sum(sums["size_bytes"]).as_py() or 0


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"
