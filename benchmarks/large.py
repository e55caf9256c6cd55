"""Measure a mark (and a sweep) of the case in lakeFS's design document, on synthetic servers.

    # all of it: 20 million objects; 14 GB of disk
    python -m benchmarks.large --scratch /scratch
    # a hundredth of it
    python -m benchmarks.large --factor 0.01 --form many --sweep
    # make it, and measure nothing
    python -m benchmarks.large --factor 0.01 --make

The case has 20 million objects in 2,000 slices, 5 million of them staged and 1 million to go, 1,000
branches and 30,000 commits. It has two forms: `few` large ranges (130 of 100,000 entries), and
`many` (120,000 ranges with 50 million entries). Objects are only numbers
(`hooks/lakegc_bench_plan.py`). Ranges, metaranges, the refs dump and the server's own files are
real; they are made once and kept below `--scratch`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
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
from spark_core.graveler import (
    CommitRecord,
    Entry,
    TableFile,
    Timestamp,
    write_metarange,
    write_range,
    write_refs_dump,
)
from spark_core.model import Branch

Form = Literal["few", "many"]

# Raise this number when the same case is made in another way.
_MADE_AS = 1
_DAY = 86_400
_OBJECTS, _SLICES, _BRANCHES, _COMMITS = 20_000_000, 2_000, 1_000, 30_000
_FEW_RANGES = 130
# For the form `many`: ranges that a commit rewrites, and entries of each.
_WRITTEN, _ENTRIES = 4, 417
_STAGED_FILE_ROWS = 1_000_000
_RELATIVE = 1
_COMMITS_RUN, _UNCOMMITTED_RUN = "benchcommits00000000", "benchuncommitted0000"


@dataclass(frozen=True)
class Case:
    """A part of the design case.

    Attributes:
        form: Form of the committed entries, `few` or `many`.
        factor: Share of the design case, above 0 and up to 1.
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
        ranges = commits * _WRITTEN
        buckets = max(_WRITTEN, min(40, ranges // 30))
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
class _Writer:
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
    writer = _Writer(plan, namespace)
    metaranges = _few(case, writer) if case.form == "few" else _many(case, writer)
    refs = _write_refs(case, writer, metaranges)
    (directory / "refs.json").write_text(json.dumps(asdict(refs)))
    plan.write(directory / "plan.json")
    told.write_text(json.dumps({**asdict(case), "made_at": plan.made_at}))
    return directory


def _few(case: Case, writer: _Writer) -> list[str]:
    """Write few large ranges, one after each group of commits; return each commit's metarange."""
    committed = writer.plan.groups * COMMITTED
    count = max(4, round(_FEW_RANGES * case.factor))
    ends = [committed * (number + 1) // count for number in range(count)]
    names = [f"table-{number:05}" for number in range(count)]
    with ProcessPoolExecutor() as pool:
        ranges = list(pool.map(writer.single, names, [0, *ends[:-1]], ends))
    metaranges = [writer.store(write_metarange(ranges[: number + 1])).id for number in range(count)]
    return [metaranges[number * count // case.commits] for number in range(case.commits)]


def _many(case: Case, writer: _Writer) -> list[str]:
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
        if number % _WRITTEN == _WRITTEN - 1:
            ranges = [tree[bucket] for bucket in sorted(tree)]
            metaranges.append(writer.store(write_metarange([*ranges, *left])).id)
    return metaranges


def _write_refs(case: Case, writer: _Writer, metaranges: Sequence[str]) -> Refs:
    """Write commits, branches, the server's list of commits, and its scan of staged entries."""
    begins, ends = writer.plan.made_at - 89 * _DAY, writer.plan.made_at - 2 * _DAY
    commits: list[CommitRecord] = []
    for number, metarange in enumerate(metaranges):
        commits.append(
            CommitRecord(
                committer="bench",
                message=f"commit {number}",
                creation_date=Timestamp(begins + (ends - begins) * number // len(metaranges)),
                metarange_id=metarange,
                metadata={},
                parents=(commits[-1].id,) if commits else (),
                generation=number + 1,
            ).with_id()
        )
    heads = {
        f"branch-{number:05}": commits[(number + 1) * len(commits) // case.branches - 1].id
        for number in range(case.branches)
    }
    heads["main"] = commits[-1].id
    commits_id, branches_id, tags_id, tables = write_refs_dump(
        commits=commits, branches=[Branch(name, head) for name, head in heads.items()], tags=[]
    )
    for table in tables:
        writer.store(table)
    retention = writer.directory / PREFIX / "retention" / "gc"
    listed = retention / "commits" / f"run_id={_COMMITS_RUN}"
    listed.mkdir(parents=True)
    rows = "".join(f"{commit.id},false,{commit.metarange_id}\n" for commit in commits)
    (listed / "commits.csv").write_text(f"commit_id,expired,metarange_id\n{rows}")
    staged = writer.plan.groups * STAGED
    _write_staged(writer.plan, retention / "uncommitted" / _UNCOMMITTED_RUN / "uncommitted", staged)
    return Refs(
        branches=dict(sorted(heads.items())),
        dump={
            "commits_meta_range_id": commits_id,
            "branches_meta_range_id": branches_id,
            "tags_meta_range_id": tags_id,
        },
        commits_run=_COMMITS_RUN,
        uncommitted_run=_UNCOMMITTED_RUN,
        staged=staged,
        created_at=writer.plan.made_at - 100 * _DAY,
    )


def _write_staged(plan: Plan, directory: Path, staged: int) -> None:
    directory.mkdir(parents=True)
    schema = pa.schema(
        [
            pa.field("physical_address", pa.string(), nullable=False),
            pa.field("creation_date", pa.int64(), nullable=False),
        ]
    )
    for number, first in enumerate(range(0, staged, _STAGED_FILE_ROWS)):
        objects = plan.staged(np.arange(first, min(first + _STAGED_FILE_ROWS, staged)))
        table = pa.table([plan.addresses(objects), pa.array(plan.times(objects))], schema=schema)
        pq.write_table(table, directory / f"part-{number:05}", compression="GZIP")


@contextmanager
def served(directory: Path, *, latency_ms: float) -> Iterator[runs.Served]:
    """Serve a case, after the files of the run before are removed."""
    kept = {directory / "made.json", directory / "plan.json", directory / "refs.json"}
    retention = directory / "blockstore" / runs.REPOSITORY / PREFIX / "retention" / "gc"
    kept_runs = [
        retention / "commits" / f"run_id={_COMMITS_RUN}",
        retention / "uncommitted" / _UNCOMMITTED_RUN,
    ]
    for folder in retention.iterdir():
        for run in list(folder.iterdir()) if folder.is_dir() else [folder]:
            if run not in kept_runs:
                shutil.rmtree(run) if run.is_dir() else run.unlink()
    for file in directory.iterdir():
        if file.is_file() and file not in kept:
            file.unlink()
    plan = replace(Plan.read(directory / "plan.json"), served_at=int(time.time()))
    plan.write(directory / "plan.json")
    with runs.serving(
        "benchmarks.synthetic_server", str(directory), "--latency-ms", str(latency_ms)
    ) as (address, pid):
        yield runs.Served(
            settings={
                "server": {"endpoint": address},
                "storage": {"local_path": str(directory / "blockstore")},
            },
            environment={
                "LAKEGC_ACCESS_KEY_ID": "AKIAJBENCHBENCHBENCH",
                "LAKEGC_SECRET_ACCESS_KEY": "bench",
            },
            server=address.removeprefix("http://"),
            beside={"server": pid},
            expired=plan.groups,
            hooks={"LAKEGC_BENCH_PLAN": str(directory / "plan.json")},
        )


def main() -> None:
    """Make the cases, measure, print, store and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--factor", type=float, default=1.0, help="share of the case (1)")
    parser.add_argument(
        "--form",
        choices=["few", "many"],
        action="append",
        help="of the ranges; may be repeated (both)",
    )
    parser.add_argument(
        "--make",
        action="store_true",
        help="make what is missing below --scratch, and measure nothing",
    )
    runs.add_arguments(parser, runs=1, latency_api=15.0)
    asked = parser.parse_args()
    with runs.measuring(asked) as measurement:
        for form in asked.form or ["few", "many"]:
            case = Case(form, asked.factor)
            began = time.monotonic()
            directory = made(measurement.scratch, case)
            name = f"{case.slices * case.slice_objects:,} objects, {form} ranges"
            measurement.console.print(
                f"\n{name}: {case.slices} slices, {case.commits} commits, {case.branches} branches "
                f"(made in {time.monotonic() - began:.0f} s); {os.cpu_count()} cores"
            )
            if not asked.make:
                measurement.case(
                    name, case, partial(served, directory, latency_ms=asked.latency_api)
                )


if __name__ == "__main__":
    main()
