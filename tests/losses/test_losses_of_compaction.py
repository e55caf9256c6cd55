"""Losses on a server that compacts what is staged into a metarange that no commit names."""

from __future__ import annotations

from typing import Any

import pytest

from lakegc_dagster.sandbox import gc, objects
from spark_core import graveler, sweep
from spark_core.checks.alive import commits_are_known
from spark_core.errors import CorruptTableError, IncompleteReadError, NotFoundError
from spark_core.records import tables
from spark_core.references.compacted import compacted_metaranges
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.document import Period, Policy, Rule
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage.local import LocalStore
from tests.support.hidden_entries import HidingPlace
from tests.support.stored_rows import rows_of

pytestmark = pytest.mark.spark


@pytest.fixture
def place(sandbox: Any, spark: Any) -> HidingPlace:
    found = HidingPlace(sandbox, spark)
    found.committed(50, "q", b"base")
    return found


@pytest.mark.parametrize("over_it", [b"same", b"other"], ids=["alike", "another"])
def test_63_a_compacted_entry_came_back_from_under_the_one_that_hid_it(
    place: HidingPlace, over_it: bytes
) -> None:
    old = place.upload(40, "p")
    place.compact(39)
    newer = place.upload(30, "p", over_it)
    assert place.reads("p") == newer
    assert place.collect() == set()
    place.upload(0, "p")
    place.commit(0)
    assert place.reads("p") == old, "the commit kept the entry that was compacted"


def test_63_an_entry_like_the_committed_one_hid_over_a_compacted_one_and_was_committed(
    place: HidingPlace,
) -> None:
    place.committed(49, "p")
    place.upload(40, "p", b"other")
    place.compact(39)
    twin = place.upload(30, "p")
    # The scan shows what was compacted, and the branch another object.
    assert place.collect() == set()
    assert place.reads("p") == twin
    place.commit(0)
    assert place.reads("p") == twin


def test_63_what_was_compacted_and_then_deleted_refuses_until_the_branch_is_reset(
    place: HidingPlace,
) -> None:
    place.upload(40, "p")
    place.compact(39)
    with place.ago(30):
        objects.delete(place.core, "repo", "main", ["p"])
    with pytest.raises(IncompleteReadError, match=r"in the diff and cannot be looked up.*'p'"):
        place.collect()
    with place.ago(0):
        objects.reset(place.core, "repo", "main", "reset")
    place.collect()


def test_63_what_was_compacted_after_the_mark_came_back_after_the_sweep(place: HidingPlace) -> None:
    dead = place.upload(40, "scratch", b"garbage")
    place.upload(39, "scratch", b"other")
    place.compact(38)
    run, marked = place.mark(1)
    assert set(marked.addresses(run)) == {dead}
    # Staged again by hand, compacted, and hidden, all between the mark and the sweep.
    place.stage(0.9, "p", dead, size=7, checksum="said")
    place.compact(0.8)
    place.upload(0.7, "p", b"newer")
    place.sandbox.clock.set(run.now())
    report = run.keep(sweep.sweep(run))
    (row,) = rows_of(report, ["address", "outcome", "error"])
    assert (row.address, row.outcome) == (dead, "kept")
    assert "staged entries that the server compacted" in row.error


def test_63_the_tables_of_a_branch_were_taken_for_garbage(place: HidingPlace) -> None:
    dead = place.upload(40, "scratch", b"garbage")
    place.upload(39, "scratch", b"other")
    metarange = place.compact(39)
    before = {file.name for file in place.file("_lakefs").iterdir()}
    assert place.collect() == {dead}
    assert before <= {file.name for file in place.file("_lakefs").iterdir()}
    assert place.file(metarange).exists()
    assert place.reads("scratch")


def test_what_every_branch_has_left_behind_keeps_nothing(place: HidingPlace) -> None:
    place.branch(45, "rests")
    old = place.upload(40, "p")
    place.compact(39)
    place.upload(30, "p", b"other")
    place.commit(29)
    assert place.collect(1) == set(), "the other branch's head is older than the metarange"
    place.drop_branch(1, "rests")
    assert place.collect() == {old}


def test_63_a_hard_reset_kept_what_was_compacted_long_before_the_head_was_made(
    place: HidingPlace,
) -> None:
    place.committed(45, "later", b"later")
    place.branch(44, "dev", "main~1")
    old = place.upload(40, "p", branch="dev")
    place.compact(39, "dev")
    place.upload(30, "p", b"other", "dev")
    place.committed(20, "last", b"last")
    place.mark(15)
    place.hard_reset(10, "dev", "main")
    assert old not in place.collect()
    place.upload(0, "p", branch="dev")
    place.commit(0, "dev")
    assert place.reads("p", "dev") == old


def test_no_rule_for_what_is_staged_takes_what_was_compacted(place: HidingPlace) -> None:
    below, alone = place.upload(40, "p"), place.upload(40, "alone")
    place.compact(39)
    over = place.upload(30, "p", b"other")
    run = place.run()
    versions.store_version(
        run, Policy((Rule("main", "", {"uncommitted": Period(days=2)}),)), who="test"
    )
    newest = versions.newest(run)
    assert newest is not None
    confirmed.confirm(run, newest, "test")
    assert place.collect(policies="sweep") == {over}
    for kept in (below, alone):
        assert place.file(kept).exists()


def test_metaranges_of_the_open_server_are_not_looked_for(place: HidingPlace) -> None:
    old = place.upload(40, "p")
    place.compact(39)
    place.upload(30, "p", b"other")
    place.core.behaviour.edition = "lakeFS"
    assert place.collect() == {old}


def test_who_says_that_the_server_does_not_compact_is_believed(place: HidingPlace) -> None:
    old = place.upload(40, "p")
    place.compact(39)
    place.upload(30, "p", b"other")
    assert place.collect(compacted="ignore") == {old}


def test_rows_of_metaranges_are_not_counted_as_commits(place: HidingPlace) -> None:
    place.upload(40, "p")
    place.compact(39)
    run, _ = place.mark()
    manifest = run.load(tables.RETAINED_COMMITS).manifest
    found = commits_are_known(run, {manifest.table: manifest})
    assert (
        found.summary
        == "2 of 2 commits keep their objects; so do 1 metaranges that no retained commit names"
    )


def test_a_table_that_cannot_be_told_ends_the_mark(place: HidingPlace) -> None:
    place.upload(40, "p")
    place.file(place.compact(39)).write_bytes(b"no table")
    with pytest.raises(CorruptTableError, match='set `compacted = "ignore"`'):
        place.mark()


def test_a_lost_range_of_what_was_compacted_is_named(place: HidingPlace) -> None:
    before = {file.name for file in place.file("_lakefs").iterdir()}
    place.upload(40, "p")
    metarange = place.compact(39).rpartition("/")[2]
    (lost,) = {file.name for file in place.file("_lakefs").iterdir()} - before - {metarange}
    place.file(f"_lakefs/{lost}").unlink()
    with pytest.raises(
        NotFoundError, match=r"compacted.* and of no retained commit.*does not compact"
    ):
        place.mark()


def test_a_table_is_read_whole_where_its_end_does_not_tell(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graveler, "END_BYTES", 100)
    old = place.upload(40, "p")
    place.compact(39)
    place.upload(30, "p", b"other")
    assert place.collect() == set()
    assert place.file(old).exists()


def test_63_what_was_compacted_was_once_an_expired_commit_that_a_hard_reset_left_to_the_branch(
    place: HidingPlace,
) -> None:
    gc.set_rules(place.core, place.name, gc.Rules(10, {}))
    old = place.committed(49, "p")
    place.committed(48, "x", b"x")
    place.branch(47, "dev")
    place.committed(46, "p", b"other")
    with place.ago(40):
        objects.delete(place.core, place.name, "dev", ["x"])
    # The branch without "x" is the commit of 49 days ago again, to the byte.
    place.compact(39, "dev")
    place.mark(35)
    place.hard_reset(34, "dev", "main")
    assert place.reads("p", "dev") == old
    place.upload(30, "p", b"newer", "dev")
    assert old not in place.collect()
    place.upload(0, "p", branch="dev")
    place.commit(0, "dev")
    assert place.reads("p", "dev") == old


@pytest.mark.parametrize("told", ["keep", "ignore"])
def test_63_a_rule_for_what_is_noncurrent_took_what_a_branch_had_compacted(
    place: HidingPlace, told: str
) -> None:
    old = place.committed(49, "p")
    place.branch(47, "dev")
    place.committed(46, "p", b"other")
    place.upload(40, "z", b"z", "dev")
    place.compact(39, "dev")
    place.mark(35)
    place.hard_reset(34, "dev", "main")
    place.upload(30, "p", b"newer", "dev")
    place.mark(20)
    noncurrent_is_due(place)
    gone = place.collect(policies="sweep", compacted=told)
    assert gone == ({old} if told == "ignore" else set())
    if told == "ignore":
        return
    place.upload(0, "p", branch="dev")
    place.commit(0, "dev")
    assert place.reads("p", "dev") == old


@pytest.mark.slow
def test_63_a_rule_for_what_is_noncurrent_took_what_was_compacted_after_the_mark(
    place: HidingPlace,
) -> None:
    place.core.behaviour.edition = "lakeFS-Enterprise"
    old = place.committed(49, "p")
    checksum = place.checksum("p")
    place.committed(46, "p", b"other")
    place.branch(45, "dev")
    place.mark(20)
    noncurrent_is_due(place)
    run, marked = place.mark(1, policies="sweep")
    assert set(marked.addresses(run)) == {old}
    place.stage(0.9, "p", old, size=4, checksum=checksum, branch="dev")
    place.compact(0.8, "dev")
    place.upload(0.7, "p", b"newer", "dev")
    place.sandbox.clock.set(run.now())
    report = run.keep(sweep.sweep(run))
    (row,) = rows_of(report, ["address", "outcome", "error"])
    assert (row.address, row.outcome) == (old, "kept")
    assert "not let go any more" in row.error


def noncurrent_is_due(place: HidingPlace) -> None:
    run = place.run()
    versions.store_version(
        run, Policy((Rule("main", "", {"noncurrent": Period(days=5)}),)), who="test"
    )
    newest = versions.newest(run)
    assert newest is not None
    confirmed.confirm(run, newest, "test")


def test_63_an_empty_listing_of_the_servers_tables_is_not_taken_for_nothing(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.core.behaviour.edition = "lakeFS-Enterprise"
    place.committed(40, "p")
    empty = ([], OBJECT_LISTING.empty_table())
    monkeypatch.setattr(LocalStore, "children", lambda *_: empty)
    with pytest.raises(IncompleteReadError, match=r"lacks \d+ metaranges of retained commits"):
        compacted_metaranges(place.run(), "_lakefs", ["a" * 64], {}, since=None)
