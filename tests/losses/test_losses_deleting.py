"""Losses of the sweep: what it may delete, on whose word, and what it says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spark_core import verdict
from spark_core.errors import VerdictError
from spark_core.storage import StoreOptions
from spark_core.storage.deletion import Answer, delete_in_batches
from tests.support.passing_mark import passing_mark
from tests.support.written_run import written_run


def test_15_deletions_that_failed_were_counted_as_deleted() -> None:
    denied = Answer("refused", "AccessDenied")
    outcomes = delete_in_batches(["data/s/a", "data/s/b"], lambda _: {"data/s/a": denied}, StoreOptions(), size=1000)
    assert [(outcome.outcome, outcome.error) for outcome in outcomes] == [
        ("refused", "AccessDenied"),
        ("failed", "the store's answer does not mention the key"),
    ]


def test_18_the_sweep_ran_although_a_check_had_failed(tmp_path: Path) -> None:
    run = written_run(tmp_path, spark=None).run
    passing_mark(
        run, expired_addresses={"live_objects": 10_000, "missing_objects": 5_000, "missing_named": ["data/s/x"]}
    )
    found, _ = verdict.conclude(run)
    assert not found.passed
    # Somebody who knows better raises the limit; what was said of the mark stays said.
    lenient = replace(run, options=replace(run.options, max_missing_share=1.0))
    with pytest.raises(VerdictError, match="did not pass its checks: live_objects_are_listed: 5000 of 10000"):
        verdict.require_sweepable(lenient)
