"""What other rules would let go: one pass over lakeFS's tables answers for all of them.

For each object it finds under how many of the rules asked about some retained commit has it. The
objects are those of a stored mark's listing whose names and ages let them go, and that no sweep has
deleted since. What a hold keeps by its address or path is in no answer. Hidden entries
(`hidden_entries`) are not looked for, so answers are upper bounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler, retention
from spark_core.addresses import candidates as rule
from spark_core.addresses.address_hashes import hashed
from spark_core.holds import Holds
from spark_core.mark.group_sums import AT_THE_TOP, NAMES_OF_A_TASK, NO_BRANCH, OTHERS, GroupSums
from spark_core.model import Refs, RetentionRules
from spark_core.plain_text import Price, counted
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures, Groups
from spark_core.records.reading import StoredTable
from spark_core.references.commits import ReadCommits, read_commits, tables_prefix
from spark_core.references.expired_entries import UNREADABLE
from spark_core.references.metaranges import work_of_metaranges
from spark_core.references.range_entries import read_whole, resolved
from spark_core.references.ranges import tasks_of
from spark_core.references.table_reader import TableReader
from spark_core.report.fates import total
from spark_core.run import Run
from spark_core.spark.exchange import (
    AnySource,
    Batches,
    Exchange,
    JoinedSource,
    Sent,
    Source,
    numbers_of,
    source_of,
)
from spark_core.spark.tasks import interleaved, run_tasks

DAYS = (1, 3, 7, 14, 21, 30, 60, 90)
# Days from now for which the rules of now are asked.
AHEAD = (7, 30)
TOP = 10

_METARANGES_OF_A_TASK = 32
NEVER_COMMITTED = "(never committed)"

# Level of an object that no commit has, and the number of its branch.
_IN_NO_COMMIT = -1
_KEEPER, _FOLDER, _BRANCH = "keeper", "folder", "branch"
# Numbers of who keeps a commit alone: the largest of an object's commits, and one that is the
# larger the smaller that number is. Their sum tells whether it is the same for all of them.
_FIRST, _LAST = "first_keeper", "last_keeper"
_HASHES = pa.schema([pa.field("address_hash", pa.int64(), nullable=False)])
_CANDIDATES = _HASHES.append(pa.field("size_bytes", pa.int64(), nullable=False))
# Later than any date that a rule of now can keep a commit to.
_FAR = timedelta(days=300 * 365)


@dataclass(frozen=True)
class Freed:
    """What would be free under some rules.

    Attributes:
        name: The rules in words.
        objects: Number of objects.
        size_bytes: Their bytes.
        by_prefix: Name, objects and bytes of the folders at the top with most bytes, and of all
            others.
        by_branch: Name, objects and bytes of the branches with most bytes; an object counts for the
            branch whose commits keep it longest under the rules of now.
    """

    name: str
    objects: int
    size_bytes: int
    by_prefix: Groups
    by_branch: Groups


@dataclass(frozen=True)
class WhatIf:
    """The answers, from a stored mark's listing and the refs as they are now.

    Attributes:
        repository: Repository id.
        run: The run whose listing was read.
        never_committed: Objects and bytes that no commit has, in every answer.
        swept: Objects and bytes of the listing that sweeps have deleted since; in no answer.
        kept_by_one: `without ...`, objects and bytes of the branches, tags and rules that alone
            keep most, under the rules of now: what goes in the end once one of them is gone.
        answers: One for each question, in the order asked.
        price: Of the settings; None if they have none.
        asked_at: Before the refs, the commits and the reports of sweeps were read.

    Examples:
        >>> what_if(run, [1]).never_committed
        (0, 0)
    """

    repository: str
    run: str
    never_committed: tuple[int, int]
    swept: tuple[int, int]
    kept_by_one: Groups
    answers: tuple[Freed, ...]
    price: Price | None
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
        run: A run with a mark.
        days: Days that every branch would keep, each for itself.
        rules: Other rules, answered exactly.

    Raises:
        ChainError: If the run has no mark.
        CorruptTableError: If a table of lakeFS cannot be read whole.

    Examples:
        >>> [(each.name, each.objects) for each in what_if(run, [7, 90]).answers[:2]]
        [('every branch keeps 90 days', 0), ('every branch keeps 7 days', 1)]
    """
    asked_at = run.now()
    slices = run.load(tables.NAMESPACE_SLICES)
    prefix = tables_prefix(run)
    found = read_commits(run, prefix)
    questions = _questions(run, found, days, rules)
    branches, keepers = _keepers(found.refs, found.rules, run.now())
    soles, sole_of = _soles(run, found)
    reader = TableReader.of(run, prefix)
    metaranges = _levels_of_metaranges(found.refs, questions, keepers, sole_of)
    ranges = _ranges(run, reader, metaranges, len(questions))
    sources: dict[str, AnySource] = {
        "candidates": _listed(slices, found.holds),
        "staged": run.load(tables.UNCOMMITTED_ADDRESSES).source(["address_hash"]),
        "deleted": _deleted_since(run),
        "entries": _entries(run, reader, ranges, _ForAll(found.holds, questions, len(soles))),
    }
    names = [*(name for question in questions for name in question.names), NEVER_COMMITTED]
    asked = _answers_of(questions)
    told, _ = Exchange(sources, partial(_free, asked, branches, soles), _HASHES, _no_rows).run(
        lambda: run.spark, threads=run.options.read_threads
    )
    free = zip(*(one.free for one in told), strict=True)
    *answers, never = map(_freed, names, free)
    return WhatIf(
        run.repository.id,
        str(run.key),
        (never.objects, never.size_bytes),
        total(one.swept for one in told),
        _kept_by_one(told),
        tuple(answers),
        _price(run),
        asked_at,
    )


def _levels_of_metaranges(
    refs: Refs,
    questions: Sequence[_Question],
    keepers: Mapping[str, int],
    sole_of: Mapping[str, Sequence[int]],
) -> dict[str, list[int]]:
    """Return for each metarange the highest numbers that any of its commits has.

    Those are its level in each question, its keeper, and who may keep it alone.
    """
    metaranges: dict[str, list[int]] = {}
    for commit in refs.commits.values():
        if commit.metarange_id:
            own = [
                *(question.level(commit.id) for question in questions),
                keepers[commit.id],
                *sole_of[commit.id],
            ]
            before = metaranges.get(commit.metarange_id, [0] * len(own))
            metaranges[commit.metarange_id] = list(map(max, before, own))
    return metaranges


def _answers_of(questions: Sequence[_Question]) -> list[tuple[str, int]]:
    """Return for each answer the level that decides, and the highest one that is not retained.

    The last answer is what no commit ever had.
    """
    asked = [
        (_level(at), number)
        for at, question in enumerate(questions)
        for number in range(len(question.names))
    ]
    return [*asked, (_level(0), _IN_NO_COMMIT)]


def _price(run: Run) -> Price | None:
    """Return what a GB of what may go now costs on the average: what would go has no class here."""
    if run.options.price is None:
        return None
    expired = ExpiredFigures.of(run.load(tables.EXPIRED_ADDRESSES).manifest)
    return run.options.price.over(expired.bytes_by_class, expired.expired_bytes)


def _listed(slices: StoredTable, held: Holds) -> AnySource:
    """Return the listed objects that may go by name and age, and that no hold keeps by address."""
    columns = [*_CANDIDATES.names, "standing", *(["address"] if held.of_addresses else [])]
    return slices.source(columns).through(_CANDIDATES, partial(_candidates, held))


def _candidates(held: Holds, batches: Batches) -> Batches:
    for batch in batches:
        stays = pc.not_equal(batch.column("standing"), rule.CANDIDATE)
        if held.of_addresses:
            stays = pc.or_(stays, held.protecting(batch.column("address")))
        yield batch.filter(pc.invert(stays)).select(_CANDIDATES.names)


class _ForAll:
    """Makes the numbers of entries that a hold keeps by their paths: retained by every question.

    Args:
        held: The holds of now.
        questions: What is asked.
        soles: Number of names that may keep an object alone; the last one stands for several.
    """

    def __init__(self, held: Holds, questions: Sequence[_Question], soles: int) -> None:
        self.held = held
        self.questions = len(questions)
        self._number = {
            **{_level(at): len(asked.names) for at, asked in enumerate(questions)},
            _FIRST: soles,
            _LAST: 1,
        }

    def column(self, name: str, number: int, is_held: pa.BooleanArray) -> pa.Array:
        """Return a number for each entry: that of its range, or what the hold makes of it."""
        own = pa.scalar(number, pa.int64())
        if name not in self._number:
            return pa.repeat(own, len(is_held))
        return pc.if_else(is_held, pa.scalar(self._number[name], pa.int64()), own)


def _deleted_since(run: Run) -> AnySource:
    """Return the hashes of the addresses that sweeps of this run and of later ones have deleted.

    What was restored since counts as deleted until the next mark lists it.
    """
    found: list[AnySource] = [source_of(_HASHES.empty_table(), _HASHES)]
    for key in tables.runs(run.store, tables.DELETION_REPORT.folder):
        if key < run.key:
            continue
        # A sweep that did not end has no report yet.
        with suppress(*UNREADABLE):
            stored = replace(run, key=key).load(tables.DELETION_REPORT)
            found.append(stored.source(["address", "outcome"]).through(_HASHES, _gone))
    return JoinedSource(found)


def _gone(batches: Batches) -> Batches:
    for batch in batches:
        is_gone = pc.is_in(batch.column("outcome"), value_set=pa.array(["deleted", "already_gone"]))
        yield pa.record_batch([hashed(batch.column("address").filter(is_gone))], schema=_HASHES)


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


def _soles(run: Run, found: ReadCommits) -> tuple[list[str], dict[str, tuple[int, int]]]:
    """Number the commits by who keeps each alone; a commit that nobody retains says nothing.

    Returns:
        Names, of which the last one stands for several; and for each commit the numbers `_FIRST`
        and `_LAST`.
    """
    options = run.options
    retained = set(found.table["commit_id"].to_pylist())
    alone = retention.sole_keepers(
        found.refs,
        found.rules,
        run.now(),
        also_kept=set(found.holds.commits(found.refs)),
        clock_margin=options.clock_margin,
        tags_protect=options.tags_protect,
        keep_last=options.keep_last,
    )
    names = [*sorted({name for name in alone.values() if name is not None}), ""]
    number = {name: at for at, name in enumerate(names, start=1)}
    numbers = {}
    for id_ in found.refs.commits:
        # What a server's list or an hour of the clock keeps beside them is not known.
        at = number[alone[id_] or ""] if id_ in alone else len(names)
        is_kept = id_ in alone or id_ in retained
        numbers[id_] = (at, len(names) + 1 - at) if is_kept else (0, 0)
    return names, numbers


def _questions(
    run: Run, found: ReadCommits, days: Sequence[int], rules: RetentionRules | None
) -> list[_Question]:
    refs, now = found.refs, found.rules
    held = found.holds.commits(refs)

    def retained(asked: RetentionRules | None, ahead: int = 0) -> frozenset[str]:
        found = retention.retained_commits(
            refs,
            asked,
            run.now() + timedelta(days=ahead),
            clock_margin=run.options.clock_margin,
            tags_protect=run.options.tags_protect,
            keep_last=run.options.keep_last,
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
    return [*(_level(at) for at in range(questions)), _KEEPER, _FIRST, _LAST]


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
        rows=work_of_metaranges(len(items)),
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


def _entries(run: Run, reader: TableReader, ranges: pa.Table, for_all: _ForAll) -> Source[pa.Table]:
    """Read every range: address_hash, its folder at the top, and the numbers of each entry."""
    schema = _schema(for_all.questions, *_HASHES, pa.field(_FOLDER, pa.string()))
    return Source(
        schema,
        tasks_of(ranges, run.options.range_partitions),
        pc.sum(ranges["count"]).as_py() or 0,
        partial(_read_ranges, reader, schema, for_all),
        _known,
    )


def _known(entries: pa.Table) -> pa.Table:
    """Make one row of the entries of each hash."""
    how = [(_FOLDER, "min"), *((name, "max") for name in entries.column_names[2:])]
    found = entries.group_by("address_hash").aggregate(how)
    return found.rename_columns(entries.column_names).cast(entries.schema)


def _read_ranges(
    reader: TableReader, schema: pa.Schema, for_all: _ForAll, ranges: pa.Table
) -> Iterator[pa.RecordBatch]:
    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        entries = resolved(reader.namespace, read_whole(reader, row))
        # Of a path that is not UTF-8, the rest is shown.
        paths = entries.column("head_path").to_pylist()
        folders = [path.partition(b"/") for path in paths]
        names = [
            (name + slash).decode(errors="replace") if slash else AT_THE_TOP
            for name, slash, _ in folders
        ]
        columns = [entries.column("address_hash"), pa.array(names, pa.string())]
        is_held = pc.is_valid(for_all.held.reasons_of_paths(entries.column("head_path")))
        columns += [for_all.column(name, row[name], is_held) for name in schema.names[2:]]
        yield pa.record_batch(columns, schema=schema)

    yield from interleaved(ranges.to_pylist(), read, threads=reader.threads)


@dataclass(frozen=True)
class _Told:
    """What a bucket tells.

    It is what is deleted already; by answer what is free by folder, by branch; and what one branch,
    tag or rule alone keeps.
    """

    swept: tuple[int, int]
    free: Sequence[tuple[GroupSums, GroupSums]]
    alone: GroupSums


def _free(
    asked: Sequence[tuple[str, int]],
    branches: Sequence[str],
    soles: Sequence[str],
    bucket: Mapping[str, pa.Table],
) -> Sent[_Told]:
    """Sum up the objects of a bucket that each answer frees.

    Args:
        asked: For each answer the level that decides, and the highest one that is not retained.
        branches: Names of branches, by their numbers.
        soles: Names of those who may keep an object alone, as for `_soles`.
        bucket: The sources of `what_if`.
    """
    candidates = bucket["candidates"]
    hashes = candidates["address_hash"]
    is_deleted, is_staged = (
        pc.is_in(hashes, value_set=bucket[name]["address_hash"].combine_chunks())
        for name in ("deleted", "staged")
    )
    swept = candidates.filter(is_deleted)
    listed = candidates.filter(pc.invert(pc.or_(is_deleted, is_staged)))
    known = listed.join(_known(bucket["entries"]), "address_hash", join_type="left outer")
    keeper = numbers_of(known[_KEEPER].fill_null(0)) % len(branches)
    branch = pc.if_else(known[_KEEPER].is_valid(), pa.array(branches).take(pa.array(keeper)), None)
    levels = sorted({level for level, _ in asked})
    by_name = [
        pa.table(
            {
                "name": names.fill_null(NEVER_COMMITTED),
                **{level: known[level].fill_null(_IN_NO_COMMIT) for level in levels},
                "size_bytes": known["size_bytes"],
            }
        )
        .group_by(["name", *levels])
        .aggregate([([], "count_all"), ("size_bytes", "sum")])
        for names in (known[_FOLDER], branch)
    ]
    free = []
    for level, most in asked:
        by_prefix, by_branch = (
            _summed(sums.filter(pc.less_equal(sums[level], most))) for sums in by_name
        )
        free.append((by_prefix, by_branch))
    size_bytes = pc.sum(swept["size_bytes"]).as_py() or 0
    return Sent(_Told((swept.num_rows, size_bytes), free, _alone(soles, known)), {})


def _alone(soles: Sequence[str], known: pa.Table) -> GroupSums:
    """Sum up the objects of which all retained commits are kept by the same one alone."""
    first, last = (numbers_of(known[name].fill_null(0)) for name in (_FIRST, _LAST))
    is_alone = pa.array((first + last == len(soles) + 1) & (first < len(soles)))
    some = known.filter(is_alone)
    names = pa.array(soles).take(pc.subtract(some[_FIRST], 1))
    return GroupSums.of(names, some["size_bytes"])


def _kept_by_one(told: Sequence[_Told]) -> Groups:
    found = GroupSums()
    for one in told:
        found.merge(one.alone)
    groups = found.first(TOP).groups
    return tuple(
        (name if name == OTHERS else f"without {name}", objects, size_bytes)
        for name, objects, size_bytes in groups
    )


def _summed(free: pa.Table) -> GroupSums:
    found = GroupSums()
    for row in free.select(["name", "count_all", "size_bytes_sum"]).to_pylist():
        found.objects[row["name"]] += row["count_all"]
        found.size_bytes[row["name"]] += row["size_bytes_sum"]
    return found.first(NAMES_OF_A_TASK)


def _no_rows(_number: int, _rows: pa.Table) -> None:
    """Work on no rows: none are sent on."""


def _freed(name: str, told: Sequence[tuple[GroupSums, GroupSums]]) -> Freed:
    """Put together what all buckets told of one answer."""
    by_prefix, by_branch = GroupSums(), GroupSums()
    for one in told:
        by_prefix.merge(one[0])
        by_branch.merge(one[1])
    objects, size_bytes = by_prefix.objects.total(), by_prefix.size_bytes.total()
    return Freed(
        name, objects, size_bytes, by_prefix.first(TOP).groups, by_branch.first(TOP).groups
    )
