"""Which objects and runs of a search the model is not asked about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.model import replay, run
from tests.model.test_recorded_events import OBJECT
from tests.model.test_recorded_events import _mark as mark
from tests.support.policy_machine import PolicyMachine
from tests.support.recorded_events import Event, Judged, References, words_of

KEY = datetime(2026, 11, 20, 2, tzinfo=UTC)


def _machine() -> Any:
    machine: Any = PolicyMachine()
    machine.repository = SimpleNamespace(
        may_compact=False, is_older_than_itself=lambda address: address == "inherited"
    )
    return machine


def test_of_a_history_with_policies_all_objects_are_replayed_but_those_older_than_it():
    names, machine = ("garbage", "inherited", "staged"), _machine()
    told = [machine._outside_the_model(KEY, name) for name in names]
    assert told == [None, "older than their repository", None]
    assert PolicyMachine.is_replayed


@pytest.mark.skipif(bool(run.why_not()), reason=run.why_not())
def test_what_goes_without_a_policy_that_names_it_is_no_history_of_the_model():
    now = {
        name: References({}, {OBJECT}, surely_named=surely)
        for name, surely in (("named", {OBJECT}), ("not named", ()))
    }
    words = {
        name: words_of([Event("people", now=one), *mark()], Judged({OBJECT: "old"}, {OBJECT}, None))
        for name, one in now.items()
    }
    (named,), (unnamed,) = (words[name].words for name in ("named", "not named"))
    assert named[1] == "=rp"
    assert replay.refused([named, unnamed]) == [unnamed]


def test_what_stays_though_nothing_refers_to_it_and_a_policy_may_name_it_is_left_out():
    now = References({}, (), perhaps_named={OBJECT})
    told = words_of([Event("people", now=now), *mark()], Judged({OBJECT: "old"}, set(), None))
    assert (told.words, dict(told.objects)) == (set(), {Judged.keeps: 1})


def test_what_was_written_over_after_the_run_began_is_not_asked_about_its_sweep():
    machine = _machine()
    machine.repository.born = {"of then": KEY - timedelta(hours=1), "of now": KEY}.__getitem__
    since = [name for name in ("of then", "of now") if machine._is_since(KEY, name)]
    assert since == ["of now"]
