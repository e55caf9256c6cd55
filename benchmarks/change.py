"""Mark and sweep a generated repository at an earlier instant, and change a hundredth of it then.

    python -m benchmarks.change DIRECTORY --at 2026-11-20T10:00:00+00:00 --objects 135000

That is the state in which an optimized mark has a base. A process of its own does it, because it
needs Spark. It prints what a full mark must find at the end, as one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks import base
from benchmarks.populate import SparseWriter
from benchmarks.runs import REPOSITORY
from lakegc_dagster.sandbox import Sandbox, gc, objects, refs
from lakegc_dagster.sandbox.core import Core
from lakegc_dagster.sandbox.records import RepositoryRecord, StagedChange
from spark_core.lakefs import ServerOptions

# The base is so much older than the fixture, and the change a day younger than the base: each is
# old enough for what follows.
BASE_AGE = timedelta(hours=51)
_CHANGED_AFTER = timedelta(hours=24)
# The fixture's commits are two days apart, and one of them leaves retention in `BASE_AGE`.
_OLD_ENOUGH = timedelta(hours=24)
CHANGED_SHARE = 0.01
# Objects without a reference that have the size of another object: of the repository, and of what
# changed later.
ALIKE = 6


def main() -> None:
    """Make the base and the change."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--at", type=datetime.fromisoformat, required=True)
    parser.add_argument("--objects", type=int, required=True, help="objects of the repository")
    asked = parser.parse_args()
    with Sandbox(asked.directory) as sandbox:
        swept = mark_and_sweep(sandbox, asked.at)
        changed = change(sandbox, asked.at + _CHANGED_AFTER, asked.objects)
        left = expired(sandbox.core, asked.at + BASE_AGE)
    sys.stdout.write(json.dumps({"swept": swept, "changed": changed, "expired": left}) + "\n")


def mark_and_sweep(sandbox: Sandbox, at: datetime) -> int:
    """Collect the repository; return how many objects were deleted."""
    sandbox.clock.advance(at - datetime.now(UTC))
    options = ServerOptions(sandbox.endpoint, sandbox.access_key_id, sandbox.secret_access_key)
    swept = base.mark_and_sweep(options, sandbox.blockstore, at)
    sandbox.clock.release()
    return swept


def change(sandbox: Sandbox, at: datetime, whole: int) -> int:
    """Write a hundredth of the objects anew, in three commits, in staging and out of it.

    Two fifths go to main, half of them over paths that exist; a fifth to each of two branches; a
    tenth is staged on another branch; a tenth is uploaded and reset. As many objects that were
    staged at the base are reset, too. What is staged on main stays there, as when an import makes
    the commit.

    Returns:
        How many objects were written.
    """
    core = sandbox.core
    repository = core.repository(REPOSITORY)
    names = [branch.id for branch in core.state.branches(repository.number) if branch.id != "main"]
    some = max(1, int(whole * CHANGED_SHARE) // 10)
    # The last of what is reset has the sizes of the first of what is committed.
    writer = SparseWriter(
        core, repository, core.ids, 10 * some - min(ALIKE, some), smallest_bytes=10_000 + whole
    )
    with core.lock, core.state.transaction():
        hot = [f"hot/part-{part:06}" for part in range(2 * some)]
        for hours, branch, paths in (
            (0, "main", [*hot, *(f"new/main-{part:06}" for part in range(2 * some))]),
            (1, names[len(names) // 2], [f"new/middle-{part:06}" for part in range(2 * some)]),
            (2, names[-1], [*hot[:some], *(f"new/last-{part:06}" for part in range(some))]),
        ):
            with sandbox.clock.at(at + timedelta(hours=hours)):
                _commit(core, repository, branch, _written(writer, paths))
        with sandbox.clock.at(at + timedelta(hours=2)):
            staged = _written(writer, [f"new/staged-{part:06}" for part in range(some)])
            core.state.stage(repository.number, names[0], staged)
            dropped = _written(writer, [f"new/dropped-{part:06}" for part in range(some)])
            core.state.stage(repository.number, names[1], dropped)
            objects.reset(core, REPOSITORY, names[1], "reset")
            before = core.state.staged_from(repository.number, "main")[:some]
            core.state.stage(
                repository.number, "main", [StagedChange(one.path, None) for one in before]
            )
    return writer.written


def expired(core: Core, at: datetime) -> int:
    """Count what a full mark must find: old objects that no retained commit and no branch has."""
    repository = core.repository(REPOSITORY)
    namespace, branches = (
        repository.storage_namespace,
        core.state.branches(repository.number),
    )
    commits = core.state.commits(repository.number)
    rules = gc.rules(core, repository)
    if rules is None:
        raise AssertionError  # the fixture has rules
    trees = {commits[name].metarange_id for name in gc.active_commits(commits, branches, rules, at)}
    ranges = {table.id for tree in trees if tree for table in core.trees.ranges(namespace, tree)}
    alive = {
        entry.address
        for range_id in ranges
        for entry in core.trees.entries(namespace, range_id).entries
    }
    for branch in branches:
        staged = core.state.staged_from(repository.number, branch.id)
        alive |= {one.entry.address for one in staged if one.entry}
    root, cutoff = core.blockstore.directory(namespace), (at - _OLD_ENOUGH).timestamp()
    return sum(
        str(file.relative_to(root)) not in alive
        for file in (root / "data").rglob("*")
        if file.is_file() and file.stat().st_mtime < cutoff
    )


def _written(writer: SparseWriter, paths: Sequence[str]) -> list[StagedChange]:
    return [StagedChange(path.encode(), writer.write(path)) for path in sorted(paths)]


def _commit(
    core: Core, repository: RepositoryRecord, branch_id: str, changes: Sequence[StagedChange]
) -> None:
    branch = core.branch(repository, branch_id)
    head = core.head(repository, branch)
    tree = core.trees.apply(repository.storage_namespace, head.metarange_id, changes).metarange_id
    refs.make_commit(
        core,
        repository,
        branch,
        message=f"change {branch_id}",
        metarange_id=tree,
        metadata={},
        parents=[head],
    )


if __name__ == "__main__":
    main()
