"""What store and clock must prove before a lease."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_core import clocks, lakegc_keys
from spark_core.errors import (
    UnsafePlanError,
)
from spark_core.lakefs import SystemClock
from spark_core.lakegc_keys import CLOCK
from spark_core.lock import lease
from tests.support.clock import FakeClock
from tests.support.leases import DatedStore, other_run, records_of
from tests.support.written_run import NOW


class _Ignoring(DatedStore):
    """A store that answers 200 whatever the condition says."""

    def put_if_absent(self, key, data):
        self.objects[key] = data


def test_a_store_that_ignores_the_condition_refuses_before_any_lease(run):
    careless = replace(run, store=_Ignoring())
    with (
        pytest.raises(UnsafePlanError, match=r"does not keep the condition.*set exclusive = true"),
        lease.hold_lease(careless),
    ):
        raise AssertionError
    assert not careless.store.objects


def test_a_run_that_is_said_to_be_alone_goes_on_without_the_proof(run):
    alone = replace(run, store=_Ignoring(), options=replace(run.options, exclusive=True))
    with lease.hold_lease(alone) as held:
        held.beat()


def test_holding_proves_the_store_and_leaves_nothing_but_the_lease_and_what_its_clock_is_read_off(
    run,
):
    with lease.hold_lease(run):
        pass
    assert set(run.store.objects) == {f"{lakegc_keys.LEASE}{1:010d}/{n:010d}" for n in (0, 1)} | {
        CLOCK
    }


@pytest.mark.parametrize(
    ("ahead", "refused"),
    [
        (timedelta(minutes=4, seconds=58), None),
        (
            timedelta(minutes=5, seconds=2),
            "is 0:05:0. ahead of this machine's, at most 0:05:00",
        ),
        (-timedelta(minutes=4, seconds=58), None),
        (-timedelta(days=6), "is 5 days, 23:59:.. behind"),
    ],
)
def test_a_lease_is_taken_only_by_a_clock_that_is_near_the_stores(run, ahead, refused):
    run.store.ahead = ahead
    if refused is None:
        with lease.hold_lease(run):
            return
    with pytest.raises(
        UnsafePlanError, match=rf"the clock of the store of s3://bucket/repo/ {refused}"
    ) as refusal:
        lease.hold_lease(run).__enter__()
    assert "keep everybody else waiting for as much" in str(refusal.value)
    assert refusal.value.next_step == "Set the clocks of both (NTP), and run again."
    assert not records_of(run)


def test_a_machine_whose_clock_is_hours_ahead_does_not_end_a_lease_that_is_good(run):
    living = lease.acquire(run)
    fast = replace(
        run, environment=replace(run.environment, clock=FakeClock(NOW + timedelta(hours=3)))
    )
    run.store.ahead = -timedelta(hours=3)
    for other in (fast, other_run(fast, take_over=str(run.key))):
        with pytest.raises(UnsafePlanError, match="end one under which somebody is at work"):
            lease.hold_lease(other).__enter__()
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
        lease.hold_lease(began).__enter__()
    assert not records_of(run)
    with lease.hold_lease(replace(run, environment=replace(run.environment, clock=SystemClock()))):
        pass
