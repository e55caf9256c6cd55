"""Running a job from a program: progress, result, and the Dagster home that the UI shows."""

import errno
import os
import signal
import time
from datetime import timedelta

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_dagster.launch.home import CODE_LOCATION
from lakegc_dagster.launch.interrupts import Interrupts
from lakegc_dagster.launch.run_job import launch
from lakegc_dagster.names import POOL
from lakegc_dagster.partitions import partition_key
from spark_core import checks as guards
from spark_core import mark, sweep
from spark_core.errors import (
    ClosedPartitionError,
    DeletionFailedError,
    PermissionDeniedError,
    SettingsError,
    TransientError,
    VerdictError,
)
from spark_core.lakefs.side_by_side import side_by_side
from spark_core.phases import ended_a_command, state_of
from spark_core.records import reading, tables
from spark_core.reference_job import marks
from spark_core.settings import Settings
from spark_core.sweep import rounds
from spark_core.who_acts import who
from tests.lakegc_dagster.conftest import new_key
from tests.support.clock import FakeClock

pytestmark = pytest.mark.spark


@pytest.fixture
def home(tmp_path, ground):
    """Settings of the ground with a Dagster home of their own, and what `launch` told."""
    document = ground.settings.model_dump(exclude_unset=True)
    document["dagster"] = {"home": str(tmp_path / "home")}
    settings = Settings.model_validate(document)
    settings._env = ground.settings._env
    return settings


@pytest.mark.usefixtures("no_home")
@pytest.mark.deep
def test_a_mark_of_the_reference_job_is_verified_and_ours_is_written_for_it(home, ground):
    """It names what is alive beside what is dead.

    Ours, written after the verdict, names the dead alone.
    """
    named = sorted(ground.garbage | ground.alive)
    put_reference_mark(ground, "ft6s0e1ksdufuaulm34g", named)
    document = home.model_dump(exclude_unset=True)
    document["defaults"]["write_reference_mark"] = True
    settings = Settings.model_validate(document)
    settings._env = home._env
    key = new_key()
    result = launch(
        settings, "mark_and_sweep", ground.repository_id, key, reference_mark="ft6s0e1ksdufuaulm34g"
    )
    assert result.success, result.message
    assert ground.objects() == ground.alive
    assert result.manifests["expired_addresses"].facts["reference"]["num_deleted_objects"] == len(
        named
    )
    own = result.manifests["uncommitted_addresses"].facts["server_runs"][-1]
    assert marks.load(ground.store, own).summary.num_deleted_objects == len(ground.garbage)

    missing = launch(
        settings,
        "mark",
        ground.repository_id,
        new_key(ago=timedelta(minutes=1)),
        reference_mark="no-such",
    )
    assert "mark no-such does not exist in" in missing.message


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


@pytest.mark.slow
def test_a_launched_job_tells_its_progress_and_is_seen_on_the_home(home, ground, tmp_path, capfd):
    told = []
    key = new_key()
    result = launch(
        home,
        "mark_and_sweep",
        ground.repository_id,
        key,
        on_event=told.append,
    )
    assert (result.success, result.error, result.message) == (True, None, None), result.message
    assert ground.objects() == ground.alive

    ended = [event for event in told if event.kind not in {"checked", "progressed"}]
    assert [(event.kind, event.table) for event in ended] == [
        (kind, spec.name) for spec in tables.ALL_TABLES for kind in ("started", "stored")
    ]
    (swept,) = [event for event in told if event.kind == "progressed"]
    assert swept.table == "deletion_report"
    done = f"{len(ground.garbage)} of {len(ground.garbage)} objects done, 0 kept, 0 failed"
    assert done in swept.words
    assert [event.check for event in told if event.kind == "checked"] == [
        *[name for name, _, _ in guards.CHECKS],
        "every_object_was_deleted",
    ]
    assert list(result.manifests) == [spec.name for spec in tables.ALL_TABLES]
    assert result.manifests["expired_addresses"].rows == len(ground.garbage)
    assert all(check.passed for check in result.checks)

    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        run = instance.get_run_by_id(result.dagster_run_id)
        assert (run.job_name, run.status) == ("mark_and_sweep", dg.DagsterRunStatus.SUCCESS)
        assert run.tags["lakegc/repository"] == ground.repository_id
        assert run.tags["lakegc/run"] == str(key)
        assert run.tags["dagster/partition"] == partition_key(ground.repository_id, key)
        assert run.tags["lakegc/by"] == who()
        # The timeline and the job's page show what belongs to the code location.
        origin = run.remote_job_origin
        assert (origin.location_name, origin.job_name) == (CODE_LOCATION, run.job_name)
        # The queue of the UI counts what runs on the command line.
        assert run.run_op_concurrency.all_pools == {POOL}
        assert instance.get_dynamic_partitions("repository_run") == [run.tags["dagster/partition"]]
        seen = instance.get_latest_materialization_event(dg.AssetKey("deletion_report"))
        assert seen.run_id == result.dagster_run_id
    # Dagster's own lines would tear the progress of whoever draws it.
    assert "dagster" not in capfd.readouterr().err

    again = launch(home, "mark", ground.repository_id, key)
    assert not again.success
    assert isinstance(again.error, ClosedPartitionError)
    assert again.message == str(again.error)
    assert again.manifests == {}


@pytest.mark.usefixtures("no_home")
def test_checks_that_fail_are_the_error(home, ground, monkeypatch):
    name, table, _ = guards.CHECKS[0]

    def failing(run, manifests):
        return guards.CheckResult(
            name, table, passed=False, summary="a repository lies inside data/.", figures={}
        )

    monkeypatch.setattr(guards, "CHECKS", ((name, table, failing), *guards.CHECKS[1:]))
    result = launch(home, "mark_and_sweep", ground.repository_id, new_key())
    assert not result.success
    assert isinstance(result.error, VerdictError)
    assert (
        "did not pass its checks: listing_lies_in_one_repository: a repository lies inside data/"
        in result.message
    )
    # A failed check does not hide its table's other ones.
    assert [(check.name, check.passed) for check in result.checks] == [
        (check, check != name) for check, owner, _ in guards.CHECKS if owner == table
    ]
    assert list(result.manifests) == ["namespace_slices"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_home")
def test_an_object_that_the_store_keeps_fails_the_job_after_its_report_is_stored(
    home, ground, monkeypatch
):
    def incomplete(report):
        raise DeletionFailedError("1 of 2 objects were not deleted")

    key = new_key()
    monkeypatch.setattr(sweep, "require_complete", incomplete)
    result = launch(home, "mark_and_sweep", ground.repository_id, key)
    assert not result.success
    assert isinstance(result.error, DeletionFailedError)
    assert "deletion_report" in result.manifests
    assert reading.load_table(ground.store, tables.DELETION_REPORT, key).manifest.rows == len(
        ground.garbage
    )


@pytest.mark.slow
@pytest.mark.usefixtures("no_home")
def test_a_server_that_never_answered_is_named_at_once(home, ground):
    document = home.model_dump(exclude_unset=True)
    document["server"]["endpoint"] = "http://127.0.0.1:9"
    unreachable = Settings.model_validate(document)
    unreachable._env = home._env
    told = []
    key = new_key(ago=timedelta(minutes=1))
    result = launch(
        unreachable,
        "mark",
        ground.repository_id,
        key,
        on_event=lambda event: told.append((event.kind, event.table)),
        clock=FakeClock(key.instant + timedelta(seconds=5)),
        retry_after=timedelta(0),
    )
    assert isinstance(result.error, TransientError)
    assert "127.0.0.1:9" in result.message
    assert told == [("started", "namespace_slices"), ("failed", "namespace_slices")]


@pytest.mark.usefixtures("no_home")
def test_wrong_keys_end_the_job_with_their_class(home, ground):
    home._env = {"LAKEGC_ACCESS_KEY_ID": "AKIAWRONG", "LAKEGC_SECRET_ACCESS_KEY": "hush-hush"}
    result = launch(home, "mark", ground.repository_id, new_key())
    assert isinstance(result.error, PermissionDeniedError)
    assert "hush" not in result.message


def test_a_repository_that_the_settings_do_not_know_starts_nothing(home, tmp_path):
    with pytest.raises(SettingsError, match="repository 'other' is not in the settings"):
        launch(home, "mark", "other", new_key())
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
def test_a_person_who_ends_it_gets_the_interrupt_and_dagster_a_failed_run(home, ground, tmp_path):
    def end(event):
        if (event.kind, event.table) == ("stored", "namespace_slices"):
            signal.raise_signal(signal.SIGINT)

    key = new_key()
    with pytest.raises(KeyboardInterrupt):
        launch(home, "mark_and_sweep", ground.repository_id, key, on_event=end)
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.FAILURE]
    assert not ground.has_verdict(key)
    assert ground.objects() == ground.alive | ground.garbage


@pytest.mark.slow
def test_a_run_in_a_thread_is_a_failed_run_of_dagster_and_has_no_verdict(home, ground, tmp_path):
    interrupts, key = Interrupts(), new_key()

    def press(event):
        if (event.kind, event.table) == ("stored", "namespace_slices"):
            os.kill(os.getpid(), signal.SIGINT)

    def work(repository_id):
        if repository_id:
            with interrupts.heard_here():
                launch(home, "mark_and_sweep", repository_id, key, on_event=press)
        yield repository_id

    with pytest.raises(KeyboardInterrupt), interrupts.passed_on():
        list(side_by_side([ground.repository_id, ""], work, at_once=2))
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        (run,) = instance.get_runs()
        assert run.status == dg.DagsterRunStatus.FAILURE
    assert not ground.has_verdict(key)
    assert ground.objects() == ground.alive | ground.garbage


@pytest.mark.slow
def test_a_person_who_ends_a_sweep_is_told_how_many_went_and_the_next_one_does_the_rest(
    home, ground, monkeypatch
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
        launch(home, "mark_and_sweep", ground.repository_id, key)
    assert "deleted 0 objects in rounds that ended, and left 1; none is under way" in (
        state_of(ended.value)
    )
    assert ground.objects() == ground.alive | ground.garbage
    monkeypatch.setattr(rounds, "delete_as_tasks", whole)
    assert launch(home, "sweep", ground.repository_id, key).success
    assert ground.objects() == ground.alive


@pytest.mark.slow
@pytest.mark.usefixtures("no_home")
def test_a_fault_that_is_none_of_ours_is_told_too(home, ground, monkeypatch):
    def broken(run):
        raise ZeroDivisionError("a bug")

    monkeypatch.setitem(mark._MAKERS, tables.NAMESPACE_SLICES, broken)
    result = launch(home, "mark", ground.repository_id, new_key())
    assert not result.success
    assert result.error is None
    assert "namespace_slices failed" in result.message
    assert "ZeroDivisionError: a bug" in result.message
    assert result.state == "Nothing was deleted."
    # As a command shows it.
    shown = str(ended_a_command(result.failure("the small collection failed")))
    assert shown.count("Nothing was deleted.") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("no_home")
def test_a_full_disk_in_a_step_is_named_with_the_next_step(home, ground, monkeypatch):
    def full(run):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/full/place")

    monkeypatch.setitem(mark._MAKERS, tables.NAMESPACE_SLICES, full)
    result = launch(home, "mark", ground.repository_id, new_key())
    assert str(result.error).startswith("/full/place cannot be used (No space left on device). ")
    assert str(result.error).endswith("Nothing was deleted.")
