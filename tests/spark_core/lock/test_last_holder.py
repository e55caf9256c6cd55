"""Who is told to wait for the last holder, how long, and who may take its lease over."""

import re
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from spark_core import lakegc_keys
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import (
    LeaseHeldError,
    LeaseLostError,
    SameWorkError,
)
from spark_core.lock import lease, lease_log, processes
from tests.support.leases import A_MOMENT, REQUEST, end_by_error, killed, other_run, records_of
from tests.support.written_run import NOW


def test_the_same_run_is_refused_too_while_its_first_process_lives(run):
    # It ends by itself, or its lease does: whoever has time may try again.
    with lease.acquire(run), pytest.raises(SameWorkError, match="renews its lease while it lives"):
        lease.acquire(run)


def test_a_lease_that_has_not_run_out_cannot_be_taken_over_by_name(run):
    held = lease.acquire(run)
    run.environment.clock.instant = held.expires_at + MAX_CLOCK_SKEW - A_MOMENT
    with pytest.raises(
        LeaseHeldError, match=rf"or later, take it over by name with --take-over {run.key}"
    ):
        lease.acquire(other_run(run), take_over=str(run.key))


def test_a_dead_lease_is_taken_over_by_the_name_of_its_run_only(run):
    dead = lease.acquire(run)
    run.environment.clock.instant = dead.expires_at + MAX_CLOCK_SKEW
    with pytest.raises(
        LeaseHeldError, match=rf"so it died or lost the store\. .* --take-over {run.key}"
    ):
        lease.acquire(other_run(run))
    with pytest.raises(
        LeaseHeldError, match="it is not run 2020-01-01T00-00-00Z, the one to be taken over"
    ):
        lease.acquire(other_run(run), take_over="2020-01-01T00-00-00Z")
    with lease.acquire(other_run(run), take_over=str(run.key)) as taken:
        assert taken.epoch == 2
        run.environment.clock.instant = dead.expires_at
        with pytest.raises(
            LeaseLostError, match="it was ended by the sweep of run 2026-11-21T02-00-00Z"
        ):
            dead.beat()


def test_the_same_command_waits_until_the_lease_of_its_killed_process_ran_out_and_needs_no_name(
    run,
):
    dead = lease.acquire(run)
    run.environment.clock.instant = dead.expires_at + MAX_CLOCK_SKEW - A_MOMENT
    until = dead.expires_at + MAX_CLOCK_SKEW
    with pytest.raises(SameWorkError, match=r"or later, run again") as refused:
        lease.acquire(run)
    told = datetime.fromisoformat(re.search(r"at (\S+) or later", str(refused.value))[1])
    assert until <= told < until + A_MOMENT, "no second is told that is too early"
    run.environment.clock.instant = dead.expires_at + MAX_CLOCK_SKEW
    with lease.acquire(run) as resumed:
        assert resumed.epoch == 2


SENT_IS_OVER = REQUEST + timedelta(seconds=30)


def _told(refused):
    return datetime.fromisoformat(re.search(r"at (\S+) or later", str(refused.value))[1])


def test_the_same_command_goes_on_once_what_its_dead_process_had_sent_is_over(here):
    clock = here.environment.clock
    dead = killed(lease.acquire(here, on_this_machine=True))
    until = here.now() + SENT_IS_OVER
    with pytest.raises(SameWorkError, match=r"none of its processes is left.*Run again") as refused:
        lease.acquire(here)
    told = _told(refused)
    assert until <= told < until + 2 * A_MOMENT
    assert told < dead.expires_at
    clock.instant = until - A_MOMENT
    with pytest.raises(SameWorkError, match="none of its processes is left"):
        lease.acquire(here)
    clock.instant = told
    with lease.acquire(here, on_this_machine=True) as resumed:
        assert resumed.epoch == 2
        with pytest.raises(LeaseLostError, match="it was ended by the sweep of run"):
            dead.beat()


def test_the_same_command_goes_on_sooner_after_an_error_too(here):
    failed = lease.acquire(here, on_this_machine=True)
    with processes.at_work(failed.tasks_lock):
        end_by_error(failed)
        with pytest.raises(SameWorkError, match="it has ended, and what it"):
            lease.acquire(here)
    with pytest.raises(SameWorkError, match="none of its processes is left"):
        lease.acquire(here)
    here.environment.clock.sleep(SENT_IS_OVER.total_seconds())
    with lease.acquire(here) as resumed:
        assert resumed.epoch == 2


def test_on_a_disk_of_this_machine_nothing_of_a_dead_process_is_under_way(here):
    here.store.longest_request = timedelta()
    killed(lease.acquire(here, on_this_machine=True))
    with lease.acquire(here) as resumed:
        assert resumed.epoch == 2


def _another_run(_held, run, _monkeypatch):
    return {"run": other_run(run), "take_over": str(run.key)}


def _other_work(_held, run, _monkeypatch):
    return {"work": "restore", "take_over": str(run.key)}


def _another_machine(_held, _run, monkeypatch):
    folder = processes.folder()
    monkeypatch.setattr(processes, "folder", lambda: f"{folder}/other")
    return {}


def _requests_of_which_nobody_knows(_held, run, _monkeypatch):
    """As on a local blockstore that lies on a network."""
    run.store.longest_request = None
    return {}


@pytest.mark.parametrize(
    "otherwise", [_another_run, _other_work, _another_machine, _requests_of_which_nobody_knows]
)
def test_with_any_doubt_a_lease_is_waited_for_to_its_end(here, monkeypatch, otherwise):
    held = killed(lease.acquire(here, on_this_machine=True))
    command = otherwise(held, here, monkeypatch)
    run = command.pop("run", here)
    for instant in (here.now() + SENT_IS_OVER, held.expires_at + MAX_CLOCK_SKEW - A_MOMENT):
        here.environment.clock.instant = instant
        with pytest.raises(LeaseHeldError, match="it renews its lease while it lives"):
            lease.acquire(run, **command)
    here.environment.clock.instant = held.expires_at + MAX_CLOCK_SKEW
    with lease.acquire(run, **command) as after:
        assert after.epoch == 2


@pytest.mark.parametrize("known", [False, True])
def test_a_holder_that_lives_or_has_tasks_elsewhere_is_waited_for_to_the_end(here, known):
    held = lease.acquire(here, on_this_machine=known)
    assert (held.tasks_lock is not None) is known
    here.environment.clock.instant = held.expires_at + MAX_CLOCK_SKEW - A_MOMENT
    with pytest.raises(SameWorkError, match="it renews its lease while it lives"):
        lease.acquire(here)


def test_a_doubt_that_comes_later_is_no_reason_to_wait_longer_than_ever(here):
    held = killed(lease.acquire(here, on_this_machine=True))
    here.store.longest_request = timedelta(hours=1)
    with pytest.raises(SameWorkError, match="none of its processes is left") as refused:
        lease.acquire(here)
    assert _told(refused) < held.expires_at + MAX_CLOCK_SKEW + A_MOMENT


def test_everybody_else_waits_for_the_dead_one_also_after_the_one_that_went_on_sooner(here):
    clock = here.environment.clock
    dead = killed(lease.acquire(here, on_this_machine=True))
    with pytest.raises(SameWorkError):
        lease.acquire(here)
    clock.sleep(SENT_IS_OVER.total_seconds())
    with lease.acquire(here, on_this_machine=True):
        pass
    for other, work in ((other_run(here), "sweep"), (here, "restore"), (here, "prune")):
        with pytest.raises(LeaseHeldError, match="it or the one before it had sent may be under"):
            lease.acquire(other, work=work)
    clock.instant = dead.expires_at + MAX_CLOCK_SKEW
    with lease.acquire(other_run(here)) as after:
        assert after.epoch == 3
    assert lease_log.last_record(here.store).earlier_until is None


def test_a_run_whose_executors_may_be_at_work_is_followed_after_its_lease_would_have_run_out(run):
    failed = lease.acquire(run)
    end_by_error(failed)
    assert records_of(run)[-1] == (1, 1, "failed")
    run.environment.clock.instant = failed.expires_at + MAX_CLOCK_SKEW - A_MOMENT
    with pytest.raises(LeaseHeldError, match=r"it has ended.*may be under way still.*Run again at"):
        lease.acquire(other_run(run))
    with pytest.raises(SameWorkError, match="may be under way still"):
        lease.acquire(run)
    run.environment.clock.instant = failed.expires_at + MAX_CLOCK_SKEW
    with lease.acquire(other_run(run)) as after:
        assert after.epoch == 2


def test_what_earlier_versions_passed_on_of_their_predecessors_is_waited_for(run):
    with lease.acquire(run) as held:
        until = held.expires_at
    earlier = replace(
        lease_log.last_record(run.store),
        earlier_until=until,
        owner=held.owner,
    )
    run.store.objects[earlier.key] = earlier.to_json()
    for other, work in ((other_run(run), "sweep"), (run, "restore"), (run, "sweep")):
        with pytest.raises(LeaseHeldError, match="may be under way still"):
            lease.acquire(other, work=work)
    run.environment.clock.instant = until + MAX_CLOCK_SKEW
    with lease.acquire(other_run(run)) as after:
        assert after.epoch == 2


@pytest.mark.parametrize("work", ["prune", "undo"])
def test_dead_work_that_nobody_has_to_finish_needs_no_name(run, work):
    dead = lease.acquire(run, work=work)
    run.environment.clock.instant = dead.expires_at + MAX_CLOCK_SKEW
    with lease.acquire(other_run(run)) as after:
        assert after.epoch == 2


def _left_by_a_clock_that_was_ahead(run):
    """A sweep on a machine whose clock was six days ahead failed; then its clock was set right."""
    run.environment.clock.instant = NOW + timedelta(days=6)
    end_by_error(lease.acquire(run))
    run.environment.clock.instant = NOW


def test_whoever_waits_for_a_clock_that_was_ahead_is_told_so_and_how_to_go_on(run):
    _left_by_a_clock_that_was_ahead(run)
    with pytest.raises(LeaseHeldError) as refused:
        lease.acquire(other_run(run))
    assert "No lease is good until 2026-11-26T02:05:00+00:00: a clock was ahead" in str(
        refused.value
    )
    assert f"delete the objects under {lakegc_keys.LEASE}, all of them" in str(refused.value)


def test_a_lease_by_a_clock_that_was_ahead_is_nothing_that_the_same_work_waits_for(run):
    run.environment.clock.instant = NOW + timedelta(days=6)
    with lease.acquire(run):
        run.environment.clock.instant = NOW
        with pytest.raises(LeaseHeldError, match="No lease is good until") as refused:
            lease.acquire(run)
    assert refused.type is LeaseHeldError
