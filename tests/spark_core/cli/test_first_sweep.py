"""What a command asks before the first sweep that could not be undone."""

from __future__ import annotations

from types import SimpleNamespace

import click
import pytest

from spark_core import stored_runs
from spark_core.cli import collecting
from spark_core.errors import TransientError, UnsafePlanError
from spark_core.sweep import first_sweep


class _Settings:
    """Settings of repositories without a word about quarantine, unless told."""

    def __init__(self, **quarantine):
        self.quarantine = quarantine

    def run_options(self, repository_id):
        return SimpleNamespace(quarantine=self.quarantine.get(repository_id), quarantine_days=30)

    def with_changed(self, repository_id, **values):
        return _Settings(**{**self.quarantine, repository_id: values["quarantine"]})


@pytest.fixture
def ask(monkeypatch):
    """Answers on a terminal, or without one; returns the settings, and the questions."""

    def answered(jobs, *, says=None, yes=False, words="it keeps no versions", **quarantine):
        asked = []

        def confirm(question, **_):
            asked.append(question)
            return says

        def refuse(run):
            raise UnsafePlanError("refused")

        monkeypatch.setattr(click, "confirm", confirm)
        monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: says is not None))
        run = SimpleNamespace(options=SimpleNamespace(quarantine_days=30))
        monkeypatch.setattr(stored_runs, "open_stored", lambda *_: run)

        def unanswered(_run):
            if isinstance(words, Exception):
                raise words
            return words

        monkeypatch.setattr(first_sweep, "unanswered", unanswered)
        monkeypatch.setattr(first_sweep, "require_answered", refuse)
        return collecting._answered(_Settings(**quarantine), jobs, yes=yes).quarantine, asked

    return answered


def test_a_person_is_asked_once_and_may_say_no(ask):
    settings, asked = ask({"repo": "mark_and_sweep"}, says=True)
    assert settings == {"repo": False}
    (question,) = asked
    assert "the first sweep of repo" in question
    assert "it keeps no versions" in question
    assert "six requests an object" in question
    with pytest.raises(UnsafePlanError):
        ask({"repo": "sweep"}, says=False)


def test_nobody_is_asked_who_answered_or_who_does_not_delete(ask):
    assert ask({"repo": "mark"}, says=True) == ({}, [])
    assert ask({"repo": "sweep"}, says=True, repo=True) == ({"repo": True}, [])
    assert ask({"repo": "sweep"}, says=True, words=None) == ({}, [])


def test_without_a_terminal_and_over_many_the_sweep_itself_refuses(ask):
    assert ask({"repo": "sweep"}) == ({}, [])
    assert ask({"a": "mark_and_sweep", "b": "mark_and_sweep"}, says=True) == ({}, [])


def test_yes_answers_for_all_whose_settings_do_not(ask):
    jobs = {"a": "mark_and_sweep", "b": "mark", "c": "mark_and_sweep"}
    assert ask(jobs, yes=True, c=True) == ({"a": False, "c": True}, [])


def test_yes_takes_no_quarantine_from_what_is_undone_anyway(ask):
    assert ask({"a": "mark_and_sweep", "b": "sweep"}, yes=True, words=None) == ({}, [])


def test_a_repository_that_cannot_be_reached_is_left_to_its_own_run(ask):
    assert ask({"a": "sweep", "b": "sweep"}, yes=True, words=TransientError("away")) == ({}, [])
