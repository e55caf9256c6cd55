"""A listing that is cut in pieces is the listing, whatever the names are and wherever it is cut."""

from __future__ import annotations

import concurrent.futures
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.addresses.xids import ALPHABET, LAST_SECOND, first_id, xid_seconds
from spark_core.errors import IncompleteReadError, TransientError
from spark_core.storage import listings
from spark_core.storage.listing_rows import ListedPage
from spark_core.storage.listings import list_below, listed_together
from tests.support.examples import examples
from tests.support.memory_store import MemoryStore
from tests.support.paged_store import PagedStore

T = 1_700_000_000
SLICE = "data/g05al000000000000000/"


def xid(second: float, number: int = 0) -> str:
    return f"{first_id(int(second))}{number:012d}0"


def names(seconds, folder: str = SLICE) -> list[str]:
    return [folder + xid(T + second, number) for number, second in enumerate(sorted(seconds))]


def listing(store, folders=(SLICE,), threads: int = 8) -> list[str]:
    return [
        key
        for batch in list_below(store, folders, threads=threads)
        for key in batch["key"].to_pylist()
    ]


@pytest.fixture
def rounds(monkeypatch):
    """How often answers were waited for, when all requests under way take the same time."""
    counted = []

    def wait(futures, return_when):
        counted.append(len(futures))
        return concurrent.futures.wait(futures)

    monkeypatch.setattr(listings, "wait", wait)
    return counted


def evenly(pages: int, size: int, span: float, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [draw.uniform(0, span) for _ in range(pages * size)]


@pytest.mark.parametrize("span", [3600, 600, 60])
@pytest.mark.parametrize("seed", range(5))
def test_no_more_than_a_quarter_of_the_pages_of_a_full_slice_come_one_after_the_other(
    rounds, span, seed
):
    keys = names(evenly(50, 100, span, seed))
    store = PagedStore(keys, 100)
    assert sorted(listing(store)) == keys
    assert len(rounds) <= 50 // 4
    assert max(rounds) <= 8
    assert store.requests["list"] <= 50 + 15


def test_a_slice_written_in_one_second_is_only_slower(rounds):
    keys = names([0] * 200)
    store = PagedStore(keys, 20)
    assert sorted(listing(store)) == keys
    assert len(rounds) <= 11
    assert store.requests["list"] <= 10 + 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("threads", "folders", "most"), [(1, 1, 50), (2, 1, 30), (8, 2, 20), (8, 8, 50)]
)
def test_a_listing_is_cut_only_while_there_are_threads_to_spare(rounds, threads, folders, most):
    folder_names = [f"data/g05al00000000000000{number}/" for number in range(folders)]
    keys = [key for folder in folder_names for key in names(evenly(50, 20, 3600), folder)]
    store = PagedStore(keys, 20)
    assert sorted(listing(store, folder_names, threads)) == keys
    assert len(rounds) <= most
    assert max(rounds) <= threads
    if threads == 1 or folders == 8:
        assert store.requests["list"] == folders * 50


@pytest.mark.parametrize(
    ("objects", "requests"), [(0, 1), (1, 1), (19, 1), (20, 1), (21, 3), (40, 3)]
)
def test_a_short_slice_costs_at_most_a_request_more(objects, requests):
    keys = names([number * 10 for number in range(objects)])
    store = PagedStore(keys, 20)
    assert sorted(listing(store)) == keys
    assert store.requests["list"] <= requests


def test_skewed_names_are_only_slower(rounds):
    for keys in (
        names([*evenly(25, 20, 30), *(3_000 + second for second in evenly(25, 20, 30))]),
        names([3600 * (second / 3600) ** 9 for second in evenly(50, 20, 3600)]),
    ):
        rounds.clear()
        store = PagedStore(keys, 20)
        assert sorted(listing(store)) == keys
        assert len(rounds) <= 30
        assert store.requests["list"] <= 2 * 50


def test_each_page_leads_to_one_cut_at_most(monkeypatch):
    def wait(futures, return_when):
        # Pages are slow: they come when nothing else is asked for.
        concurrent.futures.wait(futures)
        cuts = [future for future, asked in futures.items() if isinstance(asked, listings.Cut)]
        return cuts or list(futures), None

    monkeypatch.setattr(listings, "wait", wait)
    # No cut finds anything before the last name, so each halves what is left.
    keys = names([*(number / 100 for number in range(60)), 2**28])
    store = PagedStore(keys, 20)
    assert sorted(listing(store)) == keys
    assert store.requests["list"] <= 2 * 4


@pytest.mark.parametrize("folder", ["data/!ab/", "data/repo-main:0c3e/"])
def test_names_that_do_not_begin_with_their_time_are_read_page_by_page(folder):
    below = [f"{letter}/{xid(T + number)}" for letter in "abcd" for number in range(10)]
    for keys in (
        [folder + name for name in below],
        [f"{folder}name-{number:03}" for number in range(40)],
    ):
        store = PagedStore(keys, 4)
        assert sorted(listing(store, [folder])) == sorted(keys)
        assert store.requests["list"] == 10


def test_a_cut_lies_behind_all_names_of_earlier_seconds_and_before_those_of_its_own():
    for second in (1, T, LAST_SECOND):
        # The last of all ids of a second: seven characters hold its 32 bits and three more.
        before = first_id(second - 1)
        latest = f"{before[:6]}{ALPHABET[ALPHABET.index(before[6]) + 7]}{'v' * 12}g"
        assert xid_seconds(latest) == second - 1
        assert latest < first_id(second) < xid(second)
        assert xid_seconds(xid(second)) == second


moments = st.integers(0, 40)
keys_of_a_slice = st.sets(
    st.one_of(
        st.builds(lambda second, number: xid(T + second, number), moments, st.integers(0, 9)),
        st.builds(
            lambda second, number: f"{xid(T + second, number)},sig-_", moments, st.integers(0, 2)
        ),
        # The very names at which is cut, and strangers before, between and behind the ids.
        st.builds(lambda second: first_id(T + second), moments),
        st.text(st.sampled_from("!0cg~/\u00e9\U0001f600\uffee"), min_size=1, max_size=3),
    ),
    max_size=60,
)


@pytest.mark.slow
@settings(max_examples=examples(30, 300), deadline=None)
@given(st.data())
def test_a_listing_is_the_same_wherever_it_is_cut_and_in_whatever_order_answers_come(data):
    folders = ["data/a/", "data/b/"]
    keys = {folder + name for folder in folders for name in data.draw(keys_of_a_slice)}
    store = PagedStore(
        [*keys, "data/", "data/a", "data/a0/x", "data/c/x"], data.draw(st.integers(1, 5))
    )
    draw = data.draw(st.randoms(use_true_random=False))
    is_anywhere = data.draw(st.booleans())

    def wait(futures, return_when):
        concurrent.futures.wait(futures)
        return draw.sample(list(futures), draw.randint(1, len(futures))), None

    def cut(stretch):
        return (draw.random(), T + draw.randint(-2, 42)) if draw.random() < 0.8 else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listings, "wait", wait)
        if is_anywhere:
            patch.setattr(listings.Stretch, "cut", cut)
            patch.setattr(
                listings,
                "first_id",
                lambda second: draw.choice([first_id(second), xid(second), "", "~"]),
            )
        found = listing(store, folders, data.draw(st.integers(1, 6)))
    assert sorted(found) == sorted(keys)


def cut_at(monkeypatch, second: int) -> None:
    """Cut each stretch once, after its first page."""
    monkeypatch.setattr(
        listings.Stretch,
        "cut",
        lambda stretch: (9.0, T + second) if stretch.read and not stretch.cut_after else None,
    )


def test_a_page_that_leaves_out_only_the_name_where_the_next_stretch_begins_is_refused(
    monkeypatch, rounds
):
    cut_at(monkeypatch, 50)
    keys = names(range(100))
    store = PagedStore(keys, 10)
    seen = []

    def answered(after, number, page):
        seen.append(after)
        return [key for key in page if after or key != keys[50]]

    store.answered = answered
    with pytest.raises(IncompleteReadError, match="which another answer to it holds"):
        listing(store)
    assert seen[-1] == keys[49]


def test_an_empty_page_is_no_proof_that_an_object_was_deleted(monkeypatch, rounds):
    cut_at(monkeypatch, 50)
    keys = names(range(100))
    store = PagedStore(keys, 10)
    store.answered = lambda after, _number, page: (
        [] if after == keys[49] else [key for key in page if after or key != keys[50]]
    )
    with pytest.raises(IncompleteReadError, match="which another answer to it holds"):
        listing(store)


@pytest.mark.parametrize("is_cut_first", [False, True])
@pytest.mark.parametrize("written", [1, 2, 25])
def test_what_is_written_behind_the_end_meanwhile_spoils_nothing(
    monkeypatch, is_cut_first, written
):
    cut_at(monkeypatch, 50)
    keys, new = names(range(20)), names(range(51 - written // 2, 51 - written // 2 + written))
    store = PagedStore(keys, 10)

    def wait(futures, return_when):
        concurrent.futures.wait(futures)
        return sorted(
            futures, key=lambda one: isinstance(futures[one], listings.Cut) != is_cut_first
        )[:1], None

    def pages(prefix, *, after=""):
        # The last page of those that there were is answered, then the cut.
        if after:
            store.objects.update(dict.fromkeys(new, b""))
            return PagedStore.pages(store, prefix, after=after)
        return PagedStore.pages(PagedStore(keys, 10), prefix)

    monkeypatch.setattr(listings, "wait", wait)
    store.pages = pages
    found = listing(store)
    assert len(found) == len(set(found))
    assert set(keys) <= set(found) <= {*keys, *new}
    assert not is_cut_first or set(found) == {*keys, *new}


@pytest.mark.parametrize("moved", [-1, 0, 1])
def test_an_object_at_a_cut_one_before_and_one_behind_is_told_once(monkeypatch, rounds, moved):
    cut_at(monkeypatch, 50)
    keys = sorted([*names(range(0, 100, 10)), SLICE + first_id(T + 50 + moved)])
    assert sorted(listing(PagedStore(keys, 3))) == keys
    assert max(rounds) > 1


def test_a_store_that_lists_from_the_beginning_only_is_asked_once_and_read_as_before(rounds):
    keys = names(evenly(50, 20, 3600))
    store = PagedStore(keys, 20)
    # What lies up to the name is taken out by the store's own reader, so its first pages are empty.
    store.answered = lambda after, _number, page: [] if after else page
    assert sorted(listing(store)) == keys
    assert store.requests["list"] == 51


def test_a_page_that_leaves_out_where_the_next_stretch_begins_is_refused(monkeypatch, rounds):
    cut_at(monkeypatch, 50)
    keys = names(range(100))
    store = PagedStore(keys, 10)
    # The part before the cut loses its place: it answers what comes later.
    store.answered = lambda after, number, page: keys[70:80] if (after, number) == ("", 2) else page
    with pytest.raises(IncompleteReadError, match="which another answer to it holds"):
        listing(store)


def test_a_listing_that_ends_before_the_next_stretch_is_asked_for_again_from_there(
    monkeypatch, rounds
):
    cut_at(monkeypatch, 50)
    keys = names(range(100))
    store = PagedStore(keys, 10)
    pages = store.pages

    def ending(prefix, *, after=""):
        for number, page in enumerate(pages(prefix, after=after)):
            yield ListedPage(page.rows, is_last=True) if not after and number == 2 else page

    store.pages = ending
    assert sorted(listing(store)) == keys


def test_a_listing_that_stops_telling_pages_is_refused():
    store = PagedStore(names(range(100)), 10)
    pages = store.pages
    store.pages = lambda prefix, *, after="": iter([next(pages(prefix, after=after))])
    with pytest.raises(IncompleteReadError, match="ended before its last page"):
        listing(store)


def test_where_the_next_stretch_begins_may_be_deleted_meanwhile(monkeypatch, rounds):
    cut_at(monkeypatch, 50)
    keys = names(range(100))
    store = PagedStore(keys, 10)

    def answered(after, number, page):
        if not after and number == 2:
            del store.objects[keys[50]]
        return page

    store.answered = answered
    assert sorted(listing(store)) == keys, (
        "listed before it went, as any object of a listing may be"
    )


def test_what_was_deleted_last_of_all_leaves_the_listing_whole(monkeypatch, rounds):
    cut_at(monkeypatch, 50)
    keys = names(range(100))
    store = PagedStore(keys, 10)

    def answered(after, number, page):
        if not after and number == 2:
            for key in keys[50:]:
                store.objects.pop(key, None)
        return page

    store.answered = answered
    found = listing(store)
    assert len(found) == len(set(found))
    assert set(keys[:50]) <= set(found) <= set(keys)


def test_names_that_are_written_meanwhile_spoil_nothing():
    keys = names(range(0, 200, 2))
    store = PagedStore(keys, 7)
    later = iter(names(range(1, 400, 2)))

    def answered(_after, _number, page):
        store.objects[next(later) + ",later"] = b""
        return page

    store.answered = answered
    found = listing(store)
    assert len(found) == len(set(found))
    assert set(keys) <= set(found)


def failing_at(store, request):
    """Let a request of a store fail; tells whether that was one for a page, or one that guessed a
    name to list from.
    """
    left, failed = iter(range(100)), []

    def answered(after, number, page):
        if next(left) == request:
            failed.append("guess" if after and not number else "page")
            raise TransientError("the store does not answer. Run again.")
        return page

    store.answered = answered
    return failed


def test_a_failure_of_a_page_fails_the_listing_and_one_of_a_guess_costs_a_request():
    ended = Counter()
    for request in range(8):
        store = PagedStore(names(range(100)), 10)
        failed = failing_at(store, request)
        try:
            assert sorted(listing(store)) == sorted(names(range(100)))
        except TransientError:
            assert failed == ["page"]
        else:
            assert failed == ["guess"]
        ended[failed[0]] += 1
    assert min(ended["guess"], ended["page"]) > 0


def test_a_listing_that_nobody_reads_on_asks_for_nothing_more():
    store = PagedStore(names(range(10_000)), 10)
    rows = listings._Listings(store, [SLICE], 4).rows()
    next(rows)
    rows.close()
    assert store.requests["list"] <= 1 + 4


def test_no_prefixes_are_no_rows():
    assert listing(PagedStore(["data/x"], 1), []) == []


# Folders beside each other

PARENT = "_lakefs/retention/gc/"


def together(store, *folders) -> list[str]:
    return [
        key for batch in listed_together(store, PARENT, folders) for key in batch["key"].to_pylist()
    ]


def in_folders(**sizes) -> list[str]:
    return [
        f"{PARENT}{folder}/{number:05}" for folder, size in sizes.items() for number in range(size)
    ]


@pytest.mark.parametrize(
    ("between", "requests"),
    [
        (0, 1),
        (5, 1),
        # The page that ends among them, and one from behind them.
        (1_000_000, 2),
    ],
)
def test_folders_beside_each_other_are_one_listing_that_jumps_over_what_lies_between(
    between, requests
):
    keys = in_folders(addresses=3, commits=2, reports=4)
    store = PagedStore([*keys, *in_folders(quarantine=min(between, 5_000), a=1, z=1)], 1_000)
    assert together(store, "reports", "addresses", "commits", "empty") == keys
    assert store.requests["list"] == requests


@settings(max_examples=examples(30, 200))
@given(
    st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 9)),
    st.sets(st.sampled_from("abcdefgh"), min_size=1),
    st.integers(1, 12),
)
def test_folders_together_hold_what_each_holds(sizes, wanted, page):
    store = PagedStore(
        [*in_folders(**sizes), "_lakefs/retention/gc", "_lakefs/retention/gd/a/1", "data/a/1"], page
    )
    found = together(store, *wanted)
    requests = store.requests.pop("list")
    apart = [
        key
        for name in sorted(wanted)
        for batch in store.list(f"{PARENT}{name}/")
        for key in batch["key"].to_pylist()
    ]
    assert found == apart
    # One more at most where a page ends with a folder.
    assert requests <= store.requests["list"] + sum(
        sizes.get(name, 0) % page == 0 < sizes.get(name, 0) for name in wanted
    )


def test_folders_of_a_store_without_an_order_are_listed_one_by_one():
    store = MemoryStore()
    store.objects = dict.fromkeys(in_folders(a=2, b=3, c=1), b"")
    assert together(store, "c", "a") == in_folders(a=2, c=1)


def test_folders_together_are_not_whole_where_the_listing_goes_backwards():
    store = PagedStore(in_folders(a=4, b=4), 4)

    def broken(_after, number, page):
        if number:
            raise IncompleteReadError("not in order")
        return page

    store.answered = broken
    with pytest.raises(IncompleteReadError):
        together(store, "a", "b")
