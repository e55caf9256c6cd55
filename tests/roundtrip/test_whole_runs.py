"""Mark and sweep on the sandbox: what is alive can be read afterwards, everything else is gone."""

from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import history, objects, refs, repositories
from spark_core import mark
from spark_core.checks import verdict
from spark_core.errors import (
    ChainError,
    ClosedPartitionError,
    CorruptTableError,
    RepositoryStateError,
    UnsafePlanError,
    VerdictError,
)
from spark_core.run.chain import Mark
from tests.support.pipeline import mark_and_conclude, mark_only, sweep_only
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.upstream import upstream_scenario

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


def _stored(run):
    return {key for batch in run.store.list("data/") for key in batch.column("key").to_pylist()}


def _tell(sandbox, tell, name="repo"):
    story = tell(sandbox, name, now=NOW)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    return story


def test_the_upstream_scenario_ends_file_by_file_as_the_reference_says(sandbox, spark):
    story = _tell(sandbox, upstream_scenario)
    run = open_sandbox_run(
        sandbox, "repo", spark, NOW, min_age=timedelta(0), allow_unsafe_min_age=True
    )
    mark_and_conclude(run)
    sweep_only(run)
    left = _stored(run)
    gone = {file.path for file in story.files if file.address not in left}
    assert gone == {"file_2", "file_4", "file_5", "file_7", "file_9", "file_10"}
    assert {file.path for file in story.files} - gone == {"file_1", "file_3", "file_6", "file_8"}


def test_the_documents_history_ends_as_its_story_says_and_a_second_sweep_finds_nothing(
    sandbox, spark
):
    story = _tell(sandbox, history.documents_history)
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    _, verdict, _ = mark_and_conclude(run)
    assert verdict.passed
    outcomes = sweep_only(run)
    assert outcomes == {file.address: "deleted" for file in story.deleted}
    assert _stored(run) == {file.address for file in story.kept}
    for file in story.kept:
        assert run.store.read(file.address) == file.data

    again = open_sandbox_run(sandbox, "repo", spark, NOW + timedelta(minutes=1))
    marked, _, _ = mark_and_conclude(again)
    assert marked.addresses(again) == []
    assert sweep_only(again) == {}


@pytest.mark.slow
def test_the_calls_of_a_mark_do_not_grow_with_commits_or_ranges(sandbox, spark):
    _tell(sandbox, history.documents_history)
    before = sandbox.requests.total()
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    mark_and_conclude(run)
    # A local blockstore adds the diff of each branch, and branches around the twins' paths.
    local_only = sandbox.requests["diff_branch"] + sandbox.requests["list_objects"] + 2
    # Thirteen, and the server's second scan.
    assert sandbox.requests.total() - before - local_only <= 14


def _fresh(sandbox):
    repositories.create(sandbox.core, "repo", "local://repo")


def test_without_rules_only_uncommitted_garbage_goes(sandbox, spark):
    with sandbox.core.lock, sandbox.clock.at(NOW - timedelta(days=400)):
        _fresh(sandbox)
        kept = objects.upload(sandbox.core, "repo", "main", "a", b"first").address
        refs.commit(sandbox.core, "repo", "main", message="first")
        head = objects.upload(sandbox.core, "repo", "main", "a", b"second, which stays").address
        refs.commit(sandbox.core, "repo", "main", message="second")
        gone = objects.upload(
            sandbox.core, "repo", "main", "b", b"staged, then overwritten"
        ).address
        staged = objects.upload(sandbox.core, "repo", "main", "b", b"staged").address
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    mark_and_conclude(run)
    assert sweep_only(run) == {gone: "deleted"}
    assert _stored(run) == {kept, head, staged}


@pytest.mark.deep
def test_a_twin_that_the_budget_does_not_reach_is_kept_and_reported(sandbox, spark):
    with sandbox.core.lock, sandbox.clock.at(NOW - timedelta(days=40)):
        _fresh(sandbox)
        objects.upload(sandbox.core, "repo", "main", "a", b"same")
        refs.commit(sandbox.core, "repo", "main", message="add")
        twin = objects.upload(sandbox.core, "repo", "main", "a", b"same").address
    kept = open_sandbox_run(sandbox, "repo", spark, NOW, twin_calls=0)
    marked, _, _ = mark_and_conclude(kept)
    assert marked.addresses(kept) == []
    assert marked.expired.manifest.facts["twins"]["unchecked_named"] == [twin]

    looked_up = open_sandbox_run(sandbox, "repo", spark, NOW - timedelta(hours=1))
    marked, _, _ = mark_and_conclude(looked_up)
    assert marked.addresses(looked_up) == []
    assert marked.expired.manifest.facts["twins"]["kept_named"] == [twin]


def test_two_tables_made_again_out_of_order_refuse(sandbox, spark):
    _tell(sandbox, upstream_scenario)
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    tables = mark_only(run).tables
    again = run.keep(mark.uncommitted_addresses(run, tables.slices))
    with pytest.raises(
        ChainError, match="retained_commits was made from another attempt of uncommitted_addresses"
    ):
        mark.expired_addresses(run, Mark(tables.slices, again, tables.commits, tables.committed))


def test_a_run_with_a_verdict_is_closed(sandbox, spark):
    _tell(sandbox, upstream_scenario)
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    mark_and_conclude(run)
    with pytest.raises(ClosedPartitionError, match="already marked"):
        mark.namespace_slices(run)


def test_the_sweep_refuses_without_a_verdict_with_an_edited_mark_and_without_permission(
    sandbox, spark
):
    story = _tell(sandbox, upstream_scenario)
    run = open_sandbox_run(
        sandbox, "repo", spark, NOW, min_age=timedelta(0), allow_unsafe_min_age=True
    )
    marked = mark_only(run)
    with pytest.raises(VerdictError, match="has no verdict"):
        sweep_only(run)
    verdict.conclude(run)
    switched_off = open_sandbox_run(
        sandbox,
        "repo",
        spark,
        NOW,
        min_age=timedelta(0),
        allow_unsafe_min_age=True,
        may_sweep=False,
    )
    with pytest.raises(UnsafePlanError, match="deleting is switched off for repo"):
        sweep_only(switched_off)
    part = marked.expired.manifest.parts[0]
    data = bytearray(run.store.read(part.key))
    data[len(data) // 2] ^= 1
    run.store.put(part.key, bytes(data))
    with pytest.raises(CorruptTableError, match="sha256 is"):
        sweep_only(run)
    assert {file.address for file in story.files} <= _stored(run)


def test_a_repository_made_anew_under_the_same_name_is_not_swept_by_the_old_mark(sandbox, spark):
    _tell(sandbox, upstream_scenario)
    run = open_sandbox_run(
        sandbox, "repo", spark, NOW, min_age=timedelta(0), allow_unsafe_min_age=True
    )
    mark_and_conclude(run)
    with sandbox.core.lock:
        repositories.delete(sandbox.core, "repo")
        sandbox.clock.advance(timedelta(minutes=1))
        repositories.create(sandbox.core, "repo", "local://repo", bare=True)
    with pytest.raises(RepositoryStateError, match="changed since run"):
        sweep_only(run)
    later = open_sandbox_run(
        sandbox, "repo", spark, NOW, min_age=timedelta(0), allow_unsafe_min_age=True
    )
    with pytest.raises(VerdictError, match="Mark again"):
        sweep_only(later)
