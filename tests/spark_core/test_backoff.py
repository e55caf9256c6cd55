"""The one way in which something is asked again."""

import pytest
from tenacity import retry_if_exception_type, retry_if_result

from spark_core.backoff import Backoff

BUSY = retry_if_result(lambda answer: answer == "busy")


def answers(*given):
    left = iter(given)

    def ask():
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


def test_pauses_double_up_to_the_longest():
    slept = []
    bounds = Backoff(first_seconds=1, longest_seconds=5, spread=0)
    assert bounds.ask(answers(*["busy"] * 5, "done"), again=BUSY, sleep=slept.append) == "done"
    assert slept == [1, 2, 4, 5, 5]


def test_a_pause_is_spread_and_never_shorter_than_without():
    slept = []
    Backoff(first_seconds=1, spread=0.5, tries=200, longest_seconds=1).ask(
        lambda: "busy", again=BUSY, sleep=slept.append
    )
    assert 1 <= min(slept) < max(slept) <= 1.5


def test_the_last_answer_comes_back_when_the_tries_are_used_up():
    slept = []
    assert (
        Backoff(tries=3).ask(answers("busy", "busy", "busy"), again=BUSY, sleep=slept.append)
        == "busy"
    )
    assert len(slept) == 2


def test_the_last_error_comes_back_as_it_was_raised():
    first, last = TimeoutError("first"), TimeoutError("last")
    with pytest.raises(TimeoutError) as raised:
        Backoff(tries=2).ask(
            answers(first, last), again=retry_if_exception_type(TimeoutError), sleep=lambda _: None
        )
    assert raised.value is last
    assert (last.__cause__, last.__context__) == (None, None)


def test_an_error_of_another_kind_is_not_asked_about_again():
    slept = []
    with pytest.raises(KeyError):
        Backoff().ask(
            answers(KeyError("x")), again=retry_if_exception_type(TimeoutError), sleep=slept.append
        )
    assert slept == []


@pytest.mark.parametrize(("within", "pauses"), [(3, [1, 2]), (2.9, [1]), (0, [])])
def test_no_pause_begins_that_would_end_too_late(within, pauses):
    slept = []
    Backoff(spread=0, within_seconds=within).ask(lambda: "busy", again=BUSY, sleep=slept.append)
    assert slept == pauses


def test_time_that_the_questions_took_counts_where_it_is_told():
    now, slept = [0.0], []

    def slow():
        now[0] += 10
        return "busy"

    Backoff(spread=0, within_seconds=22).ask(
        slow, again=BUSY, sleep=slept.append, spent=lambda: now[0]
    )
    assert slept == [1, 2]


def test_an_answer_may_ask_for_a_longer_pause_and_not_for_a_shorter_one():
    slept = []
    Backoff(spread=0, tries=3).ask(
        lambda: 1.5, again=retry_if_result(bool), sleep=slept.append, at_least=lambda x: x
    )
    assert slept == [1.5, 2]
