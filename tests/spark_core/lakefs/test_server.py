"""What the client makes of recorded answers, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from spark_core.errors import IncompleteReadError, RepositoryStateError, SettingsError
from spark_core.lakefs import LakeFSServer, StorageConfig
from spark_core.model import Repository
from tests.support.recordings import recorded
from tests.support.scripted_server import ScriptedServer

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
NAME = "obs-45461"
RULES = ("GET", "/repositories/.*/settings/gc_rules")


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
