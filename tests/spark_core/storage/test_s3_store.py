"""S3 on a server in this process: the contract, and what only S3 can answer."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings

from spark_core.errors import SettingsError
from spark_core.namespace import Namespace
from spark_core.storage import open_store
from tests.support.store_conformance import StoreConformance, key_sets, put_list_and_read


class Bucket:
    def __init__(self, client, bucket: str, before: str) -> None:
        self.client, self.bucket, self.before = client, bucket, before

    def put(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=self.before + key, Body=data)

    def keys(self) -> set[str]:
        answer = self.client.list_objects_v2(Bucket=self.bucket, Prefix=self.before)
        return {entry["Key"].removeprefix(self.before) for entry in answer.get("Contents", [])}


@pytest.fixture(scope="session")
def client(s3_server):
    return s3_server.client()


@pytest.fixture
def outside(s3_server, client):
    return Bucket(client, s3_server.bucket(), "a/ns/")


@pytest.fixture
def store(s3_server, outside):
    return open_store(Namespace.parse(f"s3://{outside.bucket}/a/ns"), s3_server.options(s3_region="us-east-1"))


class TestS3Store(StoreConformance):
    pass


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=key_sets)
def test_whatever_is_put_is_listed_and_read_back(store, keys):
    put_list_and_read(store, keys)


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
