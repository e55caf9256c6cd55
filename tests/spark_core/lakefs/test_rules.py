"""The garbage-collection rules of a repository, as the server keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_core.errors import (
    IncompleteReadError,
    NotFoundError,
    RepositoryStateError,
    SettingsError,
)
from spark_core.lakefs import LakeFSServer
from spark_core.model import RetentionRules
from tests.support.recordings import recorded
from tests.support.scripted_server import Asked, Reply, ScriptedServer

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
NAME = "obs-45461"
RULES = ("GET", "/repositories/.*/settings/gc_rules")
SET_RULES = ("PUT", RULES[1])


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
