"""Looking up paths by listing: the right ones, in few calls, and never for ever."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core.errors import IncompleteReadError
from spark_core.lakefs import CallBudget, EntriesPage, LakeFSServer
from spark_core.lakefs.path_lookups import addresses_on, entries_on, just_before, pages_of
from tests.support.scripted_server import Asked, ScriptedServer, page

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
PATHS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), min_size=1, max_size=6
)


class ListedBranch:
    """A branch whose listing has pages of a few entries."""

    def __init__(self, paths: set[str], page_size: int) -> None:
        self.entries = sorted(paths, key=str.encode)
        self.page_size = page_size
        self.calls = 0

    def list_entries(self, _repository: str, _ref: str, *, after: str) -> EntriesPage:
        self.calls += 1
        behind = [path for path in self.entries if path.encode() > after.encode()]
        shown = behind[: self.page_size]
        return EntriesPage(
            [(path, f"s3://b/{path}") for path in shown], has_more=len(shown) < len(behind)
        )


class RawBranch:
    """A branch that orders paths by bytes and shows bytes that are no UTF-8 as U+FFFD.

    Addresses are the bytes of the path in hex.
    """

    def __init__(self, paths: set[bytes], page_size: int) -> None:
        self.paths = sorted(path for path in paths if path)
        self.page_size = page_size

    def list_entries(self, _repository: str, _ref: str, *, after: str) -> EntriesPage:
        behind = [path for path in self.paths if path > after.encode()]
        shown = [(path.decode(errors="replace"), path.hex()) for path in behind[: self.page_size]]
        return EntriesPage(shown, has_more=len(behind) > self.page_size)


@given(st.sets(PATHS), st.sets(PATHS), st.integers(1, 5))
def test_exactly_the_wanted_paths_that_are_there_are_found(
    there: set[str], wanted: set[str], page_size: int
) -> None:
    branch = ListedBranch(there | set(list(wanted)[::2]), page_size)
    found = list(addresses_on(branch, "docs", "main", wanted))  # type: ignore[arg-type]
    assert sorted(found) == sorted(
        (path, f"s3://b/{path}") for path in wanted & set(branch.entries)
    )
    assert branch.calls <= 2 * len(wanted) + len(branch.entries) // page_size + 1


@given(
    st.sets(
        st.binary(max_size=3) | st.sampled_from([b"k\x80", b"k\xff", "ké".encode(), b"k", b"z"])
    ),
    st.sets(st.integers(0, 20)),
    st.integers(1, 4),
)
def test_whatever_bytes_paths_have_what_is_wanted_is_found_or_unasked(
    there: set[bytes], chosen: set[int], page_size: int
) -> None:
    branch = RawBranch(there, page_size)
    shown = sorted(path.decode(errors="replace") for path in branch.paths)
    wanted = {shown[number] for number in chosen if number < len(shown)}
    budget, unasked = CallBudget(1000), set[str]()
    asking = addresses_on(branch, "docs", "main", wanted, budget=budget, unasked=unasked)  # type: ignore[arg-type]
    found = {uri for _, uri in asking}
    asked = wanted - unasked
    assert {path.hex() for path in branch.paths if path.decode(errors="replace") in asked} <= found
    assert budget.left > 0
    if unasked:
        with pytest.raises(IncompleteReadError, match="many paths there are no UTF-8"):
            list(addresses_on(branch, "docs", "main", wanted))  # type: ignore[arg-type]


def test_a_page_that_ends_with_a_path_that_is_no_utf8_hides_nothing_behind_it() -> None:
    branch = RawBranch({b"k\x80", "ké".encode(), b"z"}, 1)
    # The earlier path brings the listing to the page that ends badly.
    found = dict(addresses_on(branch, "docs", "main", ["a", "ké"]))  # type: ignore[arg-type]
    assert found == {"k\ufffd": "6b80", "ké": "ké".encode().hex()}


def test_a_page_full_of_paths_that_are_no_utf8_leaves_the_rest_unasked_or_refuses() -> None:
    branch = RawBranch({b"k\x80", b"k\x81", b"k\x82"}, 2)
    unasked = set[str]()
    wanted = ["k", "k\ufffd", "z"]
    list(addresses_on(branch, "docs", "main", wanted, budget=CallBudget(100), unasked=unasked))  # type: ignore[arg-type]
    assert unasked == {"k\ufffd", "z"}
    *_, last = pages_of(branch, "docs", "main", budget=CallBudget(100))  # type: ignore[arg-type]
    assert last.has_more
    with pytest.raises(
        IncompleteReadError, match=r"does not get ahead.*many paths there are no UTF-8"
    ):
        list(addresses_on(branch, "docs", "main", ["k\ufffd"]))  # type: ignore[arg-type]


@given(
    st.sets(st.binary(max_size=3) | st.sampled_from([b"k\x80", "ké".encode()])),
    st.integers(1, 4),
    st.integers(0, 9),
)
def test_pages_show_all_that_a_branch_has_or_say_that_more_follows(
    there: set[bytes], page: int, calls: int
) -> None:
    branch, budget = RawBranch(there, page), CallBudget(calls)
    pages = list(pages_of(branch, "docs", "main", budget=budget))  # type: ignore[arg-type]
    assert budget.made == len(pages) <= calls
    if pages and not pages[-1].has_more:
        assert {uri for listed in pages for _, uri in listed.entries} == {
            path.hex() for path in branch.paths
        }


def test_a_path_that_is_no_utf8_is_found_by_how_it_begins_however_the_server_shows_the_rest() -> (
    None
):
    branch = RawBranch({b"j", b"k/\xe2\x82/x", b"k/y", b"z"}, 2)
    asked = ["k/\ufffd", "z"]
    assert dict(addresses_on(branch, "docs", "main", asked))["k/\ufffd/x"] == b"k/\xe2\x82/x".hex()  # type: ignore[arg-type]


def test_threads_that_share_a_budget_take_no_more_than_there_is() -> None:
    budget = CallBudget(500)
    with ThreadPoolExecutor(8) as pool:
        taken = sum(pool.map(lambda _: sum(budget.take() for _ in range(100)), range(8)))
    assert (taken, budget.made, budget.left) == (500, 500, 0)
    assert not budget.take(1)


@given(PATHS)
def test_just_before_a_path_is_before_it(path: str) -> None:
    assert just_before(path).encode() < path.encode()


@pytest.mark.parametrize(
    ("path", "before"),
    [("b", "a\U0010ffff"), ("a\0", "a"), ("a\ue000", "a\ud7ff\U0010ffff"), ("", "")],
)
def test_there_is_hardly_any_room_between_the_two(path: str, before: str) -> None:
    assert just_before(path) == before


def test_a_thousand_neighbours_cost_one_call_and_a_far_one_another(client: Client) -> None:
    many = [
        {"path": f"{folder}/{number:05}", "physical_address": "s3://b/x"}
        for folder in "abz"
        for number in range(5000)
    ]

    def listed(asked: Asked) -> tuple[int, Any]:
        return 200, page(many, asked.query, "path")

    server, scripted = client({("GET", ".*/objects/ls"): listed})
    wanted = {f"b/{number:05}" for number in range(2000, 3000)} | {"z/04000"}
    assert {path for path, _ in addresses_on(server, "docs", "main", wanted)} == wanted
    assert len(scripted.calls) == 2


def test_nothing_wanted_asks_nothing(client: Client) -> None:
    server, scripted = client({})
    assert list(addresses_on(server, "docs", "main", [])) == []
    assert scripted.calls == []


def test_a_listing_that_does_not_get_ahead_refuses(client: Client) -> None:
    stuck = {
        "results": [{"path": "a", "physical_address": "s3://b/a"}],
        "pagination": {"has_more": True},
    }
    server, _ = client({("GET", ".*/objects/ls"): (200, stuck)})
    with pytest.raises(IncompleteReadError, match="does not get ahead"):
        list(addresses_on(server, "docs", "main", ["b", "c"]))


def test_an_entry_has_its_own_date_and_none_where_the_server_says_none() -> None:
    date = datetime(2026, 11, 1, tzinfo=UTC)

    class Dated:
        def list_entries(self, _repository: str, _ref: str, *, after: str) -> EntriesPage:
            return EntriesPage(
                [("a", "1"), ("b", "2"), ("c", "3")], has_more=False, dates=[None, date, None]
            )

    found = list(entries_on(Dated(), "docs", "main", ["b", "c"]))  # type: ignore[arg-type]
    assert found == [("b", "2", date), ("c", "3", None)]
    undated = entries_on(ListedBranch({"a"}, 1), "docs", "main", ["a"])  # type: ignore[arg-type]
    assert list(undated) == [("a", "s3://b/a", None)]
