"""Lists of the server, read page by page to their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_core.errors import IncompleteReadError
from spark_core.lakefs import LakeFSServer
from tests.support.recordings import recorded
from tests.support.scripted_server import Asked, ScriptedServer, in_turn, page

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
NAME = "obs-45461"


def test_repositories_are_listed_over_all_pages(client: Client) -> None:
    first = recorded("repository", 3)
    last = {
        "pagination": {"has_more": False, "next_offset": ""},
        "results": [recorded("repository", 0).body],
    }
    server, scripted = client({("GET", "/repositories"): in_turn(first, (200, last))})
    assert [repository.id for repository in server.repositories()] == [
        "docs-2022-03-31",
        "many-ranges",
        NAME,
    ]
    assert [call.query.get("after") for call in scripted.calls] == [None, "many-ranges"]


def test_three_thousand_branches_are_read_in_four_calls(client: Client) -> None:
    many = [{"id": f"b{number:05}", "commit_id": "c"} for number in range(3001)]
    server, scripted = client(
        {("GET", ".*/branches"): lambda asked: (200, page(many, asked.query))}
    )
    assert len(server.branches(NAME)) == 3001
    assert len(scripted.calls) == 4


def test_a_list_that_goes_round_in_circles_refuses(client: Client) -> None:
    turning = {
        "pagination": {"has_more": True, "next_offset": "b1"},
        "results": [{"id": "b1", "commit_id": "c"}],
    }
    server, _ = client({("GET", ".*/branches"): (200, turning)})
    with pytest.raises(
        IncompleteReadError, match="more results behind 'b1', where the list was before"
    ):
        server.branches(NAME)


def test_a_list_without_end_refuses(client: Client) -> None:
    def endless(asked: Asked) -> tuple[int, Any]:
        return 200, {
            "pagination": {"has_more": True, "next_offset": asked.query.get("after", "") + "x"},
            "results": [],
        }

    server, _ = client({("GET", ".*/branches"): endless}, max_pages=7)
    with pytest.raises(IncompleteReadError, match="without end"):
        server.branches(NAME)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"results": []},
        {"pagination": {"has_more": False}},
        {"results": None, "pagination": {}},
        [],
    ],
)
def test_a_list_that_is_not_one_is_never_empty(client: Client, body: Any) -> None:
    server, _ = client({("GET", ".*/branches"): (200, body)})
    with pytest.raises(IncompleteReadError, match="not taken for an empty one"):
        server.branches(NAME)
