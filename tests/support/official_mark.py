"""The repository that lakeFS's own collection job marked, on a recorded server, with that job's
report trees.
"""

from __future__ import annotations

import csv
import re
import shutil
import tarfile
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lakegc_dagster.sandbox.tables import write_refs_dump
from spark_core.graveler import CommitRecord, read_metarange, read_range
from spark_core.graveler.encoded_entries import Timestamp
from spark_core.lakefs import LakeFSServer
from spark_core.model import Branch, RunKey, Tag
from spark_core.run import Environment, Run, RunOptions, open_run
from spark_core.storage import StoreOptions
from tests.support import golden
from tests.support.clock import FakeClock
from tests.support.recorded_server import RecordedServer
from tests.support.sandbox_runs import SMALL

DATA = golden.DATA / "official-mark"
REPOSITORY = "peersmall"
MARK_ID = "ft6s0e1ksdufuaulm34g"
MADE = datetime(2026, 11, 21, 7, 1, 18, tzinfo=UTC)
# The job's own cutoff was 07:05:38; a second of minimum age, as it had, gives nearly the same one.
NOW = datetime(2026, 11, 21, 7, 6, tzinfo=UTC)

_PARENTS = {
    "main-c2": "main-c1",
    "main-c3": "main-c2",
    "main-c4": "main-c3",
    "dev-c1": "main-c1",
    "dev-c2": "dev-c1",
    "dev2-c1": "main-c1",
    "dev2-c2": "dev2-c1",
    "goneold-c1": "main-c1",
    "gonenew-c1": "main-c1",
    "tagged-c1": "main-c1",
}
_HEADS = {"main": "main-c4", "dev": "dev-c2", "dev2": "dev2-c2"}
# What the metarange of each commit holds, by the step that made the objects.
_HOLDS = {
    "main-c1": {"main-c1": 40},
    "main-c2": {"main-c1": 20, "main-c2-overwrite": 20},
    "main-c3": {"main-c1": 10, "main-c2-overwrite": 20, "main-c3": 30},
    "main-c4": {"main-c1": 10, "main-c2-overwrite": 20, "main-c3": 30, "main-c4": 20},
    "dev-c1": {"main-c1": 40, "dev-c1": 30},
    "dev-c2": {"main-c1": 40, "dev-c2-overwrite": 30},
    "dev2-c1": {"main-c1": 40, "dev2-c1": 25},
    "dev2-c2": {"main-c1": 40, "dev2-c2-overwrite": 25},
    "goneold-c1": {"main-c1": 40, "goneold-c1": 15},
    "gonenew-c1": {"main-c1": 40, "gonenew-c1": 12},
    "tagged-c1": {"main-c1": 40, "tagged-c1": 8},
}
_STAGED = {"staged-live": "main", "staged-overwritten-2": "dev2"}


def lines(name: str) -> set[str]:
    """One of the lists of addresses that belong to the repository."""
    return set((DATA / "small" / name).read_text().split())


@cache
def objects() -> list[dict[str, str]]:
    """Every object: address, fate, step, branch, path, size."""
    with (DATA / "small/all-objects.tsv").open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def addresses_of(step: str) -> set[str]:
    """The objects that one step of the history made."""
    return {row["address"] for row in objects() if row["step"] == step}


def server(blockstore: Path) -> RecordedServer:
    """Unpack the namespace into a local blockstore, and make the server that answers for it."""
    with tarfile.open(DATA / "small/namespace.tar.gz") as archive:
        archive.extractall(blockstore, filter="data")
    root = (blockstore / "namespace").rename(blockstore / REPOSITORY)
    expected, said = _recordings(root)
    with (
        patch.object(golden, "expected", lambda _: expected),
        patch.object(golden, "server", lambda _: said),
    ):
        return RecordedServer(REPOSITORY, root)


def put_mark(name: str, root: Path) -> str:
    """Copy one of the job's other report trees (`empty`, `failed`, `stray`) into a namespace;
    return its id.
    """
    (tree,) = (path for path in (DATA / name).iterdir() if path.is_dir())
    shutil.copytree(tree, root / "_lakefs/retention/gc/unified" / tree.name)
    return tree.name


def stage(recorded: RecordedServer, branch: str, path: str, address: str) -> None:
    """Stage an entry on a branch for an existing object."""
    row = next(row for row in objects() if row["address"] == address)
    recorded.expected["entry_table"].append([path, address, int(row["size"]), "", 0, "", None])
    recorded.expected["branches"][branch]["staged"].append({"path": path, "address": address})
    recorded.expected["branches"][branch]["diff"].append({"type": "added", "path": path})


def rename_scan(recorded: RecordedServer, run_id: str) -> None:
    """Give the server's scan of staged entries an id other than that of the job's mark."""
    (scan,) = recorded.expected["prepare_uncommitted"]["pages"]
    folder = recorded.namespace_root / "_lakefs/retention/gc/uncommitted"
    (folder / scan["run_id"]).rename(folder / run_id)
    scan["gc_uncommitted_location"] = scan["gc_uncommitted_location"].replace(
        scan["run_id"], run_id
    )
    scan["run_id"] = run_id


def open_official_run(
    recorded: RecordedServer, spark: Any, *, now: datetime = NOW, **options: Any
) -> Run:
    """Open a run with the minimum age that the job had."""
    mark_id = options.pop("reference_mark", None)
    clock = FakeClock(now + timedelta(seconds=1))
    environment = Environment(
        server=LakeFSServer(recorded.options(), clock=clock),
        store_options=StoreOptions(local_path=str(recorded.local_path)),
        spark=lambda: spark,
        clock=clock,
        server_path=golden.SERVER_PATH,
    )
    chosen = {
        "may_sweep": True,
        "min_age": timedelta(seconds=1),
        "allow_unsafe_min_age": True,
        **SMALL,
        **options,
    }
    return open_run(
        environment, REPOSITORY, RunKey.at(now), RunOptions(**chosen), reference_mark=mark_id
    )


def _recordings(root: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build the server's answers from the namespace and the notes about it."""
    tables = root / "_lakefs"
    entry_table: list[list[Any]] = []
    metaranges: dict[str, list[int]] = {}
    steps = {row["address"]: row["step"] for row in objects()}
    by_content: dict[Any, str] = {}
    for file in sorted(
        path for path in tables.iterdir() if re.fullmatch("[0-9a-f]{64}", path.name)
    ):
        if b"metaranges" not in file.read_bytes():
            continue
        held: dict[str, int] = {}
        metaranges[file.name] = []
        for range_id in (
            read_metarange(file.read_bytes(), name=file.name).column("range_id").to_pylist()
        ):
            for row in read_range((tables / range_id).read_bytes(), name=range_id).to_pylist():
                metaranges[file.name].append(len(entry_table))
                entry_table.append(
                    [
                        row["path"].decode(),
                        row["address"],
                        row["size_bytes"],
                        row["checksum"],
                        0,
                        "",
                        None,
                    ]
                )
                held[steps[row["address"]]] = held.get(steps[row["address"]], 0) + 1
        by_content[frozenset(held.items())] = file.name
    ids = re.findall(
        r"^commit (\S+) branch=\S+ id=(\w+) age_days=(\d+)",
        (DATA / "small/history.log").read_text(),
        re.MULTILINE,
    )
    commits = {label: (commit_id, int(days)) for label, commit_id, days in ids}
    of = {label: by_content[frozenset(holds.items())] for label, holds in _HOLDS.items()}
    staged: dict[str, list[dict[str, str]]] = {branch: [] for branch in _HEADS}
    for row in objects():
        if row["step"] in _STAGED:
            entry_table.append([row["path"], row["address"], int(row["size"]), "", 0, "", None])
            staged[_STAGED[row["step"]]].append({"path": row["path"], "address": row["address"]})
    made = int(MADE.timestamp())
    records = [
        CommitRecord(
            "admin",
            label,
            Timestamp(made - days * 86_400),
            of[label],
            parents=(commits[_PARENTS[label]][0],) if label in _PARENTS else (),
            generation=1,
            id=commit_id,
        )
        for label, (commit_id, days) in commits.items()
    ]
    heads = {branch: commits[label][0] for branch, label in _HEADS.items()}
    tag = Tag("v-old", commits["tagged-c1"][0])
    dump = write_refs_dump(
        commits=records, branches=[Branch(*head) for head in heads.items()], tags=[tag]
    )
    for file in dump[3]:
        (tables / file.id).write_bytes(file.data)
    like = golden.server("unified")
    rules = {
        "default_retention_days": 30,
        "branches": [{"branch_id": "main", "retention_days": 60}],
    }
    said = {
        **like,
        "repository": {
            **like["repository"],
            "id": REPOSITORY,
            "storage_namespace": f"local://{REPOSITORY}",
        },
        "gc_rules": rules,
        "branches": [{"id": branch, "commit_id": head} for branch, head in heads.items()],
        "tags": [{"id": tag.id, "commit_id": tag.commit_id}],
        "refs_dump": {
            **like["refs_dump"],
            "refs": dict(
                zip(
                    ("commits_meta_range_id", "branches_meta_range_id", "tags_meta_range_id"),
                    dump[:3],
                    strict=True,
                )
            ),
        },
    }
    expected = {
        "captured_at": int(NOW.timestamp()),
        "entry_table": entry_table,
        "metaranges": metaranges,
        "commits": {
            commit_id: {"metarange_id": of[label]} for label, (commit_id, _) in commits.items()
        },
        "branches": {
            branch: {
                "commit_id": head,
                "staged": staged[branch],
                "removed": [],
                "diff": [{"type": "added", "path": entry["path"]} for entry in staged[branch]],
            }
            for branch, head in heads.items()
        },
        "prepare_uncommitted": {
            "pages": [
                {
                    "run_id": MARK_ID,
                    "gc_uncommitted_location": f"local://<BLOCKSTORE>/{REPOSITORY}/_lakefs/retention/gc/uncommitted/{MARK_ID}/uncommitted",
                }
            ],
            "rows": [],
        },
        "retention": [
            {
                "now": int(NOW.timestamp()),
                "rules": rules,
                "server_run_id": "ft6s0dpksdufuaulm35g",
                "retained_as_coded": [],
            }
        ],
    }
    return expected, said
