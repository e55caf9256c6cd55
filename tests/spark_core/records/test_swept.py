"""What a sweep deleted is told by its report, or by its journal if it did not end."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from spark_core.errors import CorruptTableError
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.journal import Journal
from spark_core.records.swept import deleted_by
from spark_core.run import Run
from tests.support.written_run import NOW, OLD, Written, journal_entries, written_run

OBJECTS = {f"data/s/{number}": (3, OLD) for number in range(9)}


def earlier(run: Run, days: int) -> Written:
    """Mark everything in a run so many days before."""
    found = Written(run.at(RunKey.at(NOW - timedelta(days=days))))
    found.mark(OBJECTS, expired=dict.fromkeys(OBJECTS, "because"))
    return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return written_run(tmp_path, spark=None).run


def gone(run: Run, key: RunKey) -> list[str]:
    return sorted(name for some in deleted_by(run.store, key, {}) for name in some.to_pylist())


def sweep(written: Written, **outcomes: str) -> None:
    """Store a report; number of an object -> outcome."""
    written.sweep({f"data/s/{name[1:]}": (3, outcome, None) for name, outcome in outcomes.items()})


def test_a_report_says_what_is_gone(run: Run) -> None:
    before = earlier(run, 1)
    sweep(before, o0="deleted", o1="kept", o2="already_gone", o3="failed", o4="refused")
    assert gone(run, before.run.key) == ["data/s/0", "data/s/2"]


def test_a_journal_says_it_of_a_sweep_that_did_not_end(run: Run) -> None:
    before = earlier(run, 1)
    plan = before.run.load(tables.EXPIRED_ADDRESSES).manifest.sha256
    journal = Journal(run.store, str(before.run.key), plan)
    names = ["data/s/0", "data/s/1"]
    journal.intend("a.0.0.0.0", journal_entries("", names))
    assert gone(run, before.run.key) == []
    journal.conclude("a.0.0.0.0", journal_entries("deleted", names[:1]))
    assert gone(run, before.run.key) == names[:1]
    other = Journal(run.store, str(before.run.key), "another plan")
    other.conclude("a.0.0.0.1", journal_entries("deleted", names[1:]))
    with pytest.raises(CorruptTableError, match=r"its lakegc\.plan is"):
        gone(run, before.run.key)


def test_who_went_on_with_what_a_report_had_left_is_told_by_the_journal(run: Run) -> None:
    before = earlier(run, 1)
    plan = before.run.load(tables.EXPIRED_ADDRESSES).manifest.sha256
    journal, left = Journal(run.store, str(before.run.key), plan), ["data/s/1", "data/s/2"]
    sweep(before, o0="deleted", o1="failed", o2="refused")
    journal.intend("b.0.0.0.0", journal_entries("", left))
    assert gone(run, before.run.key) == ["data/s/0"]
    journal.conclude("b.0.0.0.0", journal_entries("deleted", left[:1]))
    assert gone(run, before.run.key) == ["data/s/0", "data/s/1"]


def test_a_run_that_was_not_swept_deleted_nothing(run: Run) -> None:
    assert gone(run, earlier(run, 1).run.key) == []
