"""The recorded server itself: the client sees through it what was recorded."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.errors import (
    NotFoundError,
    PermissionDeniedError,
    RepositoryStateError,
    SettingsError,
)
from spark_core.lakefs import (
    LakeFSServer,
    ServerOptions,
    addresses_on,
    diff_addresses,
    read_refs_dump,
    read_retained,
    read_uncommitted,
    scan_uncommitted,
    uncommitted_files,
)
from spark_core.storage import StoreOptions, open_store
from tests.support.golden import REPOSITORIES, SERVER_PATH, expected, slow_where_large
from tests.support.recorded_server import ACCESS_KEY_ID, RecordedServer

NAMESPACE = Namespace.parse("local://bare", server_path=SERVER_PATH)
LIVING = [name for name in REPOSITORIES if name not in ("bare", "read-only")]
LOCAL = [name for name in LIVING if expected(name)["storage_namespace"].startswith("local://")]
ENTRIES = [
    (name, index) for name in LOCAL for index in range(len(expected(name)["retention"] or []))
]


@pytest.mark.parametrize(
    "entries",
    [
        [entry for entry in ENTRIES if entry[1] == 0 and entry[0] != "many-ranges"],
        pytest.param(ENTRIES, marks=pytest.mark.slow),
    ],
    ids=["the first of each", "every"],
)
def test_every_entry_of_every_repository_is_prepared_as_recorded(
    tmp_path: Path, entries: list[tuple[str, int]]
) -> None:
    for number, (name, index) in enumerate(entries):
        with RecordedServer.unpacked(name, tmp_path / str(number), index=index) as recorded:
            prepared = LakeFSServer(recorded.options()).prepare_commits(name)
            store = open_store(
                Namespace.parse(f"local://{name}", server_path=SERVER_PATH),
                StoreOptions(local_path=str(recorded.local_path)),
            )
            assert prepared is not None
            retained = set(read_retained(store, prepared.run_id)["commit_id"].to_pylist())
            assert retained == set(expected(name)["retention"][index]["retained_as_coded"])


@pytest.mark.parametrize("name", slow_where_large(LOCAL))
def test_scan_dump_and_refs_are_as_recorded(name: str, tmp_path: Path) -> None:
    with RecordedServer.unpacked(name, tmp_path) as recorded:
        server = LakeFSServer(recorded.options())
        repository = server.repository(name)
        store = open_store(
            Namespace.parse(repository.storage_namespace, server_path=SERVER_PATH),
            StoreOptions(local_path=str(recorded.local_path)),
        )
        files = [
            file
            for scan in scan_uncommitted(server, name)
            for file in uncommitted_files(store, scan)
        ]
        rows = {
            address
            for file in files
            for batch in read_uncommitted(store, file)
            for address in batch["address"].to_pylist()
        }
        assert rows == {row[0] for row in expected(name)["prepare_uncommitted"]["rows"]}
        refs = read_refs_dump(store, server.dump_refs(name), server.table_prefix(name))
        assert sorted(branch.id for branch in refs.branches) == sorted(
            branch.id for branch in server.branches(name)
        )
        assert set(refs.commits) == set(expected(name)["commits"])
        assert recorded.requests == {
            "repository": 1,
            "branches": 1,
            "prepare_uncommitted": 2,
            "dump": 1,
            "dump_status": 1,
            "table_location": 1,
        }


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_where_large(LIVING))
def test_every_staged_and_committed_path_of_every_branch_is_shown(
    name: str, tmp_path: Path
) -> None:
    recording = expected(name)
    with RecordedServer.unpacked(name, tmp_path) as recorded:
        server = LakeFSServer(recorded.options())
        namespace = Namespace.parse(
            recorded.repository["storage_namespace"], server_path=SERVER_PATH
        )
        for branch, shown in recording["branches"].items():
            staged = {entry["path"]: entry["address"] for entry in shown["staged"]}
            found = addresses_on(server, name, branch, [*staged, *shown["removed"]])
            assert {path: namespace.relative_absolute(address) for path, address in found} == staged
            committed = dict(addresses_on(server, name, shown["commit_id"], shown["removed"]))
            assert sorted(committed) == sorted(shown["removed"])
            assert sorted(server.diff_branch(name, branch)) == sorted(
                (change["path"], change["type"]) for change in shown["diff"]
            )


def test_an_identical_upload_shows_the_new_address_on_the_branch_and_the_old_one_on_the_commit(
    tmp_path: Path,
) -> None:
    with RecordedServer.unpacked("merges", tmp_path) as recorded:
        server = LakeFSServer(recorded.options())
        commit_id = expected("merges")["branches"]["main"]["commit_id"]
        on_branch, on_commit = (
            dict(addresses_on(server, "merges", ref, ["base/f5"])) for ref in ("main", commit_id)
        )
    assert on_branch.keys() == on_commit.keys() == {"base/f5"}
    assert on_branch != on_commit


def test_a_full_address_of_a_local_store_is_shown_with_the_path_twice(tmp_path: Path) -> None:
    with RecordedServer.unpacked("merges", tmp_path) as recorded:
        found = dict(
            addresses_on(LakeFSServer(recorded.options()), "merges", "main", ["linked/staged"])
        )
    assert found["linked/staged"].startswith(f"local://{SERVER_PATH}{SERVER_PATH}/merges/data/")


def test_hidden_branches_are_shown_when_asked_for(tmp_path: Path) -> None:
    with RecordedServer.unpacked("merges", tmp_path) as recorded:
        branches = LakeFSServer(recorded.options()).branches("merges")
    assert [branch.id for branch in branches] == ["dev", "hid", "main", "release", "tmp-reset"]


def test_an_entry_is_chosen_by_its_label(tmp_path: Path) -> None:
    with RecordedServer.unpacked(
        "merges", tmp_path, retention_label="stricter rules: 0 for all"
    ) as recorded:
        rules = LakeFSServer(recorded.options()).retention_rules("merges")
        assert rules is not None
        assert (rules.default_retention_days, dict(rules.branches)) == (0, {})
        assert recorded.now.isoformat() == "2026-11-21T07:39:36+00:00"


def test_negative_days_of_an_entry_refuse(tmp_path: Path) -> None:
    with (
        RecordedServer.unpacked("merges", tmp_path, retention_label="negative days") as recorded,
        pytest.raises(RepositoryStateError, match="wanted 0 to 36500"),
    ):
        LakeFSServer(recorded.options()).retention_rules("merges")


def test_a_repository_without_rules_says_so_in_every_way(tmp_path: Path) -> None:
    with RecordedServer.unpacked("two-level-index", tmp_path) as recorded:
        server = LakeFSServer(recorded.options())
        assert server.retention_rules("two-level-index") is None
        assert server.prepare_commits("two-level-index") is None


def test_a_server_without_the_asynchronous_calls_works_too(tmp_path: Path) -> None:
    missing = {("POST", ".*/(async|dump)"): (404, {"message": "invalid API endpoint"})}
    with RecordedServer.unpacked("unified", tmp_path, overrides=missing) as recorded:
        server = LakeFSServer(recorded.options())
        prepared = server.prepare_commits("unified")
        assert prepared is not None
        assert prepared.run_id == recorded.commits_run_id
        assert server.dump_refs("unified").commits_metarange_id
        assert recorded.requests["prepare_commits_sync"] == recorded.requests["dump_sync"] == 1


def test_the_read_only_and_the_bare_repository_refuse_as_the_real_ones(tmp_path: Path) -> None:
    with RecordedServer.unpacked("read-only", tmp_path) as recorded:
        server = LakeFSServer(recorded.options())
        assert server.repository("read-only").read_only
        with pytest.raises(RepositoryStateError, match="read-only"):
            server.prepare_commits("read-only")
        with pytest.raises(RepositoryStateError, match="read-only"):
            scan_uncommitted(server, "read-only")
    with RecordedServer.unpacked("bare", tmp_path) as recorded:
        server = LakeFSServer(recorded.options())
        assert server.branches("bare") == []
        with pytest.raises(RepositoryStateError, match="bare has no branch"):
            diff_addresses(server, server.repository("bare"), NAMESPACE, print, at_once=1)


def test_grace_period_version_and_store_are_told(tmp_path: Path) -> None:
    with RecordedServer.unpacked("unified", tmp_path, grace_period_seconds=3) as recorded:
        server = LakeFSServer(recorded.options())
        assert server.grace_period() == timedelta(seconds=3)
        assert server.version() == "dev"
        assert server.storage_config(server.repository("unified")).blockstore_type == "local"
        assert [repository.id for repository in server.repositories()] == ["unified"]


def test_other_keys_other_repositories_and_other_calls_are_refused(tmp_path: Path) -> None:
    with RecordedServer.unpacked("unified", tmp_path) as recorded:
        with pytest.raises(PermissionDeniedError):
            LakeFSServer(ServerOptions(recorded.endpoint, ACCESS_KEY_ID, "wrong")).repository(
                "unified"
            )
        with pytest.raises(NotFoundError, match="repository not found"):
            LakeFSServer(recorded.options()).repository("merges")
    gone = {("GET", "/config/version"): (404, {"message": "invalid API endpoint"})}
    with (
        RecordedServer.unpacked("unified", tmp_path / "again", overrides=gone) as recorded,
        pytest.raises(SettingsError, match="no such API"),
    ):
        LakeFSServer(recorded.options()).version()
