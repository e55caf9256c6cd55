"""What one task of a sweep does to a store: a last look, the intent, the deletion, the outcome.

And what it does not.
"""

import os
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Barrier, current_thread

import pyarrow as pa
import pytest

from spark_core import schemas
from spark_core.clocks import ClockReading
from spark_core.errors import IncompleteReadError, LeaseLostError, UnsafePlanError
from spark_core.records.journal import Journal
from spark_core.storage.local import LocalStore
from spark_core.storage.outcomes import DeleteOutcome, unpaced
from spark_core.sweep import delete_batches, recheck
from spark_core.sweep.deadline import Clocks, Deadline
from spark_core.sweep.delete_batches import DeletionOrders, run_task
from spark_core.sweep.pacing import Pacer, Rate
from tests.support.written_run import NOW, OLD, any_name, written_run

A, B, C, D, E = (f"data/s/{name}" for name in "abcde")
PLAN = pa.schema([*list(schemas.EXPIRED_ADDRESSES)[:3], pa.field("why", pa.string())])


class Clock:
    """A machine's clocks, which move only when told; the store's agrees with them."""

    def __init__(self):
        self.seconds = 0.0
        self.wall = lambda: NOW + timedelta(seconds=self.seconds)
        self.clocks = Clocks(
            self.wall, lambda: self.seconds, lambda _: ClockReading(timedelta(0), timedelta(0))
        )


class Store(LocalStore):
    """A local store that lists in order, as others do, notes what it is asked, and answers as a
    test wants.
    """

    def watch(self, clock):
        self.clock, self.deleted, self.listed, self.headed = clock, [], [], []
        self.answers, self.unreadable, self.takes, self.repeats, self.forgets = {}, set(), 0.0, 0, 0
        self.listing_takes = 0.0
        return self

    def list(self, prefix):
        if prefix.startswith("data/"):
            self.listed.append(prefix)
            self.clock.seconds += self.listing_takes
        if prefix in self.unreadable:
            raise IncompleteReadError(f"{prefix} could not be listed to its end.")
        if prefix.startswith("data/") and self.forgets:
            self.forgets -= 1
            return iter(())
        if not prefix.startswith("data/"):
            return super().list(prefix)
        listed = pa.Table.from_batches(super().list(prefix), schemas.OBJECT_LISTING)
        return iter(listed.sort_by("key").combine_chunks().to_batches())

    def head(self, key):
        self.headed.append(key)
        if key in self.unreadable:
            raise IncompleteReadError(f"{key} could not be asked for.")
        return super().head(key)

    def delete(self, keys, *, pace=unpaced):
        for _ in range(1 + self.repeats):
            pace()
            self.clock.seconds += self.takes
        self.deleted.append(list(keys))
        rest = iter(super().delete([key for key in keys if key not in self.answers]))
        return [self.answers.get(key) or next(rest) for key in keys]


class Case:
    def __init__(self, folder):
        run = written_run(folder, spark=None).run
        self.clock = Clock()
        self.folder = folder / "repo"
        self.store = Store(run.namespace, run.store.options).watch(self.clock)
        self.journal = Journal(self.store, str(run.key), "5" * 64)
        deadline = Deadline(NOW + timedelta(minutes=10), NOW, timedelta(0))
        self.orders = DeletionOrders(
            self.journal,
            any_name(run.cutoff, flat=True),
            deadline,
            "ab",
            1,
            batch_rows=3,
            lot_rows=1,
            clocks=self.clock.clocks,
        )

    def plant(self, *addresses, data=b"1234", written=OLD):
        for address in addresses:
            self.store.put(address, data)
            os.utime(self.folder / address, (written.timestamp(), written.timestamp()))

    def run(self, *addresses, why=None, **orders):
        rows = [
            {
                "address": address,
                "size_bytes": 4,
                "last_modified": OLD,
                "why": (why or {}).get(address),
            }
            for address in sorted(addresses)
        ]
        return run_task(replace(self.orders, **orders), 0, pa.Table.from_pylist(rows, schema=PLAN))

    def journaled(self, kind):
        """Rows of the journal, batch by batch: address -> (outcome, error)."""
        parts = sorted(
            (part for part in self.journal.parts() if part.kind == kind),
            key=lambda part: part.batch,
        )
        return [
            {
                row["address"]: (row["outcome"], row["error"])
                for row in self.journal.read(part).to_pylist()
            }
            for part in parts
        ]

    def outcomes(self):
        return {
            address: told for rows in self.journaled("outcome") for address, told in rows.items()
        }

    def there(self):
        return {
            key
            for batch in LocalStore.list(self.store, "data/")
            for key in batch.column("key").to_pylist()
        }


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
    monkeypatch.setattr(recheck, "HEADS", 1)
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


def test_what_is_overwritten_before_its_request_is_begun_a_minute_later_is_left_to_the_next_round(
    case, monkeypatch
):
    monkeypatch.setattr(recheck, "HEADS", 1)
    first, second = (
        [f"data/s/{number}" for number in range(6)],
        [f"data/t/{number}" for number in range(6)],
    )
    case.plant(*first, *second)
    listed = case.store.list

    def slow(prefix):
        if prefix == "data/t/":
            case.clock.seconds += 61.0
            case.plant(first[2], data=b"12345")
            case.store.unreadable = {first[4]}
        return listed(prefix)

    case.store.list = slow
    tally = case.run(*first, *second, batch_rows=6, lot_rows=100)
    assert sorted(case.store.headed) == [*first, *second], "both pages were asked for a minute ago"
    assert case.outcomes()[first[2]] == case.outcomes()[first[4]] == ("unsent", None)
    assert tally.objects == {"deleted": 10, "unsent": 2}
    case.store.unreadable = set()
    case.run(first[2], first[4], sweep="ac")
    assert case.outcomes()[first[2]] == (
        "kept",
        "changed since the mark: it has 5 bytes, the mark saw 4",
    )
    assert case.there() == {first[2]}


def test_a_request_that_waits_for_the_ones_before_it_asks_once_more(case):
    many = [f"data/s/{number:03}" for number in range(40)]
    case.plant(*many)
    case.store.delete_batch_size = 20
    case.store.takes = 61.0
    delete = case.store.delete

    def overwriting(keys, *, pace):
        case.plant(many[30], data=b"12345")
        return delete(keys, pace=pace)

    case.store.delete = overwriting
    tally = case.run(*many, batch_rows=40, lot_rows=100, requests_at_once=1)
    assert sorted(case.store.headed) == many[20:]
    assert tally.objects == {"deleted": 39, "unsent": 1}
    assert case.there() == {many[30]}


def test_the_requests_of_a_lot_go_side_by_side_and_each_object_has_the_answer_of_its_own(case):
    many = [f"data/s/{number:03}" for number in range(40)]
    case.plant(*many)
    case.store.delete_batch_size = 10
    case.store.answers = {key: DeleteOutcome(key, "refused", "AccessDenied") for key in many[::10]}
    threads, together, delete = set(), Barrier(4, timeout=60), case.store.delete

    def meeting(keys, *, pace):
        threads.add(current_thread().name)
        together.wait()
        return delete(keys, pace=pace)

    case.store.delete = meeting
    tally = case.run(*many, batch_rows=10, lot_rows=100)
    assert len(threads) == 4
    assert tally.objects == {"deleted": 36, "refused": 4}
    assert {key for key, (outcome, _) in case.outcomes().items() if outcome == "refused"} == set(
        many[::10]
    )
    assert case.there() == set(many[::10])


def test_what_was_answered_before_an_answer_that_ends_the_sweep_is_written_down(case):
    many = [f"data/s/{number:03}" for number in range(40)]
    case.plant(*many)
    case.store.delete_batch_size = 10
    case.store.answers = {many[25]: DeleteOutcome(B, "deleted")}
    with pytest.raises(UnsafePlanError, match="what it did is unknown"):
        case.run(*many, batch_rows=40, lot_rows=100, requests_at_once=1)
    assert case.outcomes() == dict.fromkeys(many[:20], ("deleted", None))
    assert case.store.deleted[-1] == many[20:30], "nothing is sent behind it"


def test_killed_while_requests_go_side_by_side_it_leaves_an_intent_and_the_next_sweep_finds_out(
    case,
):
    many = [f"data/s/{number:03}" for number in range(40)]
    case.plant(*many)
    case.store.delete_batch_size = 10
    delete = case.store.delete

    def dying(keys, *, pace):
        told = delete(keys, pace=pace)
        if many[20] in keys:
            raise KeyboardInterrupt
        return told

    case.store.delete = dying
    with pytest.raises(KeyboardInterrupt):
        case.run(*many, batch_rows=40, lot_rows=100)
    assert [set(rows) for rows in case.journaled("intent")] == [set(many)]
    assert case.journaled("outcome") == []
    gone = set(many) - case.there()
    assert set(many[20:30]) <= gone
    case.store.delete = delete
    tally = case.run(*many, batch_rows=40, lot_rows=100, sweep="ac")
    assert tally.objects == Counter(already_gone=len(gone), deleted=40 - len(gone)) - Counter()
    assert case.there() == set()


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


@pytest.mark.parametrize("rows", [1, recheck.HEADS + 1], ids=["asked one by one", "listed"])
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
    "rows", [recheck.HEADS + 1, 2 * recheck.HEADS], ids=["all of them", "many times"]
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
    many = [f"data/s/{number:03}" for number in range(recheck.HEADS + 3)]
    case.plant(*many[3:])
    tally = case.run(*many, batch_rows=1000)
    assert tally.objects == {"already_gone": 3, "deleted": recheck.HEADS}
    assert case.store.listed == ["data/s/"]
    assert sorted(case.store.headed) == many[:3]


def test_a_slice_is_listed_no_more_than_twice_however_much_of_it_is_gone(case):
    many = [f"data/s/{number:03}" for number in range(300)]
    case.plant(*many[250:])
    tally = case.run(*many, batch_rows=100)
    assert tally.objects == {"already_gone": 250, "deleted": 50}
    assert case.store.listed == ["data/s/", "data/s/"]


def test_an_error_of_the_last_look_fails_the_batch_and_deletes_nothing_of_it(case, monkeypatch):
    monkeypatch.setattr(recheck, "HEADS", 1)
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


def test_refusals_and_failures_of_the_store_are_told_object_by_object(case):
    case.plant(A, B, C)
    case.store.answers = {
        A: DeleteOutcome(A, "refused", "AccessDenied"),
        B: DeleteOutcome(B, "failed", "SlowDown"),
    }
    tally = case.run(A, B, C)
    assert case.outcomes() == {
        A: ("refused", "AccessDenied"),
        B: ("failed", "SlowDown"),
        C: ("deleted", None),
    }
    assert tally.left == [(A, "refused", "AccessDenied"), (B, "failed", "SlowDown")]


def test_an_object_that_was_there_and_is_gone_when_asked_for_again_counts_as_deleted(case):
    case.plant(A)
    case.store.answers = {A: DeleteOutcome(A, "already_gone")}
    case.run(A)
    assert case.outcomes() == {A: ("deleted", None)}


def test_a_store_that_answers_for_other_objects_ends_the_sweep_and_leaves_its_intent(case):
    case.plant(A, B)
    case.store.answers = {A: DeleteOutcome(B, "deleted")}
    with pytest.raises(UnsafePlanError, match="what it did is unknown"):
        case.run(A, B)
    assert case.journaled("outcome") == []
    assert [set(rows) for rows in case.journaled("intent")] == [{A, B}]


def test_a_row_that_may_not_be_deleted_at_all_stops_its_batch(case):
    case.plant(A)
    case.store.put("_lakefs/x", b"1234")
    with pytest.raises(
        UnsafePlanError, match=r"the plan names '_lakefs/x', which lies outside data/"
    ):
        case.run(A, "_lakefs/x")
    assert case.there() == {A}


class TestADeadline:
    """A round's end falls into the work of a task."""

    def test_nothing_is_sent_after_it_and_what_is_left_is_told(self, case):
        case.plant(A, B, C, D, E)
        case.store.takes = 601.0
        tally = case.run(A, B, C, D, E)
        assert case.store.deleted == [[A, B, C]]
        assert case.there() == {D, E}
        assert tally.objects == {"deleted": 3, "unsent": 2}
        assert [set(rows) for rows in case.journaled("intent")] == [{A, B, C}], (
            "what is not sent is not intended"
        )

    def test_a_repetition_is_a_request_too_and_leaves_the_intent_open(self, case):
        case.plant(A, B)
        case.store.takes, case.store.repeats = 601.0, 1
        tally = case.run(A, B)
        assert tally.objects == {"unsent": 2}
        assert case.journaled("outcome") == [], "nobody knows what the first request did"
        assert [set(rows) for rows in case.journaled("intent")] == [{A, B}]

    def test_it_ends_a_lot_that_waits_for_a_limit_at_once_and_asks_nothing_of_the_store(
        self, case, monkeypatch
    ):
        def wait(seconds):
            case.clock.seconds += seconds

        paced = partial(Pacer, now=lambda: case.clock.seconds, sleep=wait)
        monkeypatch.setattr(delete_batches, "Pacer", paced)
        many = [f"data/s/{number:03}" for number in range(40)]
        case.plant(*many)
        asked = []

        def dispose(store, keys, pace):
            asked.append(keys)
            return store.delete(keys, pace=pace)

        case.clock.seconds = 590.0
        tally = case.run(*many, batch_rows=40, deletes_per_second=1.0, dispose=dispose)
        assert tally.objects["unsent"] == 40 - tally.objects["deleted"]
        assert case.clock.seconds < 605.0, "not the rest of the lot's seconds"
        assert len(asked) <= tally.objects["deleted"] + 1, (
            "copies into quarantine are made before the pace is asked"
        )

    def test_nothing_is_copied_where_it_passed_while_the_store_was_asked_once_more(self, case):
        many = [f"data/s/{number:03}" for number in range(40)]
        case.plant(*many)
        case.store.delete_batch_size = 20
        disposed, head = [], case.store.head

        def dispose(store, keys, pace):
            disposed.append(keys)
            case.clock.seconds += 61.0
            return store.delete(keys, pace=pace)

        def slow(key):
            case.clock.seconds = 601.0
            return head(key)

        case.clock.seconds = 500.0
        case.store.head = slow
        tally = case.run(*many, batch_rows=40, lot_rows=40, requests_at_once=1, dispose=dispose)
        assert disposed == [many[:20]]
        assert tally.objects == {"deleted": 20, "unsent": 20}

    def test_what_needs_no_asking_is_written_down_even_then(self, case):
        case.plant(A, B)
        look = case.store.head

        def slow(key):
            case.clock.seconds = 601.0
            return look(key)

        case.store.head = slow
        tally = case.run(A, B, C, why={A: "a tag"})
        assert tally.objects == {"kept": 1, "already_gone": 1, "unsent": 1}
        assert case.journaled("intent") == []
        assert case.there() == {A, B}

    def test_a_short_round_sends_what_it_looked_at(self, case):
        first, second = (
            [f"data/s/{number}" for number in range(3)],
            [f"data/t/{number}" for number in range(3)],
        )
        case.plant(*first, *second)
        look = case.store.head

        def slow(key):
            case.clock.seconds += 1.0
            return look(key)

        case.store.head = slow
        case.clock.seconds = 592.0
        tally = case.run(*first, *second, batch_rows=3, lot_rows=100)
        assert tally.objects["deleted"] >= 3

    def test_requests_that_never_began_are_taken_back(self, case, monkeypatch):
        monkeypatch.setattr(Store, "delete_batch_size", 2)
        case.plant(A, B, C)
        case.store.takes = 601.0
        tally = case.run(A, B, C, requests_at_once=1)
        assert tally.objects == {"deleted": 2, "unsent": 1}
        assert case.outcomes() == {A: ("deleted", None), B: ("deleted", None), C: ("unsent", None)}

    def test_a_task_that_begins_after_it_does_nothing(self, case):
        case.plant(A)
        case.clock.seconds = 600.0
        assert case.run(A).objects == {"unsent": 1}
        assert case.journal.parts() == []
        assert case.there() == {A}

    def test_a_tenth_of_a_second_before_it_may_still_send(self, case):
        case.plant(A)
        case.clock.seconds = 599.9
        assert case.run(A).objects == {"deleted": 1}


def test_a_task_that_begins_after_the_end_of_its_lease_was_found_deletes_nothing(case, tmp_path):
    case.plant("data/s/a")
    lock = tmp_path / "lock"
    lock.write_text(f"{'0' * 36} 1:2\n1000.000\n")
    with pytest.raises(LeaseLostError, match="another process has ended the lease"):
        case.run("data/s/a", tasks_lock=str(lock))
    assert case.store.deleted == []
    lock.write_text(f"{'0' * 36} 1:2\n")
    assert case.run("data/s/a", tasks_lock=str(lock)).objects == {"deleted": 1}


def test_a_busy_store_slows_the_task_down_and_the_tally_says_so(case):
    case.plant(A, B, C)

    def dispose(store, keys, pace):
        pace()
        if keys == [A, B, C]:
            pace.busy(2)
            pace()
        return store.delete(keys)

    tally = case.run(A, B, C, rate=Rate(1_000.0), sweep="busy", dispose=dispose)
    assert (tally.objects, tally.busy, tally.paces) == ({"deleted": 3}, 1, [500.0])
    assert case.run(A, rate=Rate(1_000.0), sweep="idle").paces == [], "never busy"
