"""Entries of a ref, and what differs, as the server lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_core.errors import IncompleteReadError, NotFoundError, RepositoryStateError
from spark_core.lakefs import LakeFSServer
from tests.support.recordings import recorded
from tests.support.scripted_server import ScriptedServer

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
NAME = "obs-45461"


@pytest.mark.parametrize(
    "path", ["a b", "ü/ä?&=#%", "..", "x/../y", "new\nline", "a//b", "a+b", "\x00"]
)
def test_odd_paths_arrive_as_they_are(client: Client, path: str) -> None:
    server, scripted = client({("GET", ".*/objects/ls"): recorded("objects", 9)})
    server.list_entries(NAME, "main", after=path)
    assert scripted.calls[0].query["after"] == path


def test_a_repository_in_deletion_is_not_an_entry_that_is_not_there(client: Client) -> None:
    server, _ = client({("GET", ".*/objects/ls"): (410, {"message": "repository in deletion"})})
    with pytest.raises(RepositoryStateError, match="is being deleted"):
        server.list_entries(NAME, "main", after="x")


def test_entries_of_a_ref_are_listed_page_by_page(client: Client) -> None:
    server, scripted = client({("GET", ".*/refs/main/objects/ls"): recorded("objects", 9)})
    listed = server.list_entries(NAME, "main", after="e")
    assert [path for path, _ in listed.entries] == ["f0", "f1"]
    assert (
        listed.entries[0][1]
        == "local://<BLOCKSTORE>/obs/45461/data/ft6rqr1ksduakb446ibg/dc0kb59ksduakb446id0"
    )
    assert len(listed.dates) == len(listed.entries)
    assert all(date is not None for date in listed.dates)
    assert listed.has_more
    assert scripted.calls[0].query == {
        "after": "e",
        "amount": "1000",
        "presign": "False",
        "user_metadata": "False",
    }


def test_entries_of_a_ref_that_is_not_there_are_not_none(client: Client) -> None:
    server, _ = client({("GET", ".*/objects/ls"): recorded("refs", 6)})
    with pytest.raises(NotFoundError, match="branch not found"):
        server.list_entries(NAME, "none", after="")


@pytest.mark.parametrize(
    "body", [{}, {"results": []}, {"results": None, "pagination": {"has_more": False}}]
)
def test_a_page_of_entries_that_is_not_one_is_never_empty(client: Client, body: Any) -> None:
    server, _ = client({("GET", ".*/objects/ls"): (200, body)})
    with pytest.raises(IncompleteReadError, match="not taken for an empty one"):
        server.list_entries(NAME, "main", after="")


def test_more_entries_behind_none_refuse(client: Client) -> None:
    server, _ = client(
        {("GET", ".*/objects/ls"): (200, {"results": [], "pagination": {"has_more": True}})}
    )
    with pytest.raises(IncompleteReadError, match="a page without entries that has a next one"):
        server.list_entries(NAME, "main", after="")


def test_the_diff_of_a_branch_gives_paths_and_types(client: Client) -> None:
    server, _ = client({("GET", ".*/branches/b4/diff"): recorded("refs", 20)})
    assert list(server.diff_branch(NAME, "b4")) == [("f0", "changed"), ("f1", "removed")]
