"""GCS on an emulator: the contract, and what only GCS can answer.

The emulator lacks what is tested with scripted answers in `test_gcs_failures`: permissions,
throttling, soft delete, objects without an MD5, and the life of tokens.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings

from spark_core.addresses.namespace import Namespace
from spark_core.errors import SettingsError
from spark_core.storage import DeleteOutcome, open_store, remote
from spark_core.storage.gcs import clients as gcs_clients
from spark_core.storage.gcs import store as gcs
from tests.support.fault_proxy import fault_proxy
from tests.support.gcs_emulator import gcs_emulator, why_not
from tests.support.gcs_faults import GcsFaults
from tests.support.spooling import require_spooled
from tests.support.store_conformance import (
    STRANGE_KEYS,
    OrderedStoreConformance,
    key_sets,
    put_list_and_read,
    rows_of,
)

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


class Bucket:
    def __init__(self, bucket, before: str, endpoint: str) -> None:
        self.bucket, self.before, self.endpoint = bucket, before, endpoint

    def put(self, key: str, data: bytes) -> None:
        self.bucket.blob(self.before + key).upload_from_string(data, "application/octet-stream")

    def put_many(self, keys) -> None:
        # The client spends more on an upload than the emulator does.
        server = HTTPConnection(urlsplit(self.endpoint).netloc, timeout=10)
        for key in keys:
            where = urlencode({"uploadType": "media", "name": self.before + key})
            server.request("POST", f"/upload/storage/v1/b/{self.bucket.name}/o?{where}", b"")
            with server.getresponse() as answer:
                assert (answer.status, bool(answer.read())) == (200, True)
        server.close()

    def remove(self, key: str) -> None:
        self.bucket.blob(self.before + key).delete()

    def keys(self) -> set[str]:
        return {
            blob.name.removeprefix(self.before)
            for blob in self.bucket.list_blobs(prefix=self.before)
        }


@pytest.fixture(scope="module")
def gcs_server():
    with gcs_emulator() as server:
        yield server


@pytest.fixture(scope="module")
def gcs_proxy(gcs_server):
    with fault_proxy(gcs_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def outside(gcs_server):
    return Bucket(gcs_server.bucket(), "a/ns/", gcs_server.endpoint)


@pytest.fixture
def store(gcs_server, gcs_proxy, outside, monkeypatch):
    monkeypatch.setattr(gcs_clients, "FIRST_WAIT_SECONDS", 0.01)
    options = gcs_server.options(gcs_endpoint=gcs_proxy.endpoint)
    return open_store(Namespace.parse(f"gs://{outside.bucket.name}/a/ns"), options)


@pytest.fixture
def near(gcs_server, outside):
    """The same store without the proxy between."""
    return open_store(Namespace.parse(f"gs://{outside.bucket.name}/a/ns"), gcs_server.options())


@pytest.fixture
def faults(gcs_proxy, outside):
    yield GcsFaults(gcs_proxy, outside.before)
    gcs_proxy.reset()


class TestGcsStore(OrderedStoreConformance):
    """All strange keys: Google itself takes no carriage return, line feed, `.` or `..` as a whole
    name; the emulator does.
    """

    # The emulator does not know the condition of a rewrite; that it is sent is tested in
    # `test_copies`.
    conditional_copies = False
    # A request deletes up to 100 of them; pages, which have room for 1,000, are cut by tests of
    # their own.
    many_keys = 250


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(keys=key_sets)
def test_whatever_is_put_is_listed_and_read_back(near, keys):
    put_list_and_read(near, keys)


def test_one_level_names_keys_that_cannot_be_named_everywhere_as_they_are(near, outside):
    for key in [*STRANGE_KEYS, "data/s/plain"]:
        outside.put(key, b"")
    prefixes, objects = near.children("data/")
    assert prefixes == ["data/../", "data/./", "data//", "data/s/"]
    assert objects["key"].to_pylist() == ["data/"]
    assert set(near.children("data/s/")[1]["key"].to_pylist()) == {
        key
        for key in [*STRANGE_KEYS, "data/s/plain"]
        if key.startswith("data/s/") and "/" not in key[len("data/s/") :]
    }


def test_a_sibling_namespace_is_neither_listed_nor_reached(near, outside):
    for key in ("a/ns2/data/x", "a/nsdata/x", "a/ns", "b"):
        outside.bucket.blob(key).upload_from_string(b"x")
    outside.put("data/x", b"mine")
    assert set(rows_of(near, "")) == {"data/x"}
    assert not near.exists("2/data/x")


def test_a_whole_bucket_can_be_a_namespace(gcs_server, outside):
    store = open_store(Namespace.parse(f"gs://{outside.bucket.name}/"), gcs_server.options())
    store.put("data/x", b"x")
    assert set(rows_of(store, "")) == {"data/x"}
    assert store.children("")[0] == ["data/"]
    assert store.delete(["data/x"]) == [DeleteOutcome("data/x", "deleted")]


@pytest.mark.parametrize("path", ["a b+c/é/#1", "~x/(y)&z=1"])
def test_a_namespace_with_an_odd_path_is_that_path(gcs_server, outside, path):
    store = open_store(Namespace.parse(f"gs://{outside.bucket.name}/{path}"), gcs_server.options())
    store.put("data/x", b"x")
    assert [blob.name for blob in outside.bucket.list_blobs()] == [f"{path}/data/x"]
    assert set(rows_of(store, "")) == {"data/x"}
    assert store.delete(["data/x"]) == [DeleteOutcome("data/x", "deleted")]
    assert not list(outside.bucket.list_blobs())


def test_a_listing_comes_in_batches_of_bounded_size(store, outside, faults, monkeypatch):
    monkeypatch.setattr(remote, "LISTING_BATCH_ROWS", 12)
    for number in range(30):
        outside.put(f"data/s{number % 3}/{number:03}", b"")
    faults.pages_of(5)
    assert [batch.num_rows for batch in store.list("data/")] == [15, 15]
    assert store.requests["list"] == 6


def test_a_key_asked_for_twice_is_deleted_once_and_answered_twice(near, outside):
    outside.put("data/a", b"x")
    assert near.delete(["data/a", "data/a"]) == [DeleteOutcome("data/a", "deleted")] * 2


def test_more_than_one_batch_is_deleted_and_what_was_gone_is_told_apart(near, outside):
    there = [f"data/s/{number:03}" for number in range(0, 150, 2)]
    for key in there:
        outside.put(key, b"")
    asked = [f"data/s/{number:03}" for number in range(150)]
    assert near.delete(asked) == [
        DeleteOutcome(key, "deleted" if key in there else "already_gone") for key in asked
    ]
    assert near.requests["delete"] == 2
    assert outside.keys() == set()


def test_the_checksum_is_the_md5_in_hex(near, outside):
    outside.put("data/plain", b"abc")
    assert (
        near.head("data/plain").checksum
        == hashlib.md5(b"abc").hexdigest()
        == rows_of(near, "")["data/plain"][2]
    )


def test_a_large_file_goes_in_chunks_and_comes_spooled(near, monkeypatch):
    monkeypatch.setattr(gcs, "_CHUNK_BYTES", 4 << 20)
    require_spooled(near, monkeypatch, size_bytes=11 << 20)
    assert near.requests == {"put": 1, "read": 1}


def test_an_object_that_claims_an_encoding_is_read_as_it_is_stored(near, outside):
    packed = gzip.compress(b"text" * 1000)
    blob = outside.bucket.blob("a/ns/data/packed")
    blob.content_encoding = "gzip"
    blob.upload_from_string(packed, "text/plain")
    assert near.read("data/packed") == packed
    assert near.head("data/packed").size_bytes == len(packed)
    assert near.read_range("data/packed", 3, 9) == packed[3:12]


def test_a_versioned_bucket_keeps_the_object_aside_and_the_key_is_gone(near, outside):
    outside.bucket.versioning_enabled = True
    outside.bucket.patch()
    outside.put("data/a", b"x")
    assert near.delete(["data/a"]) == [DeleteOutcome("data/a", "deleted")]
    assert outside.keys() == set()
    assert rows_of(near, "") == {}
    assert not near.exists("data/a")


def test_a_versioned_bucket_is_noticed(near, outside):
    assert near.undelete_hint() is None
    outside.bucket.versioning_enabled = True
    outside.bucket.patch()
    hint = near.undelete_hint()
    assert "noncurrent versions until a lifecycle rule removes them" in hint


def test_a_missing_bucket_is_a_wrong_setting_and_never_an_absent_object(gcs_server):
    store = open_store(Namespace.parse("gs://no-such-bucket/ns"), gcs_server.options(max_retries=0))
    for ask in (
        lambda: list(store.list("")),
        lambda: store.children(""),
        lambda: store.read("x"),
        lambda: store.read_range("x", 0, 1),
        lambda: store.exists("x"),
        lambda: store.put("x", b""),
        store.undelete_hint,
    ):
        with pytest.raises(SettingsError, match="there is no such bucket"):
            ask()
    (outcome,) = store.delete(["data/x"])
    assert (outcome.outcome, outcome.error) == (
        "failed",
        "HTTP 404, and whether the bucket is there could not be told",
    )


def test_a_forked_process_opens_its_own_connections(near, outside):
    outside.put("data/a", b"x")
    assert near.read("data/a") == b"x"
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if near.read("data/a") == b"x" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert near.read("data/a") == b"x"
