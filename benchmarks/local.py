"""The generated repository on local files, and a sandbox server for each measured run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks import runs
from benchmarks.change import ALIKE, BASE_AGE
from benchmarks.populate import populate
from benchmarks.runs import REPOSITORY
from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.dump import dump_refs

# Raise this number when the same shape is made in another way.
_FORM = 6
# Commits are two days apart, and the rule's threshold lies half-way between two of them. So for a
# day it reaches no other commit.
STEP_DAYS = 2
_RETAINED_SHARE = 0.36
_MADE_FOR = timedelta(hours=20)
_MADE = "made.json"


@dataclass(frozen=True)
class Shape:
    """The contents of a repository.

    Attributes:
        objects: Objects under `data/`.
        commits: Commits on main.
        branches: Branches along main.
        slices: Slices of the objects.
        garbage: Those of the `objects` that nothing refers to.
        staged: Those of the `objects` that are staged.
        sizes: Number of different object sizes. Objects of one size may have the same content,
            which a mark must find out.
        is_changed: Whether it was marked and swept earlier, and a hundredth of it changed since.
    """

    objects: int
    commits: int
    branches: int
    slices: int
    garbage: int
    staged: int
    sizes: int
    is_changed: bool = False

    @classmethod
    def of(
        cls,
        objects: int,
        *,
        slices: int = 3,
        commits: int | None = None,
        branches: int | None = None,
        garbage: int | None = None,
        sizes: int | None = None,
        is_changed: bool = False,
    ) -> Shape:
        """Return the shape for a number of objects.

        By default 105,000 objects are in 250 commits and 100 branches, 300 in 10 and 5, and a tenth
        of them was never committed.
        """
        large = objects >= 10_000
        staged = objects * 3 // 100
        return cls(
            objects=objects,
            commits=commits or (250 if large else 10),
            branches=branches or (100 if large else 5),
            slices=slices,
            garbage=objects // 10 if garbage is None else garbage,
            staged=staged,
            # The last objects, which are garbage, have the sizes of the first. That costs a few
            # calls to the server, or to a store that gives checksums.
            sizes=sizes or objects - ALIKE,
            is_changed=is_changed,
        )


@dataclass(frozen=True)
class Made:
    """A repository that was made.

    Attributes:
        directory: Its directory, which never changes; runs get a copy.
        expired: Objects that a mark must find.
    """

    directory: Path
    expired: int


def made(scratch: Path, shape: Shape) -> Made:
    """Return the repository of a shape, and make it unless it was made earlier today."""
    name = hashlib.sha256(json.dumps([_FORM, asdict(shape)]).encode()).hexdigest()[:12]
    directory = scratch / f"repository-{shape.objects}-{name}"
    now = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1)
    if (directory / _MADE).exists():
        found = json.loads((directory / _MADE).read_text())
        if now - datetime.fromisoformat(found["now"]) < _MADE_FOR:
            return Made(directory, found["expired"])
    if directory.exists():
        shutil.rmtree(directory)
    began = now - BASE_AGE if shape.is_changed else now
    retention_days = STEP_DAYS * round(_RETAINED_SHARE * shape.commits)
    with Sandbox(directory) as sandbox:
        population = populate(
            sandbox,
            REPOSITORY,
            now=began,
            objects=shape.objects - shape.garbage - shape.staged,
            commits=shape.commits,
            branches=shape.branches,
            days=STEP_DAYS * shape.commits,
            retention_days=retention_days,
            overwritten_share=0.5,
            garbage=shape.garbage,
            staged=shape.staged,
            slices=shape.slices,
            sizes=shape.sizes,
        )
        core = sandbox.core
        repository = core.repository(REPOSITORY)
        dump = dump_refs(core, repository)
        staged = [
            change.entry
            for change in core.state.staged_from(repository.number, "main")
            if change.entry
        ]
    expired = population.expired
    if shape.is_changed:
        expired = _changed(directory, began, shape)
    said = {
        "now": now.isoformat(),
        "expired": expired,
        "retention_days": retention_days,
        "dump": {
            "commits_meta_range_id": dump.commits_metarange_id,
            "branches_meta_range_id": dump.branches_metarange_id,
            "tags_meta_range_id": dump.tags_metarange_id,
        },
        "staged": [
            {
                "path": entry.path.decode(),
                "address": entry.address,
                "size_bytes": entry.size_bytes,
                "checksum": entry.checksum,
            }
            for entry in staged
        ],
    }
    (directory / _MADE).write_text(json.dumps(said))
    return Made(directory, expired)


def _changed(directory: Path, began: datetime, shape: Shape) -> int:
    """Make the base and the change; return how many objects a mark must find then."""
    asked = ["--at", began.isoformat(), "--objects", str(shape.objects)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.change", str(directory), *asked],
        env={**os.environ, "PYTHONPATH": str(runs.ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    expired: int = json.loads(done.stdout.splitlines()[-1])["expired"]
    return expired


def told(found: Made) -> dict[str, Any]:
    """Return the stored facts of a repository: `dump`, `staged`, `retention_days`."""
    noted: dict[str, Any] = json.loads((found.directory / _MADE).read_text())
    return noted


def files(found: Made) -> dict[str, Path]:
    """Return every file of a repository's namespace, by its key."""
    root = found.directory / "blockstore" / REPOSITORY
    return {str(file.relative_to(root)): file for file in root.rglob("*") if file.is_file()}


@contextmanager
def served(found: Made, scratch: Path, *, latency_ms: float) -> Iterator[runs.Served]:
    """Serve a copy of a repository, which is deleted at the end.

    Objects are hard links, because nothing writes into an existing file.
    """
    directory = scratch / "copy"
    if directory.exists():
        shutil.rmtree(directory)
    shutil.copytree(found.directory / "blockstore", directory / "blockstore", copy_function=os.link)
    for file in found.directory.iterdir():
        if file.is_file():
            shutil.copy2(file, directory)
    try:
        with runs.serving("benchmarks.serve", str(directory), "--latency-ms", str(latency_ms)) as (
            endpoint,
            pid,
        ):
            keys = json.loads((directory / "credentials.json").read_text())
            yield runs.Served(
                settings={
                    "server": {"endpoint": endpoint},
                    "storage": {"local_path": str(directory / "blockstore")},
                },
                environment={
                    "LAKEGC_ACCESS_KEY_ID": keys["access_key_id"],
                    "LAKEGC_SECRET_ACCESS_KEY": keys["secret_access_key"],
                },
                server=endpoint.removeprefix("http://"),
                beside={"server": pid},
                expired=found.expired,
                read=lambda key: (directory / "blockstore" / REPOSITORY / key).read_bytes(),
            )
    finally:
        shutil.rmtree(directory)
