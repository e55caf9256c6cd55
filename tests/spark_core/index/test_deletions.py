"""Every sweep since the last clean run counts, and what one of them does not tell is said."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_core.errors import UnsafePlanError
from spark_core.index import deletions
from spark_core.index.deletions import deleted_since, unanswered_since
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.journal import Journal
from spark_core.run import Run
from tests.support.written_run import NOW, OLD, Written, hashes_of, journal_entries, written_run

OBJECTS = {f"data/s/{number}": (3, OLD) for number in range(9)}


def earlier(run: Run, days: int) -> Written:
    """Mark everything in a run so many days before."""
    found = Written(run.at(RunKey.at(NOW - timedelta(days=days))))
    found.mark(OBJECTS, expired=dict.fromkeys(OBJECTS, "because"))
    return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return written_run(tmp_path, spark=None).run


def since(run: Run, days: int) -> Any:
    return deleted_since(anew(run), saved_by(days)).tolist()


def saved_by(days: int) -> Any:
    return SimpleNamespace(clean=str(RunKey.at(NOW - timedelta(days=days))))


def anew(run: Run) -> Run:
    """Read everything again, as another process does."""
    return replace(run, documents={})


def sweep(written: Written, **outcomes: str) -> None:
    """Store a report; number of an object -> outcome."""
    written.sweep({f"data/s/{name[1:]}": (3, outcome, None) for name, outcome in outcomes.items()})


def test_what_a_killed_sweep_had_asked_for_and_did_not_write_down_is_not_known(run: Run) -> None:
    before = earlier(run, 2)
    plan = before.run.load(tables.EXPIRED_ADDRESSES).manifest.sha256
    journal = Journal(run.store, str(before.run.key), plan)
    names = ["data/s/0", "data/s/1"]
    then = NOW - timedelta(hours=40)
    assert unanswered_since(anew(run), saved_by(2)) == ""
    journal.intend("a.0.0.0.0", journal_entries("", names, at=then))
    journal.conclude("a.0.0.0.0", journal_entries("deleted", names[:1], at=then))
    said = (
        f"the sweep of run {before.run.key} did not end, and what became of 1 object is not known"
    )
    assert unanswered_since(anew(run), saved_by(3)) == said
    # Its look at the store was before a later clean run's, which saw what was there.
    earlier(run, 1)
    assert unanswered_since(anew(run), saved_by(1)) == ""
    journal.conclude("b.0.0.0.0", journal_entries("already_gone", names[1:]))
    assert unanswered_since(anew(run), saved_by(3)) == "", "another process went on with it"


def test_a_sweep_that_was_killed_and_ended_later_is_told_by_its_report(run: Run) -> None:
    before = earlier(run, 1)
    plan = before.run.load(tables.EXPIRED_ADDRESSES).manifest.sha256
    Journal(run.store, str(before.run.key), plan).intend(
        "a.0.0.0.0", journal_entries("", ["data/s/0"])
    )
    sweep(before, o0="deleted")
    assert unanswered_since(anew(run), saved_by(1)) == ""


def test_who_went_on_with_what_a_report_had_left_counts_as_well(run: Run) -> None:
    before = earlier(run, 1)
    plan = before.run.load(tables.EXPIRED_ADDRESSES).manifest.sha256
    journal, left = Journal(run.store, str(before.run.key), plan), ["data/s/1", "data/s/2"]
    sweep(before, o0="deleted", o1="failed", o2="refused")
    journal.intend("b.0.0.0.0", journal_entries("", left))
    journal.conclude("b.0.0.0.0", journal_entries("deleted", left[:1]))
    assert since(run, 1) == hashes_of("data/s/0", "data/s/1").tolist()
    assert "what became of 1 object is not known" in unanswered_since(anew(run), saved_by(1))
    sweep(before, o0="deleted", o1="deleted", o2="deleted")
    assert unanswered_since(anew(run), saved_by(1)) == "", "it was gone on with once more"


def test_every_sweep_since_the_clean_run_counts_and_none_before(run: Run) -> None:
    for days in (4, 3, 2, 1):
        sweep(earlier(run, days), **{f"o{days}": "deleted"})
    # What two of them say of one object is said once.
    sweep(earlier(run, 2), o2="deleted", o1="already_gone")
    assert since(run, 3) == hashes_of("data/s/1", "data/s/2", "data/s/3").tolist()
    earlier(run, 0)
    assert since(run, 0) == []


def test_more_than_the_driver_holds_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(earlier(run, 1), o0="deleted", o1="deleted", o2="kept")
    monkeypatch.setattr(deletions, "placement", SimpleNamespace(MOST_ROWS_OF_THE_DRIVER=2))
    assert len(since(run, 1)) == 2
    monkeypatch.setattr(deletions, "placement", SimpleNamespace(MOST_ROWS_OF_THE_DRIVER=1))
    with pytest.raises(UnsafePlanError, match="more than 1 objects were deleted since run"):
        since(run, 1)
