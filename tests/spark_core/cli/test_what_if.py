"""`lakegc what-if` where the answer cannot be kept; the answer itself is made up."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from spark_core import explain, stored_runs
from spark_core.cli import rules_plan
from spark_core.cli import what_if as command
from spark_core.cli.main import main
from spark_core.errors import PermissionDeniedError
from spark_core.explain.what_if.answer import Freed
from spark_core.model import Branch, RetentionRules
from spark_core.prices import Price

NAMES = ("the rules of now", "the rules of now, in 7 days", "the rules of now, in 30 days")
FOUND = explain.WhatIf(
    "repo",
    "a-run",
    (0, 0),
    (0, 0),
    (("without branch dev", 2, 8),),
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
    monkeypatch.setattr(
        stored_runs, "open_run_or_newest_mark", lambda *_: SimpleNamespace(key="a-run")
    )
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
    lines = [line.split() for line in told.stdout.splitlines()]
    assert ["without", "branch", "dev", "2", "8", "bytes"] in lines
    assert told.stdout.endswith("The page of the run shows the curve (`lakegc report`).\n")


def test_a_plan_says_what_goes_by_the_rules_of_now_and_by_those_asked_about():
    asked = Freed("the rules asked about", 3, 2_000_000_004, (), ())
    found = replace(FOUND, answers=(*FOUND.answers, asked), price=Price(0.5, "EUR"))
    assert rules_plan.in_words(found) == (
        "By the listing of run a-run, 1 object (4 bytes) may go today, and 3 (2.0 GB) then: "
        "2 more (2.0 GB, 1.00 EUR a month). Each is an upper bound. Nothing goes before the next "
        "sweep."
    )


@pytest.mark.parametrize("words", [("--branch", "main=7"), ("--default", "3", "--branch", "a=2")])
def test_rules_may_be_asked_about_inline(kept, monkeypatch, words):
    now, asked = RetentionRules(14, {"a": 1}), []
    here = [Branch(name, "c") for name in ("a", "main")]
    server = SimpleNamespace(retention_rules=lambda _: now, branches=lambda _: here)
    monkeypatch.setattr(
        stored_runs,
        "open_run_or_newest_mark",
        lambda *_: SimpleNamespace(key="a-run", server=server),
    )
    monkeypatch.setattr(explain, "what_if", lambda _, __, rules: asked.append(rules) or FOUND)
    told = CliRunner().invoke(main, ["what-if", "repo", *words])
    assert (told.exit_code, told.stderr) == (0, "")
    misspelt = CliRunner().invoke(main, ["what-if", "repo", "--branch", "mian=7", "--json"])
    assert "There is no branch named mian: " in misspelt.stderr
    assert misspelt.stderr.endswith("Did you mean main?\n")
    assert json.loads(misspelt.stdout)["run"] == "a-run"
    asked.pop()
    wanted = {
        "--branch": RetentionRules(14, {"a": 1, "main": 7}),
        "--default": RetentionRules(3, {"a": 2}),
    }
    assert asked == [wanted[words[0]]]
