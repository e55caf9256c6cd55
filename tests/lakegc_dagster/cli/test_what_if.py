"""`lakegc what-if` where the answer cannot be kept; the answer itself is made up."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from lakegc_dagster import stored_runs
from lakegc_dagster.cli import what_if as command
from lakegc_dagster.cli.main import main
from spark_core import explain
from spark_core.errors import PermissionDeniedError
from spark_core.explain.what_if import Freed

NAMES = ("the rules of now", "the rules of now, in 7 days", "the rules of now, in 30 days")
FOUND = explain.WhatIf(
    "repo",
    "a-run",
    (0, 0),
    (0, 0),
    tuple(Freed(name, 1, 4, (), ()) for name in NAMES),
    price=None,
    asked_at=datetime(2026, 11, 20, 2, tzinfo=UTC),
)


@pytest.fixture
def kept(monkeypatch):
    """What became of the answers; an error in `problem` is raised."""
    made = SimpleNamespace(answers=[], problem=None)

    def keep(_run, found, _days):
        if made.problem is not None:
            raise made.problem
        made.answers.append(found)

    monkeypatch.setattr(command, "read_settings", lambda *_: None)
    monkeypatch.setattr(stored_runs, "open_chosen", lambda *_: SimpleNamespace(key="a-run"))
    monkeypatch.setattr(explain, "what_if", lambda *_: FOUND)
    monkeypatch.setattr(explain, "keep_answer", keep)
    return made


def test_a_store_that_takes_no_file_costs_a_warning_and_not_the_answer(kept):
    kept.problem = PermissionDeniedError("write 'x': the store refuses", "Allow it.")
    told = CliRunner().invoke(main, ["what-if", "repo", "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["run"] == "a-run"
    assert "run a-run does not show this answer: write 'x': the store refuses. Allow it." in (
        " ".join(told.stderr.split())
    )
    in_words = CliRunner().invoke(main, ["what-if", "repo"])
    assert in_words.exit_code == 0, in_words.output
    assert "No rule and no object was changed." in in_words.stdout
    assert "shows the curve" not in in_words.stdout


def test_the_page_is_named_once_it_has_the_answer(kept):
    told = CliRunner().invoke(main, ["what-if", "repo"])
    assert (told.exit_code, kept.answers, told.stderr) == (0, [FOUND], "")
    assert told.stdout.endswith("The page of the run shows the curve (`lakegc report`).\n")
