"""Links that a store signs: whoever has one reads the page, and nothing else."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from datetime import timedelta
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
from azure.core.credentials import AccessToken
from azure.storage.blob import BlobServiceClient, UserDelegationKey
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from spark_core.addresses.namespace import Namespace
from spark_core.errors import LakegcError
from spark_core.run.local_path import link_to, page_to_open
from spark_core.storage import StoreOptions, open_store
from spark_core.storage.azure import clients as azure_clients
from spark_core.storage.gcs import clients as gcs_clients

DAY = timedelta(days=1)
PAGE = "_lakefs/retention/gc/reports/run_id=2026-11-20T02-00-00Z/_report.html"
AZURE = Namespace.parse("https://lake.blob.core.windows.net/container/ns")
KEY = "c2VjcmV0LW9mLXRoZS1hY2NvdW50"


def query_of(link: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}


def test_a_link_of_s3_is_read_by_anybody_as_a_page(s3_server):
    options = s3_server.options(s3_region="us-east-1")
    store = open_store(Namespace.parse(f"s3://{s3_server.bucket()}/ns"), options)
    store.put(PAGE, b"<html>")
    link = store.link(PAGE, DAY)
    with urllib.request.urlopen(link, timeout=10) as answer:
        assert answer.read() == b"<html>"
        assert answer.headers["Content-Type"].startswith("text/html")
    asked = query_of(link)
    assert asked["X-Amz-Algorithm"] == "AWS4-HMAC-SHA256"
    assert asked["X-Amz-Expires"] == "86400"


def test_a_directory_bucket_signs_no_link():
    name = Namespace.parse("s3://lake--use1-az4--x-s3/ns")
    options = StoreOptions(s3_access_key_id="A", s3_secret_access_key="B", s3_region="us-east-1")
    assert open_store(name, options).link(PAGE, DAY) is None


def test_a_service_account_signs_a_link_of_gcs_and_other_credentials_do_not():
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "type": "service_account",
        "client_email": "collector@project.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.example.com/token",
        "private_key": private.decode(),
    }
    person = {
        "type": "authorized_user",
        "client_id": "1",
        "client_secret": "2",
        "refresh_token": "3",
    }
    gcs_clients.open_clients.cache_clear()
    links = [
        open_store(
            Namespace.parse("gs://bucket/ns"),
            StoreOptions(gcs_service_account_key=json.dumps(content)),
        ).link(PAGE, DAY)
        for content in (account, person)
    ]
    gcs_clients.open_clients.cache_clear()
    assert links[1] is None
    assert links[0].startswith("https://storage.googleapis.com/bucket/ns/_lakefs/")
    asked = query_of(links[0])
    assert asked["X-Goog-Expires"] == "86400"
    assert asked["response-content-type"] == "text/html"


def test_an_account_key_signs_a_link_of_azure_and_a_shared_signature_is_not_handed_on():
    signed = open_store(AZURE, StoreOptions(azure_account_key=KEY)).link(PAGE, DAY)
    assert signed.startswith("https://lake.blob.core.windows.net/container/ns/_lakefs/")
    asked = query_of(signed)
    assert (asked["sp"], asked["sr"], asked["rsct"]) == ("r", "b", "text/html")
    shared = StoreOptions(azure_sas_token="sv=2024-01-01&sig=secret")
    assert open_store(AZURE, shared).link(PAGE, DAY) is None


def test_an_identity_asks_the_account_for_a_key_to_sign_with(monkeypatch):
    def key(_service, began, ends):
        made = UserDelegationKey()
        made.signed_oid, made.signed_tid, made.value = "one", "tenant", KEY
        made.signed_start, made.signed_expiry = began.isoformat(), ends.isoformat()
        made.signed_service, made.signed_version = "b", "2024-01-01"
        return made

    monkeypatch.setattr(BlobServiceClient, "get_user_delegation_key", key)
    identity = azure_clients.Identity(
        SimpleNamespace(get_token=lambda *_, **__: AccessToken("token", 0))
    )
    service = BlobServiceClient("https://lake.blob.core.windows.net", credential=identity)
    blob = service.get_blob_client("container", f"ns/{PAGE}")
    assert query_of(azure_clients.signed_link(service, blob, DAY))["skoid"] == "one"


class Store:
    root = "s3://bucket/ns/"

    def link(self, key, life):
        assert life == DAY
        return f"https://signed/{key}"


def run_with(store, *, base=None, life=DAY):
    storage = SimpleNamespace(store_options=StoreOptions())
    environment = SimpleNamespace(
        pages_url=base, signed_links_live=life, storage_of=lambda _repository: storage
    )
    return SimpleNamespace(
        store=store,
        environment=environment,
        repository=SimpleNamespace(id="repo"),
        namespace=SimpleNamespace(scheme="s3"),
    )


@pytest.mark.parametrize(
    ("how", "page"),
    [
        ({}, f"https://signed/{PAGE}"),
        ({"base": "https://lakegc.example.com/reports"},
         f"https://lakegc.example.com/reports/repo/{PAGE}"),
        ({"life": timedelta(0)}, f"s3://bucket/ns/{PAGE}"),
    ],
)  # fmt: skip
def test_a_page_is_a_link_where_the_settings_ask_for_one(how, page):
    facts = {"page": f"s3://bucket/ns/{PAGE}"}
    assert page_to_open(run_with(Store(), **how), facts)["page"] == page


def test_a_run_does_not_fail_for_a_link_that_cannot_be_signed():
    class Refusing(Store):
        def link(self, key, life):
            raise LakegcError("no key")

    assert link_to(run_with(Refusing()), PAGE) is None
