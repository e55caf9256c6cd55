"""Looking up paths by listing: the right ones, in few calls, and never for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core.errors import IncompleteReadError
from spark_core.lakefs import EntriesPage, LakeFSServer
from spark_core.lakefs.entries import addresses_on, just_before
from tests.support.scripted_server import Asked, ScriptedServer, page

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
PATHS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


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
        return EntriesPage([(path, f"s3://b/{path}") for path in shown], has_more=len(shown) < len(behind))


@given(st.sets(PATHS), st.sets(PATHS), st.integers(1, 5))
def test_exactly_the_wanted_paths_that_are_there_are_found(there: set[str], wanted: set[str], page_size: int) -> None:
    branch = ListedBranch(there | set(list(wanted)[::2]), page_size)
    found = list(addresses_on(branch, "docs", "main", wanted))  # type: ignore[arg-type]
    assert sorted(found) == sorted((path, f"s3://b/{path}") for path in wanted & set(branch.entries))
    assert branch.calls <= 2 * len(wanted) + len(branch.entries) // page_size + 1


@given(PATHS)
def test_just_before_a_path_is_before_it(path: str) -> None:
    assert just_before(path).encode() < path.encode()


@pytest.mark.parametrize(
    ("path", "before"), [("b", "a\U0010ffff"), ("a\0", "a"), ("a\ue000", "a\ud7ff\U0010ffff"), ("", "")]
)
def test_there_is_hardly_any_room_between_the_two(path: str, before: str) -> None:
    assert just_before(path) == before


def test_a_thousand_neighbours_cost_one_call_and_a_far_one_another(client: Client) -> None:
    many = [
        {"path": f"{folder}/{number:05}", "physical_address": "s3://b/x"} for folder in "abz" for number in range(5000)
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
    stuck = {"results": [{"path": "a", "physical_address": "s3://b/a"}], "pagination": {"has_more": True}}
    server, _ = client({("GET", ".*/objects/ls"): (200, stuck)})
    with pytest.raises(IncompleteReadError, match="does not get ahead"):
        list(addresses_on(server, "docs", "main", ["b", "c"]))
