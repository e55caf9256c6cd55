"""Azure Blob Storage on Azurite: the contract, and what only Azure can answer."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import time
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.credentials import AccessToken, AzureNamedKeyCredential
from azure.storage.blob import (
    BlobBlock,
    BlobServiceClient,
    ContainerSasPermissions,
    ContentSettings,
    RetentionPolicy,
    generate_container_sas,
)
from hypothesis import HealthCheck, given, settings

from spark_core.addresses.namespace import Namespace
from spark_core.errors import AddressError, NotFoundError, PermissionDeniedError, SettingsError
from spark_core.storage import DeleteOutcome, open_store
from spark_core.storage.azure import clients as azure_clients
from tests.support import azurite
from tests.support.azure_faults import AzureFaults, error
from tests.support.azurite import ACCOUNT, ACCOUNT_KEY
from tests.support.fault_proxy import fault_proxy
from tests.support.self_signed import self_signed
from tests.support.spooling import require_spooled
from tests.support.store_conformance import (
    ODD_NAMES,
    STRANGE_KEYS,
    RemoteStoreConformance,
    key_sets,
    put_list_and_read,
    rows_of,
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
        return {
            name.removeprefix(self.before)
            for name in self.client.list_blob_names(name_starts_with=self.before)
        }

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
    # A request deletes up to 256 of them, and a page has room for 5,000, so that pages are cut by
    # tests of their own.
    many_keys = 300
    odd_names = tuple(name for name in ODD_NAMES if name not in NOT_OF_AZURE)
    # The client and the service fold `.` and `..` in a URL; what XML cannot hold, Azurite stores
    # and then cannot list.
    strange_keys = tuple(
        key
        for key in STRANGE_KEYS
        if not {".", ".."} & set(key.split("/")) and not set(key) & set("\x01\uffff")
    )

    @pytest.fixture
    def store(self, azurite_server, outside, proxy):
        endpoint = f"{proxy.endpoint}/{ACCOUNT}"
        return open_store(
            Namespace.parse(azurite.uri(outside.client, NS)),
            azurite_server.options(azure_endpoint=endpoint),
        )


# What the service itself does not take, besides the control characters that no store here is asked
# for.
_nameable = key_sets.map(lambda keys: {key for key in keys if not set(key) & set("\\\ufffe\uffff")})


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(keys=_nameable)
def test_whatever_is_put_is_listed_and_read_back(store, keys):
    put_list_and_read(store, keys)


@pytest.mark.parametrize(
    "key",
    [
        "data/s\\x",
        "data/x.",
        "data/x./y",
        "data/...",
        "data/\x85c",
        "data/\uffff",
        "data/" + "x" * 1100,
    ],
)
def test_a_key_that_azure_takes_for_another_is_neither_read_nor_written_nor_deleted(
    store, outside, key
):
    neighbours = {"data/s/x", "data/x", "data/x/y", "data"}
    for neighbour in neighbours:
        outside.put(neighbour, b"x")
    for ask in (
        store.read,
        store.head,
        lambda key: store.put(key, b""),
        lambda key: store.read_range(key, 0, 1),
    ):
        with pytest.raises(
            AddressError,
            match=r"Azure would take it for another name; it was neither read nor changed",
        ):
            ask(key)
    (outcome,) = store.delete([key])
    assert outcome.outcome == "refused"
    assert "cannot be named safely" in outcome.error
    assert outside.keys() == neighbours


def test_directories_of_a_hierarchical_namespace_are_no_objects(store, outside):
    outside.put("data/s1/a", b"x")
    for folder in ("data", "data/s1", "data/empty"):
        outside.client.upload_blob(outside.before + folder, b"", metadata={"hdi_isfolder": "true"})
    assert set(rows_of(store, "")) == {"data/s1/a"}
    assert store.children("data/") == (["data/s1/"], store.children("data/none/")[1])
    assert not store.exists("data/s1")
    for ask in (store.head, store.read):
        with pytest.raises(NotFoundError, match="it is a directory"):
            ask("data/empty")


def test_a_blob_goes_with_its_snapshots(store, outside):
    outside.put("data/a", b"old")
    blob = outside.client.get_blob_client(outside.before + "data/a")
    blob.create_snapshot()
    outside.put("data/a", b"new")
    assert set(rows_of(store, "")) == {"data/a"}
    assert store.delete(["data/a"]) == [DeleteOutcome("data/a", "deleted")]
    assert not list(outside.client.list_blobs(include=["snapshots"]))


@pytest.mark.parametrize(
    "answer",
    [
        error(400, "InvalidInput"),
        error(404, "ResourceNotFound"),
        error(501, "APINotImplemented"),
        error(409, "FeatureNotSupported"),
    ],
)
def test_where_there_is_no_bulk_deletion_keys_are_deleted_one_by_one(
    azurite_server, outside, proxy, faults, answer
):
    options = azurite_server.options(azure_endpoint=f"{proxy.endpoint}/{ACCOUNT}")
    store = open_store(Namespace.parse(azurite.uri(outside.client, NS)), options)
    proxy.meddle(
        lambda request, forward: (
            answer if request.query.get("comp") == "batch" else forward(request)
        )
    )
    for key in ("data/a", "data/b", "data/c", "data/leased"):
        outside.put(key, b"x")
    outside.client.get_blob_client(outside.before + "data/a").create_snapshot()
    faults.refuse("data/leased")
    assert store.delete(["data/a", "data/none", "data//x", "data/b", "data/leased"]) == [
        DeleteOutcome("data/a", "deleted"),
        DeleteOutcome("data/none", "already_gone"),
        DeleteOutcome("data//x", "refused", store.delete(["data//x"])[0].error),
        DeleteOutcome("data/b", "deleted"),
        DeleteOutcome("data/leased", "refused", "HTTP 412 LeaseIdMissing"),
    ]
    assert store.delete(["data/c"]) == [DeleteOutcome("data/c", "deleted")]
    assert store.requests == {"delete": 1 + 4 + 1}
    assert outside.keys() == {"data/leased"}


def test_a_sibling_namespace_is_neither_listed_nor_reached(store, outside):
    for name in ("a/ns2/data/x", "a/nsdata/x", "a/ns", "b"):
        outside.client.upload_blob(name, b"x")
    outside.put("data/x", b"mine")
    assert set(rows_of(store, "")) == {"data/x"}
    assert not store.exists("2/data/x")


def test_a_whole_container_can_be_a_namespace(azurite_server, outside):
    store = open_store(Namespace.parse(azurite.uri(outside.client)), azurite_server.options())
    store.put("data/x", b"x")
    assert set(rows_of(store, "")) == {"data/x"}
    assert store.children("")[0] == ["data/"]
    assert store.delete(["data/x"]) == [DeleteOutcome("data/x", "deleted")]


def test_the_checksum_is_the_md5_where_azure_has_one_and_null_for_an_upload_in_blocks(
    store, outside
):
    outside.put("data/plain", b"abc")
    blob = outside.client.get_blob_client(outside.before + "data/blocks")
    blob.stage_block("one", b"abc")
    blob.commit_block_list([BlobBlock("one")])
    md5 = hashlib.md5(b"abc").hexdigest()
    assert {key: row[2] for key, row in rows_of(store, "").items()} == {
        "data/plain": md5,
        "data/blocks": None,
    }
    assert (store.head("data/plain").checksum, store.head("data/blocks").checksum) == (md5, None)


def test_a_large_file_is_spooled_on_both_ways(store, monkeypatch):
    require_spooled(store, monkeypatch)


def test_an_object_that_says_it_is_compressed_is_read_as_it_is_stored(store, outside):
    data = gzip.compress(b"text" * 100)
    told = ContentSettings(content_encoding="gzip", content_type="text/plain")
    outside.client.upload_blob(f"{outside.before}data/z", data, content_settings=told)
    assert store.read("data/z") == data
    assert store.read_range("data/z", 1, 5) == data[1:6]
    assert store.head("data/z").size_bytes == len(data)
    with store.open_source("data/z") as source:
        assert source.read() == data


def test_a_key_asked_for_twice_is_deleted_once_and_answered_twice(store, outside):
    outside.put("data/a", b"x")
    assert store.delete(["data/a", "data/a"]) == [DeleteOutcome("data/a", "deleted")] * 2


def test_a_missing_container_is_a_wrong_setting_and_never_an_absent_object(azurite_server):
    namespace = Namespace.parse(f"https://{ACCOUNT}.blob.core.windows.net/no-such-container/ns")
    store = open_store(namespace, azurite_server.options())
    for ask in (
        lambda: list(store.list("")),
        lambda: store.children(""),
        lambda: store.read("x"),
        lambda: store.exists("x"),
        lambda: store.put("x", b""),
    ):
        with pytest.raises(SettingsError, match="there is no such container"):
            ask()
    assert store.delete(["data/x"]) == [
        DeleteOutcome("data/x", "failed", "HTTP 404 ContainerNotFound")
    ]


def test_soft_delete_is_noticed_and_said(azurite_server, store):
    assert store.undelete_hint() is None
    service = azurite_server.service()
    service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=5))
    try:
        assert store.undelete_hint() == (
            "The account has soft delete, so that for 5 days a deleted blob can be undeleted; "
            "what is kept takes up its space."
        )
    finally:
        service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=False))


def test_a_forked_process_opens_connections_of_its_own(store):
    store.put("data/a", b"x")
    child = os.fork()
    if child == 0:
        os._exit(0 if store.read("data/a") == b"x" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.read("data/a") == b"x"


def sas(container, permissions: str, ends: timedelta = timedelta(hours=1)) -> str:
    """A signature for one container."""
    return generate_container_sas(
        ACCOUNT,
        container.container_name,
        ACCOUNT_KEY,
        permission=ContainerSasPermissions.from_string(permissions),
        expiry=datetime.now(UTC) + ends,
    )


def with_sas(azurite_server, outside, permissions: str, **ends):
    token = sas(outside.client, permissions, **ends)
    options = azurite_server.options(azure_account_key=None, azure_sas_token=token)
    return open_store(Namespace.parse(azurite.uri(outside.client, NS)), options), token


def test_a_signature_of_the_container_is_enough(azurite_server, outside):
    store, _ = with_sas(azurite_server, outside, "rcwdl")
    store.put("data/a", b"x")
    store.put_if_absent("data/b", b"y")
    assert set(rows_of(store, "")) == {"data/a", "data/b"}
    assert store.read("data/a") == b"x"
    assert store.delete(["data/a", "data/none", "data/b"]) == [
        DeleteOutcome("data/a", "deleted"),
        DeleteOutcome("data/none", "already_gone"),
        DeleteOutcome("data/b", "deleted"),
    ]
    assert store.undelete_hint() is None


def test_a_signature_without_the_right_to_delete_refuses_each_key(azurite_server, outside):
    store, token = with_sas(azurite_server, outside, "rl")
    outside.put("data/a", b"x")
    assert store.read("data/a") == b"x"
    outcomes = store.delete(["data/a", "data/none"])
    assert [outcome.outcome for outcome in outcomes] == ["refused", "refused"]
    assert outside.keys() == {"data/a"}
    with pytest.raises(
        PermissionDeniedError, match=r"Storage Blob Data Contributor \(of a SAS: r, c and w\)"
    ) as refusal:
        store.put("data/b", b"")
    assert token not in str(refusal.value) + "".join(str(outcome) for outcome in outcomes)


def test_an_expired_signature_is_refused_with_a_next_step(azurite_server, outside):
    store, token = with_sas(azurite_server, outside, "rcwdl", ends=timedelta(hours=-1))
    for ask in (lambda: list(store.list("")), lambda: store.read("x"), lambda: store.put("x", b"")):
        with pytest.raises(
            PermissionDeniedError,
            match=r"the store refuses \(HTTP 403 AuthorizationFailure\).*have not expired",
        ) as refusal:
            ask()
        assert token not in str(refusal.value)
    assert store.delete(["data/a"])[0].outcome == "refused"


def test_a_wrong_account_key_is_refused_by_name(azurite_server, outside):
    wrong = base64.b64encode(b"not the key of this account, really not").decode()
    store = open_store(
        Namespace.parse(azurite.uri(outside.client, NS)),
        azurite_server.options(azure_account_key=wrong),
    )
    with pytest.raises(
        PermissionDeniedError, match="whether key or SAS are this account's"
    ) as refusal:
        list(store.list(""))
    assert wrong not in str(refusal.value)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """An Azurite with TLS and tokens, and the certificate that it shows."""
    folder = tmp_path_factory.mktemp("tls")
    chain = self_signed(folder / "chain.pem")
    more = ("--cert", str(chain), "--key", str(chain), "--oauth", "basic")
    with azurite.azurite(folder, *more) as server:
        yield server, chain


class Identity:
    """Gives tokens that Azurite takes: it looks at what they claim, not at who signed them."""

    def get_token(self, *_scopes: str, **_: object) -> AccessToken:
        now = int(time.time())
        claims = {
            "iss": "https://sts.windows.net/t/",
            "aud": "https://storage.azure.com",
            "nbf": now - 60,
            "iat": now - 60,
            "exp": now + 600,
        }
        parts = [{"alg": "RS256", "typ": "JWT"}, claims]
        encoded = [
            base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
            for part in parts
        ]
        return AccessToken(".".join([*encoded, "c2lnbmVk"]), now + 600)


@pytest.mark.slow
def test_an_identity_with_tokens_does_everything_a_key_does(tls, monkeypatch):
    server, certificate = tls
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    monkeypatch.setattr(azure_clients, "credential_of", lambda *_: Identity())
    container = BlobServiceClient(
        server.endpoint, credential=AzureNamedKeyCredential(ACCOUNT, ACCOUNT_KEY)
    ).create_container("with-tokens")
    store = open_store(
        Namespace.parse(azurite.uri(container, NS)),
        server.options(azure_account_key=None, max_retries=0),
    )
    store.put("data/a", b"x")
    store.put("data/b", b"y")
    assert set(rows_of(store, "data/")) == {"data/a", "data/b"}
    assert store.read_range("data/b", 0, 1) == b"y"
    assert store.delete(["data/a", "data/none", "data/b"]) == [
        DeleteOutcome("data/a", "deleted"),
        DeleteOutcome("data/none", "already_gone"),
        DeleteOutcome("data/b", "deleted"),
    ]
    assert store.requests["delete"] == 1
