"""Azure Blob Storage on Azurite: the contract, and what only Azure can answer."""

from __future__ import annotations

import pytest

from spark_core.namespace import Namespace
from spark_core.storage import open_store
from tests.support import azurite
from tests.support.azure_faults import AzureFaults
from tests.support.azurite import ACCOUNT
from tests.support.fault_proxy import fault_proxy
from tests.support.store_conformance import (
    ODD_NAMES,
    STRANGE_KEYS,
    RemoteStoreConformance,
)

pytestmark = pytest.mark.skipif(azurite.why_not() is not None, reason=str(azurite.why_not()))

NS = "a/ns"
# Azure takes these for other names: `\` for `/`, and dots at the end of a segment for nothing.
NOT_OF_AZURE = {"back\\slash", "..."}


class Container:
    def __init__(self, client) -> None:
        self.client = client
        self.before = f"{NS}/"

    def put(self, key: str, data: bytes) -> None:
        self.client.upload_blob(self.before + key, data, overwrite=True)

    def keys(self) -> set[str]:
        return {name.removeprefix(self.before) for name in self.client.list_blob_names(name_starts_with=self.before)}

    def remove(self, key: str) -> None:
        self.client.delete_blob(self.before + key)


@pytest.fixture
def outside(azurite_server):
    return Container(azurite_server.container())


@pytest.fixture(scope="module")
def proxy(azurite_server):
    with fault_proxy(azurite_server.endpoint) as running:
        yield running


@pytest.fixture
def faults(proxy, outside):
    yield AzureFaults(proxy, outside.client, outside.before)
    proxy.reset()


@pytest.fixture
def store(azurite_server, outside):
    return open_store(Namespace.parse(azurite.uri(outside.client, NS)), azurite_server.options())


class TestAzureStore(RemoteStoreConformance):
    # The client and the service fold `.` and `..` in a URL; what XML cannot hold, Azurite stores and then cannot list.
    strange_keys = tuple(
        key for key in STRANGE_KEYS if not {".", ".."} & set(key.split("/")) and not set(key) & set("\x01\uffff")
    )

    @pytest.fixture
    def store(self, azurite_server, outside, proxy):
        endpoint = f"{proxy.endpoint}/{ACCOUNT}"
        return open_store(
            Namespace.parse(azurite.uri(outside.client, NS)), azurite_server.options(azure_endpoint=endpoint)
        )

    @pytest.mark.parametrize("name", [name for name in ODD_NAMES if name not in NOT_OF_AZURE])
    def test_an_odd_name_is_listed_read_and_deleted_as_itself(self, store, outside, name):
        super().test_an_odd_name_is_listed_read_and_deleted_as_itself(store, outside, name)
