"""Branches, tags and commits, as the server lists them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from spark_core.errors import IncompleteReadError
from spark_core.lakefs import LakeFSServer
from spark_core.model import Branch
from tests.support.recordings import recorded
from tests.support.scripted_server import ScriptedServer

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
NAME = "obs-45461"


def test_branches_are_asked_for_with_the_hidden_ones(client: Client) -> None:
    server, scripted = client({("GET", f"/repositories/{NAME}/branches"): recorded("refs", 3)})
    branches = server.branches(NAME)
    assert [branch.id for branch in branches] == ["b0", "b1", "b2", "b3", "b4", "main"]
    assert branches[0] == Branch(
        "b0", "564c97dbd045c4fef497cff9de34419fb5a4770e6fb72e7c055646f12266ad6e"
    )
    assert scripted.calls[0].query == {"show_hidden": "True", "amount": "1000"}


def test_tags_are_listed_with_their_commits(client: Client) -> None:
    tags = recorded("refs", 7).body["results"]
    shown = (200, {"results": tags, "pagination": {"has_more": False}})
    server, _ = client({("GET", f"/repositories/{NAME}/tags"): shown})
    assert [tag.id for tag in server.tags(NAME)] == ["t0", "t1"]
    assert {tag.commit_id for tag in server.tags(NAME)} == {tags[0]["commit_id"]}


def test_the_log_gives_whole_commits_the_first_one_of_a_repository_without_a_metarange(
    client: Client,
) -> None:
    server, scripted = client({("GET", ".*/refs/main/commits"): recorded("refs", 10)})
    commits = list(server.log(NAME, "main", first_page=100))
    assert [commit.generation for commit in commits] == [4, 3, 2, 1]
    assert [commit.main_parent for commit in commits] == [
        *(commit.id for commit in commits[1:]),
        None,
    ]
    assert [bool(commit.metarange_id) for commit in commits] == [True, True, True, False]
    assert commits[0].creation_date == datetime.fromtimestamp(1794381461, UTC)
    assert scripted.calls[0].query == {"amount": "100"}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"id": "main"}, "'id' = 'main', which is not the id of a commit"),
        ({"parents": ["main~1"]}, "'parents' = 'main~1', which is not the id of a commit"),
        ({"parents": None}, "NoneType where 'parents' should be list"),
        ({"meta_range_id": "../x"}, "not the id of a table"),
        ({"meta_range_id": None}, "where 'meta_range_id' should be str"),
        ({"version": None}, "where 'version' should be int"),
        (
            {"version": 2},
            (
                "a commit of version 2, which may change which parent is the main one "
                "(lakeFS up to 1.84"
            ),
        ),
    ],
)
def test_a_commit_of_the_log_that_cannot_be_read_refuses(
    client: Client, change: dict[str, Any], match: str
) -> None:
    body = recorded("refs", 10).body
    altered = {**body, "results": [{**body["results"][0], **change}]}
    server, _ = client({("GET", ".*/refs/main/commits"): (200, altered)})
    with pytest.raises(IncompleteReadError, match=re.escape(match)):
        list(server.log(NAME, "main"))


def _logged(commit_id: str, *parents: str, version: int = 1) -> dict[str, Any]:
    return {
        "id": commit_id * 64,
        "parents": [parent * 64 for parent in parents],
        "creation_date": 1_700_000_000,
        "meta_range_id": "",
        "version": version,
        "metadata": {"k": commit_id},
    }


LAST = {"has_more": False, "next_offset": ""}
LOG = ("GET", "/repositories/repo/refs/main/commits")


def test_a_main_line_follows_the_main_parent_of_old_commits_too(client: Client) -> None:
    found = [_logged("a", "b", "c"), _logged("b", "d", "e", version=0), _logged("e")]
    server, scripted = client({LOG: (200, {"pagination": LAST, "results": found})})
    line = list(server.main_line("repo", "main"))
    assert [each.commit.id[0] for each in line] == ["a", "b", "e"]
    assert [each.metadata for each in line] == [{"k": "a"}, {"k": "b"}, {"k": "e"}]
    assert scripted.calls[0].query["first_parent"] == "True"


@pytest.mark.parametrize(
    "found",
    [
        [_logged("a", "b", "c"), _logged("c"), _logged("b")],
        [_logged("a", "b")],
    ],
)
def test_a_log_that_is_no_main_line_is_refused(client: Client, found: Any) -> None:
    server, _ = client({LOG: (200, {"pagination": LAST, "results": found})})
    with pytest.raises(IncompleteReadError, match=r"where b{64} was expected"):
        list(server.main_line("repo", "main"))
