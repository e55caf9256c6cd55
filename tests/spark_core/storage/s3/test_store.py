"""S3 on a server in this process: the contract, and what only S3 can answer."""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from spark_core.addresses.namespace import Namespace
from spark_core.errors import NotFoundError, SettingsError, TransientError
from spark_core.storage import DeleteOutcome, StoreOptions, open_store, remote
from spark_core.storage.s3 import clients as s3_clients
from tests.support.moto_s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from tests.support.s3_faults import S3Faults
from tests.support.scripted_s3 import error, scripted_s3
from tests.support.self_signed import self_signed
from tests.support.spooling import require_spooled
from tests.support.store_conformance import (
    STRANGE_KEYS,
    OrderedStoreConformance,
    key_sets,
    put_list_and_read,
    rows_of,
)


class Bucket:
    def __init__(self, client, bucket: str, before: str) -> None:
        self.client, self.bucket, self.before = client, bucket, before

    def put(self, key: str, data: bytes) -> None:
        # The server's web part does not take a newline in a path, its store does.
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(self.bucket, self.before + key, data)

    def put_many(self, keys) -> None:
        for key in keys:
            self.put(key, b"")

    def remove(self, key: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=self.before + key)

    def keys(self) -> set[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=self.before
        )
        return {
            entry["Key"].removeprefix(self.before)
            for page in pages
            for entry in page.get("Contents", [])
        }


@pytest.fixture(scope="session")
def client(s3_server):
    return s3_server.client()


@pytest.fixture
def outside(s3_server, client):
    return Bucket(client, s3_server.bucket(), "a/ns/")


@pytest.fixture
def store(s3_server, s3_proxy, outside):
    options = s3_server.options(s3_endpoint=s3_proxy.endpoint, s3_region="us-east-1")
    return open_store(Namespace.parse(f"s3://{outside.bucket}/a/ns"), options)


@pytest.fixture
def faults(s3_proxy, outside):
    faults = S3Faults(s3_proxy, outside.before)
    yield faults
    s3_proxy.reset()
    if faults.has_throttled:
        # The client goes on slowly, and all tests have the same one.
        s3_clients._boto.cache_clear()


class TestS3Store(OrderedStoreConformance):
    # S3 confirms what was not there like what was.
    tells_gone = False
    # The emulator does not know the condition of CopyObject; that it is sent is tested below.
    conditional_copies = False


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(keys=key_sets)
def test_whatever_is_put_is_listed_and_read_back(store, keys):
    put_list_and_read(store, keys)


def test_one_level_names_keys_that_cannot_be_named_everywhere_as_they_are(store, outside):
    for key in [*STRANGE_KEYS, "data/s/plain"]:
        outside.put(key, b"")
    prefixes, objects = store.children("data/")
    assert prefixes == ["data/../", "data/./", "data//", "data/s/"]
    assert objects["key"].to_pylist() == ["data/"]
    assert set(store.children("data/s/")[1]["key"].to_pylist()) == {
        key
        for key in [*STRANGE_KEYS, "data/s/plain"]
        if key.startswith("data/s/") and "/" not in key[len("data/s/") :]
    }


def test_a_sibling_namespace_is_neither_listed_nor_reached(store, outside):
    for key in ("a/ns2/data/x", "a/nsdata/x", "a/ns", "b"):
        outside.client.put_object(Bucket=outside.bucket, Key=key, Body=b"x")
    outside.put("data/x", b"mine")
    assert set(rows_of(store, "")) == {"data/x"}
    assert not store.exists("2/data/x")


def test_a_whole_bucket_can_be_a_namespace(s3_server, outside):
    store = open_store(Namespace.parse(f"s3://{outside.bucket}/"), s3_server.options())
    store.put("data/x", b"x")
    assert set(rows_of(store, "")) == {"data/x"}
    assert store.children("") == (["data/"], store.children("")[1])
    assert store.delete(["data/x"]) == [DeleteOutcome("data/x", "deleted")]


def test_a_listing_of_many_pages_is_whole_and_comes_in_batches(store, outside, monkeypatch):
    monkeypatch.setattr(remote, "LISTING_BATCH_ROWS", 40)
    keys = {f"data/s{number % 3}/{number:03}" for number in range(110)}
    for key in keys:
        outside.put(key, b"")
    boto = store._clients.boto
    monkeypatch.setattr(boto, "list_objects_v2", partial(boto.list_objects_v2, MaxKeys=15))
    assert set(rows_of(store, "data/")) == keys
    assert [batch.num_rows for batch in store.list("data/")] == [45, 45, 20]
    assert store.children("data/")[0] == ["data/s0/", "data/s1/", "data/s2/"]
    assert store.requests["list"] == 8 + 8 + 1


def test_the_checksum_is_the_md5_of_a_plain_upload_and_null_for_one_in_parts(store, outside):
    outside.put("data/plain", b"abc")
    large = bytes(12 << 20)
    store.put("data/parts", large)
    md5 = hashlib.md5(b"abc").hexdigest()
    assert {key: checksum for key, (_, _, checksum) in rows_of(store, "").items()} == {
        "data/plain": md5,
        "data/parts": None,
    }
    assert (store.head("data/plain").checksum, store.head("data/parts").checksum) == (md5, None)
    assert store.read("data/parts") == large


def test_a_large_file_is_spooled_on_both_ways(store, monkeypatch):
    require_spooled(store, monkeypatch)


def test_a_large_file_leaves_memory_while_it_comes(store, monkeypatch):
    monkeypatch.setattr(remote, "_SPOOLED_BYTES", 1 << 20)
    store.put("big", bytes(20 << 20))
    held, rollover = [], tempfile.SpooledTemporaryFile.rollover

    def moved(file):
        held.append(file.tell())
        rollover(file)

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", moved)
    with store.open_source("big"):
        pass
    assert held[0] < 20 << 20


def test_a_versioned_bucket_gets_a_marker_and_the_key_is_gone(store, outside):
    outside.client.put_bucket_versioning(
        Bucket=outside.bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    outside.put("data/a", b"x")
    assert store.delete(["data/a"]) == [DeleteOutcome("data/a", "deleted")]
    assert outside.keys() == set()
    assert not store.exists("data/a")


def test_a_key_asked_for_twice_is_deleted_once_and_answered_twice(store, outside):
    outside.put("data/a", b"x")
    assert store.delete(["data/a", "data/a"]) == [DeleteOutcome("data/a", "deleted")] * 2


def test_a_missing_bucket_is_a_wrong_setting_and_never_an_absent_object(s3_server):
    store = open_store(Namespace.parse("s3://no-such-bucket/ns"), s3_server.options())
    for ask in (
        lambda: list(store.list("")),
        lambda: store.children(""),
        lambda: store.read("x"),
        lambda: store.exists("x"),
        lambda: store.put("x", b""),
    ):
        with pytest.raises(SettingsError, match="there is no such bucket"):
            ask()
    assert store.delete(["data/x"]) == [DeleteOutcome("data/x", "failed", "HTTP 404 NoSuchBucket")]


def test_the_region_is_found_and_travels_along(s3_server, client):
    bucket = s3_server.bucket(region="eu-west-3")
    store = open_store(Namespace.parse(f"s3://{bucket}/ns"), s3_server.options())
    store.put("data/a", b"x")
    assert store._clients.region == "eu-west-3"
    assert store._clients.objects.config["region"] == "eu-west-3"
    copy = pickle.loads(pickle.dumps(store))
    assert copy._region == "eu-west-3"
    assert copy.read("data/a") == b"x"


def test_a_given_region_is_taken_and_not_asked_for(s3_server, outside, monkeypatch):
    monkeypatch.setattr(s3_clients, "_region_of", None)
    store = open_store(
        Namespace.parse(f"s3://{outside.bucket}/ns"), s3_server.options(s3_region="eu-north-1")
    )
    assert store._clients.region == "eu-north-1"


@pytest.fixture
def no_aws(monkeypatch, tmp_path):
    """An environment that says nothing about AWS and offers no instance role."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    s3_clients.open_session.cache_clear()
    s3_clients._boto.cache_clear()
    yield tmp_path
    s3_clients.open_session.cache_clear()
    s3_clients._boto.cache_clear()


def test_credentials_endpoint_and_region_come_from_the_environment(
    s3_server, outside, no_aws, monkeypatch
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_server.endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    store = open_store(Namespace.parse(f"s3://{outside.bucket}/ns"), StoreOptions(allow_http=True))
    store.put("data/a", b"x")
    assert store.read("data/a") == b"x"
    assert set(rows_of(store, "")) == {"data/a"}


def test_credentials_come_from_a_profile(s3_server, outside, no_aws):
    (no_aws / "credentials").write_text(
        f"[gc]\naws_access_key_id={ACCESS_KEY_ID}\naws_secret_access_key={SECRET_ACCESS_KEY}\n"
    )
    options = s3_server.options(s3_access_key_id=None, s3_secret_access_key=None, s3_profile="gc")
    store = open_store(Namespace.parse(f"s3://{outside.bucket}/ns"), options)
    store.put("data/a", b"x")
    assert store._clients.objects.credential_provider()["access_key_id"] == ACCESS_KEY_ID


def test_explicit_keys_are_not_mixed_with_a_token_of_the_environment(
    s3_server, outside, no_aws, monkeypatch
):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-another-identity")
    store = open_store(Namespace.parse(f"s3://{outside.bucket}/ns"), s3_server.options())
    given = store._clients.objects.credential_provider()
    assert (given["access_key_id"], given["token"]) == (ACCESS_KEY_ID, None)
    assert "of-another-identity" not in str(store._clients.objects.config)


def test_no_credentials_is_a_wrong_setting(s3_server, no_aws):
    store = open_store(
        Namespace.parse("s3://bucket/ns"),
        s3_server.options(s3_access_key_id=None, s3_secret_access_key=None),
    )
    with pytest.raises(SettingsError, match="no credentials for S3 were found"):
        list(store.list(""))


def test_an_unknown_profile_is_a_wrong_setting(s3_server, no_aws):
    options = s3_server.options(
        s3_access_key_id=None, s3_secret_access_key=None, s3_profile="nobody"
    )
    store = open_store(Namespace.parse("s3://bucket/ns"), options)
    with pytest.raises(SettingsError, match="the AWS configuration cannot be used"):
        store.read("x")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"allow_http": False}, "sends data and signatures without TLS"),
        ({"s3_endpoint": "minio:9000"}, "is no URL of the form"),
        ({"s3_endpoint": "https://user:SECRET@minio:9000"}, "is no URL of the form"),
        ({"s3_endpoint": "https://minio:9000?token=SECRET"}, "is no URL of the form"),
        ({"s3_secret_access_key": None}, "only one of the S3 access key id and its secret is set"),
        ({"s3_access_key_id": None}, "only one of the S3 access key id and its secret is set"),
    ],
)
def test_options_that_contradict_each_other_are_refused_at_once(s3_server, changes, text):
    with pytest.raises(SettingsError, match=text) as error:
        open_store(Namespace.parse("s3://bucket/ns"), s3_server.options(**changes))
    assert "SECRET" not in str(error.value).replace("S3 access key id and its secret", "")


def test_the_host_style_puts_the_bucket_into_the_host(s3_server):
    store = open_store(
        Namespace.parse("s3://bucket/ns"),
        s3_server.options(s3_path_style=False, s3_region="us-east-1"),
    )
    assert store._clients.objects.config["endpoint"] == s3_server.endpoint.replace(
        "://", "://bucket."
    )
    assert store._clients.boto.meta.config.s3["addressing_style"] == "virtual"


def test_a_private_certificate_authority_is_trusted_by_both_clients(tmp_path, monkeypatch):
    chain = self_signed(tmp_path / "chain.pem")
    options = {
        "s3_region": "us-east-1",
        "s3_access_key_id": "a",
        "s3_secret_access_key": "b",
        "max_retries": 0,
    }
    with scripted_s3(lambda _request: error(404, "NoSuchKey"), certificate=chain) as endpoint:
        for bundle, read, listed in (
            (None, TransientError, TransientError),
            (str(chain), NotFoundError, SettingsError),
        ):
            if bundle:
                monkeypatch.setenv("AWS_CA_BUNDLE", bundle)
            store = open_store(
                Namespace.parse("s3://bucket/ns"), StoreOptions(s3_endpoint=endpoint, **options)
            )
            s3_clients.open_session.cache_clear()
            s3_clients._boto.cache_clear()
            with pytest.raises(read):
                store.read("x")
            with pytest.raises(listed):
                list(store.list(""))


def test_aws_itself_is_reached_in_the_buckets_region():
    options = StoreOptions(s3_region="eu-west-1", s3_access_key_id="a", s3_secret_access_key="b")
    store = open_store(Namespace.parse("s3://bucket/ns"), options)
    assert store._clients.objects.config["endpoint"] == "https://s3.eu-west-1.amazonaws.com"
    assert store._clients.boto.meta.endpoint_url == "https://s3.eu-west-1.amazonaws.com"


def test_options_show_no_credential():
    options = StoreOptions(
        s3_access_key_id="KEYID", s3_secret_access_key="SECRET", s3_session_token="TOKEN"
    )
    assert not [word for word in ("KEYID", "SECRET", "TOKEN") if word in f"{options!r} {options}"]


def test_a_forked_process_refuses_instead_of_waiting_for_ever(store):
    store.put("data/a", b"x")
    child = os.fork()
    if child == 0:
        try:
            store.read("data/a")
        except SettingsError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_request_whose_process_ended_is_over_when_the_client_would_have_given_up(store):
    options = store.options
    assert store.longest_request == options.connect_timeout + options.read_timeout
