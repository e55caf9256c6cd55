"""The last look at a slice: listed once beside the batches, believed for a minute, never held as a
whole.
"""

import tracemalloc
from bisect import bisect_right
from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core import schemas
from spark_core.errors import NotFoundError, TransientError
from spark_core.storage.contract import OrderedStore
from spark_core.storage.listing_order import behind
from spark_core.storage.listing_rows import ListedPage, listing_batch
from spark_core.storage.objects import ObjectInfo
from spark_core.sweep import objects_now
from spark_core.sweep.objects_now import Examiner, SeenState

OLD = datetime(2026, 11, 10, 2, tzinfo=UTC)
CHANGED = OLD + timedelta(days=9)
PAGE = 1_000
PLAN = pa.schema(list(schemas.EXPIRED_ADDRESSES)[:3])


class Store:
    """Lists one slice by pages that take their time; says what it was asked."""

    def __init__(self, names, page_seconds=1.0):
        self.names = sorted(names)
        self.page_seconds, self.seconds = page_seconds, 0.0
        self.requests, self.overwritten, self.left_out = Counter(), set(), []

    def monotonic(self):
        return self.seconds

    def modified(self, name):
        return CHANGED if name in self.overwritten else OLD

    def list(self, prefix):
        self.requests["list"] += 1
        left_out = self.left_out.pop(0) if self.left_out else set()
        for begin in range(0, len(self.names), PAGE):
            self.requests["page"] += 1
            self.seconds += self.page_seconds
            page = [name for name in self.names[begin : begin + PAGE] if name not in left_out]
            yield self.rows(page)

    def rows(self, page):
        modified = pa.array([self.modified(name) for name in page], schemas.INSTANT)
        return listing_batch(page, [4] * len(page), modified)

    def head(self, key):
        self.requests["head"] += 1
        if key not in self.names:
            raise NotFoundError(key)
        return ObjectInfo(key, 4, self.modified(key), None)


class Ordered(Store):
    """Lists from any name on, unless it is one of those that begin at the first name whatever they
    are asked.
    """

    begins_anew = False

    def pages(self, prefix, *, after=""):
        self.requests["list"] += 1
        at = 0 if self.begins_anew else bisect_right(self.names, after)
        for begin in range(at, max(at + 1, len(self.names)), PAGE):
            self.requests["page"] += 1
            page = self.names[begin : begin + PAGE]
            yield ListedPage(
                behind(self.rows(page), after), is_last=begin + PAGE >= len(self.names)
            )


OrderedStore.register(Ordered)


def names(count, step=1):
    return [f"data/s/{number:07}" for number in range(0, count * step, step)]


def look(examiner, wanted):
    columns = [
        pa.array(wanted),
        pa.array([4] * len(wanted)),
        pa.array([OLD] * len(wanted), schemas.INSTANT),
    ]
    return examiner.examine(pa.record_batch(columns, schema=PLAN))


def in_batches(store, wanted, *, between=0.0, size=1_000):
    """Look at everything, batch by batch, with a deletion of so many seconds behind each."""
    examiner, seen = Examiner(store, monotonic=store.monotonic), []
    for begin in range(0, len(wanted), size):
        seen += look(examiner, wanted[begin : begin + size])
        store.seconds += between
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("page_seconds", [2.9, 3.1, 60.0], ids=["58 s", "62 s", "20 min"])
def test_a_slice_is_listed_once_however_long_its_listing_takes(page_seconds):
    store = Store(names(20_000), page_seconds)
    assert in_batches(store, store.names, between=5.0) == [SeenState("there")] * 20_000
    assert store.requests == {"list": 1, "page": 20}


def test_what_is_seen_says_when_its_page_was_asked_for_and_is_asked_for_again_one_by_one():
    store = Store(names(3_000), page_seconds=1.0)
    wanted = store.names[:1_500:10]
    examiner = Examiner(store, monotonic=store.monotonic)
    assert look(examiner, wanted[:50]) == [SeenState("there")] * 50
    # A slow deletion; what the next batch needs lies on the page that was read before it, and on
    # the next one.
    store.seconds = 61.0
    store.overwritten = {wanted[60], wanted[120]}
    seen = look(examiner, wanted[50:])
    assert [one.at for one in seen] == [0.0] * 50 + [61.0] * 50
    assert [wanted[50:][number] for number, one in enumerate(seen) if one.state == "changed"] == [
        wanted[120]
    ]
    again = examiner.examine_again([(name, 4, OLD) for name in wanted[50:70]])
    assert [one.state for one in again] == ["there"] * 10 + ["changed"] + ["there"] * 9
    assert {one.at for one in again} == {62.0}
    assert store.requests == {"list": 1, "page": 2, "head": 20}


def test_an_object_that_cannot_be_asked_for_again_is_unseen_and_the_others_are_seen():
    store = Store(names(3))
    head = store.head

    def failing(key):
        if key == store.names[1]:
            raise TransientError("503 SlowDown")
        return head(key)

    store.head = failing
    examiner = Examiner(store, monotonic=store.monotonic)
    seen = examiner.examine_again([(name, 4, OLD) for name in [*store.names, "data/s/gone"]])
    assert [one.state for one in seen] == ["there", "unseen", "there", "absent"]
    assert "503 SlowDown" in seen[1].why


def test_few_objects_of_a_huge_folder_are_asked_for_instead_of_listing_all_of_it():
    store = Store(names(100_000))
    wanted = store.names[:100_000:2_500]
    assert in_batches(store, wanted) == [SeenState("there")] * 40
    assert store.requests["page"] <= -(-40 * objects_now.KEYS_PER_HEAD // PAGE)
    assert store.requests["list"] == 1
    assert 30 <= store.requests["head"] <= 40


@pytest.mark.parametrize(
    ("run", "gap", "pages"),
    [(105, 315, 4), (500, 2_000, 10), (500, 0, 6)],
    ids=["near", "far", "all"],
)
def test_a_store_that_lists_from_any_name_on_is_asked_for_no_page_without_an_object(
    run, gap, pages
):
    store = Ordered(names(20 * (run + gap)))
    wanted = [name for number, name in enumerate(store.names) if number % (run + gap) < run]
    assert in_batches(store, wanted[: 10 * run], size=run) == [SeenState("there")] * 10 * run
    assert store.requests["head"] == 0
    assert store.requests["page"] == store.requests["list"] <= pages


@pytest.mark.slow
@given(
    present=st.sets(st.integers(0, 400), max_size=300),
    wanted=st.sets(st.integers(0, 400), min_size=1),
    overwritten=st.sets(st.integers(0, 400)),
    size=st.integers(40, 200),
    begins_anew=st.booleans(),
)
def test_jumps_show_what_reading_all_pages_shows(present, wanted, overwritten, size, begins_anew):
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.PAGE", 10)
        patch.setattr(objects_now, "HEADS", 5)
        for kind in (Store, Ordered):
            store = kind(f"data/s/{number:03}" for number in present)
            store.begins_anew = begins_anew
            store.overwritten = {f"data/s/{number:03}" for number in overwritten}
            looked = in_batches(
                store, [f"data/s/{number:03}" for number in sorted(wanted)], size=size
            )
            seen.append([one.state for one in looked])
    expected = [
        "absent" if number not in present else "changed" if number in overwritten else "there"
        for number in sorted(wanted)
    ]
    assert seen == [expected, expected]


def test_a_store_that_begins_at_the_first_name_whatever_it_is_asked_is_read_on_from_there():
    store = Ordered(names(20_000))
    store.begins_anew = True
    assert in_batches(store, store.names[10_000:]) == [SeenState("there")] * 10_000
    assert store.requests["page"] <= 20 + 10


def test_what_a_listing_leaves_out_is_looked_for_in_a_second_one_and_there_are_no_more():
    store = Store(names(3_000))
    gone = set(store.names[1_000:2_500])
    there = [name for name in store.names if name not in gone]
    store.names = there
    store.left_out = [set(there[:500])]
    seen = in_batches(store, sorted([*there, *gone]), size=500)
    assert [state.state for state in seen] == ["there"] * 1_000 + ["absent"] * 1_500 + [
        "there"
    ] * 500
    assert store.requests["list"] == 2
    assert store.requests["head"] == 0


def test_a_store_that_lists_in_no_order_is_asked_object_by_object():
    store = Store(names(200))
    store.names.reverse()
    assert in_batches(store, sorted(store.names), size=100) == [SeenState("there")] * 200
    assert store.requests == {"list": 1, "page": 1, "head": 200}


def test_rows_out_of_order_are_asked_for_and_never_called_absent():
    store = Store(names(400))
    examiner = Examiner(store, monotonic=store.monotonic)
    look(examiner, store.names[100:200])
    assert look(examiner, store.names[:100]) == [SeenState("there")] * 100
    assert look(examiner, store.names[300:200:-1]) == [SeenState("there")] * 100
    assert store.requests["head"] == 200


def test_a_listing_that_breaks_off_is_begun_anew_by_the_next_batch():
    store = Store(names(3_000))
    listed = store.list

    def breaking(prefix):
        pages = listed(prefix)
        yield next(pages)
        if store.requests["list"] == 1:
            raise TransientError("the store does not answer")
        yield from pages

    store.list = breaking
    seen = in_batches(store, store.names, size=1_500)
    assert [state.state for state in seen] == ["unseen"] * 1_500 + ["there"] * 1_500
    assert store.requests["list"] == 2


@pytest.mark.deep
def test_a_task_holds_one_page_of_a_folder_and_not_the_folder():
    store = Store(())
    pages, page = 40, names(10_000)

    def pages_of(prefix):
        for number in range(pages):
            keys = pa.array([f"data/s/{number:05}{name}" for name in page])
            yield listing_batch(keys, [4] * len(page), pa.array([OLD] * len(page), schemas.INSTANT))

    store.list = pages_of
    wanted = [f"data/s/{number:05}{name}" for number in range(pages) for name in names(100, 99)]
    before, tracked = pa.total_allocated_bytes(), []
    examiner = Examiner(store, monotonic=store.monotonic)
    tracemalloc.start()
    for begin in range(0, len(wanted), 1_000):
        assert look(examiner, wanted[begin : begin + 1_000]) == [SeenState("there")] * 1_000
        tracked.append(pa.total_allocated_bytes() - before + tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    # 400,000 keys of some 40 bytes; a page has 10,000.
    assert max(tracked) < 8 * 1024 * 1024
