"""A second sweep of one mark, such as a run that Dagster starts anew, while the first one is still
at work.
"""

from datetime import timedelta

import pytest

from lakegc_dagster.in_dagster.failures import raising_failures
from lakegc_dagster.resources import Wiring, build_resources, runs
from spark_core import mark_and_sweep
from spark_core.lock import lease
from spark_core.records import reading, tables
from tests.lakegc_dagster.conftest import failure, new_key

pytestmark = pytest.mark.spark


@pytest.fixture
def at_first_failure(monkeypatch):
    """Does something when a step was refused for the first time, and remembers why it was."""

    def watch(act):
        seen = []

        def told(tell, **more):
            def hear(error):
                seen.append(error)
                if len(seen) == 1:
                    act()
                tell(error)

            return raising_failures(hear, **more)

        monkeypatch.setattr(runs, "raising_failures", told)
        return seen

    return watch


def engine_run(ground, key):
    """The run as another process has it."""
    return build_resources(Wiring(ground.settings))["runs"]._open(ground.repository_id, key)


@pytest.mark.slow
def test_a_second_sweep_failed_while_the_first_one_held_the_lease_of_the_same_mark(
    ground, at_first_failure
):
    key = new_key()
    assert ground.job("mark", key).success
    first = lease.acquire(engine_run(ground, key))
    seen = at_first_failure(first.close)
    second = ground.job("sweep", key)
    assert second.success, failure(second)
    assert [type(error).__name__ for error in seen] == ["SameWorkError"]
    assert ground.objects() == ground.alive


@pytest.mark.deep
def test_a_second_sweep_that_waited_until_the_first_had_ended_ends_well_with_its_report(
    ground, at_first_failure
):
    key = new_key()
    assert ground.job("mark", key).success
    run = engine_run(ground, key)
    first = lease.acquire(run)

    def finish():
        first.close()
        mark_and_sweep.sweep(run, lambda *_: None)

    at_first_failure(finish)
    second = ground.job("sweep", key)
    assert second.success, failure(second)
    assert ground.objects() == ground.alive
    (event,) = second.asset_materializations_for_node("deletion_report")
    stored = reading.load_table(run.store, tables.DELETION_REPORT, key).manifest
    assert event.metadata["manifest_sha256"].value == stored.sha256
    assert stored.rows == len(ground.garbage)


@pytest.mark.deep
def test_the_lease_of_another_marks_sweep_fails_a_sweep_at_once(ground, at_first_failure):
    other, key = new_key(ago=timedelta(hours=1)), new_key()
    assert ground.job("mark", key).success
    seen = at_first_failure(lambda: None)
    with lease.acquire(engine_run(ground, other)):
        swept = ground.job("sweep", key)
    assert not swept.success
    assert failure(swept).startswith("LeaseHeldError: ")
    assert len(seen) == 1
    assert ground.objects() == ground.alive | ground.garbage


@pytest.mark.deep
def test_of_two_sweeps_that_report_the_same_journal_the_slower_one_takes_the_report_that_stands(
    ground,
):
    key = new_key()
    assert ground.job("mark", key).success
    run = engine_run(ground, key)
    drafts = [mark_and_sweep.sweep_or_report(run, lambda *_: None) for _ in range(2)]
    kept, _ = mark_and_sweep.keep(run, drafts[0])
    again, _ = mark_and_sweep.keep(run, drafts[1])
    assert again.manifest == kept.manifest
    assert kept.manifest.rows == len(ground.garbage)
