"""The answer of `what-if` beside its run; no Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core import lakegc_keys, report
from spark_core.errors import ChainError
from spark_core.explain import WhatIf, keep_answer
from spark_core.explain.what_if.answer import Freed
from spark_core.records import tables
from tests.support.stored_formats import REPORT
from tests.support.written_run import NOW, written_run

NAMES = ("every branch keeps 7 days", "the rules of now", "in 7 days", "in 30 days")
FOUND = WhatIf(
    "repo",
    "run",
    (0, 0),
    (0, 0),
    (("without branch dev", 2, 8),),
    tuple(Freed(name, 1, 4, (), ()) for name in NAMES),
    price=None,
    asked_at=NOW,
)


def test_an_answer_about_a_run_without_a_mark_leaves_nothing_behind(tmp_path):
    written = written_run(tmp_path, None)
    run = written.run
    # A mark that was killed after its first tables: `what_if` needs no more of it.
    for spec in (tables.NAMESPACE_SLICES, tables.UNCOMMITTED_ADDRESSES):
        written._keep(spec, [])
    with pytest.raises(ChainError, match="has no retained_commits"):
        keep_answer(run, FOUND, [7])
    assert tables.runs(run.store) == []


def test_the_page_is_made_anew_after_the_answer_is_stored(tmp_path, monkeypatch):
    run, saved = written_run(tmp_path, None).run, []
    monkeypatch.setattr(report, "load", lambda _run: "the report")
    monkeypatch.setattr(
        report,
        "save",
        lambda run, of: saved.append((of, run.store.exists(lakegc_keys.what_if_key(run.key)))),
    )
    assert keep_answer(run, FOUND, [7]).days == (7,)
    assert saved == [("the report", True)]


def test_the_page_of_a_swept_run_says_where_its_answer_is_older_than_the_sweep(
    tmp_path, monkeypatch
):
    written = written_run(tmp_path, None)
    run = written.run
    ended = written.sweep({"data/s/a": (4, "deleted", None)}).reading_ended
    shown = replace(REPORT, run=str(run.key), sweep="s" * 64)
    monkeypatch.setattr(report, "load", lambda _run: shown)
    second = timedelta(seconds=1)
    for asked_at, is_before in ((ended - second, True), (ended + second, False)):
        keep_answer(run, replace(FOUND, asked_at=asked_at), [7])
        page = run.store.read(lakegc_keys.report_keys(run.key, swept=True)["html"]).decode()
        assert "if every branch keeps so many days" in page
        assert ("asked before the sweep of this run ended" in page) == is_before
