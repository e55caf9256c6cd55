"""Stores behind a proxy and an authority of one's own: both clients of each honour both."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

import google.auth
import pytest
from google.oauth2.credentials import Credentials

from spark_core.addresses.namespace import Namespace
from spark_core.errors import LakegcError
from spark_core.storage import StoreOptions, open_store
from spark_core.storage.azure import clients as azure_clients
from spark_core.storage.gcs import clients as gcs_clients
from spark_core.storage.s3 import clients as s3_clients
from tests.support.authority import Authority
from tests.support.azurite import ACCOUNT_KEY
from tests.support.forward_proxy import forward_proxy
from tests.support.scripted_s3 import Answer, scripted_s3

HOSTS = {"s3": "s3.internal", "azure": "azure.internal", "gcs": "gcs.internal"}
# What each of the two clients of a store calls itself.
AGENTS = {
    "s3": ("object_store/", "Boto3/"),
    "azure": ("object_store/", "azsdk-python-storage-blob"),
    "gcs": ("lakegc (gzip)", "lakegc (gzip)"),
}
OBJECT = {
    "ETag": '"8d777f385d3dfec8815d20f7496026dc"',
    "Last-Modified": "Sat, 21 Nov 2026 09:00:00 GMT",
    "Content-Range": "bytes 0-3/4",
}
S3_PAGE = (
    b"<ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated></ListBucketResult>"
)
AZURE_PAGE = b"<EnumerationResults><Blobs></Blobs><NextMarker/></EnumerationResults>"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No proxy, no authority, and no client that was opened before."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    token = Credentials("token"), "project"
    monkeypatch.setattr(google.auth, "default", lambda **_: token)
    caches = (
        azure_clients.open_clients,
        gcs_clients.open_clients,
        s3_clients._boto,
        s3_clients.open_session,
    )
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.fixture(scope="module")
def seen():
    return []


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.in_folder(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def store(authority, seen):
    """One server that answers as each of the three, with a certificate of the authority."""

    def answer(request):
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen.append(headers["user-agent"])
        if "list-type" in request.query:
            return Answer(200, S3_PAGE)
        if request.query.get("comp") == "list":
            return Answer(200, AZURE_PAGE, {"x-ms-request-id": "1"})
        if request.path.endswith("/o"):
            return Answer(200, b'{"kind": "storage#objects"}')
        is_part = {"range", "x-ms-range"} & headers.keys()
        return Answer(206 if is_part else 200, b"data", OBJECT)

    certificate = authority.server(*HOSTS.values(), "127.0.0.1")
    with scripted_s3(answer, certificate=certificate) as endpoint:
        yield endpoint


@pytest.fixture
def proxy(store):
    with forward_proxy(dict.fromkeys(HOSTS.values(), urlsplit(store).port)) as running:
        yield running


def opened(kind, endpoint):
    bounds = {
        "max_retries": 0,
        "connect_timeout": timedelta(seconds=2),
        "read_timeout": timedelta(seconds=5),
    }
    namespace, options = {
        "s3": (
            "s3://bucket/ns",
            {
                "s3_endpoint": endpoint,
                "s3_region": "us-east-1",
                "s3_access_key_id": "key",
                "s3_secret_access_key": "secret",
            },
        ),
        "azure": (
            "https://lake.blob.core.windows.net/container/ns",
            {"azure_endpoint": f"{endpoint}/lake", "azure_account_key": ACCOUNT_KEY},
        ),
        "gcs": ("gs://bucket/ns", {"gcs_endpoint": endpoint}),
    }[kind]
    return open_store(Namespace.parse(namespace), StoreOptions(**bounds, **options))


def use(kind, endpoint):
    """Read through one client of the store, and list through the other."""
    found = opened(kind, endpoint)
    assert found.read("data/x") == b"data"
    assert [row for batch in found.list("data/") for row in batch.to_pylist()] == []


@pytest.fixture
def trusted(monkeypatch, authority):
    """The authority is named as each store's clients look for it."""
    for variable in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(variable, str(authority.certificate))


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("kind", HOSTS)
def test_both_clients_go_through_the_proxy_and_trust_the_authority_of_the_environment(
    proxy, seen, monkeypatch, kind
):
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    seen.clear()
    use(kind, f"https://{HOSTS[kind]}")
    assert proxy.passed == [f"CONNECT {HOSTS[kind]}:443"] * 2
    for agent, wanted in zip(seen, AGENTS[kind], strict=True):
        assert agent.startswith(wanted)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("kind", HOSTS)
def test_a_proxy_may_demand_a_log_in(store, monkeypatch, kind):
    ports = {HOSTS[kind]: urlsplit(store).port}
    with forward_proxy(ports, user="me:hush") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        use(kind, f"https://{HOSTS[kind]}")
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("hush", "wrong-password"))
        for cache in (azure_clients.open_clients, gcs_clients.open_clients, s3_clients._boto):
            cache.cache_clear()
        for ask in (lambda of: of.read("data/x"), lambda of: list(of.list("data/"))):
            with pytest.raises(LakegcError) as refused:
                ask(opened(kind, f"https://{HOSTS[kind]}"))
            assert "wrong-password" not in str(refused.value)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("kind", HOSTS)
def test_no_proxy_goes_past_it_with_both_clients(proxy, store, seen, monkeypatch, kind):
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    seen.clear()
    use(kind, store)
    assert len(seen) == 2
    assert proxy.passed == []


@pytest.mark.parametrize("kind", HOSTS)
def test_without_the_authority_neither_client_talks_to_the_store(store, seen, kind):
    found = opened(kind, store)
    seen.clear()
    with pytest.raises(LakegcError):
        found.read("data/x")
    with pytest.raises(LakegcError):
        list(found.list("data/"))
    assert seen == []
