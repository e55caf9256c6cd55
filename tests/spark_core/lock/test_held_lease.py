"""A lease that is held: its heartbeats, and its end."""

from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import (
    LeaseHeldError,
    LeaseLostError,
    ObjectExistsError,
    TransientError,
)
from spark_core.lock import lease, lease_log
from tests.support.leases import A_MOMENT, TTL, answer_lost, other_run, records_of


def test_an_error_while_nothing_is_under_way_keeps_nobody_waiting(run):
    with pytest.raises(ZeroDivisionError), lease.acquire(run):
        _ = 1 / 0
    with lease.acquire(other_run(run)) as after:
        assert after.epoch == 2


def test_executors_that_were_lost_long_ago_keep_nobody_waiting(run):
    for moment, state in ((A_MOMENT, "failed"), (timedelta(0), "released")):
        with lease.acquire(run) as held:
            held.sent_until = held.expires_at - 2 * MAX_CLOCK_SKEW
            run.environment.clock.instant = held.sent_until + MAX_CLOCK_SKEW - moment
        assert records_of(run)[-1][-1] == state
        run.environment.clock.sleep(1200)


def test_a_heartbeat_moves_the_end_of_the_lease_on(run):
    with lease.acquire(run) as held:
        run.environment.clock.sleep(200)
        held.beat()
        assert held.expires_at > run.now() + TTL - A_MOMENT
        with pytest.raises(LeaseHeldError):
            lease.acquire(other_run(run))
    assert records_of(run) == [(1, 0, "held"), (1, 1, "held"), (1, 2, "released")]


def test_a_lease_that_could_not_be_renewed_in_time_is_lost(run):
    with lease.acquire(run) as held:
        run.environment.clock.instant = held.expires_at + MAX_CLOCK_SKEW
        for _ in range(2):
            with pytest.raises(
                LeaseLostError, match=r"could not be renewed in time.*run the same command again"
            ):
                held.beat()
    assert records_of(run) == [(1, 0, "held")], "one that is lost is not released either"


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
                run.store,
                "put_if_absent",
                lambda key, data: answer_lost(run.store, key, data, problem),
            )
            if problem is ObjectExistsError:
                held.beat()
            else:
                with pytest.raises(TransientError):
                    held.beat()
        run.environment.clock.sleep(100)
        held.beat()
        assert held.expires_at > run.now() + TTL - A_MOMENT
