"""The answer of `what-if` beside its run; no Spark."""

from __future__ import annotations

import pytest

from spark_core import lakegc_keys, report
from spark_core.errors import ChainError
from spark_core.explain import WhatIf, keep_answer
from spark_core.explain.what_if import Freed
from spark_core.records import tables
from tests.support.written_run import NOW, written_run

NAMES = ("every branch keeps 7 days", "the rules of now", "in 7 days", "in 30 days")
FOUND = WhatIf(
    "repo",
    "run",
    (0, 0),
    (0, 0),
    tuple(Freed(name, 1, 4, (), ()) for name in NAMES),
    price_per_gb_month=None,
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
