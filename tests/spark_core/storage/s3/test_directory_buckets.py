"""A directory bucket of S3: the contract without order, and where its requests go.

The server is the emulator of an ordinary bucket, behind a client that lists as a directory bucket
does. No directory bucket of AWS was seen.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from spark_core.addresses.namespace import Namespace
from spark_core.doctor import store as doctor_store
from spark_core.errors import NotFoundError
from spark_core.storage import StoreOptions, open_store
from spark_core.storage.contract import OrderedStore
from spark_core.storage.s3 import clients as s3_clients
from spark_core.storage.s3.directory_buckets import DirectoryBucketStore
from spark_core.storage.undelete import Lost
from tests.spark_core.storage.s3.test_store import Bucket
from tests.support.directory_bucket import UnorderedBucketStore
from tests.support.s3_faults import S3Faults
from tests.support.store_conformance import RemoteStoreConformance, rows_of

NAME = "lake--use1-az4--x-s3"


@pytest.fixture(scope="session")
def client(s3_server):
    return s3_server.client()


@pytest.fixture
def outside(s3_server, client):
    return Bucket(client, s3_server.bucket(), "a/ns/")


@pytest.fixture
def store(s3_server, s3_proxy, outside):
    options = s3_server.options(s3_endpoint=s3_proxy.endpoint, s3_region="us-east-1")
    return UnorderedBucketStore(Namespace.parse(f"s3://{outside.bucket}/a/ns"), options)


@pytest.fixture
def faults(s3_proxy, outside):
    faults = S3Faults(s3_proxy, outside.before)
    yield faults
    s3_proxy.reset()
    if faults.has_throttled:
        s3_clients._boto.cache_clear()


@pytest.mark.slow
class TestDirectoryBucket(RemoteStoreConformance):
    tells_gone = False
    conditional_copies = False


def test_the_client_of_these_tests_lists_in_no_order(store, outside):
    keys = [f"data/s/{number:03}" for number in range(40)]
    for key in keys:
        outside.put(key, b"")
    listed = [key for batch in store.list("data/s/") for key in batch.column("key").to_pylist()]
    assert sorted(listed) == keys
    assert listed != keys
    assert not isinstance(store, OrderedStore)


def test_a_tag_in_the_form_of_an_md5_is_taken_for_no_checksum(store, outside):
    outside.put("data/a", b"content")
    assert rows_of(store, "data/")["data/a"][2] is None
    assert store.head("data/a").checksum is None
    assert store.content("data/a").checksum is None
    assert "md5" not in store.describe("data/a").digests
    assert not store.tells_content
    assert not store.lists_content


def test_nothing_that_was_deleted_comes_back(store, outside):
    assert store.undelete_hint() is None
    assert store.after_deletion().keeps is False
    with pytest.raises(NotFoundError, match="keeps nothing that was deleted"):
        store.find_deleted(Lost("data/a", 1, None, None))


@pytest.mark.parametrize("path_style", [True, False])
def test_requests_go_to_the_zone_in_a_session(path_style):
    options = StoreOptions(
        s3_access_key_id="A" * 20,
        s3_secret_access_key="b" * 40,
        s3_region="us-east-1",
        s3_path_style=path_style,
    )
    store = open_store(Namespace.parse(f"s3://{NAME}/repo"), options)
    assert isinstance(store, DirectoryBucketStore)
    listing, deleting = (_answered(one) for one in (store._clients.boto, store._clients.deleting))
    assert rows_of(store, "data/") == {}
    assert store.delete(["data/x"])[0].outcome == "deleted"
    host = f"https://{NAME}.s3express-use1-az4.us-east-1.amazonaws.com/"
    # Each of them begins a session.
    for sent in (listing, deleting):
        assert [url.partition("?")[0] for _, url, _ in sent] == [host] * 2
    _, _, headers = deleting[-1]
    assert "x-amz-s3session-token" in headers
    assert "x-amz-checksum-crc32" in headers
    assert "content-md5" not in headers
    assert store._clients.objects.config["s3_express"] == "true"
    assert "endpoint" not in store._clients.objects.config


def _answered(boto: Any) -> list[tuple[str, str, set[str]]]:
    """Answer a client's requests here; return what it sent."""
    sent = []

    class Raw:
        def __init__(self, body: bytes) -> None:
            self.body = body

        def stream(self, **_: object) -> Any:
            yield self.body

    def answer(request: Any, **_: object) -> AWSResponse:
        sent.append((request.method, request.url, {name.lower() for name in request.headers}))
        body = next(body for what, body in _BODIES.items() if what in request.url)
        return AWSResponse(request.url, 200, {}, Raw(body))

    boto.meta.events.register_first("before-send.s3", answer)
    return sent


_BODIES = {
    "?session": b"<CreateSessionResult><Credentials><SessionToken>t</SessionToken>"
    b"<SecretAccessKey>s</SecretAccessKey><AccessKeyId>k</AccessKeyId>"
    b"<Expiration>2036-01-01T00:00:00Z</Expiration></Credentials></CreateSessionResult>",
    "?delete": b"<DeleteResult><Deleted><Key>repo/data/x</Key></Deleted></DeleteResult>",
    "list-type": b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>",
}


def test_doctor_tells_a_directory_bucket():
    examination = SimpleNamespace(
        namespace=Namespace.parse(f"s3://{NAME}/repo"),
        storage=lambda: SimpleNamespace(store_options=StoreOptions()),
    )
    assert (
        "a directory bucket (no order, no MD5, no versions)"
        in doctor_store._opens(examination).text  # type: ignore[arg-type]
    )
