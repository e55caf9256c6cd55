"""Who reads blobs on Azure: obstore with a key or an identity, Azure's client with a signature.

And what goes along.
"""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError

from spark_core.addresses.namespace import Namespace
from spark_core.errors import NotFoundError, PermissionDeniedError, SettingsError, TransientError
from spark_core.storage import StoreOptions, deletion, open_store
from spark_core.storage.azure import clients as azure_clients
from spark_core.storage.azure.reads import Identity
from tests.support.azure_faults import error
from tests.support.azurite import ACCOUNT_KEY
from tests.support.scripted_s3 import Answer, Request, scripted_s3
from tests.support.self_signed import self_signed

BLOB = {
    "Last-Modified": "Sat, 21 Nov 2026 09:00:00 GMT",
    "ETag": '"0x8D"',
    "Content-Range": "bytes 0-3/4",
}
SAS = "sv=2024-11-04&sr=c&sp=rl&sig=scripted%2FSECRET%2Bsignature"


def headers_of(request: Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


def client_of(request: Request) -> str:
    return "obstore" if headers_of(request)["user-agent"].startswith("object_store/") else "azure"


def blob(request: Request, **more: str) -> Answer:
    return Answer(
        206 if {"range", "x-ms-range"} & set(headers_of(request)) else 200,
        b"data",
        {**BLOB, **more},
    )


def store_at(endpoint: str, **credentials):
    options = {
        "azure_endpoint": f"{endpoint}/lake",
        "allow_http": endpoint.startswith("http:"),
        "max_retries": 0,
        "connect_timeout": timedelta(seconds=1),
        "read_timeout": timedelta(seconds=2),
    }
    return open_store(
        Namespace.parse("https://lake.blob.core.windows.net/container/ns"),
        StoreOptions(**{**options, **credentials}),
    )


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    azure_clients.open_clients.cache_clear()
    monkeypatch.setattr(deletion, "wait", lambda _seconds: None)
    yield
    azure_clients.open_clients.cache_clear()


@pytest.mark.parametrize(
    ("credentials", "client"),
    [({"azure_account_key": ACCOUNT_KEY}, "obstore"), ({"azure_sas_token": SAS}, "azure")],
)
def test_with_a_key_obstore_reads_and_with_a_signature_azures_client(credentials, client):
    seen = []
    with scripted_s3(
        lambda request: [blob(request), seen.append(client_of(request))][0]
    ) as endpoint:
        store = store_at(endpoint, **credentials)
        assert (store.read("data/x"), store.read_range("data/x", 0, 4)) == (b"data", b"data")
    assert seen == [client, "azure"]
    assert store.requests == {"read": 2}


def test_every_request_of_obstore_is_signed_whatever_its_own_variables_say(monkeypatch):
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    seen = []
    with scripted_s3(
        lambda request: [blob(request), seen.append(headers_of(request))][0]
    ) as endpoint:
        store_at(endpoint, azure_account_key=ACCOUNT_KEY).read("data/x")
    assert seen[0]["authorization"].startswith("SharedKey lake:")


@pytest.mark.parametrize(
    "credentials", [{"azure_account_key": ACCOUNT_KEY}, {"azure_sas_token": SAS}]
)
def test_a_read_that_is_led_elsewhere_takes_nothing_secret_along(credentials):
    told = []
    with (
        scripted_s3(lambda request: [blob(request), told.append(request)][0]) as elsewhere,
        scripted_s3(
            lambda _request: Answer(302, headers={"Location": f"{elsewhere}/x"})
        ) as endpoint,
    ):
        store = store_at(endpoint, **credentials)
        if "azure_sas_token" in credentials:
            with pytest.raises(SettingsError, match="HTTP 302"):
                store.read("data/x")
        else:
            assert store.read("data/x") == b"data"
    assert len(told) == ("azure_account_key" in credentials)
    assert not [
        request
        for request in told
        if "authorization" in headers_of(request) or "sig=" in str(request)
    ]


def test_a_read_is_never_led_away_from_tls(tmp_path, monkeypatch):
    chain = self_signed(tmp_path / "chain.pem")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(chain))
    with (
        scripted_s3(blob) as plain,
        scripted_s3(
            lambda _request: Answer(302, headers={"Location": f"{plain}/x"}), certificate=chain
        ) as endpoint,
    ):
        store = store_at(endpoint, azure_account_key=ACCOUNT_KEY, allow_http=True)
        with pytest.raises(
            SettingsError, match=r"does not take the request as it was sent \(no answer Redirect\)"
        ):
            store.read("data/x")


def test_a_certificate_that_nobody_trusts_is_a_passing_failure(tmp_path):
    with (
        scripted_s3(blob, certificate=self_signed(tmp_path / "chain.pem")) as endpoint,
        pytest.raises(TransientError, match="no answer ServiceRequestError"),
    ):
        store_at(endpoint, azure_account_key=ACCOUNT_KEY).read("data/x")


def test_a_server_that_is_its_own_authority_is_read_by_the_client_that_takes_it(
    tmp_path, monkeypatch
):
    chain = self_signed(tmp_path / "chain.pem")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(chain))
    with scripted_s3(blob, certificate=chain) as endpoint:
        assert store_at(endpoint, azure_account_key=ACCOUNT_KEY).read("data/x") == b"data"


def test_an_answer_that_lacks_what_all_of_azures_have_is_none_of_azures():
    asked = []
    with (
        scripted_s3(lambda request: asked.append(request) or Answer(200, b"<html>")) as endpoint,
        pytest.raises(
            TransientError, match=r"the answer is none of Azure's and cannot be read \(Header\)"
        ),
    ):
        store_at(endpoint, azure_account_key=ACCOUNT_KEY, max_retries=3).read("data/x")
    assert len(asked) == 1


def test_a_directory_of_a_hierarchical_namespace_is_no_object_for_obstore_either():
    with (
        scripted_s3(
            lambda request: blob(request, **{"x-ms-meta-hdi_isfolder": "true"})
        ) as endpoint,
        pytest.raises(NotFoundError, match="it is a directory"),
    ):
        store_at(endpoint, azure_account_key=ACCOUNT_KEY).read("data/x")


def test_obstore_is_as_patient_as_azures_client(monkeypatch):
    waited, now, answers = [], [0.0], []
    monkeypatch.setattr(azure_clients, "monotonic", lambda: now[0])
    monkeypatch.setattr(
        deletion,
        "wait",
        lambda seconds: [waited.append(seconds), now.__setitem__(0, now[0] + seconds)],
    )
    with scripted_s3(lambda _request: answers.append(503) or error(503, "ServerBusy")) as endpoint:
        patient = {"max_retries": 50, "retry_timeout": timedelta(seconds=100)}
        with pytest.raises(TransientError, match="HTTP 503 ServerBusy"):
            store_at(endpoint, azure_account_key=ACCOUNT_KEY, **patient).read("data/x")
    assert waited == sorted(waited)
    assert 60 < sum(waited) <= 100
    assert len(answers) == len(waited) + 1


class Account:
    """An account behind TLS that takes tokens of one tenant, and tells it as Azure does."""

    def __init__(self) -> None:
        self.token = "token of home"
        self.seen: list[tuple[str, str]] = []

    def __call__(self, request: Request) -> Answer:
        said = headers_of(request)["authorization"].removeprefix("Bearer ")
        self.seen.append((client_of(request), said))
        if said == self.token:
            return blob(request)
        tenant = "22222222-2222-2222-2222-222222222222"
        challenge = (
            "Bearer "
            f"authorization_uri=https://login.microsoftonline.com/{tenant}/oauth2/authorize "
            "resource_id=https://storage.azure.com"
        )
        told = error(401, "InvalidAuthenticationInfo")
        return Answer(401, told.body, {**told.headers, "WWW-Authenticate": challenge})


class Tokens:
    """An identity that has tokens of its home, and of another tenant when it is asked for that."""

    life_seconds = 3600
    lock = threading.Lock()

    def __init__(self) -> None:
        self.given = 0
        self.broken = False

    def get_token(self, *scopes: str, tenant_id: str | None = None, **_: object) -> AccessToken:
        if self.broken:
            raise ClientAuthenticationError("AADSTS700082: the refresh token has expired: PRIVATE")
        assert scopes == ("https://storage.azure.com/.default",)
        with self.lock:
            self.given += 1
        return AccessToken(f"token of {tenant_id or 'home'}", int(time.time()) + self.life_seconds)


@pytest.fixture
def account(tmp_path, monkeypatch):
    """An account, the identity that it knows, and a store."""
    chain = self_signed(tmp_path / "chain.pem")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(chain))
    identity, running = Tokens(), Account()
    monkeypatch.setattr(azure_clients, "credential_of", lambda *_: identity)
    with scripted_s3(running, certificate=chain) as endpoint:
        yield running, identity, store_at(endpoint)


def test_an_identity_reads_through_obstore_with_one_token_for_many_reads(account):
    running, identity, store = account
    assert [store.read("data/x") for _ in range(5)] == [b"data"] * 5
    assert running.seen == [("obstore", "token of home")] * 5
    assert identity.given == 1


def test_a_token_that_is_about_to_end_is_renewed_before_it_is_shown(account):
    _, identity, store = account
    identity.life_seconds = 60
    for _ in range(3):
        assert store.read("data/x") == b"data"
    assert identity.given == 3


def test_the_tenant_that_the_account_asks_for_is_learned_from_azures_client_once(account):
    running, _, store = account
    running.token = other = "token of 22222222-2222-2222-2222-222222222222"
    for _ in range(3):
        assert store.read("data/x") == b"data"
    assert running.seen == [
        ("obstore", "token of home"),
        ("azure", "token of home"),
        ("azure", other),
        ("obstore", other),
        ("obstore", other),
    ]
    assert store.requests == {"read": 3}


def test_a_token_that_nothing_helps_is_refused_by_name(account):
    running, _, store = account
    running.token = "another"
    with pytest.raises(
        PermissionDeniedError, match=r"the store refuses \(HTTP 401 InvalidAuthenticationInfo\)"
    ):
        store.read("data/x")


def test_an_identity_that_ends_in_the_middle_is_told_as_azures_client_tells_it(account):
    _, identity, store = account
    identity.life_seconds = 60
    assert store.read("data/x") == b"data"
    identity.broken = True
    with pytest.raises(
        PermissionDeniedError, match=r"identity provider.* refuses \(AADSTS700082\)"
    ) as told:
        store.read("data/x")
    assert "PRIVATE" not in str(told.value) + repr(told.value.__context__)


def test_an_identity_gives_azures_client_whatever_it_asks_for():
    identity = Identity(Tokens())
    assert (
        identity.get_token(
            "https://storage.azure.com/.default", tenant_id="t", enable_cae=True
        ).token
        == "token of t"
    )
