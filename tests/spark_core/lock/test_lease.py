"""One collector at a time: who gets the lease, who is told to wait, and who may take it over."""

import errno
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_core import clocks, layout
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
from spark_core.layout import CLOCK
from spark_core.lock import lease, lease_log
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
            json.loads(data) for key, data in sorted(run.store.objects.items()) if key.startswith(layout.LEASE)
        )
    ]


def _elsewhere(monkeypatch):
    """From now on this is another machine."""
    monkeypatch.setattr(lease_log.socket, "gethostname", lambda: "other-host")
    monkeypatch.setattr(lease_log, "_boot", lambda: "other-boot")


def _died(held):
    """The process of the holder is gone; nobody released anything."""
    lease_log.live.discard(held.owner.id)


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
        assert f"good until {held.expires_at.replace(microsecond=0).isoformat()}" in str(refused.value)
        assert "Wait until it has ended" in str(refused.value)


def test_the_same_run_is_refused_too_while_its_first_process_lives(run):
    # It ends by itself, or its lease does: whoever has time may try again.
    with lease.acquire(run), pytest.raises(SameWorkError, match="renews its lease while it lives"):
        lease.acquire(run)


def test_a_lease_that_has_not_run_out_cannot_be_taken_over_by_name(run, monkeypatch):
    held = lease.acquire(run)
    _elsewhere(monkeypatch)
    run.environment.clock.instant = held.expires_at + MAX_CLOCK_SKEW - A_MOMENT
    with pytest.raises(LeaseHeldError, match=rf"or later, take it over by name with --take-over {run.key}"):
        lease.acquire(_other(run), take_over=str(run.key))


def test_a_dead_lease_is_taken_over_by_the_name_of_its_run_only(run, monkeypatch):
    dead = lease.acquire(run)
    _elsewhere(monkeypatch)
    run.environment.clock.instant = dead.expires_at + MAX_CLOCK_SKEW
    with pytest.raises(LeaseHeldError, match=rf"so it died or lost the store\. .* --take-over {run.key}"):
        lease.acquire(_other(run))
    with pytest.raises(LeaseHeldError, match="it is not run 2020-01-01T00-00-00Z, the one to be taken over"):
        lease.acquire(_other(run), take_over="2020-01-01T00-00-00Z")
    with lease.acquire(_other(run), take_over=str(run.key)) as taken:
        assert taken.epoch == 2
        run.environment.clock.instant = dead.expires_at
        with pytest.raises(LeaseLostError, match="it was ended by the sweep of run 2026-11-21T02-00-00Z"):
            dead.beat()


def test_on_another_machine_the_same_command_waits_until_the_lease_ran_out_and_then_needs_no_name(run, monkeypatch):
    dead = lease.acquire(run)
    _elsewhere(monkeypatch)
    run.environment.clock.instant = dead.expires_at + MAX_CLOCK_SKEW - A_MOMENT
    with pytest.raises(LeaseHeldError, match="run again"):
        lease.acquire(run)
    run.environment.clock.instant = dead.expires_at + MAX_CLOCK_SKEW
    with lease.acquire(run) as resumed:
        assert resumed.epoch == 2


def test_the_same_command_resumes_at_once_where_its_process_is_provably_gone(run):
    _died(lease.acquire(run))
    with pytest.raises(LeaseHeldError, match="its process is gone, and what it had sent may be under way still"):
        lease.acquire(_other(run))
    with lease.acquire(run) as resumed:
        assert resumed.epoch == 2


def test_other_work_waits_for_what_the_predecessor_of_a_resumed_run_had_sent(run):
    dead = lease.acquire(run)
    _died(dead)
    with lease.acquire(run):
        pass
    with pytest.raises(LeaseHeldError, match=r"may be under way still.*Run again at"):
        lease.acquire(run, work="restore")
    run.environment.clock.instant = dead.expires_at + MAX_CLOCK_SKEW
    with lease.acquire(run, work="restore") as restoring:
        assert restoring.epoch == 3
    with lease.acquire(_other(run)):
        pass


def test_a_run_that_failed_is_followed_by_anybody_after_its_lease_would_have_run_out(run):
    with pytest.raises(ZeroDivisionError), lease.acquire(run) as failed:
        _ = 1 / 0
    assert _records(run)[-1] == (1, 1, "failed")
    with pytest.raises(LeaseHeldError, match=r"it has ended.*may be under way still.*Run again at"):
        lease.acquire(_other(run))
    run.environment.clock.instant = failed.expires_at + MAX_CLOCK_SKEW
    with lease.acquire(_other(run)) as after:
        assert after.epoch == 2


def test_a_run_that_failed_may_go_on_at_once(run):
    with pytest.raises(ZeroDivisionError), lease.acquire(run):
        _ = 1 / 0
    with lease.acquire(run) as again:
        assert again.epoch == 2


def test_dead_house_keeping_needs_no_name(run, monkeypatch):
    dead = lease.acquire(run, work="prune")
    _elsewhere(monkeypatch)
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
            with pytest.raises(LeaseLostError, match=r"could not be renewed in time.*run the same command again"):
                held.beat()
    assert _records(run) == [(1, 0, "held")], "one that is lost is not released either"


def test_a_heartbeat_that_finds_a_higher_epoch_loses_the_lease(run):
    with lease.acquire(run) as held:
        record = replace(lease_log.last_record(run.store), epoch=4)
        run.store.objects[record.key] = record.to_json()
        with pytest.raises(LeaseLostError, match="epoch 4 of the leases has begun, this one is of epoch 1"):
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
            losing.setattr(run.store, "put_if_absent", lambda key, data: _lost(run.store, key, data, problem))
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
        losing.setattr(run.store, "put_if_absent", lambda key, data: _lost(run.store, key, data, ObjectExistsError))
        held = lease.acquire(run)
    held.beat()


def test_of_two_that_begin_at_once_the_first_wins(run, monkeypatch):
    first = lease.acquire(run)
    _once(monkeypatch, None)
    with pytest.raises(LeaseHeldError, match=f"that of the sweep of run {run.key} of .*it was first by a moment"):
        lease.acquire(_other(run))
    first.beat()


def _once(monkeypatch, seen):
    """Let whoever looks next see this as the last record: what it was a moment ago."""
    real, answers = lease.last_record, [seen]
    monkeypatch.setattr(lease, "last_record", lambda store: answers.pop() if answers else real(store))


def test_a_lease_that_a_slow_taker_writes_among_pruned_ones_is_none(run, monkeypatch):
    seen = lease.acquire(run)
    stale = lease_log.last_record(run.store)
    seen.close(clean=True)
    for day in range(1, 5):
        with lease.held(_other(run, later=timedelta(days=day))):
            pass
    assert {epoch for epoch, *_ in _records(run)} == {4, 5}, "old epochs are pruned, the two newest stay"
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


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"format": 2}', b"\xff", b'{"format": 1, "state": "held"}'])
def test_a_lease_that_cannot_be_read_refuses_by_name(run, data):
    lease.acquire(run).close(clean=True)
    key = f"{layout.LEASE}{1:010d}/{1:010d}"
    run.store.objects[key] = data
    with pytest.raises(CorruptTableError, match=re.escape(key)):
        lease.acquire(_other(run))


def test_what_lies_among_the_leases_and_is_none_refuses(run):
    run.store.objects[f"{layout.LEASE}1/x"] = b""
    with pytest.raises(CorruptTableError, match="no record of a lease"):
        lease.acquire(run)


def test_a_record_copied_to_another_place_refuses(run):
    lease.acquire(run).close(clean=True)
    first = run.store.objects[f"{layout.LEASE}{1:010d}/{0:010d}"]
    run.store.objects[f"{layout.LEASE}{3:010d}/{0:010d}"] = first
    with pytest.raises(CorruptTableError, match="belongs to"):
        lease.acquire(run)


def test_what_a_killed_local_store_left_half_written_is_passed_over(run):
    run.store.objects[f"{layout.LEASE}{1:010d}/.lakegc-0123456789abcdef.part"] = b"{"
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


def test_holding_proves_the_store_and_leaves_nothing_but_the_lease_and_what_its_clock_is_read_off(run):
    with lease.held(run):
        pass
    assert set(run.store.objects) == {f"{layout.LEASE}{1:010d}/{n:010d}" for n in (0, 1)} | {CLOCK}


@pytest.mark.parametrize(
    ("ahead", "limit", "refused"),
    [
        (timedelta(minutes=4, seconds=58), MAX_CLOCK_SKEW, None),
        (timedelta(minutes=5, seconds=2), MAX_CLOCK_SKEW, "is 0:05:0. ahead of this machine's, at most 0:05:00"),
        (-timedelta(minutes=4, seconds=58), MAX_CLOCK_SKEW, None),
        (-timedelta(days=6), MAX_CLOCK_SKEW, "is 5 days, 23:59:.. behind"),
        (timedelta(seconds=13), timedelta(seconds=10), "is 0:00:1. ahead of this machine's, at most 0:00:10"),
    ],
)
def test_a_lease_is_taken_only_by_a_clock_that_is_near_the_stores(run, ahead, limit, refused):
    run.store.ahead = ahead
    run = replace(run, options=replace(run.options, max_clock_skew=limit))
    if refused is None:
        with lease.held(run):
            return
    with pytest.raises(UnsafePlanError, match=rf"the clock of the store of s3://bucket/repo/ {refused}") as refusal:
        lease.held(run).__enter__()
    assert "keep everybody else waiting for as much" in str(refusal.value)
    assert refusal.value.next_step == "Set the clocks of both (NTP), and run again."
    assert not _records(run)


def test_a_machine_whose_clock_is_hours_ahead_does_not_end_a_lease_that_is_good(run):
    living = lease.acquire(run)
    fast = replace(run, environment=replace(run.environment, clock=FakeClock(NOW + timedelta(hours=3))))
    run.store.ahead = -timedelta(hours=3)
    for other in (fast, _other(fast, take_over=str(run.key))):
        with pytest.raises(UnsafePlanError, match="end one under which somebody is at work"):
            lease.held(other).__enter__()
    living.beat()


def test_a_lease_is_not_taken_by_a_run_that_began_before_its_machines_clock_was_set_back(run, monkeypatch):
    fast = [timedelta(days=6)]
    monkeypatch.setattr(clocks, "_wall", lambda: datetime.now(UTC) + fast[0])
    began = replace(run, environment=replace(run.environment, clock=SystemClock()))
    fast[0] = timedelta(0)
    with pytest.raises(UnsafePlanError, match=r"was set back by 6 days, 0:00:00 since this process began.*start again"):
        lease.held(began).__enter__()
    assert not _records(run)
    with lease.held(replace(run, environment=replace(run.environment, clock=SystemClock()))):
        pass


def _left_by_a_clock_that_was_ahead(run):
    """A sweep on a machine whose clock was six days ahead failed; then its clock was set right."""
    run.environment.clock.instant = NOW + timedelta(days=6)
    lease.acquire(run).close(clean=False)
    run.environment.clock.instant = NOW


def test_whoever_waits_for_a_clock_that_was_ahead_is_told_so_and_how_to_go_on(run):
    _left_by_a_clock_that_was_ahead(run)
    with pytest.raises(LeaseHeldError) as refused:
        lease.acquire(_other(run))
    assert "No lease is good until 2026-11-26T02:05:00+00:00: a clock was ahead" in str(refused.value)
    assert f"run the same command as it did on {lease_log.Owner.here(run, 'sweep').host}" in str(refused.value)
    assert f"delete the objects under {layout.LEASE}, all of them" in str(refused.value)


def test_a_lease_by_a_clock_that_was_ahead_is_nothing_that_the_same_work_waits_for(run):
    run.environment.clock.instant = NOW + timedelta(days=6)
    with lease.acquire(run):
        run.environment.clock.instant = NOW
        with pytest.raises(LeaseHeldError, match="No lease is good until") as refused:
            lease.acquire(run)
    assert refused.type is LeaseHeldError


def test_after_the_same_command_nobody_waits_for_a_clock_that_was_ahead(run):
    _left_by_a_clock_that_was_ahead(run)
    with lease.acquire(run) as again:
        assert again.earlier_until - run.now() < lease.LONGEST_TTL, "what was sent may be under way still"
    run.environment.clock.instant = again.earlier_until + MAX_CLOCK_SKEW - A_MOMENT
    with pytest.raises(LeaseHeldError, match=r"may be under way still\. Run again at"):
        lease.acquire(_other(run))
    run.environment.clock.instant = again.earlier_until + MAX_CLOCK_SKEW
    for other, work in ((_other(run), "sweep"), (run, "restore"), (_other(run), "prune")):
        with lease.acquire(other, work=work):
            pass


def test_what_the_predecessor_had_sent_is_not_passed_on_once_it_was_waited_for(run):
    dead = lease.acquire(run)
    _died(dead)
    again = lease.acquire(run)
    run.environment.clock.instant = dead.expires_at + MAX_CLOCK_SKEW
    again.beat()
    again.close(clean=True)
    assert lease_log.last_record(run.store).under_way_until is None
    # Whoever comes now need not wait, even by a clock that is behind.
    run.environment.clock.instant -= MAX_CLOCK_SKEW
    with lease.acquire(run, work="restore"):
        pass


def test_what_the_predecessor_had_sent_is_passed_on_as_long_as_it_may_be_under_way(run):
    dead = lease.acquire(run)
    _died(dead)
    again = lease.acquire(run)
    run.environment.clock.instant = dead.expires_at + MAX_CLOCK_SKEW - A_MOMENT
    again.close(clean=True)
    assert lease_log.last_record(run.store).under_way_until == dead.expires_at


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


def test_a_process_that_was_killed_is_known_to_be_gone_even_before_its_parent_looked(run):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = replace(lease_log.Owner.here(run, "sweep"), pid=child.pid, started=lease_log._started(child.pid))
    assert not owner.is_dead
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert owner.is_dead, "a zombie works no more"
    child.communicate()
    assert owner.is_dead


def test_a_later_process_of_the_same_number_is_another_one(run):
    parent = os.getppid()
    owner = replace(lease_log.Owner.here(run, "sweep"), pid=parent, started=lease_log._started(parent))
    assert not owner.is_dead
    assert replace(owner, started=owner.started - 1).is_dead, "its start does not agree"


@pytest.mark.parametrize("problem", [PermissionError(errno.EACCES, "no"), OSError(errno.EMFILE, "too many open files")])
def test_a_process_that_cannot_be_looked_at_is_not_known_to_be_dead(run, monkeypatch, problem):
    parent = os.getppid()
    owner = replace(lease_log.Owner.here(run, "sweep"), pid=parent, started=lease_log._started(parent))
    read = Path.read_text

    def refusing(self, *args, **kwargs):
        if str(self) == f"/proc/{parent}/stat":
            raise problem
        return read(self, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", refusing)
    assert not owner.is_dead


def test_a_process_that_the_system_hides_is_not_known_to_be_dead(run, monkeypatch):
    # As with a /proc mounted with `hidepid=2`: others' processes seem not to be there.
    parent = os.getppid()
    owner = replace(lease_log.Owner.here(run, "sweep"), pid=parent, started=lease_log._started(parent))
    read = Path.read_text

    def hiding(self, *args, **kwargs):
        if str(self) == f"/proc/{parent}/stat":
            raise FileNotFoundError(errno.ENOENT, "no such file")
        return read(self, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", hiding)
    assert not owner.is_dead


def test_a_proc_that_shows_another_space_of_processes_tells_nothing(run, monkeypatch):
    # As after `unshare --pid` without a /proc of its own: this process is another one's number there.
    monkeypatch.setattr(lease_log.os, "getpid", lambda: 7)
    owner = lease_log.Owner.here(run, "sweep")
    assert owner.boot is None
    assert not owner.is_dead


def test_on_another_machine_or_after_a_boot_nobody_is_known_to_be_dead(run):
    owner = replace(lease_log.Owner.here(run, "sweep"), pid=2**22 + 1)
    assert owner.is_dead
    assert not replace(owner, host="elsewhere").is_dead
    assert not replace(owner, boot=None).is_dead
    assert not replace(owner, boot="another").is_dead


def test_a_record_names_no_secret(run):
    with lease.acquire(run):
        (data,) = run.store.objects.values()
    owner = json.loads(data)["owner"]
    assert set(owner) == {"id", "run", "repository", "work", "host", "boot", "pid", "started"}


def test_clocks_are_those_of_the_run(run):
    ahead = replace(run, environment=replace(run.environment, clock=FakeClock(NOW + timedelta(hours=1))))
    with lease.acquire(ahead) as held:
        assert held.expires_at > NOW + timedelta(hours=1)
