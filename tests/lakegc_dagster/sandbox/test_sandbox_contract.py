"""The recorded answers of a real server are the contract: the same request gives the same status
and the same shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import lakefs_sdk
import pytest

from lakegc_dagster.sandbox import (
    routes_config,
    routes_gc,
    routes_login,
    routes_objects,
    routes_refs,
    routes_repositories,
)
from tests.support import golden

API = golden.DATA / "api"
ROOMS = (routes_config, routes_login, routes_repositories, routes_refs, routes_objects, routes_gc)

# Recordings of a server that is not on local files with its default settings.
LEFT_OUT_FILES = {
    "s3-object-gone.json": "an S3 store; the sandbox has a local one",
    "s3-prepare.json": "an S3 store; the sandbox has a local one",
    "no-rules-s3.json": "an S3 store; the sandbox has a local one",
    "observed-prepare-uncommitted-no-progress.json": (
        "a server whose pages end after 1 ns; the sandbox's end by rows, so they always advance"
    ),
    "observed-branch-deleted-in-scan.json": (
        "rows counted while a branch was deleted in mid-scan; the sandbox serves one request at a "
        "time"
    ),
    "observed-identical-upload.json": "told in words; test_sandbox_staging.py does the same steps",
}
# Single requests that are not replayed, by file and position.
LEFT_OUT = {
    **dict.fromkeys(
        [("gc-rules.json", position) for position in range(17, 25)],
        "the sandbox trusts the bodies of its clients",
    ),
    ("objects.json", 8): "the sandbox knows no presigning",
    ("objects.json", 10): "the sandbox knows no delimiter",
    ("objects.json", 12): "the sandbox knows no shallow copies",
    ("prepare-commits.json", 15): "the sandbox trusts the parameters of its clients",
    ("prepare-commits.json", 16): "the sandbox trusts the parameters of its clients",
    ("staging.json", 1): "the sandbox knows no presigning",
    ("read-only-bare-deleted.json", 14): "the sandbox forces nothing",
    ("read-only-bare-deleted.json", 15): "the sandbox forces nothing",
    **dict.fromkeys(
        [("read-only-bare-deleted.json", position) for position in (*range(26, 33), 34)],
        "the sandbox forgets a deleted repository at once",
    ),
    ("refs.json", 23): "the sandbox's tasks are done when they are submitted",
    (
        "observed-cherry-pick-404.json",
        5,
    ): "the real server's commit cache is damaged here; the sandbox has none",
}
# Messages that differ from those of the real server.
OWN_WORDS = {
    ("objects.json", 11): "names a file of this machine",
}
# Headers about the server's build or the time, not about the answer.
IGNORED_HEADERS = {
    "content-length",
    "date",
    "x-request-id",
    "set-cookie",
    "server",
    "content-security-policy",
}


def recordings(file: str) -> list[dict[str, Any]]:
    return [
        entry if isinstance(entry, dict) else {"note": entry}
        for entry in json.loads((API / file).read_text())
    ]


def shape(value: Any) -> Any:
    """Reduce an answer to its keys and types; a list to the shapes that occur in it."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [json.loads(text) for text in sorted({json.dumps(shape(item)) for item in value})]
    return type(value).__name__


class Replay:
    """Sends recorded requests, and maps recorded names to those of the sandbox."""

    def __init__(self, sdk) -> None:
        self.sdk = sdk
        self.names: dict[str, str] = {}

    def translate(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.translate(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.translate(item) for item in value]
        return self.names.get(value, value) if isinstance(value, str) else value

    def learn(self, recorded: Any, ours: Any) -> None:
        if isinstance(recorded, dict) and isinstance(ours, dict):
            for key in recorded.keys() & ours.keys():
                self.learn(recorded[key], ours[key])
        elif isinstance(recorded, list) and isinstance(ours, list):
            for left, right in zip(recorded, ours, strict=False):
                self.learn(left, right)
        elif isinstance(recorded, str) and isinstance(ours, str):
            if len(recorded) <= 12 and recorded != "<JWT>":
                return
            self.names.setdefault(recorded, ours)

    def send(self, request: dict[str, Any]) -> Any:
        headers = {
            name: value.replace("<JWT>", self.names.get("<JWT>", "<JWT>"))
            for name, value in (request.get("headers") or {}).items()
        }
        authorization = request.get("authorization", "")
        if authorization == "none":
            headers.setdefault("Authorization", "")
        elif authorization.startswith("Basic with wrong"):
            headers["Authorization"] = "Basic d3Jvbmc6d3Jvbmc="
        segments = request["path"].removeprefix("/api/v1").split("/")
        path = "/".join(self.names.get(segment, segment) for segment in segments)
        body = request.get("body")
        if isinstance(body, dict):
            body = json.dumps(self.translate(body))
            headers.setdefault("Content-Type", "application/json")
        query = {
            name: str(value) for name, value in self.translate(request.get("query") or {}).items()
        }
        fields = "&".join(f"{name}={_quoted(value)}" for name, value in query.items())
        return self.sdk.raw(
            request["method"], path + (f"?{fields}" if fields else ""), body=body, headers=headers
        )


def _quoted(value: str) -> str:
    return quote(value, safe="")


def first_line(message: str) -> str:
    return message.split("\n", maxsplit=1)[0]


def _is_served(request: dict[str, Any]) -> bool:
    path = request["path"].removeprefix("/api/v1")
    return any(
        request["method"] == endpoint.method
        and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", endpoint.path), path)
        for room in ROOMS
        for endpoint in room.ENDPOINTS
    )


def compare(file: str, position: int, entry: dict[str, Any], replay: Replay) -> None:
    answer = replay.send(entry["request"])
    if not _is_served(entry["request"]):
        # The collector and the histories do without these calls, and so does the sandbox.
        assert answer.status == 404
        return
    expected = entry["response"]
    where = f"{file}[{position}] {entry['request']['method']} {entry['request']['path']}"
    assert answer.status == expected["status"], f"{where}: {answer.data!r}"
    body = expected.get("body")
    if isinstance(body, dict) and "$base64" not in body:
        ours = answer.json()
        assert shape(ours) == shape(body), where
        if "message" in body and (file, position) not in OWN_WORDS:
            assert first_line(ours["message"]) == first_line(body["message"]), where
        replay.learn(body, ours)
    elif isinstance(body, str) and body.startswith("{"):
        documents = answer.data.decode().splitlines()
        assert [shape(json.loads(line)) for line in documents] == [
            shape(json.loads(line)) for line in body.splitlines()
        ], where
    wanted = {name.lower() for name in expected.get("headers", {})} - IGNORED_HEADERS
    assert wanted <= {name.lower() for name in answer.headers}, where
    for name in ("Content-Type", "Content-Disposition", "Cache-Control", "Accept-Ranges"):
        if name in expected.get("headers", {}):
            assert answer.headers[name] == expected["headers"][name], where


def run(replay: Replay, file: str, before: dict[int, Callable[[], None]] | None = None) -> None:
    for position, entry in enumerate(recordings(file)):
        if before and position in before:
            before[position]()
        if "request" in entry and (file, position) not in LEFT_OUT:
            compare(file, position, entry, replay)


@pytest.fixture
def replay(sdk) -> Replay:
    return Replay(sdk)


@pytest.fixture
def recorded(sdk, sandbox, replay) -> str:
    """The repository of most recorded requests: three commits, six branches, three tags."""
    name = "obs-45461"
    replay.names["<ACCESS_KEY_ID>"] = sandbox.access_key_id
    replay.names["<SECRET_ACCESS_KEY>"] = sandbox.secret_access_key
    for other in ("docs-2022-03-31", "many-ranges"):
        sdk.create(other)
    sdk.create(name, storage_namespace="local://obs/45461")
    now = datetime.now(UTC)
    commits = []
    for number in range(3):
        sdk.upload(name, "main", f"f{number}", str(number).encode())
        date = int((now - timedelta(days=10 * (3 - number))).timestamp())
        commits.append(sdk.commit(name, "main", f"c{number}", date=date))
    for number in range(5):
        sdk.branches.create_branch(
            name, lakefs_sdk.BranchCreation(name=f"b{number}", source="main", hidden=number == 3)
        )
    for number in range(3):
        sdk.tags.create_tag(name, lakefs_sdk.TagCreation(id=f"t{number}", ref="main"))
    for theirs, ours in zip(
        (
            "9985523bff2b78d74c7516b120a69e9505f3443912ea808e03e4dc2a8ad14056",
            "d46e5f3597e9fe0dad021413c57b25b3a705cde57e19547584fa51517913f850",
            "564c97dbd045c4fef497cff9de34419fb5a4770e6fb72e7c055646f12266ad6e",
        ),
        commits,
        strict=True,
    ):
        replay.names[theirs] = ours.id
        replay.names[theirs[:10]] = ours.id[:10]
    replay.names["665f2ff69ed1b242abd6a56916583ab5aca3ea66726f359b68d771a076fff76c"] = commits[
        2
    ].meta_range_id
    return name


def test_every_recording_is_replayed_or_left_out_with_a_reason():
    replayed = {
        "auth.json",
        "config.json",
        "gc-rules.json",
        "no-rules-local.json",
        "objects.json",
        "observed-cherry-pick-404.json",
        "prepare-commits.json",
        "prepare-uncommitted-pages.json",
        "prepare-uncommitted.json",
        "read-only-bare-deleted.json",
        "refs.json",
        "repository.json",
        "staging.json",
    }
    assert {path.name for path in API.iterdir()} == replayed | LEFT_OUT_FILES.keys()
    for file, position in LEFT_OUT.keys() | OWN_WORDS.keys():
        assert "request" in recordings(file)[position]


def test_credentials_answer_as_recorded(replay, recorded):
    run(replay, "auth.json")


def test_the_configuration_answers_as_recorded(replay, recorded):
    run(replay, "config.json")


def test_repositories_answer_as_recorded(replay, recorded, sdk):
    slash = "obs-slash-45461"

    def upload() -> None:
        sdk.upload(slash, "main", "x", b"1")

    def prepare() -> None:
        sdk.repositories.set_gc_rules(
            slash, lakefs_sdk.GarbageCollectionRules(default_retention_days=1, branches=[])
        )
        task = sdk.internal.prepare_garbage_collection_commits_async(slash)
        replay.names["GCPCLhyPzvc0VAuowD8GzbjA"] = task.id

    run(replay, "repository.json", {13: upload, 15: prepare})


def test_rules_answer_as_recorded(replay, recorded):
    run(replay, "gc-rules.json")


def test_a_repository_without_rules_answers_as_recorded(replay, sdk):
    sdk.create("obs-nr-45577")
    run(replay, "no-rules-local.json")


def test_refs_and_dumps_answer_as_recorded(replay, recorded, sdk):
    def change() -> None:
        sdk.upload(recorded, "b4", "f0", b"changed")
        sdk.objects.delete_object(recorded, "b4", "f1")

    run(replay, "refs.json", {20: change})


def test_prepared_commits_answer_as_recorded(replay, recorded, sdk):
    sdk.create("unified")
    sdk.repositories.set_gc_rules(
        recorded, lakefs_sdk.GarbageCollectionRules(default_retention_days=1, branches=[])
    )
    run(replay, "prepare-commits.json")


def test_uncommitted_pages_answer_as_recorded(replay, recorded, sdk):
    def stage() -> None:
        for number in range(3):
            sdk.upload(recorded, f"b{number + 1}", f"st/{number}", b"x")
        sdk.objects.delete_object(recorded, "b4", "f0")

    run(replay, "prepare-uncommitted.json", {2: stage})


@pytest.mark.slow
def test_many_uncommitted_pages_answer_as_recorded(sdk, sandbox, replay):
    """270 branches of which few have rows: most pages, the last one too, have no location."""
    name = "obs-pg-45717"
    sdk.create(name, storage_namespace="local://obs/pg-45717")
    staged = {f"a{number:02}": 12 for number in range(25)} | {
        f"z{number}": 1 for number in range(4)
    }
    clean = [f"m{number:03}" for number in range(120)] + [f"zz{number:03}" for number in range(120)]
    for branch in [*staged, *clean]:
        sdk.branches.create_branch(name, lakefs_sdk.BranchCreation(name=branch, source="main"))
    for branch, rows in staged.items():
        for number in range(rows):
            sdk.upload(name, branch, f"k{number:02}", b"x")
    sandbox.behaviour.uncommitted_page_rows = 84
    pages = [entry for entry in recordings("prepare-uncommitted-pages.json") if "request" in entry]
    with_rows = next(
        entry for entry in pages if entry["response"]["body"]["gc_uncommitted_location"]
    )
    last = pages[-1]
    token, locations = None, []
    while True:
        body = {} if token is None else {"continuation_token": token}
        answer = sdk.raw(
            "POST", f"/repositories/{name}/gc/prepare_uncommited", body=json.dumps(body)
        )
        token = answer.json().get("continuation_token")
        expected = with_rows if token else last
        assert answer.status == expected["response"]["status"]
        assert shape(answer.json()) == shape(expected["response"]["body"])
        locations.append(answer.json()["gc_uncommitted_location"])
        if token is None:
            break
    assert locations[0]
    assert not locations[-1]
    assert "" in locations[: locations.index(locations[0]) + locations.count(locations[0])]


def test_objects_answer_as_recorded(replay, recorded, sdk):
    stat = sdk.upload(recorded, "main", "obj/gone", b"obj/gone is 15b")
    Path(stat.physical_address.removeprefix("local://")).unlink()
    run(replay, "objects.json")


def test_staging_answers_as_recorded(replay, recorded, sdk):
    sdk.upload(recorded, "main", "st/0", b"x")
    run(replay, "staging.json")


def test_read_only_bare_and_deleted_repositories_answer_as_recorded(replay, sdk):
    deleted = "obs-de-45461"

    def delete_me() -> None:
        sdk.create(deleted, storage_namespace="local://obs/45461-de")
        sdk.repositories.set_gc_rules(
            deleted,
            lakefs_sdk.GarbageCollectionRules(
                default_retention_days=9,
                branches=[lakefs_sdk.GarbageCollectionRule(branch_id="main", retention_days=3)],
            ),
        )

    run(replay, "read-only-bare-deleted.json", {25: delete_me})


def test_cherry_picks_answer_as_recorded(replay, sdk):
    name = "obs-ck-45761"
    sdk.create(name, storage_namespace="local://obs/ck-45761")
    sdk.upload(name, "main", "a", b"1")
    first = sdk.commit(name, "main", "a")
    sdk.branches.create_branch(name, lakefs_sdk.BranchCreation(name="rel", source=first.id))
    sdk.upload(name, "main", "b", b"1")
    second = sdk.commit(name, "main", "b", metadata={"k": "v"})
    sdk.upload(name, "main", "c", b"1")
    third = sdk.commit(name, "main", "c no metadata")
    replay.names["346a9b5d12a474d0fc1833b94c206d0d9789f3a0006d15e34caf3198ea682dd9"] = second.id
    replay.names["76d08510bc158372dd82abcd5d2fef1e1b67f05de8d4c8e89b2869b73db61c47"] = third.id
    run(replay, "observed-cherry-pick-404.json")
