"""One collector at a time: who gets the lease, and what a log that cannot be read says."""

import json
import os
import re
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core import lakegc_keys
from spark_core.errors import (
    CorruptTableError,
    LeaseHeldError,
    ObjectExistsError,
)
from spark_core.lock import lease, lease_log
from tests.support.clock import FakeClock
from tests.support.leases import (
    TTL,
    answer_lost,
    other_run,
    records_of,
)
from tests.support.written_run import NOW, written_run


def test_a_released_lease_goes_to_the_next_run(run):
    with lease.acquire(run) as first:
        assert first.epoch == 1
        assert first.expires_at - run.now() <= TTL
    with lease.acquire(other_run(run)) as second:
        assert second.epoch == 2
    assert records_of(run) == [
        (1, 0, "held"),
        (1, 1, "released"),
        (2, 0, "held"),
        (2, 1, "released"),
    ]


def test_a_second_run_is_told_who_holds_the_lease_and_until_when(run):
    with lease.acquire(run) as held:
        with pytest.raises(LeaseHeldError) as refused:
            lease.acquire(other_run(run))
        assert refused.type is LeaseHeldError, "another run's work is nothing to wait for"
        assert str(run.key) in str(refused.value)
        assert f"process {os.getpid()} on {held.owner.host}" in str(refused.value)
        assert f"did so last until {held.expires_at.replace(microsecond=0).isoformat()}" in str(
            refused.value
        )
        assert "Wait until it has ended" in str(refused.value)


def test_a_lease_that_another_got_first_leaves_no_lock(here, tmp_path, monkeypatch):
    lease.acquire(here)
    _once(monkeypatch, None)
    with pytest.raises(LeaseHeldError, match="it was first by a moment"):
        lease.acquire(other_run(here), on_this_machine=True)
    assert not [*tmp_path.glob("lakegc-lease-*")]


def test_a_lease_whose_answer_was_lost_is_found_to_be_ones_own(run, monkeypatch):
    with monkeypatch.context() as losing:
        losing.setattr(
            run.store,
            "put_if_absent",
            lambda key, data: answer_lost(run.store, key, data, ObjectExistsError),
        )
        held = lease.acquire(run)
    held.beat()


def test_of_two_that_begin_at_once_the_first_wins(run, monkeypatch):
    first = lease.acquire(run)
    _once(monkeypatch, None)
    with pytest.raises(
        LeaseHeldError, match=f"that of the sweep of run {run.key} of .*it was first by a moment"
    ):
        lease.acquire(other_run(run))
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
        with lease.hold_lease(other_run(run, later=timedelta(days=day))):
            pass
    assert {epoch for epoch, *_ in records_of(run)} == {4, 5}, (
        "old epochs are pruned, the two newest stay"
    )
    _once(monkeypatch, replace(stale, state="released"))
    with pytest.raises(LeaseHeldError, match="it was first by a moment"):
        lease.acquire(other_run(run, later=timedelta(days=9)))


def test_a_lease_of_which_a_letter_is_damaged_refuses(run):
    lease.acquire(run)
    ((key, data),) = run.store.objects.items()
    run.store.objects[key] = data.replace(b"sweep", b"prune")
    with pytest.raises(CorruptTableError, match="edited or damaged"):
        lease.acquire(other_run(run))
    run.store.objects[key] = data.replace(b"T02:05", b"T01:05")
    with pytest.raises(CorruptTableError, match="edited or damaged"):
        lease.acquire(other_run(run))


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"format": 2}', b"\xff", b'{"format": 1, "state": "held"}']
)
def test_a_lease_that_cannot_be_read_refuses_by_name(run, data):
    lease.acquire(run).close()
    key = f"{lakegc_keys.LEASE}{1:010d}/{1:010d}"
    run.store.objects[key] = data
    with pytest.raises(CorruptTableError, match=re.escape(key)):
        lease.acquire(other_run(run))


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


def test_a_lease_is_renewed_while_a_long_step_works(run):
    # The thread waits by the machine's clock, whatever clock the run is given.
    quick = replace(run, options=replace(run.options, lease_ttl=timedelta(seconds=0.3)))
    with lease.hold_lease(quick) as held:
        first = held.expires_at
        deadline = time.monotonic() + 20
        while held.expires_at == first:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_the_local_store_keeps_the_condition_and_the_lease(tmp_path):
    local = written_run(tmp_path, spark=None).run
    with (
        lease.hold_lease(local) as first,
        pytest.raises(LeaseHeldError),
        lease.hold_lease(other_run(local)),
    ):
        raise AssertionError
    assert first.epoch == 1
    with lease.hold_lease(other_run(local)) as second:
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
