"""Runs with an index of repositories of a real server, between clean ones.

Whatever changed since the last run, exactly the dead goes, and nothing that is alive.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from spark_core.index.choosing import AUDIT
from spark_core.records.figures import CommittedFigures, ExpiredFigures, ListedFigures
from tests.support import live_oracle
from tests.support.clean_beside import was_clean
from tests.support.live_collection import (
    Collected,
    collect,
    open_anew,
    require_exactly_the_dead_gone,
)
from tests.support.live_history import DEFAULT, RULES, LiveHistory
from tests.support.pipeline import mark_and_conclude

pytestmark = pytest.mark.spark

SEEDS = range(101, 101 + int(os.environ.get("LAKEGC_LIVE_SEEDS") or 4))
STEPS = 60
OPTIMIZED: dict[str, Any] = {"optimized": True, "max_missing_share": 1, "max_expired_share": 1}


def index_of(done: Collected) -> str | None:
    """Return the run that saved the index from which a run took; None for a clean one."""
    found = ListedFigures.of(done.marked.tables.slices.manifest)
    return None if found.index is None else found.index.run


@pytest.mark.parametrize("seed", SEEDS)
def test_runs_of_a_random_history_with_an_index_take_what_is_dead_and_nothing_else(
    seed: int, repository: Any, spark: Any
) -> None:
    history = LiveHistory(repository, seed)
    history.begin()
    history.play(STEPS)
    options = {**history.options, **OPTIMIZED}
    done = require_exactly_the_dead_gone(repository, spark, DEFAULT, RULES, **options)
    assert index_of(done) is None
    gone, gone_by_optimized, swept = done.gone, set[str](), 0
    for _ in range(3):
        history.play(STEPS // 3)
        before = done
        done = require_exactly_the_dead_gone(
            repository, spark, DEFAULT, RULES, gone_before=gone, **options
        )
        assert index_of(done) == str(before.run.key)
        gone |= done.gone
        gone_by_optimized |= done.gone
        swept += bool(done.gone)
    repository.settle()
    run = open_anew(repository, spark, **{**options, "full_every": 2})
    marked, _, results = mark_and_conclude(run)
    assert was_clean(marked)
    assert marked.addresses(run) == []
    audited = ExpiredFigures.of(marked.expired.manifest).audit
    assert audited is not None
    # Each was dead when it was deleted. What a history went back to since came with a commit that
    # had expired, or is staged.
    refs = live_oracle.refs_of(repository, live_oracle.retained(repository, DEFAULT, RULES))
    back = live_oracle.alive(repository, refs) & gone_by_optimized
    assert audited.alive_objects + audited.brought_back_objects == len(back)
    assert [each.name for each in results if not each.passed] == (
        [AUDIT] if audited.alive_objects else []
    )
    assert len(audited.runs) == swept


def test_a_run_with_an_index_reads_what_changed(repository: Any, spark: Any) -> None:
    repository.rules(1, main=1)
    for number in range(20):
        repository.upload("main", f"t{number}/a", f"content of {number}".encode())
    repository.commit("main", days_ago=30)
    old = repository.upload("main", "t0/a", b"replaced soon")
    repository.commit("main", days_ago=20)
    collect(repository, spark, **OPTIMIZED)
    repository.upload("main", "t0/a", b"newest")
    repository.commit("main", days_ago=10)
    done = require_exactly_the_dead_gone(repository, spark, 1, {"main": 1}, **OPTIMIZED)
    read = CommittedFigures.of(done.marked.tables.committed.manifest)
    assert (read.metaranges_read, read.taken.metaranges > 0) == (1, True)
    assert done.gone == {old}
