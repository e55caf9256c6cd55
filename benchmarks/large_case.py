"""Make the case in lakeFS's design document: its tables, and the plan of its objects."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import runs
from benchmarks.hooks.lakegc_bench_plan import COMMITTED, GROUP, STAGED, Numbers, Plan
from benchmarks.synthetic_server import PREFIX, Refs
from lakegc_dagster.sandbox.tables import TableFile, write_metarange, write_range, write_refs_dump
from spark_core.graveler import CommitRecord, Entry, Timestamp
from spark_core.model import Branch

Form = Literal["few", "many"]

# Raise this number when the same case is made in another way.
_MADE_AS = 1
DAY = 86_400
_OBJECTS, _SLICES, _BRANCHES, _COMMITS = 20_000_000, 2_000, 1_000, 30_000
_FEW_RANGES = 130
# For the form `many`: ranges that a commit rewrites, and entries of each.
WRITTEN, _ENTRIES = 4, 417
_STAGED_FILE_ROWS = 1_000_000
_RELATIVE = 1
RETENTION = f"{PREFIX}/retention/gc"
COMMITS_RUN, UNCOMMITTED_RUN = "benchcommits00000000", "benchuncommitted0000"


@dataclass(frozen=True)
class Case:
    """A part of the design case.

    Attributes:
        form: Form of the committed entries, `few` or `many`.
        factor: How many times the design case; below 1 a part of it.
    """

    form: Form
    factor: float

    @property
    def slices(self) -> int:
        """Slices of the objects."""
        return max(20, round(_SLICES * self.factor))

    @property
    def slice_objects(self) -> int:
        """Objects in each."""
        return int(_OBJECTS * self.factor) // self.slices // GROUP * GROUP

    @property
    def branches(self) -> int:
        """Branches beside main."""
        return max(5, round(_BRANCHES * self.factor))

    @property
    def commits(self) -> int:
        """Commits."""
        return max(30, round(_COMMITS * self.factor))

    def plan(self, now: int) -> Plan:
        """Return the plan of its objects, made at an instant in seconds since 1970."""
        return Plan(self.slices, self.slice_objects, made_at=now, served_at=now)


@dataclass(frozen=True)
class Layout:
    """The ranges of the committed objects of the form `many`.

    Every commit rewrites some buckets, in turn. A new version of a bucket keeps most objects of the
    version before.

    Attributes:
        buckets: Number of parts of the paths; each part is one range of a tree.
        ranges: Number of all ranges, which are written in this order.
        entries: Entries of each range.
        replaced: Entries with a new object in each further version of a bucket.
        left: Remaining objects, in a range of their own that every tree has; none for 0.
    """

    buckets: int
    ranges: int
    entries: int
    replaced: int
    left: int

    @classmethod
    def of(cls, commits: int, committed: int) -> Layout:
        """Lay out a number of committed objects."""
        ranges = commits * WRITTEN
        buckets = max(WRITTEN, min(40, ranges // 30))
        entries = min(_ENTRIES, committed // buckets)
        replaced = min(entries, (committed - buckets * entries) // (ranges - buckets))
        return cls(
            buckets,
            ranges,
            entries,
            replaced,
            committed - buckets * entries - replaced * (ranges - buckets),
        )

    def versions(self, bucket: int) -> int:
        """Versions of a bucket."""
        return len(range(bucket, self.ranges, self.buckets))

    def first(self, bucket: int) -> int:
        """Number of a bucket's first object among the committed ones."""
        before = sum(self.versions(number) - 1 for number in range(bucket))
        return bucket * self.entries + before * self.replaced


@dataclass(frozen=True)
class Writer:
    """Writes tables into a namespace.

    Attributes:
        plan: Plan of the objects.
        directory: Directory of the namespace.
    """

    plan: Plan
    directory: Path

    def store(self, table: TableFile) -> TableFile:
        """Write a table's file; return the table without its content."""
        file = self.directory / PREFIX / table.id
        if not file.exists():
            file.write_bytes(table.data)
        return replace(table, data=b"")

    def entries(self, paths: Sequence[str], numbers: Numbers) -> list[Entry]:
        """Make the entries of committed objects by their numbers among the committed ones."""
        objects = self.plan.committed(numbers)
        columns = zip(
            paths,
            self.plan.addresses(objects).to_pylist(),
            self.plan.sizes(objects).tolist(),
            self.plan.checksums(objects),
            self.plan.times(objects).tolist(),
            strict=True,
        )
        return [
            Entry(
                path.encode(),
                address,
                _RELATIVE,
                size,
                checksum,
                datetime.fromtimestamp(at, UTC),
                "",
            )
            for path, address, size, checksum, at in columns
        ]

    def bucket(self, layout: Layout, bucket: int) -> list[TableFile]:
        """Write every version of a bucket."""
        paths = [f"bucket-{bucket:02}/part-{number:05}.parquet" for number in range(layout.entries)]
        first = layout.first(bucket)
        entries = self.entries(paths, np.arange(first, first + layout.entries))
        first += layout.entries
        written = [self.store(write_range(entries))]
        at = 0
        for _ in range(1, layout.versions(bucket)):
            places = [(at + number) % layout.entries for number in range(layout.replaced)]
            new = self.entries(
                [paths[place] for place in places], np.arange(first, first + layout.replaced)
            )
            for place, entry in zip(places, new, strict=True):
                entries[place] = entry
            at, first = (at + layout.replaced) % layout.entries, first + layout.replaced
            written.append(self.store(write_range(entries)))
        return written

    def single(self, name: str, first: int, end: int) -> TableFile:
        """Write a range of consecutive committed objects."""
        paths = [f"{name}/part-{number:09}.parquet" for number in range(end - first)]
        return self.store(write_range(self.entries(paths, np.arange(first, end))))


def made(scratch: Path, case: Case) -> Path:
    """Return the directory of a case, and make it if it does not exist."""
    directory = scratch / f"large-{case.form}-{case.factor:g}-{_MADE_AS}"
    told = directory / "made.json"
    if told.exists():
        return directory
    if directory.exists():
        shutil.rmtree(directory)
    namespace = directory / "blockstore" / runs.REPOSITORY
    (namespace / PREFIX).mkdir(parents=True)
    plan = case.plan(int(time.time()))
    writer = Writer(plan, namespace)
    metaranges = _few(case, writer) if case.form == "few" else _many(case, writer)
    refs = _write_refs(case, writer, metaranges)
    (directory / "refs.json").write_text(json.dumps(asdict(refs)))
    plan.write(directory / "plan.json")
    told.write_text(json.dumps({**asdict(case), "made_at": plan.made_at}))
    return directory


def _few(case: Case, writer: Writer) -> list[str]:
    """Write few large ranges, one after each group of commits; return each commit's metarange."""
    committed = writer.plan.groups * COMMITTED
    count = max(4, round(_FEW_RANGES * case.factor))
    ends = [committed * (number + 1) // count for number in range(count)]
    names = [f"table-{number:05}" for number in range(count)]
    with ProcessPoolExecutor() as pool:
        ranges = list(pool.map(writer.single, names, [0, *ends[:-1]], ends))
    metaranges = [writer.store(write_metarange(ranges[: number + 1])).id for number in range(count)]
    return [metaranges[number * count // case.commits] for number in range(case.commits)]


def _many(case: Case, writer: Writer) -> list[str]:
    """Write many small ranges, some with every commit; return each commit's metarange."""
    layout = Layout.of(case.commits, writer.plan.groups * COMMITTED)
    with ProcessPoolExecutor() as pool:
        versions = list(pool.map(partial(writer.bucket, layout), range(layout.buckets)))
    end = writer.plan.groups * COMMITTED
    left = [writer.single("left", end - layout.left, end)] if layout.left else []
    tree: dict[int, TableFile] = {}
    metaranges = []
    for number in range(layout.ranges):
        tree[number % layout.buckets] = versions[number % layout.buckets][number // layout.buckets]
        if number % WRITTEN == WRITTEN - 1:
            ranges = [tree[bucket] for bucket in sorted(tree)]
            metaranges.append(writer.store(write_metarange([*ranges, *left])).id)
    return metaranges


def _write_refs(case: Case, writer: Writer, metaranges: Sequence[str]) -> Refs:
    """Write commits, branches, the server's list of commits, and its scan of staged entries."""
    commits = commits_of(writer.plan, metaranges)
    heads = {
        f"branch-{number:05}": commits[(number + 1) * len(commits) // case.branches - 1].id
        for number in range(case.branches)
    }
    heads["main"] = commits[-1].id
    staged = writer.plan.groups * STAGED
    write_list(writer.directory, COMMITS_RUN, commits)
    write_staged(writer.directory, UNCOMMITTED_RUN, [(writer.plan, staged)])
    return Refs(
        branches=dict(sorted(heads.items())),
        dump=write_dump(writer, commits, heads),
        commits_run=COMMITS_RUN,
        uncommitted_run=UNCOMMITTED_RUN,
        staged=staged,
        created_at=writer.plan.made_at - 100 * DAY,
    )


def commits_of(plan: Plan, metaranges: Sequence[str]) -> list[CommitRecord]:
    """Make the commits of the case, each after the other, from each one's metarange."""
    begins, ends = plan.made_at - 89 * DAY, plan.made_at - 2 * DAY
    dates = [
        begins + (ends - begins) * number // len(metaranges) for number in range(len(metaranges))
    ]
    return chained([], metaranges, dates)


def chained(
    before: Sequence[CommitRecord], metaranges: Sequence[str], dates: Sequence[int]
) -> list[CommitRecord]:
    """Make a commit of each metarange, one after the other, the first after some others.

    Returns:
        The commits before and the new ones.
    """
    commits = list(before)
    for metarange, date in zip(metaranges, dates, strict=True):
        commits.append(
            CommitRecord(
                committer="bench",
                message=f"commit {len(commits)}",
                creation_date=Timestamp(date),
                metarange_id=metarange,
                metadata={},
                parents=(commits[-1].id,) if commits else (),
                generation=len(commits) + 1,
            ).with_id()
        )
    return commits


def write_dump(
    writer: Writer, commits: Sequence[CommitRecord], heads: Mapping[str, str]
) -> dict[str, str]:
    """Write a refs dump; return the ids of its metaranges by the API's names."""
    commits_id, branches_id, tags_id, tables = write_refs_dump(
        commits=commits, branches=[Branch(name, head) for name, head in heads.items()], tags=[]
    )
    for table in tables:
        writer.store(table)
    return {
        "commits_meta_range_id": commits_id,
        "branches_meta_range_id": branches_id,
        "tags_meta_range_id": tags_id,
    }


def write_list(namespace: Path, run: str, commits: Sequence[CommitRecord]) -> None:
    """Write the server's list of retained commits."""
    listed = namespace / RETENTION / "commits" / f"run_id={run}"
    listed.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{commit.id},false,{commit.metarange_id}\n" for commit in commits)
    (listed / "commits.csv").write_text(f"commit_id,expired,metarange_id\n{rows}")


def write_staged(namespace: Path, run: str, staged: Sequence[tuple[Plan, int]]) -> None:
    """Write the server's scan of staged entries.

    Args:
        namespace: Directory of the namespace.
        run: Id of the scan.
        staged: Number of staged objects of each plan.
    """
    directory = namespace / RETENTION / "uncommitted" / run / "uncommitted"
    directory.mkdir(parents=True, exist_ok=True)
    schema = pa.schema(
        [
            pa.field("physical_address", pa.string(), nullable=False),
            pa.field("creation_date", pa.int64(), nullable=False),
        ]
    )
    parts = [
        (plan, np.arange(first, min(first + _STAGED_FILE_ROWS, count)))
        for plan, count in staged
        for first in range(0, count, _STAGED_FILE_ROWS)
    ]
    for number, (plan, numbers) in enumerate(parts):
        objects = plan.staged(numbers)
        table = pa.table([plan.addresses(objects), pa.array(plan.times(objects))], schema=schema)
        pq.write_table(table, directory / f"part-{number:05}", compression="GZIP")
