"""Servers with several storages: each repository is opened in its own, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_core.errors import RepositoryStateError
from spark_core.lakefs import LakeFSServer
from spark_core.model import RunKey
from spark_core.run import Environment, Run, RunOptions, Storage, open_run, preflight
from spark_core.storage import StoreOptions
from tests.support import golden
from tests.support.clock import FakeClock
from tests.support.recorded_server import RecordedServer


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[RecordedServer]:
    with RecordedServer.unpacked("unified", tmp_path / "cold") as server:
        server.repository["storage_id"] = "cold"
        yield server


def told(server: RecordedServer, *stores: tuple[str, str]) -> None:
    """Let the server say that it has these stores: id and type."""
    one = server.server["config"]["storage_config"]
    several = [{**one, "blockstore_id": name, "blockstore_type": kind} for name, kind in stores]
    first: Any = several[0] if len(several) == 1 else None
    config = {**server.server["config"], "storage_config": first, "storage_config_list": several}
    server.answer_with("GET", "/config", (200, config))


def opened(server: RecordedServer, elsewhere: Path) -> Run:
    environment = Environment(
        server=LakeFSServer(server.options()),
        store_options=StoreOptions(local_path=str(elsewhere)),
        spark=lambda: pytest.fail("nothing is computed before the preflight"),
        clock=FakeClock(server.now),
        server_path="/srv/elsewhere",
        storages={
            "cold": Storage(StoreOptions(local_path=str(server.local_path)), golden.SERVER_PATH)
        },
    )
    return open_run(environment, "unified", RunKey.at(server.now), RunOptions())


def test_a_repository_is_opened_in_the_storage_that_it_names(
    recorded: RecordedServer, tmp_path: Path
) -> None:
    told(recorded, ("hot", "s3"), ("cold", "local"))
    run = opened(recorded, tmp_path / "elsewhere")
    assert run.store.exists("_lakefs/dummy")
    assert run.namespace.server_path == golden.SERVER_PATH
    assert preflight(run).blockstore_type == "local"


def test_a_repository_of_a_storage_without_own_words_takes_the_common_ones(
    recorded: RecordedServer, tmp_path: Path
) -> None:
    recorded.repository["storage_id"] = "warm"
    (tmp_path / "elsewhere" / "unified").mkdir(parents=True)
    run = opened(recorded, tmp_path / "elsewhere")
    assert not run.store.exists("_lakefs/dummy")
    assert run.namespace.server_path == "/srv/elsewhere"


@pytest.mark.parametrize(
    ("stores", "text"),
    [
        (
            [("hot", "s3"), ("warm", "local")],
            r"kept in storage 'cold', which is none of the server's 2 stores",
        ),
        (
            [("hot", "local"), ("cold", "s3")],
            r"a namespace of a store of kind 'local', .* its store is of kind 's3'",
        ),
        ([("cold", "mem")], r"its store is of kind 'mem'; it is unknown where its objects are"),
    ],
)
def test_a_storage_that_cannot_be_the_repositorys_is_refused(
    stores: list[tuple[str, str]], text: str, recorded: RecordedServer, tmp_path: Path
) -> None:
    told(recorded, *stores)
    with pytest.raises(RepositoryStateError, match=text):
        preflight(opened(recorded, tmp_path / "elsewhere"))
