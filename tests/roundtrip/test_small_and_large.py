"""The driver decides about little data by itself, and decides as executors do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.populate import populate
from lakegc_dagster.sandbox import gc, objects, refs, repositories
from spark_core import holds, mark
from spark_core.errors import UnsafePlanError
from spark_core.fates import WhyMayGo
from spark_core.spark import placement
from spark_core.sweep.plan import require_whole_plan
from tests.support.pipeline import mark_only
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.stored_rows import rows_of

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


def _everything_that_a_mark_tells_apart(sandbox):
    """Make an expired, an overwritten, a held and a missing object, one of another size, and a
    twin; by name.
    """
    core, made = sandbox.core, {}

    def upload(name, path, data):
        made[name] = objects.upload(core, "repo", "main", path, data).address

    with core.lock, sandbox.clock.at(NOW - timedelta(days=40)):
        repositories.create(core, "repo", "local://repo")
        gc.set_rules(core, "repo", gc.Rules(1, {}))
        upload("expired", "a", b"first")
        refs.commit(core, "repo", "main", message="first")
    with core.lock, sandbox.clock.at(NOW - timedelta(days=30)):
        upload("head", "a", b"second")
        upload("missing", "m", b"soon missing")
        upload("other size", "s", b"of another size than was said")
        refs.commit(core, "repo", "main", message="second")
        upload("overwritten", "b", b"staged, then overwritten")
        upload("held", "b", b"staged, then held")
        upload("staged", "b", b"staged")
        upload("twin", "a", b"second")
    return made


def _rows(run, table):
    return sorted(rows_of(table), key=lambda row: row["address"])


@pytest.mark.slow
def test_little_and_much_are_marked_and_checked_alike(sandbox, spark, monkeypatch):
    made = _everything_that_a_mark_tells_apart(sandbox)
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    holds.add(run, "one", "address", made["held"], who="ann", why="")
    run.store.delete([made["missing"]])
    run.store.put(made["other size"], b"shorter")
    marked = mark_only(run)
    small = marked.expired
    small_rows = _rows(run, small)
    assert {row["address"]: row["reason"] for row in small_rows} == {
        made["expired"]: WhyMayGo.ONLY_EXPIRED_COMMITS,
        made["overwritten"]: WhyMayGo.NEVER_COMMITTED,
    }
    facts = small.manifest.facts
    assert facts["by_fate"]["held"][0] == facts["by_fate"]["read_by_branch"][0] == 1
    assert facts["twins"]["kept_objects"] == facts["other_sizes"] == 1
    assert facts["missing_named"] == [made["missing"]]
    _require_checked(run, small)

    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    large = run.keep(mark.expired_addresses(run, marked.tables))
    assert _rows(run, large) == small_rows
    assert _comparable(large) == _comparable(small)
    _require_checked(run, large)


def _comparable(table):
    # A table beside them has an attempt and an instant of its own, and its manifest lies in theirs.
    return {
        name: value
        for name, value in table.manifest.facts.items()
        if name not in {"missing_manifest", "explanations_manifest", "enclosed"}
    }


def _require_checked(run, expired):
    require_whole_plan(run, expired, run.limits)
    with pytest.raises(UnsafePlanError, match="was written, or its address given out, at or after"):
        require_whole_plan(run, expired, replace(run.limits, cutoff=NOW - timedelta(days=50)))


def test_where_an_expired_commit_cannot_be_read_no_reason_says_that_no_commit_had_it(
    sandbox, spark
):
    made = _everything_that_a_mark_tells_apart(sandbox)
    core = sandbox.core
    with core.lock:
        repository = core.repository("repo")
        (first,) = [
            commit for commit in refs.log(core, repository, "main") if commit.message == "first"
        ]
    (sandbox.blockstore / "repo" / "_lakefs" / first.metarange_id).write_bytes(b"damaged")
    expired = mark_only(open_sandbox_run(sandbox, "repo", spark, NOW)).expired
    assert not expired.manifest.facts["reasons_complete"]
    reasons = {row.address: row.reason for row in rows_of(expired)}
    assert reasons[made["expired"]] == reasons[made["overwritten"]] == WhyMayGo.UNREACHABLE


def test_where_nothing_may_go_no_branch_is_asked_for_twins(sandbox, spark):
    core = sandbox.core
    with core.lock, sandbox.clock.at(NOW - timedelta(days=30)):
        repositories.create(core, "repo", "local://repo")
        said_too_much = objects.upload(
            core, "repo", "main", "s", b"of another size than was said"
        ).address
        refs.commit(core, "repo", "main", message="only")
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    run.store.put(said_too_much, b"shorter")
    small = mark_only(run).expired
    assert small.manifest.rows == 0
    assert small.manifest.facts["other_sizes"] == 1
    assert small.manifest.facts["twins"]["calls"] == 0


@pytest.mark.slow
def test_executors_write_a_table_of_few_rows_in_few_parts(sandbox, spark, monkeypatch):
    populate(sandbox, "repo", now=NOW, objects=400, commits=3, branches=2, garbage=200, staged=10)
    # Nothing is small enough for the driver.
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    marked = mark_only(open_sandbox_run(sandbox, "repo", spark, NOW, max_expired_share=1))
    assert marked.expired.manifest.rows >= 200
    parts = {
        table.manifest.table: len(table.manifest.parts)
        for table in (*marked.tables.all, marked.expired)
    }
    assert max(parts.values()) <= 4, parts
