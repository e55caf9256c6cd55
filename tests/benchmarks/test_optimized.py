"""The comparison of an optimized mark with a full one: what is counted, and the state for it."""

from datetime import UTC, datetime, timedelta

import pytest

from benchmarks import change, optimized
from benchmarks.runs import REPOSITORY
from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.populate import populate

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def run(requests, rows, calls, addresses, cpu, *, base="2026-11-21T02-00-00Z"):
    return {
        "store_requests": {"read": requests},
        "server_calls": {"GET /config": calls},
        "rows_read": {"slices/part": rows, "uncommitted/part": 1_000},
        "spark": {"shuffled": 10},
        "cpu_seconds": {"Java": cpu},
        "found": {
            "base": base,
            "why_full": None if base else "no mark of this repository has passed yet",
            "addresses": addresses,
            "rows": {"objects listed": rows, "objects looked up": 0},
        },
    }


def compared(changed, **more):
    full = run(2_000, 500, 30, ["a", "b"], 20.0, base=None)
    found = optimized.measures([full], [changed], start=4.0, little=14.0, **more)
    return {one.name: one for one in found}


def reached(one):
    return one.optimized <= one.most


def test_each_measure_is_compared_with_its_bar():
    found = compared(run(100, 20, 30, ["a"], 8.0))
    assert reached(found["requests to the store"])
    assert found["rows read, listed and shuffled"].full == 500 + 500 + 10
    assert reached(found["rows read, listed and shuffled"])
    above = found["CPU seconds above Spark's start"]
    assert (above.full, above.optimized, above.most) == (16.0, 4.0, 4.0)
    assert reached(above)
    assert found["  above a mark of 300 objects"].full == 6.0
    assert reached(found["calls to the server"])
    assert found["  named by the full mark alone: missed"].full == 1
    assert reached(found["  named by the optimized mark alone"])


def test_one_more_than_a_bar_does_not_reach_it():
    found = compared(run(101, 21, 31, ["a", "c"], 8.1))
    with_a_bar = [one for one in found.values() if one.most is not None]
    assert len(with_a_bar) == 5
    assert not any(map(reached, with_a_bar))


def test_few_requests_are_few_enough_whatever_a_full_run_makes():
    full = run(300, 500, 30, [], 20.0, base=None)
    found = optimized.measures([full], [run(60, 0, 30, [], 8.0)], start=4.0, little=14.0)
    assert found[0].most == 60
    assert reached(found[0])


def test_what_a_mark_without_spark_took_is_shown_in_full_as_well():
    without = {**run(100, 20, 30, ["a"], 8.0), "cpu_seconds": {"driver Python": 4.0}}
    found = compared(without, cpu_share=optimized.LARGE_CPU_SHARE)
    above = found["CPU seconds above Spark's start"]
    assert (above.full, above.optimized, above.most) == (16.0, 0.0, pytest.approx(2.4))
    charged = found["  a mark without Spark charged with all of it"]
    assert (charged.full, charged.optimized, charged.most) == (16.0, 4.0, None)


def test_rows_of_staged_entries_are_left_out():
    assert optimized.rows_of(run(1, 5, 1, [], 1.0)) == {
        "objects listed": 5,
        "rows of stored tables: slices/part": 5,
        "records shuffled": 10,
    }


def test_a_full_run_is_not_taken_for_an_optimized_one():
    with pytest.raises(SystemExit, match="was a full one: no mark of this repository has passed"):
        optimized.require_optimized(run(1, 5, 1, [], 1.0, base=None))


def test_a_change_replaces_stages_and_drops_and_a_commit_leaves_retention(tmp_path):
    with Sandbox(tmp_path) as sandbox:
        made = populate(
            sandbox,
            REPOSITORY,
            now=NOW,
            objects=2_000,
            commits=20,
            branches=6,
            days=40,
            retention_days=14,
            overwritten_share=0.5,
            garbage=30,
            staged=40,
        )
        core = sandbox.core
        before = change.expired(core, NOW)
        assert before == made.expired
        assert change.expired(core, NOW + change.BASE_AGE) > before
        left = change.expired(core, NOW + change.BASE_AGE)
        commits = len(core.state.commits(core.repository(REPOSITORY).number))
        assert change.change(sandbox, NOW + timedelta(hours=24), 2_000) == 20
        assert len(core.state.commits(core.repository(REPOSITORY).number)) == commits + 3
        # Two that were uploaded and reset, and two that were staged before and reset.
        assert change.expired(core, NOW + change.BASE_AGE) == left + 4
