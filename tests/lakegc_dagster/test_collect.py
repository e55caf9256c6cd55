"""A whole run in this process, as every command drives it: progress, outcome, retries and ends."""

import errno
import os
import signal
import time
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_core import checks as guards
from spark_core import mark, mark_and_sweep, sweep
from spark_core.clocks import SystemClock
from spark_core.errors import (
    ClosedPartitionError,
    DeletionFailedError,
    NotFoundError,
    TransientError,
    UnsafePlanError,
    VerdictError,
)
from spark_core.interrupts import Interrupts
from spark_core.lakefs.side_by_side import side_by_side
from spark_core.lock import lease
from spark_core.mark_and_sweep import collect
from spark_core.phases import NOTHING_BY_THIS_SWEEP, NOTHING_DELETED, state_of
from spark_core.records import reading, tables
from spark_core.reference_job import marks
from spark_core.run import open_run
from spark_core.settings.environment import open_environment
from spark_core.sweep import rounds
from spark_core.tries import RETRIES, RETRY_AFTER
from spark_core.upkeep.house_keeping_result import House, Pruned
from tests.lakegc_dagster.conftest import new_key

pytestmark = pytest.mark.spark


class _AtOnce(SystemClock):
    """The machine's time; nobody waits between two tries of a step."""

    def sleep(self, seconds):
        if seconds != RETRY_AFTER.total_seconds():
            super().sleep(seconds)


@pytest.fixture
def opened(ground, spark):
    """Opens a run of the ground, or of a ground of other settings."""

    def run_of(key, *, of=ground, **asked):
        environment = open_environment(of.settings, lambda: spark, clock=_AtOnce())
        options = of.settings.run_options(ground.repository_id)
        return open_run(environment, ground.repository_id, key, options, **asked)

    return run_of


def test_a_run_tells_its_progress_in_the_order_of_its_steps(opened, ground):
    told, key = [], new_key()
    done = collect(opened(key), "mark_and_sweep", told.append)
    assert done.error is None
    assert ground.objects() == ground.alive

    ended = [event for event in told if event.kind not in {"checked", "progressed"}]
    assert [(event.kind, event.table) for event in ended] == [
        (kind, spec.name) for spec in tables.ALL_TABLES for kind in ("started", "stored")
    ]
    (swept,) = [event for event in told if event.kind == "progressed"]
    assert swept.table == "deletion_report"
    words = f"{len(ground.garbage)} of {len(ground.garbage)} objects done, 0 kept, 0 failed"
    assert words in swept.words
    names = [name for name, _, _ in guards.CHECKS]
    assert [(event.check, event.passed) for event in told if event.kind == "checked"] == [
        (name, True) for name in names
    ]
    assert [(check.name, check.passed) for check in done.checks] == [(name, True) for name in names]
    assert list(done.manifests) == [spec.name for spec in tables.ALL_TABLES]
    assert done.manifests["expired_addresses"].rows == len(ground.garbage)
    assert done.report.sweep is not None

    told.clear()
    again = collect(opened(key), "mark", told.append)
    assert isinstance(again.error, ClosedPartitionError)
    assert (again.manifests, again.checks, again.report) == ({}, (), None)
    assert [(event.kind, event.table) for event in told] == [
        ("started", "namespace_slices"),
        ("failed", "namespace_slices"),
    ]


@pytest.mark.deep
def test_a_mark_of_the_reference_job_is_verified_and_ours_is_written_for_it(opened, ground):
    """It names what is alive beside what is dead.

    Ours, written after the verdict, names the dead alone.
    """
    named = sorted(ground.garbage | ground.alive)
    put_reference_mark(ground, "ft6s0e1ksdufuaulm34g", named)
    writing = ground.with_settings(write_reference_mark=True)
    run = opened(new_key(), of=writing, reference_mark="ft6s0e1ksdufuaulm34g")
    done = collect(run, "mark_and_sweep")
    assert done.error is None
    assert ground.objects() == ground.alive
    found = done.manifests["expired_addresses"].facts["reference"]["num_deleted_objects"]
    assert found == len(named)
    own = done.manifests["uncommitted_addresses"].facts["server_runs"][-1]
    assert marks.load(ground.store, own).summary.num_deleted_objects == len(ground.garbage)

    earlier = new_key(ago=timedelta(minutes=1))
    missing = collect(opened(earlier, of=writing, reference_mark="no-such"), "mark")
    assert "mark no-such does not exist in" in str(missing.error)


def put_reference_mark(ground, mark_id, addresses):
    """Put a mark into the repository as the reference job writes one."""
    folder = (
        ground.sandbox.blockstore / ground.repository_id / f"_lakefs/retention/gc/unified/{mark_id}"
    )
    (folder / "deleted").mkdir(parents=True)
    pq.write_table(pa.table({"address": addresses}), folder / "deleted/part-00000-x.snappy.parquet")
    summary = marks.Summary(
        mark_id, True, "", "2026-11-21T07:05:39Z", "2026-11-21T07:05:38Z", len(addresses)
    )
    (folder / "summary.json").write_bytes(summary.to_json())


def failing(name, table):
    def check(run, manifests):
        return guards.CheckResult(
            name, table, passed=False, summary="a repository lies inside data/.", figures={}
        )

    return check


def test_checks_that_fail_are_the_error_and_hide_no_other_check_nor_the_report(
    opened, ground, monkeypatch
):
    name, table, _ = guards.CHECKS[0]
    broken = ((name, table, failing(name, table)), *guards.CHECKS[1:])
    monkeypatch.setattr("spark_core.checks.every_check.CHECKS", broken)
    told = []
    done = collect(opened(new_key()), "mark_and_sweep", told.append)
    assert isinstance(done.error, VerdictError)
    assert (
        "did not pass its checks: listing_lies_in_one_repository: a repository lies inside data/"
        in str(done.error)
    )
    assert done.error.state == NOTHING_DELETED
    passed = [(check, check != name) for check, _, _ in guards.CHECKS]
    assert [(check.name, check.passed) for check in done.checks] == passed
    assert [(each.check, each.passed) for each in told if each.kind == "checked"] == passed
    assert list(done.manifests) == [spec.name for spec in tables.MARK_TABLES]
    assert list(done.report.refused) == [name]
    assert ground.objects() == ground.alive | ground.garbage


def test_an_object_that_the_store_keeps_is_the_error_after_the_report_is_stored(
    opened, ground, monkeypatch
):
    def incomplete(report):
        raise DeletionFailedError("1 of 2 objects were not deleted")

    key = new_key()
    monkeypatch.setattr(sweep, "require_complete", incomplete)
    done = collect(opened(key), "mark_and_sweep")
    assert isinstance(done.error, DeletionFailedError)
    assert str(done.error).endswith("What the sweep deleted stands.")
    assert "deletion_report" in done.manifests
    assert reading.load_table(ground.store, tables.DELETION_REPORT, key).manifest.rows == len(
        ground.garbage
    )


@pytest.mark.parametrize(
    "case",
    [
        ("sweep", "sweep", NotFoundError, "it has no runs yet"),
        ("sweep", "mark", UnsafePlanError, "deleting is switched off"),
        ("mark_and_sweep", "mark", UnsafePlanError, "deleting is switched off"),
    ],
)
def test_what_no_run_of_a_key_can_do_is_refused_before_its_first_step(opened, ground, case):
    (job, mode, kind, words), told = case, []
    done = collect(opened(new_key(), of=ground.with_settings(mode=mode)), job, told.append)
    assert isinstance(done.error, kind)
    assert words in str(done.error)
    assert done.error.state == (NOTHING_BY_THIS_SWEEP if job == "sweep" else NOTHING_DELETED)
    assert (told, done.manifests) == ([], {})


def test_a_person_who_ends_it_gets_the_interrupt_and_no_verdict(opened, ground):
    def end(event):
        if (event.kind, event.table) == ("stored", "namespace_slices"):
            signal.raise_signal(signal.SIGINT)

    key = new_key()
    with pytest.raises(KeyboardInterrupt):
        collect(opened(key), "mark_and_sweep", end)
    assert not ground.has_verdict(key)
    assert ground.objects() == ground.alive | ground.garbage


def test_a_run_in_a_thread_ends_when_the_process_is_interrupted_and_has_no_verdict(opened, ground):
    interrupts, key, ended = Interrupts(), new_key(), []

    def press(event):
        if (event.kind, event.table) == ("stored", "namespace_slices"):
            os.kill(os.getpid(), signal.SIGINT)

    def work(repository_id):
        if repository_id:
            with interrupts.heard_here():
                try:
                    collect(opened(key), "mark_and_sweep", press)
                except KeyboardInterrupt:
                    ended.append(repository_id)
                    raise
        yield repository_id

    with pytest.raises(KeyboardInterrupt), interrupts.passed_on():
        list(side_by_side([ground.repository_id, ""], work, at_once=2))
    assert ended == [ground.repository_id]
    assert not ground.has_verdict(key)
    assert ground.objects() == ground.alive | ground.garbage


def test_a_person_who_ends_a_sweep_is_told_how_many_went_and_the_next_one_does_the_rest(
    opened, ground, monkeypatch
):
    whole = rounds.delete_as_tasks

    def pressed(run, sources, kept, orders, tasks, *, is_here):
        os.kill(os.getpid(), signal.SIGINT)
        until = time.monotonic() + 60
        while not orders.is_ended():
            assert time.monotonic() < until
        return whole(run, sources, kept, orders, tasks, is_here=is_here)

    monkeypatch.setattr(rounds, "delete_as_tasks", pressed)
    key = new_key()
    with pytest.raises(KeyboardInterrupt) as ended:
        collect(opened(key), "mark_and_sweep")
    assert "deleted 0 objects in rounds that ended, and left 1; none is under way" in (
        state_of(ended.value)
    )
    assert ground.objects() == ground.alive | ground.garbage
    monkeypatch.setattr(rounds, "delete_as_tasks", whole)
    assert collect(opened(key), "sweep").error is None
    assert ground.objects() == ground.alive


def test_a_sweep_waits_for_another_one_of_the_same_mark_and_then_goes_on(opened, ground):
    key, waited = new_key(), []
    assert collect(opened(key), "mark").error is None
    first = lease.acquire(opened(key))

    def tell(event):
        if event.kind == "waits":
            waited.append(event.words)
            if len(waited) == RETRIES + 1:
                first.close()

    assert collect(opened(key), "sweep", tell).error is None
    assert len(waited) == RETRIES + 1
    assert "lease" in waited[0]
    assert ground.objects() == ground.alive


def test_house_is_kept_after_a_run_and_told(opened, monkeypatch):
    kept = []

    def after_run(run):
        kept.append(run.key)
        return House(Pruned([run.key], objects=5, size_bytes=1_000), None)

    monkeypatch.setattr(mark_and_sweep.house_keeping, "after_run", after_run)
    key = new_key()
    done = collect(opened(key), "mark")
    assert kept == [key]
    assert done.house == "tables of 1 old runs pruned (5 files, 1.0 kB)"


def test_a_sweep_whose_report_cannot_be_made_is_done_all_the_same(opened, ground, monkeypatch):
    def silent(*_asked, **_more):
        raise TransientError("no answer in 120 s")

    monkeypatch.setattr("spark_core.report.of_sweep", silent)
    done = collect(opened(new_key()), "mark_and_sweep")
    assert done.error is None
    assert done.report is None
    assert done.house is not None
    assert ground.objects() == ground.alive


def test_a_mistake_of_ours_leaves_it_with_what_was_deleted_as_a_note(opened, monkeypatch):
    def broken(run):
        raise ZeroDivisionError("a bug")

    monkeypatch.setitem(mark._MAKERS, tables.NAMESPACE_SLICES, broken)
    with pytest.raises(ZeroDivisionError) as raised:
        collect(opened(new_key()), "mark")
    assert raised.value.__notes__ == [NOTHING_DELETED]


def test_a_full_disk_in_a_step_is_named_with_the_next_step(opened, monkeypatch):
    def full(run):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/full/place")

    monkeypatch.setitem(mark._MAKERS, tables.NAMESPACE_SLICES, full)
    done = collect(opened(new_key()), "mark")
    assert str(done.error).startswith("/full/place cannot be used (No space left on device). ")
    assert str(done.error).endswith("Nothing was deleted.")


@pytest.mark.parametrize(
    "step", ["retained_commits", "policy_expirations", "verdict", "deletion_report"]
)
@pytest.mark.parametrize("heals_after", [RETRIES, RETRIES + 1])
def test_each_step_of_a_run_is_tried_again_when_a_server_or_store_does_not_answer(
    opened, ground, monkeypatch, step, heals_after
):
    tries = []

    def silent(whole):
        def tried(*asked, **more):
            tries.append(step)
            if len(tries) <= heals_after:
                raise TransientError("no answer in 120 s", "Start it.")
            return whole(*asked, **more)

        return tried

    if step == "verdict":
        monkeypatch.setattr(
            mark_and_sweep, "conclude_and_report", silent(mark_and_sweep.conclude_and_report)
        )
    elif step == "policy_expirations":
        whole = mark_and_sweep.policies.store_if_asked
        monkeypatch.setattr(mark_and_sweep.policies, "store_if_asked", silent(whole))
    elif step == "deletion_report":
        monkeypatch.setattr(
            mark_and_sweep, "sweep_or_report", silent(mark_and_sweep.sweep_or_report)
        )
    else:
        maker = mark._MAKERS[tables.RETAINED_COMMITS]
        monkeypatch.setitem(mark._MAKERS, tables.RETAINED_COMMITS, silent(maker))
    told = []
    done = collect(opened(new_key()), "mark_and_sweep", told.append)
    again = [(event.tries, event.words) for event in told if event.kind == "retries"]
    assert again == [(number, "no answer in 120 s") for number in range(1, RETRIES + 1)]
    if heals_after <= RETRIES:
        assert done.error is None
        assert ground.objects() == ground.alive
        return
    assert isinstance(done.error, TransientError)
    assert len(tries) == RETRIES + 1
    (last,) = [event for event in told if event.kind == "failed"]
    assert (last.table, last.tries) == (step, RETRIES + 1)
    assert ground.objects() == ground.alive | ground.garbage
