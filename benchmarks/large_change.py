"""Mark and sweep the design case at an earlier instant, and change it then.

That is the state in which an optimized mark has a base. The change is made of plans beside that of
the case, and of tables beside its own. So nothing of the case is written anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks import large_serve, runs
from benchmarks.change import CHANGED_SHARE
from benchmarks.hooks.lakegc_bench_plan import COMMITTED, GROUP, STAGED, Layers, Plan
from benchmarks.large_case import (
    COMMITS_RUN,
    RETENTION,
    WRITTEN,
    Case,
    Writer,
    chained,
    commits_of,
    write_dump,
    write_list,
    write_staged,
)
from benchmarks.synthetic_server import PREFIX, Refs
from lakegc_dagster.sandbox.tables import TableFile, write_metarange, write_range
from spark_core.graveler import CommitRecord, read_metarange

# The base is so much older than the marks that are measured; what came after it is old enough then.
AGE = timedelta(hours=27)
# For so long the state can be measured: then what is young would not be young any more.
_MADE_FOR = timedelta(hours=10)
# Raise this number when the same change is made in another way.
_CHANGED_AS = 1
_HOUR = 3_600
_NEW_COMMITS = 3
# A part of what changed: staged entries that are reset, and entries of commits that leave.
_GONE_PART = 10
_FOLDER, _NOTE, _KEPT = "optimized", "made.json", "kept"
BASE, CHANGED = f"{_FOLDER}/base", f"{_FOLDER}/changed"
# A branch with commits of its own, which is deleted.
_DELETED = "zz-deleted"
# main keeps all of its commits; what no branch leads to leaves after a day.
_RULES = {
    "default_retention_days": 1,
    "branches": [{"branch_id": name, "retention_days": 36_500} for name in ("main", _DELETED)],
}


@dataclass(frozen=True)
class Change:
    """The objects before and after the change.

    A hundredth of the objects is new: half of it was uploaded in the day before the base, and was
    young then, and half of it after. At the end each of them is committed, staged, or to go.

    Attributes:
        main: The old objects of the case.
        dropped: Objects that are staged at the base, and reset then.
        left: Objects that only commits of a branch have, which is deleted.
        before: Objects that were uploaded in the day before the base ...
        since: ... and after it.
        young: Objects that are young at the end.
    """

    main: Plan
    dropped: Plan
    left: Plan
    before: Plan
    since: Plan
    young: Plan

    @classmethod
    def of(cls, case: Case, plan: Plan, then: int) -> Change:
        """Plan the change of a case whose base is marked at an instant in seconds since 1970."""
        new = int(plan.objects * CHANGED_SHARE)
        slices = max(1, round(case.slices * CHANGED_SHARE / 2))

        def layer(number: int, objects: int, begins: float, ends: float, **more: bool) -> Plan:
            """Deal objects out to slices that begin so many hours before the base."""
            return Plan(
                slices=slices,
                slice_objects=max(1, objects // slices // GROUP) * GROUP,
                made_at=then,
                served_at=then,
                seed=plan.seed + 10 * number,
                young=0,
                begins=int(begins * _HOUR),
                ends=int(ends * _HOUR),
                maker=f"laye{number}",
                **more,
            )

        now = -AGE / timedelta(hours=1)
        return cls(
            main=replace(plan, slices=plan.old_slices, young=0),
            dropped=layer(1, new // _GONE_PART, 40 * 24, 30 * 24, is_alike=True),
            left=layer(2, new // _GONE_PART, 60 * 24, 50 * 24, is_alike=True),
            before=layer(3, new // 2, 20, 2),
            since=layer(4, new // 2, -0.2, -1.5),
            young=layer(5, new // 2, now + 12, now + 2),
        )

    @property
    def at_base(self) -> Layers:
        """The objects at the base."""
        return Layers((self.main, self.dropped, self.left, self.before))

    @property
    def at_end(self) -> Layers:
        """The objects after the base's sweep and the change."""
        swept = replace(self.main, is_swept=True)
        return Layers((swept, self.dropped, self.left, self.before, self.since, self.young))

    @property
    def expired(self) -> int:
        """How many objects a full mark must find at the end."""
        new = self.before.groups + self.since.groups
        return self.dropped.objects + self.left.objects + new


def made(directory: Path, case: Case, *, spark: Mapping[str, str] | None = None) -> int:
    """Make base and change of a case, unless they were made in the last hours.

    Args:
        directory: Directory of the case.
        case: The case.
        spark: Spark properties of the base.

    Returns:
        How many objects a full mark must find.
    """
    folder = directory / _FOLDER
    note = folder / _NOTE
    plan = Plan.read(directory / "plan.json")
    if note.exists():
        found = json.loads(note.read_text())
        age = timedelta(seconds=time.time() - found["then"])
        if found["changed_as"] == _CHANGED_AS and age < AGE + _MADE_FOR:
            return Change.of(case, plan, found["then"]).expired
    if folder.exists():
        shutil.rmtree(folder)
    then = int(time.time() - AGE.total_seconds())
    change = Change.of(case, plan, then)
    large_serve.clear(directory)
    write_states(directory, case, change)
    _mark_and_sweep(directory, change, spark or {})
    retention = directory / "blockstore" / runs.REPOSITORY / RETENTION
    shutil.copytree(retention, folder / _KEPT, copy_function=os.link)
    note.write_text(json.dumps({"changed_as": _CHANGED_AS, "then": then}))
    return change.expired


def restore(directory: Path) -> None:
    """Bring lakegc's own files back to what they were after the base."""
    retention = directory / "blockstore" / runs.REPOSITORY / RETENTION
    fresh = retention.with_name("fresh")
    if fresh.exists():
        shutil.rmtree(fresh)
    # Files are hard links, because nothing writes into an existing file.
    shutil.copytree(directory / _FOLDER / _KEPT, fresh, copy_function=os.link)
    shutil.rmtree(retention)
    fresh.rename(retention)


def write_states(directory: Path, case: Case, change: Change) -> None:
    """Write the tables of both states, and what the server knows of each."""
    namespace = directory / "blockstore" / runs.REPOSITORY
    refs = Refs.read(directory / "refs.json")
    plan = Plan.read(directory / "plan.json")
    listed = namespace / RETENTION / "commits" / f"run_id={COMMITS_RUN}" / "commits.csv"
    metaranges = [line.rpartition(",")[2] for line in listed.read_text().splitlines()[1:]]
    commits = commits_of(plan, metaranges)
    writer = Writer(plan, namespace)
    written = 1 if case.form == "few" else WRITTEN
    head, then = _ranges_of(namespace, metaranges[-1]), change.before.made_at
    deleted = chained(
        commits,
        _metaranges(writer, head, _DELETED, {change.left: change.left.objects}, written),
        [then - (20 - number) * _HOUR for number in range(_NEW_COMMITS)],
    )
    new = {layer: layer.groups * COMMITTED for layer in (change.before, change.since)}
    after = chained(
        commits,
        _metaranges(writer, head, "updates", new, written),
        [then + int(2.5 * _HOUR) + 600 * number for number in range(_NEW_COMMITS)],
    )
    new_staged = [(layer, layer.groups * STAGED) for layer in (change.before, change.since)]
    at_base = _State(
        change.at_base,
        retained=deleted,
        heads={**refs.branches, _DELETED: deleted[-1].id},
        staged=[(change.main, refs.staged), (change.dropped, change.dropped.objects)],
    )
    at_end = _State(
        change.at_end,
        retained=after,
        heads={**refs.branches, "main": after[-1].id},
        staged=[(change.main, refs.staged), *new_staged],
        # Deleting a branch leaves its commits in the dump.
        others=deleted[len(commits) :],
    )
    at_base.write(directory / BASE, writer, refs, "bas0")
    at_end.write(directory / CHANGED, writer, refs, "end0")


@dataclass(frozen=True)
class _State:
    """What the server knows of one state.

    Attributes:
        layers: The objects.
        retained: The retained commits.
        heads: Branch -> its head.
        staged: Number of staged objects of each plan that has any.
        others: The other commits.
    """

    layers: Layers
    retained: Sequence[CommitRecord]
    heads: Mapping[str, str]
    staged: Sequence[tuple[Plan, int]]
    others: Sequence[CommitRecord] = ()

    def write(self, folder: Path, writer: Writer, refs: Refs, suffix: str) -> None:
        """Write the server's files, and what it tells.

        Args:
            folder: Folder of the state.
            writer: Writes into the namespace.
            refs: What the server knows of the case without the change.
            suffix: The last four characters of the ids of the server's runs.
        """
        commits_run, uncommitted_run = f"benchcommits0000{suffix}", f"benchuncommitted{suffix}"
        write_list(writer.directory, commits_run, self.retained)
        write_staged(writer.directory, uncommitted_run, self.staged)
        # A swept plan has the same seed as before.
        counts = {plan.seed: count for plan, count in self.staged}
        told = replace(
            refs,
            branches=dict(sorted(self.heads.items())),
            dump=write_dump(writer, [*self.retained, *self.others], self.heads),
            commits_run=commits_run,
            uncommitted_run=uncommitted_run,
            staged=sum(counts.values()),
            staged_of=[counts.get(plan.seed, 0) for plan in self.layers.plans],
            rules=_RULES,
        )
        folder.mkdir(parents=True)
        (folder / "refs.json").write_text(json.dumps(asdict(told)))
        self.layers.write(folder / "plan.json")


def _ranges_of(namespace: Path, metarange: str) -> list[TableFile]:
    """Return the ranges of a metarange, without their content."""
    found = read_metarange((namespace / PREFIX / metarange).read_bytes(), name=metarange)
    return [
        TableFile(
            row["range_id"],
            b"",
            row["min_key"],
            row["max_key"],
            row["count"],
            row["estimated_size_bytes"],
        )
        for row in found.to_pylist()
    ]


def _metaranges(
    writer: Writer, head: list[TableFile], name: str, new: Mapping[Plan, int], written: int
) -> list[str]:
    """Write the metaranges of some commits after a head, each with some more ranges.

    Args:
        writer: Writes them.
        head: The ranges of the head.
        name: Folder of the new paths, behind all others.
        new: Number of committed objects of each plan.
        written: Ranges of each commit.
    """
    total = sum(new.values())
    paths = [f"{name}/part-{number:09}.parquet" for number in range(total)]
    entries, first = [], 0
    for plan, count in new.items():
        some = replace(writer, plan=plan)
        entries += some.entries(paths[first : first + count], np.arange(count))
        first += count
    ends = [total * number // (written * _NEW_COMMITS) for number in range(written * _NEW_COMMITS)]
    ranges = [
        writer.store(write_range(entries[begin:end]))
        for begin, end in zip(ends, [*ends[1:], total], strict=True)
    ]
    return [
        writer.store(write_metarange([*head, *ranges[: written * number]])).id
        for number in range(1, _NEW_COMMITS + 1)
    ]


def _mark_and_sweep(directory: Path, change: Change, spark: Mapping[str, str]) -> None:
    """Make the base in a process of its own."""
    at = datetime.fromtimestamp(change.before.made_at, UTC)
    with large_serve.serving(directory, BASE, expired=None, latency_ms=0.0) as served:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "benchmarks.base",
                served.settings["storage"]["local_path"],
                "--endpoint",
                served.settings["server"]["endpoint"],
                "--at",
                at.isoformat(),
                "--spark",
                json.dumps(spark),
            ],
            env={
                **os.environ,
                **served.environment,
                **served.hooks,
                "PYTHONPATH": f"{runs.HOOKS}{os.pathsep}{runs.ROOT}",
            },
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    swept = json.loads(done.stdout.splitlines()[-1])["swept"]
    if swept != change.main.groups:
        raise SystemExit(f"the base collected {swept:,} objects instead of {change.main.groups:,}")


def served(
    directory: Path, expired: int, *, latency_ms: float
) -> AbstractContextManager[runs.Served]:
    """Serve the changed state, with lakegc's own files as after the base."""
    restore(directory)
    return large_serve.serving(directory, CHANGED, expired=expired, latency_ms=latency_ms)
