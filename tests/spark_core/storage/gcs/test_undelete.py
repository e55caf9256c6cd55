"""Deleted objects of GCS: from versions on the emulator, from soft delete (which it lacks) with
scripted answers.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.storage import StoreOptions, open_store
from spark_core.storage.gcs import clients as gcs_clients
from spark_core.storage.gcs import undelete as gcs_undelete
from spark_core.storage.undelete import Lost, brought_back
from tests.support.gcs_emulator import gcs_emulator, why_not
from tests.support.gcs_faults import error
from tests.support.scripted_s3 import Answer, scripted_s3

WRITTEN = datetime(2026, 11, 20, 2, tzinfo=UTC)
LOST = Lost("data/s/a", 7, WRITTEN)


def outcome_of(store, lost, *, dry_run=False):
    return brought_back(store, lost, partial(store.find_deleted, lost), dry_run=dry_run)


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_a_deleted_object_comes_back_from_the_versions_of_a_bucket():
    with gcs_emulator() as server:
        bucket = server.bucket()
        bucket.versioning_enabled = True
        bucket.patch()
        store = open_store(Namespace.parse(f"gs://{bucket.name}/a/ns"), server.options())
        store.put("data/s/ab", b"another")
        store.put("data/s/a", b"content")
        info = store.head("data/s/a")
        store.delete(["data/s/a", "data/s/ab"])
        lost = Lost("data/s/a", 7, info.last_modified, info.checksum)
        assert outcome_of(store, replace(lost, size_bytes=8)).outcome == "not_restorable"
        assert outcome_of(store, lost, dry_run=True).outcome == "restorable"
        assert not store.exists("data/s/a")
        assert outcome_of(store, lost).outcome == "restored"
        assert store.read("data/s/a") == b"content"
        assert not store.exists("data/s/ab")
        assert outcome_of(store, lost).outcome == "already_there"
        store.put("data/s/a", b"CONTENT")
        assert outcome_of(store, lost).outcome == "failed"
        assert store.read("data/s/a") == b"CONTENT"


def told(**answer) -> Answer:
    return Answer(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})


def item(name="a/ns/data/s/a", size=7, at=WRITTEN, generation=11, **more):
    times = {"updated": at.isoformat(), "timeCreated": at.isoformat()}
    return {"name": name, "size": str(size), "generation": str(generation), **times, **more}


class Bucket:
    """A bucket with soft delete, as far as one object needs it."""

    def __init__(self, hidden, **changes):
        self.hidden, self.asked, self.live = hidden, [], None
        self.changes = changes

    def __call__(self, request):
        self.asked.append(request)
        for name, answer in self.changes.items():
            if name in request.query or request.path.endswith(f"/{name}"):
                return answer
        if request.path.endswith("/o"):
            if "softDeleted" in request.query:
                return told(kind="storage#objects", items=self.hidden)
            return told(kind="storage#objects")
        if request.path.endswith("/restore"):
            self.live = next(
                one for one in self.hidden if one["generation"] == request.query["generation"]
            )
            return told(generation="12")
        return told(**self.live) if self.live else error(404, "notFound")


@pytest.fixture
def serve(monkeypatch):
    monkeypatch.setattr(gcs_clients, "FIRST_WAIT_SECONDS", 0.01)

    def undelete(bucket, lost=LOST):
        with scripted_s3(bucket) as endpoint:
            options = StoreOptions(gcs_endpoint=endpoint, allow_http=True, max_retries=1)
            return outcome_of(open_store(Namespace.parse("gs://bucket/a/ns"), options), lost)

    return undelete


def test_a_soft_deleted_object_is_restored_where_nothing_is(serve):
    bucket = Bucket(
        [
            item(generation=10, at=WRITTEN - timedelta(days=1)),
            item(),
            item("a/ns/data/s/ab", generation=12),
        ]
    )
    assert serve(bucket).outcome == "restored"
    (request,) = [one for one in bucket.asked if one.method == "POST"]
    assert request.target.startswith("/storage/v1/b/bucket/o/a%2Fns%2Fdata%2Fs%2Fa/restore?")
    assert (request.query["generation"], request.query["ifGenerationMatch"]) == ("11", "0")


@pytest.mark.parametrize(
    "hidden",
    [[], [item(size=8)], [item(at=WRITTEN + timedelta(seconds=2))], [item("a/ns/data/s/ab")]],
    ids=["none", "size", "time", "name"],
)
def test_what_was_not_deleted_is_not_restored(serve, hidden):
    bucket = Bucket(hidden)
    outcome = serve(bucket)
    assert (outcome.outcome, "must be on before a sweep" in outcome.error) == (
        "not_restorable",
        True,
    )
    assert [one for one in bucket.asked if one.method == "POST"] == []


def test_a_generation_whose_metadata_changed_is_known_by_the_time_of_its_creation(serve):
    assert (
        serve(Bucket([{**item(), "updated": (WRITTEN + timedelta(days=3)).isoformat()}])).outcome
        == "restored"
    )


def test_without_the_policy_there_is_nothing_to_restore_and_no_error(serve):
    outcome = serve(Bucket([], softDeleted=error(400, "invalid")))
    assert outcome.outcome == "not_restorable"


@pytest.mark.parametrize(
    ("answers", "cause"),
    [
        ({"softDeleted": error(403, "forbidden")}, "Allow storage.objects.list"),
        (
            {"restore": error(403, "forbidden")},
            "Allow storage.objects.restore and storage.objects.create",
        ),
        ({"versions": Answer(200, b"<html>")}, "could not be listed to their end"),
        (
            {"versions": told(kind="storage#objects", nextPageToken="x")},
            "could not be listed to their end",
        ),
    ],
    ids=["listing", "restoring", "page", "endless"],
)
def test_what_the_store_does_not_do_is_told_as_a_failure(serve, monkeypatch, answers, cause):
    monkeypatch.setattr(gcs_undelete, "_MOST_PAGES", 3)
    outcome = serve(Bucket([item()], **answers))
    assert (outcome.outcome, cause in outcome.error) == ("failed", True), outcome
