"""Which errors of a step are met by trying it again, how often, and what is told of it."""

import io
from datetime import UTC, datetime

import pytest

from spark_core.errors import (
    DeletionFailedError,
    LakegcError,
    LeaseHeldError,
    NotFoundError,
    PermissionDeniedError,
    RefusedError,
    SameWorkError,
    SettingsError,
    TransientError,
)
from spark_core.events import Event
from spark_core.lakefs.failures import NeverAnsweredError, ServerAwayError
from spark_core.terminal.console import Steps, console
from spark_core.tries import RETRIES, RETRIES_BESIDE_THE_SAME, RETRY_AFTER, until_done
from tests.support.clock import FakeClock

BUSY = SameWorkError("the lease is good until 02:05", "If it is dead: run again at 02:10.")
SILENT = TransientError("no server answers", "Start it.")
WAIT = RETRY_AFTER.total_seconds()


def tried(*errors):
    """Try a step that raises these one after the other: how it ended, what was told and waited."""
    left, told, clock = list(errors), [], FakeClock(datetime(2026, 11, 29, 2, tzinfo=UTC))

    def step(again):
        assert again is (len(left) < len(errors))
        if left:
            raise left.pop(0)
        return "done"

    try:
        ended = until_done(step, "deletion_report", told.append, clock)
    except LakegcError as error:
        ended = error
    assert left == []
    return ended, told, clock.slept


def shown_of(told):
    stream = io.StringIO()
    with Steps(console(stream)) as steps:
        for event in told:
            steps(event)
    return stream.getvalue().splitlines()


def test_a_step_that_is_done_at_once_tells_nothing_and_waits_for_nothing():
    assert tried() == ("done", [], [])


@pytest.mark.parametrize(
    "kind",
    [
        SettingsError,
        PermissionDeniedError,
        NotFoundError,
        DeletionFailedError,
        RefusedError,
        LeaseHeldError,
        NeverAnsweredError,
    ],
)
def test_a_refusal_and_a_server_that_never_answered_are_final(kind):
    error = kind("found this", "Do that.")
    ended, told, slept = tried(error)
    assert ended is error
    assert told == [Event("failed", "deletion_report", "found this. Do that.", tries=1)]
    assert slept == []


@pytest.mark.parametrize("kind", [TransientError, ServerAwayError])
def test_a_passing_error_has_two_more_tries_after_half_a_minute_each(kind):
    error = kind("no server answers", "Start it.")
    ended, told, slept = tried(*[error] * RETRIES)
    assert (ended, slept) == ("done", [30.0, 30.0])
    again = [
        Event("retries", "deletion_report", "no server answers", tries=tries) for tries in (1, 2)
    ]
    assert told == again
    ended, told, slept = tried(*[error] * (RETRIES + 1))
    assert ended is error
    assert told == [*again, Event("failed", "deletion_report", str(error), tries=3)]
    assert slept == [30.0, 30.0]


def test_the_same_work_elsewhere_is_waited_for_up_to_a_bound():
    ended, told, slept = tried(*[BUSY] * RETRIES_BESIDE_THE_SAME)
    assert (ended, slept) == ("done", [30.0] * 40)
    assert {(event.kind, event.words) for event in told} == {("waits", BUSY.message)}
    ended, told, slept = tried(*[BUSY] * (RETRIES_BESIDE_THE_SAME + 1))
    assert ended is BUSY
    assert slept == [30.0] * 40


@pytest.mark.parametrize("waits", [0, RETRIES + 1, RETRIES_BESIDE_THE_SAME - RETRIES])
@pytest.mark.parametrize("heals_after", [RETRIES, RETRIES + 1])
def test_a_long_wait_for_the_same_work_takes_no_try_from_a_server_that_is_silent_afterwards(
    waits, heals_after
):
    ended, told, slept = tried(*[BUSY] * waits, *[SILENT] * heals_after)
    assert ended == ("done" if heals_after <= RETRIES else SILENT)
    assert slept == [WAIT] * (waits + RETRIES)
    tries = [event.tries for event in told if event.kind != "waits"]
    assert tries == list(range(1, heals_after + 1))


def test_what_a_step_waits_for_and_why_it_is_tried_again_is_a_line_once():
    began = Event("started", "deletion_report")
    (waits,) = shown_of([began, *tried(*[BUSY] * 5)[1]])
    assert waits.strip() == (
        "deletion_report waits, and goes on by itself: the lease is good until 02:05. "
        "If it is dead: run again at 02:10."
    )
    again, ended = shown_of([began, *tried(*[SILENT] * 3)[1]])
    assert again.split() == ["deletion_report", "tried", "again:", "no", "server", "answers"]
    assert ended.strip().startswith("deletion_report        failed after 3 tries")


def test_an_error_that_is_none_of_ours_ends_it_at_once():
    with pytest.raises(ZeroDivisionError):
        until_done(lambda _: 1 // 0, "deletion_report", pytest.fail, None)
