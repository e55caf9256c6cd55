"""A limit of deletions holds in every second, however its tasks run, and is used up to a whole
request; without one, a sweep finds what the store can take.
"""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core.sweep.pacing import FIRST, Pacer, Rate, StorePace, first_rate, shared


class Seconds:
    """A clock that only sleeping and working move."""

    def __init__(self, begin: float) -> None:
        self.time = begin

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


@given(
    limit=st.floats(0.05, 5_000),
    largest=st.sampled_from([1, 100, 256, 1_000]),
    tasks=st.lists(
        st.tuples(st.floats(0, 3), st.lists(st.floats(0, 2), min_size=1, max_size=12)),
        min_size=1,
        max_size=5,
    ),
)
def test_no_second_sees_more_than_the_limit_whatever_the_requests_take(limit, largest, tasks):
    sent = []
    for begin, durations in tasks:
        clock = Seconds(begin)
        pacer = Pacer(limit / len(tasks), largest, clock.now, clock.sleep)
        assert 1 <= pacer.batch_size <= largest
        for duration in durations:
            pacer()
            sent.append((clock.time, pacer.batch_size))
            clock.time += duration
    # One key at a time is the least that a task can do: below one key a second, longer spans are
    # looked at.
    span = max(1.0, len(tasks) / limit)
    for start, _ in sent:
        # The interval is open, and sums of floats are not exact.
        in_it = sum(keys for instant, keys in sent if start <= instant < start + span * (1 - 1e-9))
        assert in_it <= limit * span * (1 + 1e-9)


@pytest.mark.parametrize(
    ("share", "largest", "batch", "interval"),
    [
        (0.5, 1_000, 1, 2.0),
        (1, 1_000, 1, 1.0),
        (12.5, 1_000, 12, 1.0),
        (1_000, 1_000, 1_000, 1.0),
        (2_500, 1_000, 833, 1 / 3),
        (600, 256, 200, 1 / 3),
    ],
)
def test_a_share_becomes_requests_of_as_many_keys_as_it_allows(share, largest, batch, interval):
    pacer = Pacer(share, largest)
    assert (pacer.batch_size, pacer.interval_seconds) == (batch, interval)


def test_the_first_request_is_sent_at_once_unless_another_attempt_was_before():
    clock = Seconds(100)
    Pacer(1, 1_000, clock.now, clock.sleep)()
    assert clock.time == 100
    pacer = Pacer(1, 1_000, clock.now, clock.sleep)
    pacer.hold_back()
    pacer()
    assert clock.time == 101


@pytest.mark.parametrize("share", [0, -1, float("nan")])
def test_a_share_of_nothing_is_refused(share):
    with pytest.raises(ValueError, match="wanted more than 0"):
        Pacer(share, 1_000)


class Bucket:
    """A store that takes so many keys a second, and a second's worth at once after a pause."""

    def __init__(self, per_second):
        self.per_second, self.allowed, self.at = per_second, per_second, 0.0

    def takes(self, keys, at):
        self.allowed = min(self.per_second, self.allowed + (at - self.at) * self.per_second)
        self.at = at
        if self.allowed < keys:
            return False
        self.allowed -= keys
        return True


def swept(per_second, *, known=None, seconds=30, processes=1):
    """Sweep by eight threads; return the share of the store's pace, and when it was busy."""
    clock, store = Seconds(0.0), Bucket(per_second)
    paces = [
        StorePace(first_rate(known, processes), clock.now, clock.sleep) for _ in range(processes)
    ]
    # What happens next: instant, thread, what, keys, and when their slot was asked for.
    events = [(0.0, thread, "ask", 0, 0.0) for thread in range(8)]
    deleted, busy = 0, []
    while clock.time < seconds:
        clock.time, thread, what, keys, asked = heapq.heappop(events)
        pace = paces[thread % processes]
        if what == "send" and pace.is_kept(asked):
            if store.takes(keys, clock.time):
                deleted += keys
                heapq.heappush(events, (clock.time + 0.03, thread, "ask", 0, 0.0))
            else:
                busy.append(clock.time)
                pace.busy(clock.time)
                heapq.heappush(events, (clock.time + 1.25, thread, "ask", keys, 0.0))
        else:
            keys = keys or pace.keys(1_000)
            asked, begin = pace.reserve(keys)
            heapq.heappush(events, (begin, thread, "send", keys, asked))
    # What the store had saved up when it began is not its pace.
    return (deleted - per_second) / clock.time / per_second, busy


@pytest.mark.parametrize("per_second", [1_000, 3_500, 5_500, 10_000])
def test_a_busy_store_gets_nine_tenths_of_what_it_takes_and_few_requests_too_many(per_second):
    share, busy = swept(per_second)
    assert share >= 0.9
    assert len(busy) <= 15
    share, busy = swept(per_second, known=per_second)
    assert share >= 0.9
    assert len(busy) <= 10, "and fewer when its pace is known"


def test_processes_find_the_pace_of_a_store_together():
    share, busy = swept(7_000, processes=4)
    assert share >= 0.85
    assert len(busy) <= 60


def test_a_slow_store_is_asked_for_too_much_only_at_first():
    share, busy = swept(600, seconds=60)
    assert share >= 0.8
    assert len([at for at in busy if at > 20]) <= 10


def test_a_store_that_is_never_busy_is_used_faster_every_second():
    clock = Seconds(0.0)
    pace = StorePace(Rate(FIRST), clock.now, clock.sleep)
    sent = 0
    while clock.time < 4:
        pace.wait(1_000)
        sent += 1_000
    assert FIRST * (1 + 2 + 4 + 8) * 0.8 < sent < FIRST * (1 + 2 + 4 + 8)


def test_a_pace_that_nobody_needs_does_not_grow():
    clock = Seconds(0.0)
    pace = StorePace(Rate(FIRST), clock.now, clock.sleep)
    for _ in range(100):
        pace.wait(250)
        clock.time += 1
    assert pace.rate == Rate(FIRST)


def test_answers_to_requests_of_one_moment_slow_down_once():
    clock = Seconds(10.0)
    pace = StorePace(Rate(4_000.0, ceiling=4_000.0), clock.now, clock.sleep)
    clock.time += 2
    for sent in (12.0, 11.9, 11.5, 11.0):
        pace.busy(sent)
        clock.time += 0.01
    assert pace.rate == Rate(3_400.0, ceiling=4_000.0)
    assert pace.wait(250) == pytest.approx(12.25), "and nothing is sent for a moment"


def test_the_tasks_of_a_process_share_one_pace_and_the_next_sweep_has_its_own():
    one = shared("a", Rate(1.0))
    assert shared("a", Rate(2.0)) is one
    other = shared("b", Rate(3.0))
    assert other.rate == Rate(3.0)
