"""One collector at a time: who gets the lease, who is told to wait, and who may take it over."""

import json
import os
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from spark_core import clocks, lakegc_keys
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import (
    CorruptTableError,
    LeaseHeldError,
    LeaseLostError,
    ObjectExistsError,
    SameWorkError,
    TransientError,
    UnsafePlanError,
)
from spark_core.lakefs import SystemClock
from spark_core.lakegc_keys import CLOCK
from spark_core.lock import lease, lease_log, processes
from spark_core.model import RunKey
from spark_core.run import RunOptions
from tests.support.clock import FakeClock
from tests.support.memory_store import MemoryStore
from tests.support.written_run import NOW, written_run

TTL = RunOptions().lease_ttl
A_MOMENT = timedelta(seconds=1)


class _Dated(MemoryStore):
    """A store that dates objects by a clock of its own, against this machine's."""

    ahead = timedelta(0)

    def head(self, key):
        assert key in self.objects
        return SimpleNamespace(last_modified=datetime.now(UTC) + self.ahead)


@pytest.fixture
def run(tmp_path):
    return replace(written_run(tmp_path, spark=None).run, store=_Dated())


def _other(run, *, later=timedelta(days=1), **changes):
    """The same repository under another run key, on the same clock."""
    return replace(run, key=RunKey.at(NOW + later), **changes)


def _records(run):
    return [
        (record["epoch"], record["number"], record["state"])
        for record in (
            json.loads(data)
            for key, data in sorted(run.store.objects.items())
            if key.startswith(lakegc_keys.LEASE)
        )
    ]


def _failed(held):
    """The holder ends by an error while executors are at work on what it sent."""
    held.sent_until = held.expires_at
    held.close()


def test_a_released_lease_goes_to_the_next_run(run):
    with lease.acquire(run) as first:
        assert first.epoch == 1
        assert first.expires_at - run.now() <= TTL
    with lease.acquire(_other(run)) as second:
        assert second.epoch == 2
    assert _records(run) == [(1, 0, "held"), (1, 1, "released"), (2, 0, "held"), (2, 1, "released")]


def test_a_second_run_is_told_who_holds_the_lease_and_until_when(run):
    with lease.acquire(run) as held:
        with pytest.raises(LeaseHeldError) as refused:
            lease.acquire(_other(run))
        assert refused.type is LeaseHeldError, "another run's work is nothing to wait for"
        assert str(run.key) in str(refused.value)
        assert f"process {os.getpid()} on {held.owner.host}" in str(refused.value)
        assert f"did so last until {held.expires_at.replace(microsecond=0).isoformat()}" in str(
            refused.value
        )
        assert "Wait until it has ended" in str(refused.value)


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
        lease.acquire(_other(run), take_over=str(run.key))


def test_a_dead_lease_is_taken_over_by_the_name_of_its_run_only(run):
    dead = lease.acquire(run)
    run.environment.clock.instant = dead.expires_at + MAX_CLOCK_SKEW
    with pytest.raises(
        LeaseHeldError, match=rf"so it died or lost the store\. .* --take-over {run.key}"
    ):
        lease.acquire(_other(run))
    with pytest.raises(
        LeaseHeldError, match="it is not run 2020-01-01T00-00-00Z, the one to be taken over"
    ):
        lease.acquire(_other(run), take_over="2020-01-01T00-00-00Z")
    with lease.acquire(_other(run), take_over=str(run.key)) as taken:
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


REQUEST = timedelta(seconds=130)
SENT_IS_OVER = REQUEST + timedelta(seconds=30)


@pytest.fixture
def here(run, tmp_path, monkeypatch):
    """The run on a machine that knows its processes, and on a store whose requests end."""
    monkeypatch.setattr(processes, "folder", lambda: str(tmp_path))
    monkeypatch.setattr(processes, "monotonic", run.environment.clock.monotonic)
    run.store.longest_request = REQUEST
    return run


def _killed(held):
    """Let go of what the kernel lets go of when a process ends."""
    held._presence._file.close()
    return held


def _told(refused):
    return datetime.fromisoformat(re.search(r"at (\S+) or later", str(refused.value))[1])


def test_the_same_command_goes_on_once_what_its_dead_process_had_sent_is_over(here):
    clock = here.environment.clock
    dead = _killed(lease.acquire(here, on_this_machine=True))
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
        _failed(failed)
        with pytest.raises(SameWorkError, match="it has ended, and what it"):
            lease.acquire(here)
    with pytest.raises(SameWorkError, match="none of its processes is left"):
        lease.acquire(here)
    here.environment.clock.sleep(SENT_IS_OVER.total_seconds())
    with lease.acquire(here) as resumed:
        assert resumed.epoch == 2


def _another_run(_held, run, _monkeypatch):
    return {"run": _other(run), "take_over": str(run.key)}


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
    held = _killed(lease.acquire(here, on_this_machine=True))
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
    held = _killed(lease.acquire(here, on_this_machine=True))
    here.store.longest_request = timedelta(hours=1)
    with pytest.raises(SameWorkError, match="none of its processes is left") as refused:
        lease.acquire(here)
    assert _told(refused) < held.expires_at + MAX_CLOCK_SKEW + A_MOMENT


def test_everybody_else_waits_for_the_dead_one_also_after_the_one_that_went_on_sooner(here):
    clock = here.environment.clock
    dead = _killed(lease.acquire(here, on_this_machine=True))
    with pytest.raises(SameWorkError):
        lease.acquire(here)
    clock.sleep(SENT_IS_OVER.total_seconds())
    with lease.acquire(here, on_this_machine=True):
        pass
    for other, work in ((_other(here), "sweep"), (here, "restore"), (here, "prune")):
        with pytest.raises(LeaseHeldError, match="it or the one before it had sent may be under"):
            lease.acquire(other, work=work)
    clock.instant = dead.expires_at + MAX_CLOCK_SKEW
    with lease.acquire(_other(here)) as after:
        assert after.epoch == 3
    assert lease_log.last_record(here.store).earlier_until is None


def test_a_lease_that_another_got_first_leaves_no_lock(here, tmp_path, monkeypatch):
    lease.acquire(here)
    _once(monkeypatch, None)
    with pytest.raises(LeaseHeldError, match="it was first by a moment"):
        lease.acquire(_other(here), on_this_machine=True)
    assert not [*tmp_path.glob("lakegc-lease-*")]


def test_a_run_whose_executors_may_be_at_work_is_followed_after_its_lease_would_have_run_out(run):
    failed = lease.acquire(run)
    _failed(failed)
    assert _records(run)[-1] == (1, 1, "failed")
    run.environment.clock.instant = failed.expires_at + MAX_CLOCK_SKEW - A_MOMENT
    with pytest.raises(LeaseHeldError, match=r"it has ended.*may be under way still.*Run again at"):
        lease.acquire(_other(run))
    with pytest.raises(SameWorkError, match="may be under way still"):
        lease.acquire(run)
    run.environment.clock.instant = failed.expires_at + MAX_CLOCK_SKEW
    with lease.acquire(_other(run)) as after:
        assert after.epoch == 2


def test_an_error_while_nothing_is_under_way_keeps_nobody_waiting(run):
    with pytest.raises(ZeroDivisionError), lease.acquire(run):
        _ = 1 / 0
    with lease.acquire(_other(run)) as after:
        assert after.epoch == 2


def test_executors_that_were_lost_long_ago_keep_nobody_waiting(run):
    for moment, state in ((A_MOMENT, "failed"), (timedelta(0), "released")):
        with lease.acquire(run) as held:
            held.sent_until = held.expires_at - 2 * MAX_CLOCK_SKEW
            run.environment.clock.instant = held.sent_until + MAX_CLOCK_SKEW - moment
        assert _records(run)[-1][-1] == state
        run.environment.clock.sleep(1200)


def test_what_earlier_versions_passed_on_of_their_predecessors_is_waited_for(run):
    with lease.acquire(run) as held:
        until = held.expires_at
    earlier = replace(
        lease_log.last_record(run.store),
        earlier_until=until,
        owner=held.owner,
    )
    run.store.objects[earlier.key] = earlier.to_json()
    for other, work in ((_other(run), "sweep"), (run, "restore"), (run, "sweep")):
        with pytest.raises(LeaseHeldError, match="may be under way still"):
            lease.acquire(other, work=work)
    run.environment.clock.instant = until + MAX_CLOCK_SKEW
    with lease.acquire(_other(run)) as after:
        assert after.epoch == 2


@pytest.mark.parametrize("work", ["prune", "undo"])
def test_dead_work_that_nobody_has_to_finish_needs_no_name(run, work):
    dead = lease.acquire(run, work=work)
    run.environment.clock.instant = dead.expires_at + MAX_CLOCK_SKEW
    with lease.acquire(_other(run)) as after:
        assert after.epoch == 2


def test_a_heartbeat_moves_the_end_of_the_lease_on(run):
    with lease.acquire(run) as held:
        run.environment.clock.sleep(200)
        held.beat()
        assert held.expires_at > run.now() + TTL - A_MOMENT
        with pytest.raises(LeaseHeldError):
            lease.acquire(_other(run))
    assert _records(run) == [(1, 0, "held"), (1, 1, "held"), (1, 2, "released")]


def test_a_lease_that_could_not_be_renewed_in_time_is_lost(run):
    with lease.acquire(run) as held:
        run.environment.clock.instant = held.expires_at + MAX_CLOCK_SKEW
        for _ in range(2):
            with pytest.raises(
                LeaseLostError, match=r"could not be renewed in time.*run the same command again"
            ):
                held.beat()
    assert _records(run) == [(1, 0, "held")], "one that is lost is not released either"


def test_a_heartbeat_that_finds_a_higher_epoch_loses_the_lease(run):
    with lease.acquire(run) as held:
        record = replace(lease_log.last_record(run.store), epoch=4)
        run.store.objects[record.key] = record.to_json()
        with pytest.raises(
            LeaseLostError, match="epoch 4 of the leases has begun, this one is of epoch 1"
        ):
            held.beat()


def test_a_store_that_is_away_leaves_the_lease_as_it_was(run, monkeypatch):
    with lease.acquire(run) as held:
        until = held.expires_at
        with monkeypatch.context() as away:
            away.setattr(run.store, "put_if_absent", _away)
            with pytest.raises(TransientError):
                held.beat()
        assert held.expires_at == until
        held.beat()
        assert held.expires_at > until


def _away(_key, _data):
    raise TransientError("the store is away")


@pytest.mark.parametrize("problem", [ObjectExistsError, TransientError])
def test_a_heartbeat_whose_answer_was_lost_is_found_to_be_ones_own(run, monkeypatch, problem):
    with lease.acquire(run) as held:
        with monkeypatch.context() as losing:
            losing.setattr(
                run.store, "put_if_absent", lambda key, data: _lost(run.store, key, data, problem)
            )
            if problem is ObjectExistsError:
                held.beat()
            else:
                with pytest.raises(TransientError):
                    held.beat()
        run.environment.clock.sleep(100)
        held.beat()
        assert held.expires_at > run.now() + TTL - A_MOMENT


def _lost(store, key, data, problem):
    store.objects.setdefault(key, data)
    raise problem("the answer to the first request was lost")


def test_a_lease_whose_answer_was_lost_is_found_to_be_ones_own(run, monkeypatch):
    with monkeypatch.context() as losing:
        losing.setattr(
            run.store,
            "put_if_absent",
            lambda key, data: _lost(run.store, key, data, ObjectExistsError),
        )
        held = lease.acquire(run)
    held.beat()


def test_of_two_that_begin_at_once_the_first_wins(run, monkeypatch):
    first = lease.acquire(run)
    _once(monkeypatch, None)
    with pytest.raises(
        LeaseHeldError, match=f"that of the sweep of run {run.key} of .*it was first by a moment"
    ):
        lease.acquire(_other(run))
    first.beat()


def _once(monkeypatch, seen):
    """Let whoever looks next see this as the last record: what it was a moment ago."""
    real, answers = lease.last_record, [seen]
    monkeypatch.setattr(
        lease, "last_record", lambda store: answers.pop() if answers else real(store)
    )


def test_a_lease_that_a_slow_taker_writes_among_pruned_ones_is_none(run, monkeypatch):
    seen = lease.acquire(run)
    stale = lease_log.last_record(run.store)
    seen.close()
    for day in range(1, 5):
        with lease.held(_other(run, later=timedelta(days=day))):
            pass
    assert {epoch for epoch, *_ in _records(run)} == {4, 5}, (
        "old epochs are pruned, the two newest stay"
    )
    _once(monkeypatch, replace(stale, state="released"))
    with pytest.raises(LeaseHeldError, match="it was first by a moment"):
        lease.acquire(_other(run, later=timedelta(days=9)))


def test_a_lease_of_which_a_letter_is_damaged_refuses(run):
    lease.acquire(run)
    ((key, data),) = run.store.objects.items()
    run.store.objects[key] = data.replace(b"sweep", b"prune")
    with pytest.raises(CorruptTableError, match="edited or damaged"):
        lease.acquire(_other(run))
    run.store.objects[key] = data.replace(b"T02:05", b"T01:05")
    with pytest.raises(CorruptTableError, match="edited or damaged"):
        lease.acquire(_other(run))


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"format": 2}', b"\xff", b'{"format": 1, "state": "held"}']
)
def test_a_lease_that_cannot_be_read_refuses_by_name(run, data):
    lease.acquire(run).close()
    key = f"{lakegc_keys.LEASE}{1:010d}/{1:010d}"
    run.store.objects[key] = data
    with pytest.raises(CorruptTableError, match=re.escape(key)):
        lease.acquire(_other(run))


def test_what_lies_among_the_leases_and_is_none_refuses(run):
    run.store.objects[f"{lakegc_keys.LEASE}1/x"] = b""
    with pytest.raises(CorruptTableError, match="no record of a lease"):
        lease.acquire(run)


def test_a_record_copied_to_another_place_refuses(run):
    lease.acquire(run).close()
    first = run.store.objects[f"{lakegc_keys.LEASE}{1:010d}/{0:010d}"]
    run.store.objects[f"{lakegc_keys.LEASE}{3:010d}/{0:010d}"] = first
    with pytest.raises(CorruptTableError, match="belongs to"):
        lease.acquire(run)


def test_what_a_killed_local_store_left_half_written_is_passed_over(run):
    run.store.objects[f"{lakegc_keys.LEASE}{1:010d}/.lakegc-0123456789abcdef.part"] = b"{"
    with lease.acquire(run) as held:
        assert held.epoch == 1


class _Ignoring(_Dated):
    """A store that answers 200 whatever the condition says."""

    def put_if_absent(self, key, data):
        self.objects[key] = data


def test_a_store_that_ignores_the_condition_refuses_before_any_lease(run):
    careless = replace(run, store=_Ignoring())
    with (
        pytest.raises(UnsafePlanError, match=r"does not keep the condition.*set exclusive = true"),
        lease.held(careless),
    ):
        raise AssertionError
    assert not careless.store.objects


def test_a_run_that_is_said_to_be_alone_goes_on_without_the_proof(run):
    alone = replace(run, store=_Ignoring(), options=replace(run.options, exclusive=True))
    with lease.held(alone) as held:
        held.beat()


def test_holding_proves_the_store_and_leaves_nothing_but_the_lease_and_what_its_clock_is_read_off(
    run,
):
    with lease.held(run):
        pass
    assert set(run.store.objects) == {f"{lakegc_keys.LEASE}{1:010d}/{n:010d}" for n in (0, 1)} | {
        CLOCK
    }


@pytest.mark.parametrize(
    ("ahead", "limit", "refused"),
    [
        (timedelta(minutes=4, seconds=58), MAX_CLOCK_SKEW, None),
        (
            timedelta(minutes=5, seconds=2),
            MAX_CLOCK_SKEW,
            "is 0:05:0. ahead of this machine's, at most 0:05:00",
        ),
        (-timedelta(minutes=4, seconds=58), MAX_CLOCK_SKEW, None),
        (-timedelta(days=6), MAX_CLOCK_SKEW, "is 5 days, 23:59:.. behind"),
        (
            timedelta(seconds=13),
            timedelta(seconds=10),
            "is 0:00:1. ahead of this machine's, at most 0:00:10",
        ),
    ],
)
def test_a_lease_is_taken_only_by_a_clock_that_is_near_the_stores(run, ahead, limit, refused):
    run.store.ahead = ahead
    run = replace(run, options=replace(run.options, max_clock_skew=limit))
    if refused is None:
        with lease.held(run):
            return
    with pytest.raises(
        UnsafePlanError, match=rf"the clock of the store of s3://bucket/repo/ {refused}"
    ) as refusal:
        lease.held(run).__enter__()
    assert "keep everybody else waiting for as much" in str(refusal.value)
    assert refusal.value.next_step == "Set the clocks of both (NTP), and run again."
    assert not _records(run)


def test_a_machine_whose_clock_is_hours_ahead_does_not_end_a_lease_that_is_good(run):
    living = lease.acquire(run)
    fast = replace(
        run, environment=replace(run.environment, clock=FakeClock(NOW + timedelta(hours=3)))
    )
    run.store.ahead = -timedelta(hours=3)
    for other in (fast, _other(fast, take_over=str(run.key))):
        with pytest.raises(UnsafePlanError, match="end one under which somebody is at work"):
            lease.held(other).__enter__()
    living.beat()


def test_a_lease_is_not_taken_by_a_run_that_began_before_its_machines_clock_was_set_back(
    run, monkeypatch
):
    fast = [timedelta(days=6)]
    monkeypatch.setattr(clocks, "_wall", lambda: datetime.now(UTC) + fast[0])
    began = replace(run, environment=replace(run.environment, clock=SystemClock()))
    fast[0] = timedelta(0)
    with pytest.raises(
        UnsafePlanError,
        match=r"was set back by 6 days, 0:00:00 since this process began.*start again",
    ):
        lease.held(began).__enter__()
    assert not _records(run)
    with lease.held(replace(run, environment=replace(run.environment, clock=SystemClock()))):
        pass


def _left_by_a_clock_that_was_ahead(run):
    """A sweep on a machine whose clock was six days ahead failed; then its clock was set right."""
    run.environment.clock.instant = NOW + timedelta(days=6)
    _failed(lease.acquire(run))
    run.environment.clock.instant = NOW


def test_whoever_waits_for_a_clock_that_was_ahead_is_told_so_and_how_to_go_on(run):
    _left_by_a_clock_that_was_ahead(run)
    with pytest.raises(LeaseHeldError) as refused:
        lease.acquire(_other(run))
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


def test_a_lease_is_renewed_while_a_long_step_works(run):
    # The thread waits by the machine's clock, whatever clock the run is given.
    quick = replace(run, options=replace(run.options, lease_ttl=timedelta(seconds=0.3)))
    with lease.held(quick) as held:
        first = held.expires_at
        deadline = time.monotonic() + 20
        while held.expires_at == first:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_the_local_store_keeps_the_condition_and_the_lease(tmp_path):
    local = written_run(tmp_path, spark=None).run
    with lease.held(local) as first, pytest.raises(LeaseHeldError), lease.held(_other(local)):
        raise AssertionError
    assert first.epoch == 1
    with lease.held(_other(local)) as second:
        assert second.epoch == 2


def test_a_record_names_no_secret(run):
    with lease.acquire(run):
        (data,) = run.store.objects.values()
    owner = json.loads(data)["owner"]
    assert set(owner) == {"id", "run", "repository", "work", "host", "pid"}


def test_clocks_are_those_of_the_run(run):
    ahead = replace(
        run, environment=replace(run.environment, clock=FakeClock(NOW + timedelta(hours=1)))
    )
    with lease.acquire(ahead) as held:
        assert held.expires_at > NOW + timedelta(hours=1)
