"""Who the GCS client is: never nobody, never without TLS, and what happens when that ends in the
middle.
"""

from __future__ import annotations

import json
import os
import pickle
import traceback
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.credentials import AnonymousCredentials

from spark_core.addresses.namespace import Namespace
from spark_core.errors import PermissionDeniedError, SettingsError, TransientError
from spark_core.storage import StoreOptions, open_store
from spark_core.storage.gcs import clients as gcs_clients
from spark_core.storage.gcs.clients import open_clients
from tests.support.gcs_faults import batch_answer, error, kind_of, parts_of, stored
from tests.support.scripted_s3 import Answer, scripted_s3
from tests.support.self_signed import self_signed

NAMESPACE = Namespace.parse("gs://bucket/ns")


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A machine with nothing of its own: no variables, no files, no identity."""
    for name in list(os.environ):
        if name.startswith(("GOOGLE_", "CLOUDSDK_", "STORAGE_EMULATOR", "API_ENDPOINT")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setattr(gcs_clients, "FIRST_WAIT_SECONDS", 0.001)
    open_clients.cache_clear()
    yield tmp_path
    open_clients.cache_clear()


@pytest.fixture(scope="module")
def private_key():
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


class Google:
    """A token service and a bucket behind TLS, both scripted.

    Each token is good for so many requests.
    """

    def __init__(self) -> None:
        self.life = 1_000_000
        self.refused_after = 1_000_000
        self.given = 0
        self.seen: list[str | None] = []
        self.used = 0

    def token(self, request) -> Answer:
        if self.given >= self.refused_after:
            return Answer(
                400, b'{"error": "invalid_grant", "error_description": "TOKEN-SECRET expired"}'
            )
        self.given += 1
        self.used = 0
        told = {
            "access_token": f"TOKEN-SECRET-{self.given}",
            "expires_in": 3600,
            "token_type": "Bearer",
        }
        return Answer(200, json.dumps(told).encode(), {"Content-Type": "application/json"})

    def bucket(self, request) -> Answer:
        said = {name.lower(): value for name, value in request.headers.items()}.get("authorization")
        self.seen.append(said)
        self.used += 1
        if said != f"Bearer TOKEN-SECRET-{self.given}" or self.used > self.life:
            return error(401, "authError")
        if kind_of(request) == "delete":
            return batch_answer(*((part, Answer(204)) for part in parts_of(request)))
        return (
            Answer(200, b'{"kind": "storage#objects"}')
            if kind_of(request) == "list"
            else stored(b"data")
        )


@pytest.fixture
def google(machine, monkeypatch, private_key):
    """A `Google`, with `options` to reach it and the `info` of an account that it knows."""
    chain = self_signed(machine / "chain.pem")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(chain))
    running = Google()
    with (
        scripted_s3(lambda request: running.token(request)) as tokens,  # noqa: PLW0108 - looked up at each request
        scripted_s3(lambda request: running.bucket(request), certificate=chain) as endpoint,  # noqa: PLW0108
    ):
        running.service_account = {
            "type": "service_account",
            "project_id": "p",
            "private_key_id": "1",
            "private_key": private_key,
            "client_email": "lakegc@p.iam.gserviceaccount.com",
            "token_uri": f"{tokens}/token",
        }
        running.options = StoreOptions(
            gcs_endpoint=endpoint,
            max_retries=1,
            connect_timeout=timedelta(seconds=2),
            read_timeout=timedelta(seconds=5),
        )
        yield running


def with_file(google, path, content=None, **changes):
    """A store whose options name a key file."""
    path.write_text(json.dumps(google.service_account if content is None else content))
    return open_store(
        NAMESPACE,
        StoreOptions(**{**vars(google.options), "gcs_service_account_file": str(path), **changes}),
    )


def test_a_service_account_is_taken_from_its_key_file(google, machine):
    store = with_file(google, machine / "key.json")
    assert list(store.list("")) == []
    assert store.read("data/x") == b"data"
    assert [outcome.outcome for outcome in store.delete(["data/x", "data/y"])] == [
        "deleted",
        "deleted",
    ]
    assert set(google.seen) == {"Bearer TOKEN-SECRET-1"}


def test_a_key_that_came_along_needs_no_file(google):
    options = StoreOptions(
        **{**vars(google.options), "gcs_service_account_key": json.dumps(google.service_account)}
    )
    store = pickle.loads(pickle.dumps(open_store(NAMESPACE, options)))
    assert store.read("data/x") == b"data"
    assert "PRIVATE KEY" not in repr(options)


def test_the_usual_chain_is_taken_without_a_setting(google, machine, monkeypatch):
    path = machine / "adc.json"
    path.write_text(json.dumps(google.service_account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    assert open_store(NAMESPACE, google.options).read("data/x") == b"data"


def test_a_person_who_logged_in_can_be_the_key(google):
    info = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}
    made = gcs_clients._from_content(json.dumps(info))
    assert (made.client_id, made.refresh_token) == ("i", "r")


def test_a_token_that_ran_out_is_renewed_without_a_word(google, machine):
    google.life = 2
    store = with_file(google, machine / "key.json")
    for _ in range(5):
        assert store.read("data/x") == b"data"
    assert google.given == 3


def test_credentials_that_end_in_the_middle_are_refused_by_name_and_without_a_secret(
    google, machine
):
    google.life, google.refused_after = 2, 1
    store = with_file(google, machine / "key.json")
    assert store.read("data/x") == b"data"
    assert store.read("data/x") == b"data"
    for ask in (
        lambda: store.read("data/x"),
        lambda: store.read_range("data/x", 0, 1),
        lambda: store.head("data/x"),
        lambda: store.exists("data/x"),
        lambda: list(store.list("data/")),
        lambda: store.put("data/x", b""),
        lambda: store.put_if_absent("data/x", b""),
    ):
        with pytest.raises(
            PermissionDeniedError, match=r"gives no token .*RefreshError.*log in again"
        ) as told:
            ask()
        everything = "".join(traceback.format_exception(told.value)) + repr(told.value.__context__)
        assert "TOKEN-SECRET" not in everything
        assert "PRIVATE" not in everything
    outcomes = store.delete(["data/x", "data/y"])
    assert [(outcome.outcome, outcome.error) for outcome in outcomes] == [
        ("refused", "no answer unauthorized: RefreshError")
    ] * 2


def test_a_token_service_that_is_not_there_is_a_passing_failure(google, machine):
    elsewhere = {**google.service_account, "token_uri": "http://127.0.0.1:1/token"}
    with pytest.raises(TransientError, match="TransportError"):
        with_file(google, machine / "key.json", elsewhere, max_retries=0).read("data/x")


def test_an_endpoint_whose_certificate_nobody_trusts_is_a_passing_failure(
    google, machine, monkeypatch
):
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with pytest.raises(TransientError, match=r"SSLError.*REQUESTS_CA_BUNDLE"):
        with_file(google, machine / "key.json", max_retries=0).read("data/x")


def test_nobody_is_anonymous_but_at_an_emulator(google, monkeypatch):
    for options in (StoreOptions(), google.options):
        with pytest.raises(
            SettingsError,
            match=r"usual Google chain gives none.*gcloud auth\s+application-default login",
        ):
            open_store(NAMESPACE, options).read("data/x")
    monkeypatch.setattr(
        gcs_clients.google.auth, "default", lambda **_: (AnonymousCredentials(), None)
    )
    with pytest.raises(SettingsError, match="gives anonymous ones"):
        open_store(NAMESPACE, google.options).read("data/x")
    assert google.seen == []


def test_no_token_is_sent_without_tls(machine, google):
    seen = []

    def plain(request) -> Answer:
        seen.append([name for name in request.headers if name.lower() == "authorization"])
        return stored(b"data")

    with scripted_s3(plain) as endpoint:
        store = with_file(google, machine / "key.json", gcs_endpoint=endpoint, allow_http=True)
        assert store.read("data/x") == b"data"
    assert seen == [[]]
    assert google.given == 0


@pytest.mark.parametrize(
    "content",
    ["", "KEYSECRET", "[]", "5", '{"type": "KEYSECRET"}', '{"type": "service_account", "private_key": "KEYSECRET"}',  # noqa: E501 - a row of data
     '{"type": "authorized_user", "refresh_token": "KEYSECRET"}', '{"type": "external_account", "audience": "KEYSECRET"}'],  # noqa: E501 - a row of data
)  # fmt: skip
def test_a_key_that_is_none_is_refused_without_a_word_of_it(machine, content):
    path = machine / "key.json"
    path.write_text(content)
    for options, named in (
        (StoreOptions(gcs_service_account_file=str(path)), "key.json"),
        (StoreOptions(gcs_service_account_key=content), "came along from the driver"),
    ):
        with pytest.raises(SettingsError, match="credentials for GCS") as told:
            open_store(NAMESPACE, options).read("data/x")
        assert named in str(told.value)
        assert "KEYSECRET" not in "".join(traceback.format_exception(told.value)) + repr(
            told.value.__context__
        )


def test_a_key_file_that_is_not_there_is_named(machine):
    with pytest.raises(
        SettingsError, match=r"none\.json gives none that can be used \(FileNotFoundError\)"
    ):
        open_store(
            NAMESPACE, StoreOptions(gcs_service_account_file=str(machine / "none.json"))
        ).read("x")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"gcs_endpoint": "http://127.0.0.1:4443"}, "sends data and tokens without TLS"),
        ({"gcs_endpoint": "127.0.0.1:4443"}, "is no URL of the form"),
        ({"gcs_endpoint": "ftp://host"}, "is no URL of the form"),
        ({"gcs_endpoint": "https://user:SECRET@host"}, "is no URL of the form"),
        ({"gcs_endpoint": "https://host?token=SECRET"}, "is no URL of the form"),
    ],
)
def test_options_that_cannot_be_right_are_refused_at_once(changes, text):
    with pytest.raises(SettingsError, match=text) as told:
        open_store(NAMESPACE, StoreOptions(**changes))
    assert "SECRET" not in str(told.value)


@pytest.mark.parametrize("name", ["STORAGE_EMULATOR_HOST", "API_ENDPOINT_OVERRIDE"])
def test_an_endpoint_that_only_the_environment_names_is_refused(monkeypatch, name):
    monkeypatch.setenv(name, "http://127.0.0.1:4443")
    with pytest.raises(SettingsError, match=f"{name} is set in the environment"):
        open_store(NAMESPACE, StoreOptions())
    assert open_store(NAMESPACE, StoreOptions(gcs_endpoint="https://storage.googleapis.com"))


def test_google_itself_is_reached_without_an_endpoint(google):
    options = StoreOptions(gcs_service_account_key=json.dumps(google.service_account))
    clients = open_clients(options, os.getpid())
    assert (
        clients.object_url("b", "ns/data/a b")
        == "https://storage.googleapis.com/storage/v1/b/b/o/ns%2Fdata%2Fa%20b"
    )
    assert clients.client._connection.API_BASE_URL == "https://storage.googleapis.com"
    elsewhere = {**google.service_account, "universe_domain": "example.goog"}
    other = open_clients(StoreOptions(gcs_service_account_key=json.dumps(elsewhere)), os.getpid())
    assert other.endpoint == other.client._connection.API_BASE_URL == "https://storage.example.goog"
