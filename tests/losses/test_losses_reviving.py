"""Losses of objects that were referenced again after a mark, in runs over a small repository."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox, gc, objects, refs, repositories
from spark_core import holds
from spark_core.errors import IncompleteReadError
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
A_DAY = gc.Rules(1, {})


class Repository:
    """A repository with one file in the commit that is kept; days are counted back from `NOW`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.core = sandbox.core
        with self.ago(60):
            repositories.create(self.core, "repo", "local://repo")
            gc.set_rules(self.core, "repo", A_DAY)
        self.live = self.upload("kept", b"kept", days=40)
        self.commit(days=40)

    @contextmanager
    def ago(self, days: float) -> Iterator[None]:
        with self.core.lock, self.sandbox.clock.at(NOW - timedelta(days=days)):
            yield

    def upload(self, path: str, data: bytes, *, days: float) -> str:
        with self.ago(days):
            address: str = objects.upload(self.core, "repo", "main", path, data).address
        return address

    def commit(self, *, days: float) -> str:
        with self.ago(days):
            commit_id: str = refs.commit(self.core, "repo", "main", message="m").id
        return commit_id

    def remove(self, path: str, *, days: float) -> None:
        with self.ago(days):
            objects.delete(self.core, "repo", "main", [path])

    def expired(self, path: str, data: bytes) -> tuple[str, str]:
        """Commit a file and remove it, both long ago; return its address and its commit."""
        address = self.upload(path, data, days=50)
        commit_id = self.commit(days=50)
        self.remove(path, days=49)
        self.commit(days=49)
        # The commit that removed it is the state at the threshold only once another one came after
        # it.
        self.upload(f"{path}.next", data + b".", days=48)
        self.commit(days=48)
        return address, commit_id

    def marked(self, spark: Any) -> Any:
        self.sandbox.clock.set(NOW)
        run = open_sandbox_run(self.sandbox, "repo", spark, NOW)
        _, found, results = mark_and_conclude(run)
        assert found.passed, [result for result in results if not result.passed]
        return run

    def there(self, run: Any) -> set[str]:
        return {key for batch in run.store.list("data/") for key in batch.column("key").to_pylist()}


@pytest.fixture
def repository(sandbox: Sandbox) -> Repository:
    return Repository(sandbox)


def test_12_an_object_came_back_to_life_between_mark_and_sweep(
    repository: Repository, spark: Any
) -> None:
    again, commit_id = repository.expired("old", b"old")
    dead, _ = repository.expired("dead", b"dead")
    run = repository.marked(spark)
    refs.create_branch(repository.core, "repo", "back", commit_id)
    outcomes = sweep_only(run)
    assert (outcomes[again], outcomes[dead]) == ("kept", "deleted")
    assert {again, repository.live} <= repository.there(run)


def test_13_a_conclusion_outlived_a_change_of_the_rules(repository: Repository, spark: Any) -> None:
    again, _ = repository.expired("old", b"old")
    run = repository.marked(spark)
    gc.set_rules(repository.core, "repo", gc.Rules(365, {}))
    assert sweep_only(run)[again] == "kept"
    assert again in repository.there(run)


def test_14_identical_content_was_uploaded_again_and_seen_by_no_scan(
    repository: Repository, spark: Any
) -> None:
    # Its size and checksum are those of the committed entry, so lakeFS calls the path unchanged,
    # and reads from it.
    twin = repository.upload("kept", b"kept", days=30)
    dead = repository.upload("other", b"four", days=30)
    repository.upload("other", b"five!", days=29)
    run = repository.marked(spark)
    assert sweep_only(run) == {dead: "deleted"}
    assert twin in repository.there(run)


def hold_path(run: Any, pattern: str, name: str = "models") -> None:
    holds.add(run, name, "path", pattern, who="ann", why="")


def test_65_a_hold_by_path_did_not_keep_what_only_expired_commits_had_there(
    repository: Repository, spark: Any
) -> None:
    final, _ = repository.expired("models/a/b/final", b"final")
    draft, _ = repository.expired("models/a/draft", b"draft")
    hold_path(open_sandbox_run(repository.sandbox, "repo", spark, NOW), "models/**/final")
    run = repository.marked(spark)
    assert sweep_only(run) == {draft: "deleted"}
    assert final in repository.there(run)


def test_65_a_hold_by_path_that_was_made_after_the_mark_did_not_keep_anything(
    repository: Repository, spark: Any
) -> None:
    final, _ = repository.expired("models/a/b/final", b"final")
    draft, _ = repository.expired("models/a/draft", b"draft")
    run = repository.marked(spark)
    hold_path(run, "models/**/final")
    assert sweep_only(run) == {draft: "deleted", final: "kept"}
    assert final in repository.there(run)


@pytest.mark.parametrize("when", ["before", "after"])
def test_65_what_a_hold_by_path_keeps_was_not_known_because_a_table_was_gone(
    repository: Repository, spark: Any, when: str
) -> None:
    final, commit_id = repository.expired("models/final", b"final")
    run = open_sandbox_run(repository.sandbox, "repo", spark, NOW)
    if when == "before":
        hold_path(run, "models/*")
    else:
        run = repository.marked(spark)
        hold_path(run, "models/*")
    commit = next(run.server.log("repo", commit_id))
    run.store.delete([f"_lakefs/{commit.metarange_id}"])
    with pytest.raises(IncompleteReadError, match=r"hold models: .* cannot be read .*is unknown"):
        repository.marked(spark) if when == "before" else sweep_only(run)
    assert final in repository.there(run)
