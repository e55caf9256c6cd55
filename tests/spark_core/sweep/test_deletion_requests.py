"""The requests of a task that deletes: side by side, at a pace, and none after its deadline."""

from collections import Counter
from datetime import timedelta
from functools import partial
from threading import Barrier, current_thread

import pytest

from spark_core.errors import UnsafePlanError
from spark_core.storage.outcomes import DeleteOutcome
from spark_core.sweep import deletion_requests, objects_now, quarantine
from spark_core.sweep.pacing import Pacer, Rate
from tests.support.deleting_task import A, B, C, Case, D, E, Store
from tests.support.written_run import OLD


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def test_what_is_overwritten_before_its_request_is_begun_a_minute_later_is_left_to_the_next_round(
    case, monkeypatch
):
    monkeypatch.setattr(objects_now, "HEADS", 1)
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


def test_what_somebody_else_deletes_before_it_is_copied_to_quarantine_was_not_deleted_by_the_sweep(
    case,
):
    case.plant(A, B)

    def dispose(store, rows, pace):
        store.delete([A], pace=pace)
        return quarantine.move(store, "2026-11-20T02-00-00Z", list(rows), seen=rows, pace=pace)

    case.run(A, B, dispose=dispose)
    assert case.outcomes() == {A: ("unsent", None), B: ("deleted", None)}
    case.run(A, dispose=dispose, sweep="ac")
    assert case.outcomes()[A] == ("already_gone", None)


@pytest.mark.parametrize(
    ("data", "written", "why"),
    [
        (b"12345", OLD, "it has 5 bytes, the mark saw 4"),
        (b"5678", OLD + timedelta(seconds=1), "it was written at 2026-11-10T02:00:01"),
        (b"5678", OLD - timedelta(seconds=1), None),
    ],
    ids=["longer", "younger", "older"],
)
def test_what_is_written_again_between_the_look_and_the_move_stays_and_is_looked_at_anew(
    case, data, written, why
):
    case.plant(A, B)

    def dispose(store, rows, pace):
        case.plant(A, data=data, written=written)
        return quarantine.move(store, "2026-11-20T02-00-00Z", list(rows), seen=rows, pace=pace)

    case.run(A, B, dispose=dispose)
    assert case.outcomes() == {A: ("unsent", None), B: ("deleted", None)}
    assert case.store.read(A) == data
    assert not case.store.exists(quarantine.key_of("2026-11-20T02-00-00Z", A))
    # A time that is earlier than the listed one says nothing, so this object is seen as it is now.
    case.run(A, dispose=dispose, sweep="ac")
    outcome, words = case.outcomes()[A]
    assert (outcome, words and why in words) == (("kept", True) if why else ("deleted", None))


def test_a_store_that_answers_for_other_objects_ends_the_sweep_and_leaves_its_intent(case):
    case.plant(A, B)
    case.store.answers = {A: DeleteOutcome(B, "deleted")}
    with pytest.raises(UnsafePlanError, match="what it did is unknown"):
        case.run(A, B)
    assert case.journaled("outcome") == []
    assert [set(rows) for rows in case.journaled("intent")] == [{A, B}]


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
        monkeypatch.setattr(deletion_requests, "Pacer", paced)
        many = [f"data/s/{number:03}" for number in range(40)]
        case.plant(*many)
        asked = []

        def dispose(store, rows, pace):
            asked.append(rows)
            return store.delete(list(rows), pace=pace)

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

        def dispose(store, rows, pace):
            disposed.append(list(rows))
            case.clock.seconds += 61.0
            return store.delete(list(rows), pace=pace)

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


def test_a_busy_store_slows_the_task_down_and_the_tally_says_so(case):
    case.plant(A, B, C)

    def dispose(store, rows, pace):
        pace()
        if list(rows) == [A, B, C]:
            pace.busy(2)
            pace()
        return store.delete(list(rows))

    tally = case.run(A, B, C, rate=Rate(1_000.0), sweep="busy", dispose=dispose)
    assert (tally.objects, tally.busy, tally.paces) == ({"deleted": 3}, 1, [500.0])
    assert case.run(A, rate=Rate(1_000.0), sweep="idle").paces == [], "never busy"
