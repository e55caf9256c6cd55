"""What one task of a sweep does to a store: a last look, the intent, the deletion, the outcome.

And what it does not.
"""

from datetime import UTC, datetime, timedelta

import pytest

from spark_core.errors import LeaseLostError, UnsafePlanError
from spark_core.sweep import objects_now
from tests.support.deleting_task import A, B, C, Case, D, E
from tests.support.written_run import OLD


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def test_a_batch_is_intended_before_it_is_sent_and_concluded_after(case):
    case.plant(A, B, C, D, E)
    tally = case.run(A, B, C, D, E)
    assert case.store.deleted == [[A, B, C], [D, E]]
    assert [set(rows) for rows in case.journaled("intent")] == [{A, B, C}, {D, E}]
    assert case.outcomes() == dict.fromkeys((A, B, C, D, E), ("deleted", None))
    assert (tally.objects, tally.size_bytes) == ({"deleted": 5}, {"deleted": 20})
    assert case.there() == set()


def test_a_lot_of_several_batches_has_one_intent_and_one_outcome(case):
    case.plant(A, B, C, D, E)
    tally = case.run(A, B, C, D, E, lot_rows=5)
    assert [set(rows) for rows in case.journaled("intent")] == [{A, B, C, D, E}]
    assert case.journaled("outcome") == [dict.fromkeys((A, B, C, D, E), ("deleted", None))]
    assert tally.objects == {"deleted": 5}
    assert case.there() == set()


def test_what_was_looked_at_ten_seconds_ago_waits_for_no_other_batch(case, monkeypatch):
    monkeypatch.setattr(objects_now, "HEADS", 1)
    first, second = (
        [f"data/s/{number}" for number in range(6)],
        [f"data/t/{number}" for number in range(6)],
    )
    case.plant(*first, *second)
    case.store.listing_takes = 5.0
    case.run(*first, *second, batch_rows=6, lot_rows=100)
    assert len(case.journaled("intent")) == 1
    case.plant(*first, *second)
    case.store.listing_takes = 10.0
    case.run(*first, *second, batch_rows=6, lot_rows=100, sweep="ac")
    assert [set(rows) for rows in case.journaled("intent")][1:] == [set(first), set(second)]


def test_what_is_gone_before_is_neither_intended_nor_asked_for(case):
    case.plant(A)
    tally = case.run(A, B)
    assert case.store.deleted == [[A]]
    assert case.journaled("intent") == [{A: ("intended", None)}]
    assert case.outcomes() == {A: ("deleted", None), B: ("already_gone", None)}
    assert tally.objects == {"deleted": 1, "already_gone": 1}


def test_what_something_references_again_is_kept_and_why_is_said(case):
    case.plant(A, B)
    case.run(A, B, C, why={A: "staged on main", C: "staged on main"})
    assert case.there() == {A}
    assert case.outcomes() == {
        A: ("kept", "referenced again: staged on main"),
        B: ("deleted", None),
        C: ("already_gone", None),
    }, "what is gone is not called kept"


@pytest.mark.parametrize("rows", [1, objects_now.HEADS + 1], ids=["asked one by one", "listed"])
def test_an_object_that_was_overwritten_since_the_mark_is_kept(case, rows):
    others = [f"data/s/x{number:03}" for number in range(rows - 1)]
    case.plant(*others)
    case.plant(A, written=OLD + timedelta(seconds=1))
    case.plant(B, data=b"12345")
    case.plant(C, data=b"12345", written=datetime.now(UTC))
    case.run(A, B, C, *others, batch_rows=1000)
    assert case.there() == {A, B, C}
    told = case.outcomes()
    assert told[A][0] == told[B][0] == told[C][0] == "kept"
    assert "changed since the mark: it was written at 2026-11-10T02:00:01" in told[A][1]
    assert told[B][1] == "changed since the mark: it has 5 bytes, the mark saw 4"
    assert bool(case.store.listed) == (rows > 1)


def test_each_slice_is_listed_once_and_few_objects_are_asked_for_one_by_one(case):
    many = [f"data/{name}/{number:03}" for name in ("s", "t") for number in range(100)]
    case.plant(*many, "data/u/1", "data/direct")
    tally = case.run(*many, "data/u/1", "data/direct", batch_rows=50)
    assert case.store.listed == ["data/s/", "data/t/"]
    assert sorted(case.store.headed) == ["data/direct", "data/u/1"]
    assert tally.objects == {"deleted": 202}


@pytest.mark.parametrize(
    "rows", [objects_now.HEADS + 1, 2 * objects_now.HEADS], ids=["all of them", "many times"]
)
def test_what_one_listing_leaves_out_is_no_absent_object(case, rows):
    many = [f"data/s/{number:03}" for number in range(rows)]
    case.plant(*many)
    case.store.forgets = 1
    tally = case.run(*many, batch_rows=1000)
    assert tally.objects == {"deleted": rows}
    assert case.store.listed == ["data/s/", "data/s/"]
    assert case.there() == set()


def test_few_objects_that_a_listing_leaves_out_are_asked_for_one_by_one(case):
    many = [f"data/s/{number:03}" for number in range(objects_now.HEADS + 3)]
    case.plant(*many[3:])
    tally = case.run(*many, batch_rows=1000)
    assert tally.objects == {"already_gone": 3, "deleted": objects_now.HEADS}
    assert case.store.listed == ["data/s/"]
    assert sorted(case.store.headed) == many[:3]


def test_a_slice_is_listed_no_more_than_twice_however_much_of_it_is_gone(case):
    many = [f"data/s/{number:03}" for number in range(300)]
    case.plant(*many[250:])
    tally = case.run(*many, batch_rows=100)
    assert tally.objects == {"already_gone": 250, "deleted": 50}
    assert case.store.listed == ["data/s/", "data/s/"]


def test_an_error_of_the_last_look_fails_the_batch_and_deletes_nothing_of_it(case, monkeypatch):
    monkeypatch.setattr(objects_now, "HEADS", 1)
    case.plant(A, B, "data/t/x")
    case.store.unreadable = {"data/s/"}
    tally = case.run(A, B, C, "data/t/x", why={C: "a tag"}, batch_rows=1000)
    assert case.there() == {A, B}
    told = case.outcomes()
    assert told["data/t/x"] == ("deleted", None)
    assert told[C] == ("kept", "referenced again: a tag")
    assert told[A][0] == told[B][0] == "failed"
    assert (
        "could not be looked at before the deletion: data/s/ could not be listed to its end"
        in told[A][1]
    )
    assert tally.left == [(A, "failed", told[A][1]), (B, "failed", told[B][1])]


def test_an_object_that_cannot_be_asked_for_is_no_absent_one(case):
    case.plant(A)
    case.store.unreadable = {A}
    case.run(A)
    assert case.outcomes()[A][0] == "failed"
    assert case.there() == {A}


def test_a_row_that_may_not_be_deleted_at_all_stops_its_batch(case):
    case.plant(A)
    case.store.put("_lakefs/x", b"1234")
    with pytest.raises(
        UnsafePlanError, match=r"the plan names '_lakefs/x', which lies outside data/"
    ):
        case.run(A, "_lakefs/x")
    assert case.there() == {A}


def test_a_task_that_begins_after_the_end_of_its_lease_was_found_deletes_nothing(case, tmp_path):
    case.plant("data/s/a")
    lock = tmp_path / "lock"
    lock.write_text(f"{'0' * 36} 1:2\n1000.000\n")
    with pytest.raises(LeaseLostError, match="another process has ended the lease"):
        case.run("data/s/a", tasks_lock=str(lock))
    assert case.store.deleted == []
    lock.write_text(f"{'0' * 36} 1:2\n")
    assert case.run("data/s/a", tasks_lock=str(lock)).objects == {"deleted": 1}
