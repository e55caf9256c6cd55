"""What the client makes of recorded answers, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_core.errors import (
    IncompleteReadError,
    NotFoundError,
    RepositoryStateError,
    SettingsError,
)
from spark_core.lakefs import LakeFSServer, StorageConfig
from spark_core.model import Branch, Repository, RetentionRules
from tests.support.recordings import recorded
from tests.support.scripted_server import Asked, Reply, ScriptedServer, in_turn, page

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
NAME = "obs-45461"
RULES = ("GET", "/repositories/.*/settings/gc_rules")
SET_RULES = ("PUT", RULES[1])


def test_a_repository_is_read_whole(client: Client) -> None:
    server, _ = client({("GET", f"/repositories/{NAME}"): recorded("repository", 0)})
    assert server.repository(NAME) == Repository(
        id=NAME,
        storage_namespace="local://obs/45461",
        default_branch="main",
        creation_date=datetime.fromtimestamp(1795245461, UTC),
    )


def test_a_trailing_slash_of_the_namespace_is_kept(client: Client) -> None:
    server, _ = client({("GET", "/repositories/obs-slash-45461"): recorded("repository", 12)})
    assert server.repository("obs-slash-45461").storage_namespace == "local://obs/45461-slash/"


def test_an_answer_about_another_repository_refuses(client: Client) -> None:
    server, _ = client({("GET", "/repositories/docs"): recorded("repository", 0)})
    with pytest.raises(IncompleteReadError, match="'obs-45461' although 'docs' was asked for"):
        server.repository("docs")


def test_a_repository_without_a_name_is_not_asked_for(client: Client) -> None:
    server, scripted = client({})
    with pytest.raises(SettingsError, match="without a name"):
        server.repository("")
    assert scripted.calls == []


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


def test_branches_are_asked_for_with_the_hidden_ones(client: Client) -> None:
    server, scripted = client({("GET", f"/repositories/{NAME}/branches"): recorded("refs", 3)})
    branches = server.branches(NAME)
    assert [branch.id for branch in branches] == ["b0", "b1", "b2", "b3", "b4", "main"]
    assert branches[0] == Branch(
        "b0", "564c97dbd045c4fef497cff9de34419fb5a4770e6fb72e7c055646f12266ad6e"
    )
    assert scripted.calls[0].query == {"show_hidden": "True", "amount": "1000"}


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


def test_rules_are_read_with_their_branches(client: Client) -> None:
    server, _ = client({RULES: recorded("gc-rules", 2)})
    assert server.retention_rules(NAME) == RetentionRules(14, {"main": 21, "dev": 7})


def test_no_rules_are_none(client: Client) -> None:
    server, _ = client({RULES: recorded("gc-rules", 0)})
    assert server.retention_rules(NAME) is None


def test_rules_of_an_unknown_repository_are_not_none(client: Client) -> None:
    server, _ = client({RULES: recorded("gc-rules", 32)})
    with pytest.raises(NotFoundError, match="repository not found"):
        server.retention_rules("not-there")


def test_a_404_of_something_in_front_of_the_server_is_not_no_rules(client: Client) -> None:
    server, _ = client({RULES: Reply(404, b"<html>")})
    with pytest.raises(SettingsError, match="no such API"):
        server.retention_rules(NAME)


def test_rules_without_branch_rules_are_rules(client: Client) -> None:
    null = {"branches": None, "default_retention_days": 7}
    server, _ = client({RULES: (200, null)})
    assert server.retention_rules(NAME) == RetentionRules(7, {})


def test_a_rule_for_an_unknown_branch_is_kept_for_all_to_see(client: Client) -> None:
    server, _ = client({RULES: recorded("gc-rules", 11)})
    assert server.retention_rules(NAME) == RetentionRules(
        7, {"no such * branch": 1, "": 2, "dev": 9}
    )


@pytest.mark.parametrize(
    ("index", "where"),
    [(9, "the default is -3 days"), (13, "the default is -2147483648 days"), (15, "2147483647")],
)
def test_days_that_the_server_wrapped_or_nobody_can_mean_refuse(
    client: Client, index: int, where: str
) -> None:
    server, _ = client({RULES: recorded("gc-rules", index)})
    with pytest.raises(RepositoryStateError, match=rf"{where}.*wanted 0 to 36500"):
        server.retention_rules(NAME)


@pytest.mark.parametrize(
    ("days", "kept"), [(-1, False), (0, True), (36_500, True), (36_501, False)]
)
def test_days_of_a_branch_are_kept_within_a_century(
    client: Client, days: int, *, kept: bool
) -> None:
    rules = {
        "branches": [{"branch_id": "main", "retention_days": days}],
        "default_retention_days": 1,
    }
    server, _ = client({RULES: (200, rules)})
    if kept:
        assert server.retention_rules(NAME) == RetentionRules(1, {"main": days})
    else:
        with pytest.raises(RepositoryStateError, match="branch 'main'"):
            server.retention_rules(NAME)


@pytest.mark.parametrize(
    "body",
    [
        {"branches": []},
        {"default_retention_days": 7},
        {"default_retention_days": "7", "branches": None},
        {"default_retention_days": 7.5, "branches": None},
        {"default_retention_days": True, "branches": None},
        {"default_retention_days": 7, "branches": {}},
        {"default_retention_days": 7, "branches": [{"branch_id": "main"}]},
        {
            "default_retention_days": 7,
            "branches": [{"branch_id": "a", "retention_days": day} for day in (1, 2)],
        },
        None,
    ],
)
def test_rules_that_cannot_be_read_refuse(client: Client, body: Any) -> None:
    server, _ = client({RULES: (200, body)})
    with pytest.raises(
        IncompleteReadError, match="an answer that cannot be read is not taken for an empty one"
    ):
        server.retention_rules(NAME)


def test_rules_are_set_and_read_back(client: Client) -> None:
    kept: dict[str, Any] = {}

    def put(asked: Asked) -> tuple[int, Any]:
        kept.update(asked.body)
        return 204, None

    server, _ = client({SET_RULES: put, RULES: lambda _: (200, kept)})
    server.set_retention_rules(NAME, RetentionRules(14, {"main": 21, "dev": 7}))
    assert kept == {
        "default_retention_days": 14,
        "branches": [
            {"branch_id": "main", "retention_days": 21},
            {"branch_id": "dev", "retention_days": 7},
        ],
    }


def test_rules_that_the_server_shows_otherwise_refuse(client: Client) -> None:
    server, _ = client({SET_RULES: (204, None), RULES: recorded("gc-rules", 7)})
    with pytest.raises(IncompleteReadError, match=r"after .* were set"):
        server.set_retention_rules(NAME, RetentionRules(14, {"main": 21}))


@pytest.mark.parametrize(
    ("rules", "match"),
    [
        (RetentionRules(4294967301), "the default would be 4294967301 days"),
        (RetentionRules(1, {"main": -1}), "branch 'main' would be -1 days"),
        (RetentionRules(1, {"": 1}), "names no branch"),
        (RetentionRules(0), "keeps as 'no rules'"),
    ],
)
def test_rules_that_the_server_would_twist_are_not_set(
    client: Client, rules: RetentionRules, match: str
) -> None:
    server, scripted = client({})
    with pytest.raises(SettingsError, match=rf"{match}.*the rules were not changed"):
        server.set_retention_rules(NAME, rules)
    assert scripted.calls == []


def test_rules_are_deleted(client: Client) -> None:
    server, scripted = client({("DELETE", RULES[1]): recorded("gc-rules", 28)})
    server.delete_retention_rules(NAME)
    assert scripted.paths() == [f"DELETE /repositories/{NAME}/settings/gc_rules"]


def test_a_single_store_is_the_one(client: Client) -> None:
    server, _ = client({("GET", "/config"): recorded("config", 0)})
    repository = Repository(
        "docs", "local://docs", "main", datetime.now(UTC), storage_id="whatever"
    )
    assert server.storage_config(repository) == StorageConfig("local", "", pre_sign_support=False)


def test_of_several_stores_the_repositorys_is_taken_or_none(client: Client) -> None:
    stores = [
        {"blockstore_type": kind, "blockstore_id": f"{kind}-1", "pre_sign_support": True}
        for kind in ("s3", "gs")
    ]
    server, _ = client(
        {("GET", "/config"): (200, {"storage_config": None, "storage_config_list": stores})}
    )
    repository = Repository("docs", "gs://docs", "main", datetime.now(UTC), storage_id="gs-1")
    assert server.storage_config(repository).blockstore_type == "gs"
    with pytest.raises(
        RepositoryStateError, match="'azure-1', which is none of the server's 2 stores"
    ):
        server.storage_config(
            Repository("docs", "gs://docs", "main", datetime.now(UTC), storage_id="azure-1")
        )


def test_version_grace_period_and_table_prefix(client: Client) -> None:
    server, _ = client(
        {
            ("GET", "/config/version"): recorded("config", 2),
            ("GET", "/config/garbage-collection"): recorded("config", 3),
            ("GET", "/repositories/.*/metadata/range/0{64}"): recorded("refs", 29),
        }
    )
    assert server.version() == "dev"
    assert server.grace_period() == timedelta(days=1)
    assert server.table_prefix(NAME) == "_lakefs"


@pytest.mark.parametrize(
    "location", ["0" * 64, "/_lakefs/" + "0" * 64, "s3://b/" + "0" * 64, "_lakefs/other", ""]
)
def test_a_table_location_of_another_form_refuses(client: Client, location: str) -> None:
    server, _ = client({("GET", ".*/metadata/range/.*"): (200, {"location": location})})
    with pytest.raises(IncompleteReadError, match="no path below the namespace"):
        server.table_prefix(NAME)


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


def test_calls_are_counted_by_name(client: Client) -> None:
    server, _ = client(
        {
            ("GET", f"/repositories/{NAME}/branches"): recorded("refs", 3),
            RULES: recorded("gc-rules", 0),
        }
    )
    server.branches(NAME)
    server.branches(NAME)
    server.retention_rules(NAME)
    assert server.requests == {"list_branches": 2, "get_rules": 1}


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
