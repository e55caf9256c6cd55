"""What an attempt deleted that was killed or lost, and another one kept, is reported as deleted."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from spark_core.addresses.address_hashes import hashed
from spark_core.errors import TransientError
from spark_core.records.journal import Journal
from spark_core.records.swept import PLANNED, report_rows
from spark_core.spark import placement
from spark_core.sweep.leftovers import recheck_leftovers
from tests.support.written_run import journal_entries, written_run

AT = datetime(2026, 11, 20, 2, tzinfo=UTC)
GONE, THERE, ANSWERED = "data/s/gone", "data/s/there", "data/s/answered"


def _entries(outcome, *addresses):
    return journal_entries(outcome, addresses, at=AT)


@pytest.fixture
def resumed(tmp_path):
    """A sweep that kept what an earlier attempt had just intended."""
    run = written_run(tmp_path, spark=None).run
    journal = Journal(run.store, str(run.key), "5" * 64)
    journal.bind("repo")
    journal.intend("aa.1.0.0.0", _entries("intended", GONE, THERE, ANSWERED))
    journal.conclude("aa.1.0.0.0", _entries("refused", ANSWERED))
    journal.conclude("bb.1.0.0.0", _entries("kept", GONE, THERE, ANSWERED))
    for address in (GONE, THERE):
        run.store.put(address, b"1234")
    return run, journal


def _reported(run, journal):
    names = pa.array([GONE, THERE, ANSWERED])
    plan = pa.table([hashed(names), names, [4] * 3, ["why"] * 3], schema=PLANNED)
    told = report_rows(plan, journal.source(journal.parts()).here(threads=1))
    return dict(zip(told["address"].to_pylist(), told["outcome"].to_pylist(), strict=True))


def test_what_went_while_a_lost_executor_was_still_at_work_is_not_reported_as_kept(resumed):
    run, journal = resumed
    clock = run.environment.clock
    asleep = clock.sleep

    def sleep(seconds):
        # The lost executor works off its batch.
        run.store.delete([GONE])
        asleep(seconds)

    slow = replace(run, environment=replace(run.environment, clock=clock))
    clock.sleep = sleep
    assert recheck_leftovers(slow, journal, clock.now() + timedelta(minutes=3), [GONE, THERE]) == {
        GONE
    }
    assert 179 < clock.slept[-1] <= 180
    assert _reported(run, journal) == {GONE: "deleted", THERE: "kept", ANSWERED: "kept"}


def test_after_a_process_that_was_killed_nothing_is_waited_for_and_all_the_same_looked_at(resumed):
    run, journal = resumed
    run.store.delete([GONE])
    assert recheck_leftovers(run, journal, None, [GONE]) == {GONE}
    assert run.environment.clock.slept == []
    assert _reported(run, journal) == {GONE: "deleted", THERE: "kept", ANSWERED: "kept"}


def test_what_a_lost_executor_only_begins_to_delete_while_it_is_waited_for_is_not_reported_as_kept(
    resumed,
):
    run, _ = resumed
    journal = Journal(run.store, "2020-01-01T00-00-00Z", "5" * 64)
    journal.bind("repo")
    journal.conclude("bb.1.0.0.0", _entries("kept", GONE, THERE))
    clock = run.environment.clock
    asleep = clock.sleep

    def sleep(seconds):
        journal.intend("aa.1.0.0.1", _entries("intended", GONE))
        run.store.delete([GONE])
        asleep(seconds)

    clock.sleep = sleep
    assert recheck_leftovers(run, journal, clock.now() + timedelta(minutes=3), [GONE, THERE]) == {
        GONE
    }
    assert _reported(run, journal)[GONE] == "deleted"


@pytest.mark.parametrize("outcome", ["failed", "refused"])
def test_what_one_attempt_could_not_delete_and_a_lost_one_did_is_not_reported_as_left(
    resumed, outcome
):
    run, _ = resumed
    journal = Journal(run.store, "2020-01-01T00-00-00Z", "5" * 64)
    journal.bind("repo")
    journal.intend("aa.1.0.0.0", _entries("intended", GONE))
    if outcome == "refused":
        journal.intend("bb.1.0.0.0", _entries("intended", GONE, THERE))
    journal.conclude("bb.1.0.0.0", _entries(outcome, GONE, THERE))
    clock = run.environment.clock
    asleep = clock.sleep

    def sleep(seconds):
        run.store.delete([GONE])
        asleep(seconds)

    clock.sleep = sleep
    assert recheck_leftovers(run, journal, clock.now() + timedelta(minutes=3), [GONE, THERE]) == {
        GONE
    }
    told = _reported(run, journal)
    assert (told[GONE], told[THERE]) == ("deleted", outcome)


def test_where_the_store_does_not_say_it_what_failed_stays_failed_and_what_is_kept_ends_the_sweep(
    resumed, monkeypatch
):
    run, with_kept = resumed
    journal = Journal(run.store, "2020-01-01T00-00-00Z", "5" * 64)
    journal.bind("repo")
    journal.intend("aa.1.0.0.0", _entries("intended", GONE))
    journal.conclude("bb.1.0.0.0", _entries("failed", GONE))

    def away(_key):
        raise TransientError("HTTP 503")

    monkeypatch.setattr(run.store, "exists", away)
    until = run.now() + timedelta(minutes=3)
    assert recheck_leftovers(run, journal, until) == set()
    with pytest.raises(TransientError):
        recheck_leftovers(run, with_kept, until)


@pytest.mark.spark
def test_executors_look_at_what_is_left_where_it_is_much(resumed, spark, monkeypatch):
    run, journal = resumed
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    run.store.delete([GONE])
    on_spark = replace(run, environment=replace(run.environment, spark=lambda: spark))
    assert recheck_leftovers(on_spark, journal, None, [GONE, THERE]) == {GONE}
    assert _reported(run, journal)[GONE] == "deleted"


def test_nothing_is_waited_for_where_nothing_is_left(resumed):
    run, _ = resumed
    other = Journal(run.store, "2020-01-01T00-00-00Z", "5" * 64)
    other.bind("repo")
    other.intend("aa.1.0.0.0", _entries("intended", GONE))
    other.conclude("bb.1.0.0.0", _entries("already_gone", GONE))
    assert recheck_leftovers(run, other, run.now() + timedelta(minutes=3)) == set()
    assert run.environment.clock.slept == []
