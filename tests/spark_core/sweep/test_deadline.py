"""The end of a round, kept on machines whose clocks are wrong.

Never later than the driver meant it.
"""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core.clocks import ClockReading
from spark_core.errors import TransientError
from spark_core.sweep.deadline import Clocks, Deadline, DeadlinePassedError
from tests.support.written_run import written_run

TRUE = datetime(2026, 11, 20, 2, tzinfo=UTC)


class World:
    """True time, a store, a driver and an executor, each with a clock of its own."""

    def __init__(self, *, store=0.0, driver=0.0, executor=0.0, latency=0.05):
        self.seconds, self.store, self.latency = 0.0, store, latency
        self.driver, self.executor = self._clocks(driver), self._clocks(executor)

    def at(self, ahead):
        return TRUE + timedelta(seconds=self.seconds + ahead)

    def _clocks(self, ahead):
        def read(_store):
            sent = self.at(ahead)
            self.seconds += self.latency / 2
            told = self.at(self.store).replace(microsecond=0)
            self.seconds += self.latency / 2
            return ClockReading.of(told, sent=sent, received=self.at(ahead))

        return Clocks(lambda: self.at(ahead), lambda: self.seconds, read)


@given(
    store=st.floats(-400, 400),
    driver=st.floats(-400, 400),
    executor=st.floats(-4_000, 4_000),
    latency=st.floats(0.001, 20),
    waited=st.floats(0, 300),
)
def test_whatever_the_clocks_show_a_round_never_lasts_longer_and_hardly_shorter(
    store, driver, executor, latency, waited
):
    world = World(store=store, driver=driver, executor=executor, latency=latency)
    ends = world.seconds + 600
    deadline = Deadline.after(timedelta(minutes=10), None, world.driver)
    world.seconds += waited
    timer = deadline.start(None, world.executor)
    world.seconds = ends - 3 - 2 * latency
    assert not timer.passed
    world.seconds = ends + 0.001
    assert timer.passed
    with pytest.raises(DeadlinePassedError):
        timer.require()


def test_an_executor_whose_clock_is_set_back_meanwhile_gains_nothing():
    world = World()
    timer = Deadline.after(timedelta(minutes=10), None, world.driver).start(None, world.executor)
    world.executor = Clocks(lambda: world.at(-3_600), timer.clocks.monotonic, timer.clocks.read)
    world.seconds = 601
    assert timer.now() >= TRUE + timedelta(seconds=600)
    assert timer.passed


def test_an_executor_that_slept_gains_nothing_either():
    world = World()
    deadline = Deadline.after(timedelta(minutes=10), None, world.driver)
    asleep = Clocks(world.executor.wall, lambda: 0.0, world.executor.read)
    timer = deadline.start(None, asleep)
    world.seconds = 601
    assert timer.passed


def test_a_task_is_never_thought_to_have_begun_before_its_round():
    world = World(executor=-30)
    lying = Clocks(
        world.executor.wall,
        world.executor.monotonic,
        lambda _: ClockReading(timedelta(0), timedelta(0)),
    )
    timer = Deadline.after(timedelta(minutes=10), None, world.driver).start(None, lying)
    assert timer.began >= TRUE


def test_a_store_whose_clock_cannot_be_read_in_time_ends_the_work(tmp_path):
    store = written_run(tmp_path, spark=None).run.store
    asked = []

    def silent(_store):
        asked.append(1)

    with pytest.raises(TransientError, match=r"could not be read from the driver in 3 attempts"):
        Deadline.after(timedelta(minutes=10), store, Clocks(read=silent))
    assert len(asked) == 3


def test_a_real_store_gives_a_deadline_within_seconds_of_what_was_asked_for(tmp_path):
    store = written_run(tmp_path, spark=None).run.store
    timer = Deadline.after(timedelta(seconds=60), store).start(store)
    assert 50 < (timer.instant - timer.now()).total_seconds() <= 60
