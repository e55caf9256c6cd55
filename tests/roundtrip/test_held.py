"""A whole run over a repository with holds.

What is held stays, what is not goes, and the report tells them apart.
"""

from datetime import UTC, datetime, timedelta

import pytest

from spark_core import holds, report
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.upstream import upstream_scenario

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


def _commit_with(run, path):
    """A commit of the main branch that has an entry at a path."""
    (main_branch,) = [branch for branch in run.server.branches("repo") if branch.id == "main"]
    for commit in run.server.log("repo", main_branch.commit_id):
        entries = (
            run.server.list_entries("repo", commit.id, after="").entries
            if commit.metarange_id
            else ()
        )
        if any(found == path for found, _ in entries):
            return commit.id
    raise AssertionError(f"no commit has {path}")


def test_what_is_held_stays_and_everything_else_goes(sandbox, spark):
    story = upstream_scenario(sandbox, "repo", now=NOW)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    run = open_sandbox_run(
        sandbox, "repo", spark, NOW, min_age=timedelta(0), allow_unsafe_min_age=True
    )
    address = {file.path: file.address for file in story.files}
    committed = [
        path for path in ("file_2", "file_4", "file_5", "file_7") if _is_committed(run, path)
    ]
    held = {"file_9", "file_10", committed[0]}
    holds.add(run, "one", "address", address["file_9"], who="ann", why="")
    holds.add(run, "two", "prefix", address["file_10"], who="ann", why="")
    holds.add(run, "three", "commit", _commit_with(run, committed[0]), who="ann", why="")
    mark_and_conclude(run)
    told = {group.name: group.objects for group in report.load(run).kept}
    assert told["held by name"] == 2, (
        "a held commit's objects are among those that a retained commit reaches"
    )
    sweep_only(run)
    left = {key for batch in run.store.list("data/") for key in batch.column("key").to_pylist()}
    assert {address[path] for path in held} <= left
    gone = {path for path in address if address[path] not in left}
    assert gone < {"file_2", "file_4", "file_5", "file_7", "file_9", "file_10"}
    assert gone, "holds keep what is held, and nothing else"


def _is_committed(run, path):
    try:
        return bool(_commit_with(run, path))
    except AssertionError:
        return False
