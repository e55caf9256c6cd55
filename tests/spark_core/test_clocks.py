"""How far another clock is told to stand, and what an answer does not tell."""

from datetime import UTC, datetime, timedelta

import pytest

from spark_core.clocks import (
    MAX_CLOCK_SKEW,
    ClockReading,
    http_date,
    narrower,
    require_begun,
    require_near,
    require_not_set_back,
)
from spark_core.errors import UnsafePlanError

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def reading(told, took=timedelta(0)):
    return ClockReading.of(told, sent=NOON, received=NOON + took)


@pytest.mark.parametrize("told", [NOON, NOON - SECOND, NOON + timedelta(seconds=2)])
def test_clocks_that_may_agree_do_not_differ(told):
    assert reading(told, took=timedelta(seconds=2)).skew == timedelta(0)


@pytest.mark.parametrize(
    ("off", "too_far"),
    [
        (MAX_CLOCK_SKEW, False),
        (MAX_CLOCK_SKEW + SECOND, True),
        (
            -MAX_CLOCK_SKEW - SECOND,
            False,
        ),  # the date is cut to whole seconds, so this may be 5 minutes still
        (-MAX_CLOCK_SKEW - 2 * SECOND, True),
    ],
)
def test_more_than_five_minutes_is_too_far_and_five_are_not(off, too_far):
    assert reading(NOON + off).further_than(MAX_CLOCK_SKEW) is too_far


def test_the_time_that_the_question_took_is_not_taken_for_skew():
    slow = reading(NOON + MAX_CLOCK_SKEW + 30 * SECOND, took=30 * SECOND)
    assert not slow.further_than(MAX_CLOCK_SKEW)
    assert slow.skew == MAX_CLOCK_SKEW


@pytest.mark.parametrize(
    ("off", "refused"),
    [
        (300, None),
        (301, "the clock of the store is 0:05:01 ahead of .*, at most 0:05:00 is accepted"),
    ],
)
def test_a_clock_that_differs_by_more_than_the_limit_is_refused(off, refused):
    other = reading(NOON + timedelta(seconds=off))
    if refused is None:
        require_near(other, "the store")
        return
    with pytest.raises(UnsafePlanError, match=refused):
        require_near(other, "the store")


@pytest.mark.parametrize(
    ("ahead", "refused"),
    [
        (timedelta(0), None),
        (MAX_CLOCK_SKEW, None),
        (
            MAX_CLOCK_SKEW + SECOND,
            "set back by 0:05:01 .*, at most 0:05:00 is accepted: .* look old.* start again",
        ),
        (timedelta(hours=30), "set back by 1 day, 6:00:00 .*, at most 0:05:00 is accepted"),
    ],
)
def test_a_clock_that_was_set_back_by_more_than_the_limit_is_refused(ahead, refused):
    if refused is None:
        require_not_set_back(ahead)
        return
    with pytest.raises(UnsafePlanError, match=refused):
        require_not_set_back(ahead)


@pytest.mark.parametrize(
    ("begun", "store", "refused"),
    [
        (-timedelta(days=9), timedelta(0), None),
        (MAX_CLOCK_SKEW, None, None),
        (
            MAX_CLOCK_SKEW + SECOND,
            None,
            "12:05:01.*, which is 0:05:01 ahead of the clock of this machine, at most 0:05",
        ),
        # A store that is ahead makes an instant of the future no earlier by this machine's clock.
        (MAX_CLOCK_SKEW + SECOND, MAX_CLOCK_SKEW, "ahead of the clock of this machine"),
        (timedelta(0), -MAX_CLOCK_SKEW, None),
        (
            3 * SECOND,
            -MAX_CLOCK_SKEW,
            r"is 0:05:02 ahead of the clock of the store.*start again under a new run key",
        ),
    ],
)
def test_a_run_must_have_begun_by_each_clock(begun, store, refused):
    readings = {"the server": None, "the store": None if store is None else reading(NOON + store)}
    if refused is None:
        require_begun(NOON + begun, NOON, readings)
        return
    with pytest.raises(UnsafePlanError, match=refused):
        require_begun(NOON + begun, NOON, readings)


def test_an_answer_that_took_minutes_or_no_time_at_all_says_nothing():
    assert reading(NOON, took=timedelta(seconds=61)) is None
    assert reading(NOON, took=-SECOND) is None


def test_of_two_readings_the_one_that_took_less_time_counts():
    quick, slow = reading(NOON), reading(NOON, took=10 * SECOND)
    assert narrower(quick, slow) is narrower(slow, quick) is quick
    assert narrower(None, slow) is narrower(slow, None) is slow
    assert narrower(None, None) is None


@pytest.mark.parametrize(
    ("off", "text"),
    [
        (timedelta(hours=2), "is 2:00:00 ahead of this machine's"),
        (-timedelta(hours=2), "is 1:59:59 behind this machine's"),
        (timedelta(0), "agrees with this machine's to a second or two"),
    ],
)
def test_a_reading_is_told_in_words(off, text):
    assert str(reading(NOON + off)) == text


@pytest.mark.parametrize(
    "header", ["Fri, 20 Nov 2026 12:00:00 GMT", "Fri, 20 Nov 2026 12:00:00 -0000"]
)
def test_the_date_of_an_answer_is_in_utc(header):
    assert http_date(header) == NOON


@pytest.mark.parametrize("header", ["", "yesterday", "Fri, 40 Nov 2026 12:00:00 GMT"])
def test_a_date_that_is_none_says_nothing(header):
    assert http_date(header) is None
