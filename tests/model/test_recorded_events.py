"""Which words the events of a run make, and which make none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_core import lakegc_keys
from tests.support.recorded_events import Event, Judged, References, Replayed, words_of

OBJECT = "data/slice/object"


def _stored(kind: str, name: str = "_manifest.json") -> Event:
    return Event("store.put_if_absent", f"{lakegc_keys.ROOT}{kind}/run_id=r/{name}")


def _staged(*branches: str, kept: Sequence[str] = ()) -> Event:
    staged: Mapping[str, frozenset[str]] = {OBJECT: frozenset(branches)} if branches else {}
    return Event("people", now=References(staged, kept))


def _mark(*diffs: Event) -> list[Event]:
    return [
        Event("get_config"),
        Event("store.list", "data/slice/"),
        _stored(lakegc_keys.SLICES),
        Event("prepare_garbage_collection_uncommitted"),
        Event("prepare_garbage_collection_uncommitted"),
        Event("list_branches"),
        *diffs,
        Event("list_branches"),
        _stored(lakegc_keys.UNCOMMITTED),
        Event("dump_submit"),
        _stored(lakegc_keys.COMMITS),
        _stored(lakegc_keys.ADDRESSES, "_verdict.json"),
    ]


def _look(*diffs: Event) -> list[Event]:
    return [
        Event("store.list", lakegc_keys.LEASE),
        Event("store.put_if_absent", lakegc_keys.LEASE),
        Event("prepare_garbage_collection_uncommitted"),
        Event("list_branches"),
        *diffs,
        Event("list_branches"),
        Event("store.list", lakegc_keys.HOLDS),
        Event("store.put_if_absent", lakegc_keys.LEASE),
        _stored(lakegc_keys.REPORTS),
    ]


def _of(events: Sequence[Event], age: str = "old") -> tuple[list[str], dict[str, int]]:
    told = words_of(events, Judged({OBJECT: age}, (), None))
    return [" ".join(word) for word in told.words], dict(told.objects)


def test_a_move_between_two_branches_stands_between_their_readings():
    events = [
        _staged("b"),
        *_mark(
            Event("diff_branch", "a"),
            _staged("a"),
            Event("diff_branch", "b"),
            Event("list_objects"),
        ),
    ]
    assert _of(events) == (
        ["old =1 CUTOFF( ) LIST( ) SCAN( ) DIFF_0( ) =0 DIFF_1( ) REFS( ) VERDICT( ) unplanned"],
        {},
    )


def test_what_happens_between_a_diff_and_its_entries_happens_within_one_reading():
    diffs = (Event("diff_branch", "a"), _staged(kept=[OBJECT]), Event("list_objects"))
    ((word,), _) = _of([_staged("a"), *_mark(*diffs)])
    assert "DIFF_0( =r ) DIFF_1( )" in word


def test_a_change_that_the_object_does_not_see_is_no_letter():
    events = [_staged("a"), *_mark(Event("diff_branch", "a"), _staged("a"))]
    ((word,), _) = _of(events)
    assert word.count("=") == 1


def test_an_object_staged_on_three_branches_is_left_out_and_counted():
    events = [_staged("a", "b", "c"), *_mark(*(Event("diff_branch", name) for name in "abc"))]
    assert _of(events) == ([], {"staged on more than two branches": 1})


def test_readings_that_overlap_while_people_act_are_left_out_and_counted():
    read = [Event("diff_branch", name) for name in "abab"]
    assert _of([_staged("a", "b"), *_mark(*read)])[1] == {}
    read.insert(2, _staged("b"))
    assert _of([_staged("a", "b"), *_mark(*read)]) == (
        [],
        {"readings that overlap while people do something": 1},
    )


def test_what_a_sweep_lists_is_not_the_listing_of_a_mark_that_took_all_from_the_index():
    mark, listing = _mark(), Event("store.list", "data/slice/")
    mark.remove(listing)
    look = [_staged("a"), *_look(), listing]
    judged = Judged({OBJECT: "old"}, {OBJECT}, {OBJECT: "kept"})
    (word,) = words_of([_staged(), *mark, *look], judged).words
    assert " ".join(word).startswith("old = CUTOFF( ) LIST( ) SCAN( ) ")


def test_a_look_reads_branches_in_another_order_than_the_mark():
    one, other = (Event("diff_branch", name) for name in "ab")
    events = [_staged(), *_mark(one, other), _staged("a", "b"), *_look(other, one)]
    judged = Judged({OBJECT: "old"}, {OBJECT}, {OBJECT: "kept"})
    (word,) = words_of(events, judged).words
    assert " ".join(word).endswith("SCAN( ) DIFF_0+DIFF_1( ) REFS( ) BEAT( ) REPORT( ) kept")
    events.insert(events.index(other, events.index(other) + 1) + 1, _staged("a"))
    assert words_of(events, judged) == Replayed(
        objects=Counter({"readings that overlap while people do something": 1})
    )


def test_what_was_kept_although_nothing_referred_to_it_is_left_out_if_it_was_old():
    events = [_staged(), *_mark(Event("diff_branch", "a"))]
    assert _of(events) == ([], {"kept by what the model leaves out": 1})
    assert _of(events, "young")[1] == {}


def test_what_a_branch_has_compacted_is_a_letter_and_read_with_refs():
    now = References({}, (), {OBJECT: frozenset({"a"})})
    events = [Event("people", now=now), *_mark(Event("diff_branch", "a"))]
    tables = Event("store.children", "_lakefs")
    events.insert(events.index(Event("dump_submit")) + 1, tables)
    ((word,), _) = _of(events)
    assert word.startswith("old =0c CUTOFF( )")
    assert word.endswith("DIFF_1( ) REFS+BELOW( ) VERDICT( ) unplanned")
    events[0] = _staged("a")
    ((word,), _) = _of(events)
    assert "BELOW" not in word


def _requests(*, is_answered: bool = True) -> list[Event]:
    journal = f"{lakegc_keys.ROOT}{lakegc_keys.JOURNAL}/run_id=r/"
    there = [OBJECT]
    return [
        Event("store.put_if_absent", f"{journal}intent-0.parquet", there),
        Event("store.delete", "", there, answered=is_answered),
    ]


def _told(events: list[Event], left: Sequence[str]) -> str:
    judged = Judged({OBJECT: "old"}, {OBJECT}, None, left)
    (word,) = words_of(events, judged).words
    return " ".join(word)


def test_what_a_killed_request_did_is_not_known():
    *look, report = _look(Event("diff_branch", "a"))
    events = [_staged(), *_mark(Event("diff_branch", "a")), *look, *_requests(is_answered=False)]
    events.append(Event("kill"))
    begun = _told(events, ())
    assert begun.endswith("BEAT( ) INTENT( ) REQUEST+LANDS( KILL absent")
    assert _told([*events, *look, report], ()).startswith(begun.removesuffix("absent"))
    known = [replace(one, answered=True) for one in events]
    assert _told(known, [OBJECT]).endswith("REQUEST+LANDS( ) KILL there")


def test_a_sweep_that_is_killed_in_a_look_may_have_read_any_part_of_it():
    look = _look(Event("diff_branch", "a"))[:4]
    events = [_staged(), *_mark(Event("diff_branch", "a")), *look, Event("kill")]
    end = "TAKEN( ) SCAN+DIFF_0+DIFF_1+REFS+BELOW+BEAT( KILL there"
    assert _told(events, [OBJECT]).endswith(end)


def test_a_sweep_that_goes_on_need_not_look_once_an_outcome_was_written_down():
    *look, report = _look(Event("diff_branch", "a"))
    key = f"{lakegc_keys.ROOT}{lakegc_keys.JOURNAL}/run_id=r/outcome-0.parquet"
    outcome = Event("store.put_if_absent", key, [OBJECT], answered=False)
    events = [_staged(), *_mark(Event("diff_branch", "a")), *look, *_requests(), outcome]
    told = _told([*events, Event("kill"), *look, report], ())
    assert "OUTCOME( KILL LEASE( ) TAKEN( ) SCAN( ?) DIFF_0+DIFF_1( ?) REFS( ?)" in told
    assert told.endswith("BEAT( ?) REPORT( ) absent")


def test_a_mark_that_is_killed_is_told_up_to_there():
    events = [_staged("a"), *_mark(Event("diff_branch", "a"))]
    judged = Judged({OBJECT: "old"}, None, None, [OBJECT])
    ends = ["CUTOFF( ) KILL", "LIST( KILL", "SCAN+DIFF_0+DIFF_1( KILL", "REFS+BELOW( KILL"]
    for length, end in zip((2, 3, 6, 11), ends, strict=True):
        (word,) = words_of([*events[:length], Event("kill")], judged).words
        assert " ".join(word).endswith(f"{end} there")


def test_a_run_that_refuses_to_go_on_is_told_up_to_there_and_nothing_is_gone():
    mark = [_staged(), *_mark(Event("diff_branch", "a"))]
    look = _look(Event("diff_branch", "a"))[:4]
    for events, plan, end in (
        (mark[:1], None, "old = there"),
        (mark[:2], None, "old = CUTOFF( ) there"),
        (mark[:6], None, "LIST( ) SCAN+DIFF_0+DIFF_1( there"),
        (mark[:-1], None, "REFS( ) there"),
        ([*mark, *look], [OBJECT], "TAKEN( ) SCAN+DIFF_0+DIFF_1+REFS+BELOW+BEAT( there"),
    ):
        (word,) = words_of(events, Judged({OBJECT: "old"}, plan, None, [OBJECT])).words
        assert " ".join(word).endswith(end)


def test_what_is_left_out_is_told_by_its_causes():
    told = Replayed({("old", "=")}, 5, Counter({"older": 2, "lost": 1}))
    told += Replayed({("old", "="), ("young", "=")}, 2, Counter({"lost": 1}), Counter({"one": 3}))
    assert str(told) == (
        "2 different histories of 7 objects replayed on the model; left out: "
        "4 objects (lost: 2, older: 2), 3 marks and sweeps (one: 3)"
    )
    assert not Replayed()
    assert str(Replayed()).endswith("left out: 0 objects, 0 marks and sweeps")
