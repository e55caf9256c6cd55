"""A limit of deletions holds in every second, however its tasks run, and is used up to a whole
request.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core.sweep.pacing import Pacer


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
