"""What became of an object is told by whichever sweep wrote it down; no Spark."""

from __future__ import annotations

from datetime import timedelta

import pytest

from spark_core import lakegc_keys
from spark_core.explain import explain
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.figures import SecondLookFigures
from spark_core.records.journal import Journal, JournalEnd, end_key
from spark_core.sweep.quarantine import key_of
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
    run = written.run.at(RunKey.at(NOW - timedelta(days=days)))
    return Written(run)


def prune(written):
    """Take the parts of a mark's tables away, as house-keeping does."""
    for spec in (*tables.MARK_TABLES, tables.FATES):
        parts = written.run.load(spec).manifest.parts
        written.run.store.delete([part.key for part in parts])


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
    written.run.store.put(A, b"1234")
    assert explain(written.run, A).state == "kept"
    written.run.store.delete([A])
    assert explain(written.run, A).sentence == (
        f"gone: the sweep of run {written.run.key} left it: failed, busy; the store has it no "
        "more, and no report says who deleted it; in no commit, they say"
    )
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


@pytest.mark.parametrize("found_gone", [True, False])
def test_an_older_mark_that_was_swept_after_the_newest_one_is_told(written, found_gone):
    older = marked(other(written, days=1))
    older.sweep({A: (4, "deleted", None)})
    if found_gone:
        written.sweep({A: (4, "already_gone", None)})
    found = explain(written.run, A)
    assert (found.state, found.run) == ("deleted", str(written.run.key))
    assert found.sentence == (
        f"deleted: run {older.run.key} deleted it at {older.run.key.instant:%Y-%m-%d %H:%M:%S} UTC"
        "; in no commit, they say"
    )
    assert f"`lakegc restore repo {older.run.key} --dry-run`" in found.reasons[-1].text


def test_who_deleted_what_the_index_alone_knew_is_told(written):
    older = marked(other(written, days=2))
    older.sweep({A: (4, "deleted", None)})
    newer = other(written, days=1)
    newer.mark({A: (4, OLD)}, committed=[A])
    assert explain(newer.run, A).sentence.startswith(f"deleted: run {older.run.key} deleted it at")
    written.run.store.delete([tables.manifest_key(tables.DELETION_REPORT, older.run.key)])
    assert explain(newer.run, A).sentence == (
        "gone: the store has it no more, and no report says who deleted it; "
        f"run {newer.run.key} knew it from the index"
    )


def test_an_intent_without_an_outcome_is_told_where_the_store_has_the_object_no_more(written):
    written.run.store.put(A, b"1234")
    journal_of(written).intend("a.0.0.0.0", journal_entries("intended", [A]))
    assert explain(written.run, A).state == "may go"
    written.run.store.delete([A])
    found = explain(written.run, A)
    assert found.sentence.startswith(
        f"gone: the sweep of run {written.run.key} was about to delete it at 2026-11-20 02:00:00 "
        "UTC, and did not write down what became of it"
    )
    assert "--dry-run` shows whether it can bring it back" in found.reasons[-1].text


def test_a_report_that_cannot_be_read_is_no_report_that_says_nothing(written):
    older = marked(other(written, days=1))
    older.sweep({A: (4, "deleted", None)})
    (part,) = older.run.load(tables.DELETION_REPORT).manifest.parts
    written.run.store.put(part.key, b"damaged")
    said = "no report says who deleted it, as far as is known: what 1 run wrote cannot be read"
    assert said in explain(written.run, A).sentence


def test_a_damaged_verdict_or_report_does_not_hide_what_else_is_known(written):
    store, key = written.run.store, written.run.key
    written.sweep({A: (4, "deleted", None)})
    store.put(lakegc_keys.verdict_key(key), b"damaged")
    found = explain(written.run, A)
    assert found.state == "deleted"
    assert any(
        f"no sweep takes it: {lakegc_keys.verdict_key(key)}" in one.text for one in found.reasons
    )
    (part,) = written.run.load(tables.DELETION_REPORT).manifest.parts
    store.put(part.key, b"damaged")
    again = explain(other(written, days=0).run, A)
    assert again.state == "gone"
    assert any("what its sweep wrote cannot be read" in one.text for one in again.reasons)


def test_the_last_look_of_the_sweep_is_told_with_what_it_read(written):
    look = SecondLookFigures(
        began="2026-11-20T02:03:04+00:00",
        oldest_began="2026-11-20T02:03:00+00:00",
        seconds=1.0,
        calls=9,
        staged=(),
        commits=7,
        branches=3,
        tags=0,
        retained_commits=1_200,
        holds=0,
        twins=None,
    )
    written.sweep({A: (4, "deleted", None)}, second_look=look.facts())
    said = "its last look (branches: 3, retained commits: 1,200) began at 2026-11-20 02:03 UTC."
    assert any(one.text.endswith(said) for one in explain(written.run, A).reasons)


def test_a_pruned_run_is_answered_for_by_its_report(written):
    prune(written)
    unknown = explain(written.run, A)
    said = (
        "can no longer be read (pruned by `keep_runs`, or taken away), and no stored run deleted "
        f"it; a path is named as lakefs://repo/main/{A}"
    )
    assert unknown.sentence == f"the listing of run {written.run.key} {said}"
    written.sweep({A: (4, "deleted", None)})
    found = explain(written.run, A)
    assert (found.state, found.run) == ("deleted", str(written.run.key))
    assert "; in no commit, and not staged" in found.sentence, "as the report says"


def test_a_copy_in_quarantine_is_told_as_long_as_it_is_there(written):
    store, copy = written.run.store, key_of(written.run.key, A)
    store.put(copy, b"1234")
    written.sweep({A: (4, "deleted", None)}, quarantine_days=30, deleted_objects=1)
    assert explain(written.run, A).reasons[-1].text.startswith("What was deleted was moved to")
    store.delete([copy])  # the purge
    assert explain(written.run, A).reasons[-1].text == (
        "Nothing of it is in the run's quarantine. Only what the store itself keeps (versions, "
        f"soft delete) can bring it back: `lakegc restore repo {written.run.key} --dry-run` shows "
        "whether it can."
    )


def test_of_a_sweep_that_died_it_is_told_what_its_end_says_and_when_the_copy_is_gone(written):
    store, copy = written.run.store, key_of(written.run.key, A)
    store.put(copy, b"1234")
    written.journal({A: 4}, outcome=None)

    def way_back():
        found = explain(written.run, A)
        assert found.state == "gone"
        return found.reasons[-1].text

    assert way_back().startswith("The sweep has not ended: `lakegc restore repo")
    end = JournalEnd(str(written.run.key), "2026-11-21T02-00-00Z", NOW, 1, 4, 30, NOW, NOW)
    store.put(end_key(written.run.key), end.to_json())
    assert way_back().startswith(
        "The sweep left no report of its end: 1 objects lay in quarantine, until 2026-11-20 02:00 "
        "UTC at least. "
    )
    store.delete([copy])  # the purge
    assert way_back().startswith("Nothing of it is in the run's quarantine. Only what the store")
