"""Which account a namespace lies in, and how lakegc shows who it is.

Decided without asking anybody.
"""

from __future__ import annotations

import pickle
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.identity import ClientSecretCredential, DefaultAzureCredential
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.addresses.namespace import Namespace
from spark_core.errors import SettingsError
from spark_core.storage import StoreOptions, open_store
from spark_core.storage.azure.account import place_of
from spark_core.storage.azure.credentials import credential_of

KEY = "c2VjcmV0LW9mLXRoZS1hY2NvdW50"
NAMESPACE = Namespace.parse("https://Lake.blob.core.windows.net/container/a/ns")


@pytest.mark.parametrize(
    ("uri", "endpoint", "told"),
    [
        ("https://Lake.blob.core.windows.net/c", None, ("lake", "c", "", "https://lake.blob.core.windows.net")),
        ("https://lake.dfs.core.windows.net/c/a/", None, ("lake", "c", "a/", "https://lake.blob.core.windows.net")),
        ("http://lake.blob.core.windows.net/c", None, ("lake", "c", "", "https://lake.blob.core.windows.net")),
        ("https://lake.blob.core.chinacloudapi.cn/c/a/b", None, ("lake", "c", "a/b/", "https://lake.blob.core.chinacloudapi.cn")),
        ("https://lake.azurite.test:10000/c", None, ("lake", "c", "", "https://lake.azurite.test:10000")),
        ("https://lake.blob.core.windows.net/c", "http://127.0.0.1:10000/lake/", ("lake", "c", "", "http://127.0.0.1:10000/lake")),
        ("https://lake.blob.core.windows.net/c", "https://lake.privatelink.blob.core.windows.net", ("lake", "c", "", "https://lake.privatelink.blob.core.windows.net")),  # noqa: E501 - a row of data
        ("https://lake.blob.core.windows.net/c", "https://blobs.example.org", ("lake", "c", "", "https://blobs.example.org")),
    ],
)  # fmt: skip
def test_account_and_container_are_what_the_server_takes_for_them(uri, endpoint, told):
    place = place_of(Namespace.parse(uri), StoreOptions(azure_endpoint=endpoint, allow_http=True))
    assert (place.account.name, place.container, place.before, place.account.url) == told


@pytest.mark.parametrize(
    "uri",
    ["http://127.0.0.1:10000/lake/c", "https://127.0.0.1/lake/c", "https://azurite:10000/lake/c"],
)
def test_a_host_that_names_no_account_is_refused(uri):
    with pytest.raises(SettingsError, match=r"names no storage account.*reached by azure_endpoint"):
        open_store(Namespace.parse(uri), StoreOptions(azure_account_key=KEY))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"azure_endpoint": "http://127.0.0.1:10000/lake"},
            "sends data and signatures without TLS",
        ),
        ({"azure_endpoint": "azurite:10000"}, "is no URL of the form"),
        ({"azure_endpoint": "https://user:SECRET@host/lake"}, "is no URL of the form"),
        ({"azure_endpoint": "https://host/lake?sig=SECRET"}, "is no URL of the form"),
        (
            {"azure_endpoint": "https://host/other"},
            "leads to the account 'other', the namespace lies in 'lake'",
        ),
        ({"azure_endpoint": "https://host/lake/c"}, "leads to the account 'lake/c'"),
        ({"azure_endpoint": "https://other.blob.core.windows.net"}, "leads to the account 'other'"),
        (
            {"azure_account_key": KEY, "azure_sas_token": "sig=SECRET"},
            "azure_account_key and azure_sas_token are set",
        ),
        (
            {"azure_sas_token": "sig=SECRET", "azure_client_secret": "SECRET"},
            "only one can be meant",
        ),
        (
            {"azure_client_secret": "SECRET", "azure_client_id": "id"},
            "azure_tenant_id or azure_client_id is missing",
        ),
        ({"azure_account_key": "SECRET, no base64"}, "azure_account_key is no account key"),
    ],
)
def test_options_that_contradict_each_other_are_refused_at_once(changes, text):
    with pytest.raises(SettingsError, match=text) as error:
        open_store(NAMESPACE, StoreOptions(**changes))
    assert "SECRET" not in str(error.value)


def chosen(environment, **options):
    options = StoreOptions(**options)
    return credential_of(place_of(NAMESPACE, options).account, options, environment)


PRINCIPAL = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"}
EVERYTHING = {"AZURE_STORAGE_KEY": KEY, "AZURE_STORAGE_SAS_TOKEN": "sig=env", **PRINCIPAL}


@pytest.mark.parametrize(
    ("environment", "options", "kind"),
    [
        (EVERYTHING, {"azure_account_key": "b3duS2V5"}, AzureNamedKeyCredential),
        (EVERYTHING, {"azure_sas_token": "sig=own"}, AzureSasCredential),
        (EVERYTHING, {"azure_tenant_id": "t", "azure_client_id": "c", "azure_client_secret": "s"}, ClientSecretCredential),  # noqa: E501 - a row of data
        (EVERYTHING, {}, AzureNamedKeyCredential),
        ({"AZURE_STORAGE_ACCOUNT_KEY": KEY}, {}, AzureNamedKeyCredential),
        ({"AZURE_STORAGE_KEY": KEY, "AZURE_STORAGE_ACCOUNT": "lake"}, {}, AzureNamedKeyCredential),
        ({"AZURE_STORAGE_KEY": KEY, "AZURE_STORAGE_ACCOUNT": "other"}, {}, DefaultAzureCredential),
        ({"AZURE_STORAGE_KEY": KEY, "AZURE_STORAGE_ACCOUNT": "other", **PRINCIPAL}, {}, ClientSecretCredential),  # noqa: E501 - a row of data
        ({"AZURE_STORAGE_SAS_TOKEN": "sig=env", **PRINCIPAL}, {}, AzureSasCredential),
        (PRINCIPAL, {}, ClientSecretCredential),
        ({"AZURE_CLIENT_SECRET": "s"}, {"azure_tenant_id": "t", "azure_client_id": "c"}, ClientSecretCredential),  # noqa: E501 - a row of data
        ({}, {"azure_client_id": "a-managed-identity"}, DefaultAzureCredential),
        ({}, {}, DefaultAzureCredential),
    ],
)  # fmt: skip
def test_options_come_before_the_environment_before_the_usual_chain_and_nobody_is_anonymous(
    environment, options, kind
):
    assert type(chosen(environment, **options)) is kind


def test_an_own_key_wins_over_one_of_the_environment():
    assert chosen(EVERYTHING, azure_account_key="b3duS2V5").named_key.key == "b3duS2V5"
    assert chosen({"AZURE_STORAGE_KEY": KEY}).named_key == ("lake", KEY)


def test_a_key_of_the_environment_that_is_none_is_named():
    with pytest.raises(SettingsError, match="AZURE_STORAGE_KEY is no account key") as error:
        chosen({"AZURE_STORAGE_KEY": "SECRET!"})
    assert "SECRET" not in str(error.value)


@pytest.mark.parametrize(
    ("uri", "environment", "authority"),
    [
        ("https://lake.blob.core.chinacloudapi.cn/c", {}, "login.chinacloudapi.cn"),
        ("https://lake.blob.core.usgovcloudapi.net/c", {}, "login.microsoftonline.us"),
        ("https://lake.blob.core.windows.net/c", {}, "login.microsoftonline.com"),
        ("https://lake.blob.core.chinacloudapi.cn/c", {"AZURE_AUTHORITY_HOST": "login.example.org"}, "login.example.org"),  # noqa: E501 - a row of data
    ],
)  # fmt: skip
def test_a_national_cloud_has_an_identity_provider_of_its_own(
    uri, environment, authority, monkeypatch
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    namespace, options = Namespace.parse(uri), StoreOptions()
    credential = credential_of(
        place_of(namespace, options).account, options, {**PRINCIPAL, **environment}
    )
    assert authority in str(vars(credential))


def test_a_token_is_not_sent_without_tls():
    options = StoreOptions(
        azure_endpoint="http://127.0.0.1:10000/lake",
        azure_tenant_id="t",
        azure_client_id="c",
        azure_client_secret="SECRET",
        allow_http=True,
    )
    store = open_store(NAMESPACE, options)
    with pytest.raises(SettingsError, match="tokens are only sent over TLS") as error:
        store.read("data/x")
    assert "SECRET" not in str(error.value)


def test_options_show_no_credential():
    options = StoreOptions(
        azure_account_key="KEY!", azure_sas_token="SAS!", azure_client_secret="SECRET!"
    )
    assert not [word for word in ("KEY!", "SAS!", "SECRET!") if word in f"{options!r} {options}"]


def test_stores_of_one_account_share_a_client_and_a_pickled_one_opens_its_own():
    options = StoreOptions(azure_account_key=KEY, read_timeout=timedelta(seconds=7))
    one, other = (
        open_store(Namespace.parse(f"https://lake.blob.core.windows.net/{c}"), options)
        for c in "ab"
    )
    copy = pickle.loads(pickle.dumps(one))
    assert copy._opened is None
    assert one._clients.account is other._clients.account is copy._clients.account


def test_a_request_is_repeated_within_bounds_and_as_late_as_the_store_asks(monkeypatch):
    from types import SimpleNamespace

    from spark_core.storage.azure import clients as azure_clients

    now = [0.0]
    monkeypatch.setattr(azure_clients, "monotonic", lambda: now[0])
    patience = azure_clients.Patience(
        StoreOptions(max_retries=50, retry_timeout=timedelta(seconds=100))
    )
    request = SimpleNamespace(
        http_request=SimpleNamespace(body=None, method="GET"), context=SimpleNamespace(options={})
    )
    settings = patience.configure_retries(request)
    busy = SimpleNamespace(headers={"Retry-After": "17"})
    assert patience.increment(settings, request.http_request, response=busy)
    assert patience.get_backoff_time(settings) == 17
    assert patience.increment(settings, request.http_request, response=SimpleNamespace(headers={}))
    assert patience.get_backoff_time(settings) < 17
    for _ in range(20):
        assert patience.increment(settings, request.http_request, error=None, response=busy)
    assert patience.get_backoff_time(settings) <= 60
    now[0] = 95.0
    assert patience.get_backoff_time(settings) <= 5
    now[0] = 100.0
    assert not patience.increment(settings, request.http_request, response=busy)


@settings(deadline=None)
@given(key=st.text(st.sampled_from("ab/.\\\x00\x1f\x7f\x85\x9f\xa0\ue000\uffff\n "), max_size=8))
def test_a_mark_and_the_store_agree_on_which_names_are_unsafe(key):
    store = open_store(NAMESPACE, StoreOptions(azure_account_key=KEY))
    pattern = pc.match_substring_regex(pa.array([key]), store.unsafe_names)[0].as_py()
    assert pattern == (store._unnameable(key) is not None)
    if not pattern:
        assert store._name(key) == f"a/ns/{key}"
