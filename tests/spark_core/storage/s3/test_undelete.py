"""Deleted objects of a bucket with versions come back.

Nothing else does, and nothing is overwritten.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.storage import open_store
from spark_core.storage.s3 import undelete as s3_undelete
from spark_core.storage.undelete import Lost, brought_back
from tests.support.s3_faults import is_copy
from tests.support.scripted_s3 import error

BEFORE = "a/ns/"


@pytest.fixture
def client(s3_server):
    return s3_server.client()


@pytest.fixture
def bucket(s3_server, client):
    name = s3_server.bucket()
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return name


@pytest.fixture
def store(s3_server, s3_proxy, bucket):
    yield open_store(
        Namespace.parse(f"s3://{bucket}/a/ns"),
        s3_server.options(s3_endpoint=s3_proxy.endpoint, s3_region="us-east-1"),
    )
    s3_proxy.reset()


@pytest.fixture
def lose(store):
    """Write an object, remember it as a mark does, and delete it as a sweep does."""

    def lost(key="data/s/a", content=b"content"):
        store.put(key, content)
        info = next(
            row for batch in store.list("data/") for row in batch.to_pylist() if row["key"] == key
        )
        assert store.delete([key])[0].outcome == "deleted"
        assert not store.exists(key)
        return Lost(key, info["size_bytes"], info["last_modified"], info["checksum"])

    return lost


def outcome_of(store, lost, *, dry_run=False):
    outcome = brought_back(store, lost, partial(store.find_deleted, lost), dry_run=dry_run)
    assert outcome.key == lost.key
    return outcome


def test_a_deleted_object_comes_back_with_its_content_and_its_age(store, lose, client, bucket):
    lost = lose()
    assert outcome_of(store, lost, dry_run=True).outcome == "restorable"
    assert not store.exists(lost.key)
    assert outcome_of(store, lost).outcome == "restored"
    assert store.read(lost.key) == b"content"
    assert store.head(lost.key).last_modified == lost.last_modified
    assert "DeleteMarkers" not in client.list_object_versions(Bucket=bucket)
    assert outcome_of(store, lost).outcome == "already_there"


def test_an_object_that_was_deleted_more_than_once_comes_back(store, lose, client, bucket):
    lost = lose()
    client.delete_object(Bucket=bucket, Key=BEFORE + lost.key)
    client.delete_object(Bucket=bucket, Key=BEFORE + lost.key)
    assert outcome_of(store, lost).outcome == "restored"
    assert store.read(lost.key) == b"content"


def test_an_object_whose_marker_may_not_be_removed_is_copied_back_from_its_version(
    store, lose, s3_proxy
):
    lost = lose()
    refuse = error(403, "AccessDenied")
    s3_proxy.meddle(
        lambda request, forward: refuse if request.method == "DELETE" else forward(request)
    )
    assert outcome_of(store, lost).outcome == "restored"
    assert store.read(lost.key) == b"content"


def test_a_marker_without_an_id_of_its_own_is_not_removed_but_the_version_copied(
    store, lose, s3_proxy
):
    """As where versions are suspended.

    An object that is written meanwhile gets the same id, and would be deleted for good.
    """
    lost = lose()
    asked = []

    def suspended(request, forward):
        asked.append(request)
        answer = forward(request)
        if "versions" not in request.query:
            return answer
        body = re.sub(
            rb"(<DeleteMarker>.*?<VersionId>)[^<]*", rb"\1null", answer.body, flags=re.DOTALL
        )
        assert body != answer.body
        return replace(answer, body=body)

    s3_proxy.meddle(suspended)
    assert outcome_of(store, lost).outcome == "restored"
    assert [request.method for request in asked if request.method == "DELETE"] == []
    assert [is_copy(request) for request in asked].count(True) == 1
    assert store.read("data/s/a") == b"content"


def test_another_object_in_its_place_is_never_overwritten(store, lose):
    lost = lose()
    store.put(lost.key, b"written since, by somebody else")
    outcome = outcome_of(store, lost)
    assert (outcome.outcome, "another object is in its place" in outcome.error) == ("failed", True)
    store.put(lost.key, b"CONTENT")
    assert outcome_of(store, lost).outcome == "failed"
    assert store.read(lost.key) == b"CONTENT"


def test_an_object_that_appears_under_the_restore_stays(store, lose, client, bucket, monkeypatch):
    lost = lose()
    bring_back = store.find_deleted(lost)
    store.put(lost.key, b"written just now, and longer")
    bring_back()
    assert store.read(lost.key) == b"written just now, and longer"


def test_the_version_that_was_deleted_comes_back_and_not_an_older_one(store, lose, client, bucket):
    store.put("data/s/a", b"earlier")
    lost = lose(content=b"content")
    assert outcome_of(store, lost).outcome == "restored"
    assert store.read(lost.key) == b"content"


def test_a_version_of_another_size_or_time_is_not_what_was_deleted(store, lose):
    lost = lose()
    for wanted in (
        replace(lost, size_bytes=8, checksum=None),
        replace(lost, last_modified=lost.last_modified - timedelta(hours=1)),
        Lost(lost.key, 6),
    ):
        outcome = outcome_of(store, wanted)
        assert outcome.outcome == "not_restorable"
        assert re.search(r"keeps 1 version of it, none of this size and time", outcome.error)
    assert not store.exists(lost.key)
    assert outcome_of(store, Lost(lost.key, 7)).outcome == "restored"


def test_versions_of_names_that_only_begin_alike_are_others(store, lose, client, bucket):
    for number in range(5):
        lose(f"data/s/ab{number}", b"content")
    assert outcome_of(store, Lost("data/s/a", 7)).outcome == "not_restorable"
    assert outcome_of(store, Lost("data/s/ab", 7)).outcome == "not_restorable"


def test_a_key_of_many_versions_is_read_to_its_end(store, lose, s3_proxy):
    from urllib.parse import urlencode

    lost = lose()
    for _ in range(5):
        lose(content=b"later one")

    def in_small_pages(request, forward):
        if "versions" not in request.query:
            return forward(request)
        return forward(
            replace(
                request, target=f"{request.path}?{urlencode({**request.query, 'max-keys': '2'})}"
            )
        )

    s3_proxy.meddle(in_small_pages)
    assert outcome_of(store, replace(lost, last_modified=None)).outcome == "restored"
    assert store.read(lost.key) == b"content"


def test_a_bucket_without_versions_says_what_would_have_helped(s3_server):
    store = open_store(Namespace.parse(f"s3://{s3_server.bucket()}/a/ns"), s3_server.options())
    store.put("data/s/a", b"x")
    store.delete(["data/s/a"])
    outcome = outcome_of(store, Lost("data/s/a", 1))
    assert outcome.outcome == "not_restorable"
    assert "keeps no versions of it" in outcome.error
    assert "must be on before a sweep" in outcome.error


def test_a_store_that_refuses_to_tell_its_versions_is_no_store_without_any(store, lose, s3_proxy):
    lost = lose()
    refuse = error(403, "AccessDenied")
    s3_proxy.meddle(
        lambda request, forward: refuse if "versions" in request.query else forward(request)
    )
    outcome = outcome_of(store, lost)
    assert (outcome.outcome, "Allow s3:ListBucketVersions" in outcome.error) == ("failed", True)


def test_versions_without_end_are_an_error(store, lose, s3_proxy, monkeypatch):
    monkeypatch.setattr(s3_undelete, "_MOST_PAGES", 3)
    lost = lose()

    def for_ever(request, forward):
        answer = forward(request)
        if "versions" not in request.query:
            return answer
        body = answer.body.replace(b"<IsTruncated>false", b"<IsTruncated>true")
        return replace(answer, body=body)

    s3_proxy.meddle(for_ever)
    outcome = outcome_of(store, lost)
    assert (outcome.outcome, "do not come to an end" in outcome.error) == ("failed", True)
