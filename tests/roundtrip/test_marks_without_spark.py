"""A mark without much to read starts no Spark, and finds what one with Spark finds."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.populate import populate
from lakegc_dagster.sandbox import gc, objects, refs, repositories
from spark_core import holds
from spark_core.spark import placement
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
DAY = timedelta(days=1)


def _refused():
    raise AssertionError("Spark was asked for")


def _without_spark(run):
    return replace(run, environment=replace(run.environment, spark=_refused, start_spark=_refused))


def _addresses(marked):
    batches = marked.expired.batches(["address"])
    return sorted(name for batch in batches for name in batch.column("address").to_pylist())


@pytest.mark.slow
@pytest.mark.spark
def test_a_small_full_mark_and_the_optimized_one_after_it_need_no_spark(sandbox, spark):
    populate(
        sandbox,
        "repo",
        now=NOW,
        objects=300,
        commits=10,
        branches=5,
        garbage=40,
        slices=3,
        staged=5,
    )
    sandbox.clock.set(NOW + timedelta(seconds=1))
    options = {"max_expired_share": 1, "optimized": True}
    run = open_sandbox_run(sandbox, "repo", spark, NOW, **options)
    marked, verdict, _ = mark_and_conclude(_without_spark(run))
    assert verdict.passed
    assert len(_addresses(marked)) >= 40
    sweep_only(run)

    core = sandbox.core
    with core.lock, sandbox.clock.at(NOW + DAY):
        gone = objects.upload(core, "repo", "main", "new", b"staged, then overwritten").address
        objects.upload(core, "repo", "main", "new", b"committed")
        refs.commit(core, "repo", "main", message="second")
    later = NOW + 3 * DAY
    sandbox.clock.set(later + timedelta(seconds=1))
    run = open_sandbox_run(sandbox, "repo", spark, later, **options)
    marked, verdict, _ = mark_and_conclude(_without_spark(run))
    assert verdict.passed
    assert marked.tables.slices.manifest.facts["index"] is not None
    assert gone in _addresses(marked)


@pytest.mark.slow
@pytest.mark.parametrize("are_few_new", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.spark
def test_an_optimized_mark_of_more_than_the_driver_holds_of_a_table_needs_no_spark(
    sandbox, spark, monkeypatch, are_few_new
):
    populate(sandbox, "repo", now=NOW, objects=100, commits=3, branches=2, garbage=5, staged=60)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    options = {"max_expired_share": 1, "optimized": True}
    run = open_sandbox_run(sandbox, "repo", spark, NOW, **options)
    mark_and_conclude(run)
    sweep_only(run)
    core = sandbox.core
    with core.lock, sandbox.clock.at(NOW + DAY):
        over = [
            objects.upload(core, "repo", "main", f"over/{number}", b"staged %d" % number).address
            for number in range(30)
        ]
    # In another slice.
    with core.lock, sandbox.clock.at(NOW + 2 * DAY - timedelta(hours=1)):
        for number in range(30):
            objects.upload(core, "repo", "main", f"over/{number}", b"over it, %d" % number)
            objects.upload(core, "repo", "main", f"new/{number}", b"staged %d" % number)
    later = NOW + 3 * DAY
    sandbox.clock.set(later + timedelta(seconds=1))
    # More slices than one task would list.
    run = open_sandbox_run(sandbox, "repo", spark, later, **options, read_threads=1)
    if are_few_new:
        run = _without_spark(run)
    else:
        monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 20)
        begun = []
        environment = replace(run.environment, start_spark=lambda: begun.append("begun"))
        run = replace(run, environment=environment)
    marked, _, _ = mark_and_conclude(run)
    assert are_few_new or begun
    slices, staged = marked.tables.slices.manifest, marked.tables.uncommitted.manifest
    assert slices.facts["index"] is not None
    assert (slices.rows, staged.rows) > (20, 60)
    assert marked.expired.manifest.rows == 30
    assert _addresses(marked) == sorted(over)


@pytest.mark.slow
@pytest.mark.spark
def test_what_is_missing_hidden_and_held_needs_no_spark_either(sandbox, spark, monkeypatch):
    core, made = sandbox.core, {}

    def upload(name, path, data):
        made[name] = objects.upload(core, "repo", "main", path, data).address

    with core.lock, sandbox.clock.at(NOW - 40 * DAY):
        repositories.create(core, "repo", "local://repo")
        gc.set_rules(core, "repo", gc.Rules(1, {}))
        upload("head", "a", b"second")
        upload("missing", "m", b"soon missing")
        refs.commit(core, "repo", "main", message="first")
    with core.lock, sandbox.clock.at(NOW - 30 * DAY):
        upload("held", "b", b"staged, then held")
        upload("goes", "b", b"staged, then overwritten")
        upload("staged", "b", b"staged")
        # The scan does not show it: it has the size and checksum of the entry at its path.
        upload("twin", "a", b"second")
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    holds.add(run, "one", "address", made["held"], who="ann", why="")
    run.store.delete([made["missing"]])
    few, _, _ = mark_and_conclude(_without_spark(run))
    assert _addresses(few) == [made["goes"]]
    facts = few.expired.manifest.facts
    assert facts["missing_named"] == [made["missing"]]
    assert facts["twins"]["kept_named"] == [made["twin"]]

    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    run = open_sandbox_run(sandbox, "repo", spark, NOW + timedelta(seconds=1))
    many, _, _ = mark_and_conclude(run)
    assert _addresses(many) == _addresses(few)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 32], ids=["executors list the rest", "the driver lists"])
@pytest.mark.spark
def test_spark_begins_to_start_once_the_listing_shows_that_there_is_much(
    sandbox, spark, monkeypatch, threads
):
    populate(
        sandbox,
        "repo",
        now=NOW,
        objects=150,
        commits=2,
        branches=1,
        garbage=5,
        slices=15,
        staged=1,
    )
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 20)
    run, asked = open_sandbox_run(sandbox, "repo", spark, NOW, max_expired_share=1), []

    def session():
        asked.append("used")
        return spark

    environment = replace(run.environment, spark=session, start_spark=lambda: asked.append("begun"))
    options = replace(run.options, read_threads=threads)
    marked, _, _ = mark_and_conclude(replace(run, environment=environment, options=options))
    assert asked[0] == "begun"
    assert set(asked) == {"begun", "used"}
    listed = marked.tables.slices.manifest
    # One thread has not begun all slices by the time the first ones show it.
    assert (len(listed.parts) > 1) == (threads == 1)
    assert listed.rows == len(_stored(run)) > 150


def _stored(run):
    return {key for batch in run.store.list("data/") for key in batch.column("key").to_pylist()}
