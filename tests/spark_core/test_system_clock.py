"""The clock of a run: what happens to it when the machine's own is set, or the machine sleeps."""

import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from spark_core import clocks
from spark_core.clocks import SystemClock
from spark_core.sweep.deadline import Clocks

BEGAN = datetime(2026, 11, 20, 2, tzinfo=UTC)


class Machine:
    """Two clocks: one that people set, and one that counts, except while the machine sleeps."""

    def __init__(self, monkeypatch):
        self.wall, self.counted = BEGAN, 1_000.0
        monkeypatch.setattr(clocks, "_wall", lambda: self.wall)
        monkeypatch.setattr(clocks, "uptime", lambda: self.counted)

    def pass_time(self, *, minutes, counted=None):
        self.wall += timedelta(minutes=minutes)
        self.counted += 60 * (minutes if counted is None else counted)


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


def test_a_clock_that_is_set_back_makes_no_look_at_the_repository_young_again(machine):
    clock = SystemClock()
    machine.pass_time(minutes=9)
    machine.wall -= timedelta(hours=1)
    assert clock.now() == BEGAN + timedelta(minutes=9)
    machine.pass_time(minutes=2)
    assert clock.now() == BEGAN + timedelta(minutes=11)


def test_a_clock_that_is_set_forward_is_followed_and_followed_back(machine):
    clock = SystemClock()
    machine.pass_time(minutes=1)
    machine.wall += timedelta(days=1)
    assert clock.now() == BEGAN + timedelta(days=1, minutes=1)
    machine.wall -= timedelta(days=1)
    assert clock.now() == BEGAN + timedelta(minutes=1)


def test_the_time_that_a_machine_slept_has_passed(machine):
    clock = SystemClock()
    machine.pass_time(minutes=30, counted=0)
    assert clock.now() == BEGAN + timedelta(minutes=30)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts a machine's sleep for sure")
def test_the_count_of_a_run_and_of_its_tasks_goes_on_while_the_machine_sleeps(monkeypatch):
    asked = []
    monkeypatch.setattr(clocks.time, "clock_gettime", lambda which: asked.append(which) or 7.0)
    assert (clocks.uptime(), Clocks().monotonic()) == (7.0, 7.0)
    assert asked == [time.CLOCK_BOOTTIME] * 2
