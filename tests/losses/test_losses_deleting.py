"""Losses of the sweep: its permission to delete, concurrent collectors, and its report."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from spark_core.checks import sweepable, verdict
from spark_core.errors import LeaseHeldError, UnsafePlanError, VerdictError
from spark_core.holds import Hold, Holds
from spark_core.lock import lease
from spark_core.model import RunKey
from spark_core.records.journal import Journal
from spark_core.run import Run
from spark_core.storage import ObjectStore, StoreOptions
from spark_core.storage.deletion import KeyAnswer, delete_in_batches
from spark_core.storage.outcomes import Outcomes, Pace
from spark_core.sweep import _dispose as dispose_of
from spark_core.sweep import quarantine
from spark_core.sweep.deadline import Deadline
from spark_core.sweep.delete_batches import run_task
from spark_core.sweep.deletion_orders import DeletionOrders, Dispose
from spark_core.sweep.objects_now import Row
from spark_core.upkeep import house_keeping, house_keeping_result
from tests.support.deleting_task import A, B, Case
from tests.support.killing import Killed, KillingStore
from tests.support.memory_store import MemoryStore
from tests.support.passing_mark import passing_mark
from tests.support.written_run import NOW, OLD, any_name, written_run


def test_15_deletions_that_failed_were_counted_as_deleted() -> None:
    denied = KeyAnswer("refused", "AccessDenied")
    outcomes = delete_in_batches(
        ["data/s/a", "data/s/b"], lambda _: {"data/s/a": denied}, StoreOptions(), size=1000
    )
    assert [(outcome.outcome, outcome.error) for outcome in outcomes] == [
        ("refused", "AccessDenied"),
        ("failed", "the store's answer does not mention the key"),
    ]


def test_18_the_sweep_ran_although_a_check_had_failed(tmp_path: Path) -> None:
    run = written_run(tmp_path, spark=None).run
    passing_mark(
        run,
        expired_addresses={
            "live_objects": 10_000,
            "missing_objects": 5_000,
            "missing_named": ["data/s/x"],
        },
    )
    found, _ = verdict.conclude(run)
    assert not found.passed
    # An operator raises the limit, but the verdict of the mark stays.
    lenient = replace(run, options=replace(run.options, max_missing_share=1.0))
    with pytest.raises(
        VerdictError, match="did not pass its checks: live_objects_are_listed: 5000 of 10000"
    ):
        sweepable.require_sweepable(lenient)


def test_19_two_collectors_worked_at_once(tmp_path: Path) -> None:
    run = replace(written_run(tmp_path, spark=None).run, store=MemoryStore())
    other = run.at(RunKey.at(NOW + timedelta(days=1)))
    with (
        lease.acquire(run),
        pytest.raises(LeaseHeldError, match=f"the sweep of run {run.key}.*it renews its lease"),
    ):
        lease.acquire(other)


def test_20_after_a_crash_in_the_middle_nobody_knew_what_was_gone(tmp_path: Path) -> None:
    run = written_run(tmp_path, spark=None).run
    store = KillingStore(run.namespace, run.store.options)
    journal = Journal(store, str(run.key), "5" * 64)
    deadline = Deadline(datetime.now(UTC) + timedelta(minutes=10), NOW, timedelta(0))
    orders = DeletionOrders(journal, any_name(run.cutoff, flat=False), deadline, "00", 1)
    store.put("data/s/a", b"1234")
    columns = {
        "address": ["data/s/a"],
        "size_bytes": [4],
        "last_modified": [datetime.now(UTC)],
        "why": [None],
    }
    schema = pa.schema(
        [
            pa.field("address", pa.string()),
            pa.field("size_bytes", pa.int64()),
            pa.field("last_modified", pa.timestamp("us", "UTC")),
            pa.field("why", pa.string()),
        ]
    )
    later = replace(orders, limits=any_name(datetime.now(UTC) + timedelta(days=1), flat=False))
    # The first change of the store is the journal's intent, the second is the deletion.
    store.arm(2, after=True)
    with pytest.raises(Killed):
        run_task(later, 0, pa.table(columns, schema=schema))
    assert not store.exists("data/s/a")
    (part,) = journal.parts()
    assert (part.kind, journal.read(part).column("address").to_pylist()) == ("intent", ["data/s/a"])


def test_29_another_repository_imported_objects_of_this_one() -> None:
    held = Holds(
        (Hold("shared", "prefix", "data/s/", None, "ann", OLD, "the mirror imports them"),)
    )
    assert held.protecting(pa.array(["data/s/x", "data/t/x"])).to_pylist() == [True, False]


class _IgnoresTheCondition(MemoryStore):
    def put_if_absent(self, key: str, data: bytes) -> None:
        self.objects[key] = data


def test_33_the_store_ignored_the_condition_of_a_put_and_answered_200(tmp_path: Path) -> None:
    run = replace(written_run(tmp_path, spark=None).run, store=_IgnoresTheCondition())
    with (
        pytest.raises(UnsafePlanError, match=r"does not keep the condition"),
        lease.hold_lease(run),
    ):
        raise AssertionError


def test_43_house_keeping_chosen_alone_acted_for_a_run_that_had_not_done_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written_run(tmp_path, spark=None).run
    run = replace(
        run,
        options=replace(run.options, may_sweep=True, max_expired_share=0.5, share_from_objects=0),
    )
    kept: list[str] = []
    house = house_keeping_result.House(house_keeping_result.Pruned(), None)
    monkeypatch.setattr(house_keeping, "keep_house", lambda of: kept.append(str(of.key)) or house)

    def why_not(of: Run) -> str | None:
        return house_keeping.after_run(of).pruned.not_now

    assert "has no verdict" in str(why_not(run))
    refused = run.at(RunKey.at(NOW - timedelta(days=1)))
    passing_mark(refused, expired_addresses={"expired_objects": 9_000})
    verdict.conclude(refused)
    assert "did not pass (expired_share_is_plausible)" in str(why_not(refused))
    passing_mark(run)
    verdict.conclude(run)
    assert why_not(run) == f"run {run.key} is not swept yet"
    run.environment.clock.instant = NOW + run.options.max_mark_age + timedelta(seconds=1)
    assert "the limit (max_mark_age_days) is 7 days" in str(why_not(run))
    assert kept == []
    run.environment.clock.instant = NOW
    assert why_not(replace(run, options=replace(run.options, may_sweep=False))) is None
    assert kept == [str(run.key)]


def _quarantining(folder: Path) -> tuple[Case, Dispose]:
    case = Case(folder)
    run = written_run(folder, spark=None).run
    return case, dispose_of(replace(run, options=replace(run.options, quarantine=True)))


def test_67_a_quarantine_on_a_full_disk_copied_and_filled_it_and_freed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    case, dispose = _quarantining(tmp_path)
    case.plant(A, B)
    monkeypatch.setattr(shutil, "copyfileobj", full)
    assert case.run(A, B, dispose=dispose).objects == {"deleted": 2}
    assert case.there() == set()
    assert {case.store.read(quarantine.key_of(case.journal.run, key)) for key in (A, B)} == {
        b"1234"
    }


def test_67_what_was_written_again_behind_the_look_went_with_the_second_name_of_what_had_been(
    tmp_path: Path,
) -> None:
    case, dispose = _quarantining(tmp_path)
    case.plant(A, B)

    def behind(store: ObjectStore, rows: Mapping[str, Row], pace: Pace) -> Outcomes:
        case.plant(A, data=b"5678", written=OLD + timedelta(seconds=1))
        return dispose(store, rows, pace)

    assert case.run(A, B, dispose=behind).objects == {"deleted": 1, "unsent": 1}
    assert case.store.read(A) == b"5678"
    assert not case.store.exists(quarantine.key_of(case.journal.run, A))
    case.run(A, dispose=dispose, sweep="ac")
    assert case.outcomes()[A][0] == "kept"
