"""What became of an object is told by whichever sweep wrote it down; no Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core.explain import explain
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.journal import Journal
from tests.support.written_run import NOW, OLD, Written, journal_entries, written_run

A = "data/s/a"


@pytest.fixture
def written(tmp_path):
    return marked(written_run(tmp_path, None))


def marked(written):
    written.mark({A: (4, OLD)}, expired={A: "in no commit, they say"})
    return written


def other(written, *, days):
    """Return a run so many days before."""
    run = replace(written.run, key=RunKey.at(NOW - timedelta(days=days)), known={}, documents={})
    return Written(run)


def journal_of(written):
    plan = written.run.load(tables.EXPIRED_ADDRESSES).manifest.sha256
    return Journal(written.run.store, str(written.run.key), plan)


def test_what_a_killed_sweep_deleted_is_told_by_its_journal(written):
    journal = journal_of(written)
    journal.intend("a.0.0.0.0", journal_entries("intended", [A]))
    journal.conclude("a.0.0.0.0", journal_entries("deleted", [A]))
    found = explain(written.run, A)
    assert found.state == "deleted"
    assert f"deleted: run {written.run.key} deleted it at {NOW:%Y-%m-%d %H:%M:%S}" in found.sentence
    # A later mark does not list it.
    later = other(written, days=-1)
    later.mark({})
    assert explain(later.run, A).sentence == found.sentence
    assert found.reasons[-1].text == (
        f"The sweep has not ended: `lakegc restore repo {written.run.key} --dry-run` shows whether "
        "it can bring it back."
    )


def test_what_went_on_behind_a_report_that_left_objects_is_told_too(written):
    written.sweep({A: (4, "failed", "busy")})
    assert explain(written.run, A).state == "kept"
    journal_of(written).conclude("b.0.0.0.0", journal_entries("deleted", [A]))
    assert explain(written.run, A).state == "deleted"


def test_what_a_sweep_found_gone_was_not_deleted_by_it_and_does_not_come_back_from_it(written):
    written.sweep({A: (4, "already_gone", None)}, quarantine_days=30)
    found = explain(written.run, A)
    said = (
        f"run {written.run.key} found it gone already, so a restore of that run does not bring it "
        "back"
    )
    assert (found.state, found.reasons[-1].text) == ("gone", said)
    assert found.sentence == f"gone: {said}; in no commit, they say"
    assert "quarantine" not in str(found)
