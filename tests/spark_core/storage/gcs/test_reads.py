"""Who reads objects on GCS: obstore where the ETag proves what came, and Google's client for
everything else.
"""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta

import pytest
from google.oauth2.credentials import Credentials

from spark_core.addresses.namespace import Namespace
from spark_core.errors import NotFoundError, PermissionDeniedError, TransientError
from spark_core.storage import StoreOptions, open_store
from spark_core.storage.gcs import clients as gcs_clients
from tests.support.gcs_faults import error, stored
from tests.support.scripted_s3 import Answer, Request, scripted_s3
from tests.support.self_signed import self_signed


class Bucket:
    """A bucket that answers both APIs, and notes which was asked."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.headers: dict[str, str] = {}
        self.xml, self.json = stored(b"data"), Answer(200, b"data")

    def __call__(self, request: Request) -> Answer:
        if request.path.endswith("/o"):
            return Answer(200, json.dumps({"kind": "storage#objects"}).encode())
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append("json" if "/storage/v1/" in request.path else "xml")
        return self.json if self.seen[-1] == "json" else self.xml


@pytest.fixture
def bucket(monkeypatch):
    """A bucket and a store of it."""
    monkeypatch.setattr(gcs_clients, "FIRST_WAIT_SECONDS", 0.001)
    gcs_clients.open_clients.cache_clear()
    running = Bucket()
    with scripted_s3(running) as endpoint:
        yield running, store_at(endpoint)
    gcs_clients.open_clients.cache_clear()


def store_at(endpoint: str, **changes):
    options = {
        "gcs_endpoint": endpoint,
        "allow_http": True,
        "max_retries": 0,
        "read_timeout": timedelta(seconds=2),
    }
    return open_store(Namespace.parse("gs://bucket/ns"), StoreOptions(**{**options, **changes}))


def test_what_its_etag_proves_is_read_with_one_request(bucket):
    running, store = bucket
    assert [store.read("data/x"), store.read("data/y")] == [b"data", b"data"]
    assert running.seen == ["xml", "xml"]
    assert store.requests == {"read": 2}


def test_google_is_told_not_to_unpack_what_is_stored_compressed(bucket):
    running, store = bucket
    store.read("data/x")
    assert (running.headers["accept-encoding"], running.headers["user-agent"]) == (
        "gzip",
        "lakegc (gzip)",
    )


@pytest.mark.parametrize(
    "tag",
    [
        hashlib.md5(b"other").hexdigest(),
        "CKih16GjycICEAE=",
        "",
        None,
        hashlib.md5(b"data").hexdigest()[:-1],
    ],
)
def test_what_no_etag_proves_is_asked_of_googles_client_from_then_on(bucket, tag):
    running, store = bucket
    headers = {**running.xml.headers, "ETag": f'"{tag}"'}
    if tag is None:
        del headers["ETag"]
    running.xml = Answer(200, b"data", headers)
    running.json = Answer(200, b"data by google")
    assert [store.read("data/x"), store.read("data/y")] == [b"data by google"] * 2
    assert running.seen == ["xml", "json", "json"]
    assert store.requests == {"read": 2}


def test_bytes_that_fit_neither_checksum_are_never_taken_for_the_object(bucket):
    running, store = bucket
    running.xml = Answer(200, b"wrong", running.xml.headers)
    running.json = Answer(
        200, b"wrong", {"X-Goog-Hash": "crc32c=AAAAAA==,md5=CY9rzUYh03PK3k6DJie09g=="}
    )
    with pytest.raises(TransientError, match="DataCorruption"):
        store.read("data/x")


def test_an_object_is_absent_only_by_the_word_of_googles_client(bucket):
    running, store = bucket
    running.xml, running.json = Answer(404, b"404 page not found"), error(404, "notFound")
    with pytest.raises(NotFoundError, match="no such object"):
        store.read("data/x")
    running.json = Answer(200, b"data by google")
    assert store.read("data/x") == b"data by google"
    assert running.seen == ["xml", "json", "xml", "json"]


def test_a_scope_that_is_too_narrow_is_told_as_by_googles_client(bucket):
    running, store = bucket
    running.xml = Answer(
        403,
        b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access denied.</Message>"
        b"<Details>Provided scope(s) are not authorized</Details></Error>",
    )
    with pytest.raises(
        PermissionDeniedError, match=r"HTTP 403 insufficientScopes.*too narrow a scope"
    ):
        store.read("data/x")
    running.xml = Answer(
        403, b"<Error><Code>AccessDenied</Code><Message>Access denied.</Message></Error>"
    )
    with pytest.raises(
        PermissionDeniedError, match=r"HTTP 403 AccessDenied.*Allow storage\.objects\.get"
    ):
        store.read("data/x")
    assert running.seen == ["xml", "xml"]


def test_a_read_is_never_led_away_from_tls_and_takes_no_token_elsewhere(tmp_path, monkeypatch):
    chain = self_signed(tmp_path / "chain.pem")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(chain))
    gcs_clients.open_clients.cache_clear()

    monkeypatch.setattr(gcs_clients, "_credentials", lambda _options: Credentials("SECRET"))
    seen = []

    def note(request: Request) -> Answer:
        seen.append(request)
        return stored(b"elsewhere")

    for certificate, led in ((None, False), (chain, True)):
        with scripted_s3(note, certificate=certificate) as elsewhere:
            away = Answer(302, headers={"Location": f"{elsewhere}/x"})
            with scripted_s3(lambda _request, away=away: away, certificate=chain) as endpoint:
                store = store_at(endpoint)
                if led:
                    assert store.read("data/x") == b"elsewhere"
                else:
                    with pytest.raises(TransientError, match="TooManyRedirects"):
                        store.read("data/x")
    assert len(seen) == 1
    assert "SECRET" not in str(seen)
    gcs_clients.open_clients.cache_clear()
