"""Which names obstore is given, and that it takes each of them for itself.

Where it does not work, and says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from urllib.parse import quote, unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.exceptions import GenericError

from spark_core.addresses.collectable import NOT_NAMEABLE_PATTERN
from spark_core.addresses.namespace import Namespace
from spark_core.errors import SettingsError
from spark_core.storage import StoreOptions, obstore_reads, open_store
from spark_core.storage.azure import clients as azure_clients
from spark_core.storage.azure.ambiguous_names import _MISNAMED
from spark_core.storage.gcs import clients as gcs_clients
from spark_core.storage.obstore_reads import client_options, is_plain, obstore_failure
from tests.support.azurite import ACCOUNT_KEY
from tests.support.scripted_s3 import Answer, Request, scripted_s3
from tests.support.store_conformance import ODD_NAMES, STRANGE_KEYS

PROVED = {
    "ETag": '"8d777f385d3dfec8815d20f7496026dc"',
    "Last-Modified": "Sat, 21 Nov 2026 09:00:00 GMT",
}
# Its own, and what it is told to say to GCS; Google's client adds a name of its own to that.
OBSTORE_AGENTS = ("object_store/", "lakegc (gzip)")
TABLE = "_lakefs/2f3c8d6e1b0a4c5d9e7f8a6b5c4d3e2f1a0b9c8d7e6f5a4b3c2d1e0f9a8b7c6d"
segments = st.from_regex(r"[A-Za-z0-9_.=-]{0,7}[A-Za-z0-9_=-]", fullmatch=True)
plain_names = st.lists(segments, min_size=1, max_size=4).map("/".join)


def data(request: Request) -> Answer:
    """Answer both clients of both stores."""
    return Answer(
        206 if "range" in {name.lower() for name in request.headers} else 200,
        b"data",
        {**PROVED, "Content-Range": "bytes 0-3/4"},
    )


@pytest.fixture(scope="module")
def seen():
    return []


@pytest.fixture(scope="module")
def server(seen):
    """A server that notes what it was asked and by whom."""

    def note(request: Request) -> Answer:
        agent = {name.lower(): value for name, value in request.headers.items()}.get(
            "user-agent", ""
        )
        seen.append(
            (unquote(request.path), "obstore" if agent.startswith(OBSTORE_AGENTS) else "vendor")
        )
        return data(request)

    with scripted_s3(note) as endpoint:
        yield endpoint


@pytest.fixture
def fresh(monkeypatch):
    """Processes that have opened nothing yet."""
    for opened in (azure_clients.open_clients, gcs_clients.open_clients):
        opened.cache_clear()
    yield monkeypatch
    for opened in (azure_clients.open_clients, gcs_clients.open_clients):
        opened.cache_clear()


def azure_store(endpoint: str, path: str = "container/ns"):
    options = StoreOptions(
        azure_endpoint=f"{endpoint}/lake",
        azure_account_key=ACCOUNT_KEY,
        allow_http=True,
        max_retries=0,
    )
    return open_store(Namespace.parse(f"https://lake.blob.core.windows.net/{path}"), options)


def gcs_store(endpoint: str, path: str = "bucket/ns"):
    options = StoreOptions(gcs_endpoint=endpoint, allow_http=True, max_retries=0)
    return open_store(Namespace.parse(f"gs://{path}"), options)


STORES = {"azure": (azure_store, "/lake/container/ns/"), "gcs": (gcs_store, "/bucket/ns/")}


@pytest.mark.parametrize(
    "name",
    [
        TABLE,
        "_lakefs/retention/gc/runs/run_id=2026-11-20T02-00-00Z/part-0.parquet",
        "a",
        ".hidden",
        "a..b/c=",
        "-/_/=",
    ],
)
def test_names_of_tables_and_of_lakegcs_own_files_are_plain(name):
    assert is_plain(name)


@pytest.mark.parametrize(
    "name",
    [*STRANGE_KEYS, *(f"data/{name}" for name in ODD_NAMES if name not in (".hidden", "a..b")), "", "/", ".", "a/", "/a", "a//b", "a.", "a./b", "a\n", "a/\n", "é", "٣", "a b", "a%2Fb"],  # noqa: E501 - a row of data
)  # fmt: skip
def test_a_name_that_anybody_could_take_for_another_is_not_plain(name):
    assert not is_plain(name)


@given(name=st.text(st.sampled_from("aZ9_.=-/%\\ \n~é"), max_size=12))
def test_a_plain_name_has_one_form_only(name):
    plain = is_plain(name)
    assert plain == (
        bool(name)
        and all(
            part and part[-1] != "." and set(part) <= set("aZ9_.=-") for part in name.split("/")
        )
    )
    if plain:
        assert quote(name, safe="/=") == name
        assert not NOT_NAMEABLE_PATTERN.search(name)
        assert not _MISNAMED.search(name)


@pytest.mark.parametrize("kind", STORES)
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(name=plain_names)
def test_obstore_asks_for_a_plain_name_as_it_is(server, seen, kind, name):
    opened, before = STORES[kind]
    seen.clear()
    assert opened(server).read(name) == b"data"
    assert seen == [(before + name, "obstore")]


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize(
    "key", ["data/s p", "data/%20", "data/a+b", "data/é", "data/~t", "data/#1"]
)
def test_any_other_name_is_read_by_the_stores_own_client(server, seen, kind, key):
    opened, _ = STORES[kind]
    seen.clear()
    assert opened(server).read(key) == b"data"
    assert [client for _, client in seen] == ["vendor"]
    assert seen[0][0].endswith(key)


@pytest.mark.parametrize(("kind", "path"), [("azure", "container/n s"), ("gcs", "bucket/n s")])
def test_a_namespace_of_another_name_is_read_by_the_stores_own_client(server, seen, kind, path):
    seen.clear()
    assert STORES[kind][0](server, path).read("data/x") == b"data"
    assert [client for _, client in seen] == ["vendor"]


@pytest.mark.parametrize("kind", STORES)
def test_in_a_process_forked_from_one_with_obstore_the_stores_own_client_reads(
    server, seen, fresh, kind
):
    fresh.setattr(obstore_reads, "_working_process", os.getpid() + 1)
    seen.clear()
    assert STORES[kind][0](server).read("data/x") == b"data"
    assert [client for _, client in seen] == ["vendor"]


def test_in_a_process_forked_from_one_with_obstore_s3_is_refused(fresh):
    fresh.setattr(obstore_reads, "_working_process", os.getpid() + 1)
    options = StoreOptions(s3_access_key_id="k", s3_secret_access_key="s", s3_region="us-east-1")
    with pytest.raises(
        SettingsError, match=r"forked from one that had used obstore.*spawn or forkserver"
    ):
        open_store(Namespace.parse("s3://bucket/ns"), options).read("data/x")


@pytest.mark.parametrize("kind", STORES)
def test_variables_that_only_obstore_knows_are_not_followed(server, seen, fresh, kind, tmp_path):
    for name, value in {
        "AZURE_SKIP_SIGNATURE": "true",
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURE_STORAGE_TOKEN": "other",
        "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:1",
        "AZURE_CONTAINER_NAME": "other",
        "AZURE_USE_FABRIC_ENDPOINT": "true",
        "AZURE_PROXY_URL": "http://127.0.0.1:1",
        "GOOGLE_BASE_URL": "http://127.0.0.1:1",
        "GOOGLE_BUCKET": "other",
        "GOOGLE_BEARER_TOKEN": "other",
        "GOOGLE_PROXY_URL": "http://127.0.0.1:1",
        "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "none.json"),
    }.items():
        fresh.setenv(name, value)
    opened, before = STORES[kind]
    seen.clear()
    assert opened(server).read("data/x") == b"data"
    assert seen == [(f"{before}data/x", "obstore")]


@pytest.mark.parametrize("kind", STORES)
def test_certificates_that_cannot_be_read_are_named_before_anything_is_asked(
    server, seen, fresh, kind, tmp_path
):
    (tmp_path / "bundle.pem").write_bytes(b"no certificate")
    seen.clear()
    for name in ("bundle.pem", "none.pem"):
        fresh.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / name))
        with pytest.raises(SettingsError, match=r"cannot be opened.*REQUESTS_CA_BUNDLE"):
            STORES[kind][0](server).read("data/x")
    assert seen == []


def test_a_folder_of_certificates_is_read_whole(fresh, tmp_path):
    for number in range(2):
        (tmp_path / f"{number}.pem").write_bytes(b"certificate %d" % number)
    (tmp_path / "folder").mkdir()
    fresh.setenv("REQUESTS_CA_BUNDLE", str(tmp_path))
    chosen = client_options(StoreOptions(), "https://host")
    assert chosen["root_certificate"] == b"certificate 0\ncertificate 1"


@pytest.mark.parametrize("allowed", [False, True])
def test_obstore_may_go_without_tls_only_where_the_endpoint_does(allowed):
    options = StoreOptions(
        allow_http=allowed, connect_timeout=timedelta(seconds=3), read_timeout=timedelta(seconds=7)
    )
    chosen = client_options(options, "https://host")
    assert (chosen["allow_http"], chosen["connect_timeout"], chosen["timeout"]) == (
        False,
        timedelta(seconds=3),
        timedelta(seconds=7),
    )
    assert client_options(options, "http://host")["allow_http"]


@pytest.mark.parametrize(
    ("text", "status", "kind", "of_connection"),
    [
        (("Server returned non-2xx status code: 403 Forbidden: <Code>X</Code>\n\nDebug source:\n"
         "kind: Connect"), 403, "", False),
        (("sending request\n\nDebug source:\nHttpError {\n kind: Timeout,\n"
         " source: reqwest::Error {\n kind: Request"), None, "Timeout", False),
        ("Debug source:\nHttpError {\n kind: Unknown,\n source: reqwest::Error {\n kind: Redirect", None, "Redirect", False),  # noqa: E501 - a row of data
        ("Debug source:\n inner: BareRedirect,", None, "Redirect", False),
        ("Debug source:\n kind: Connect,\n error: InvalidCertificate(", None, "Certificate", False),
        ("Debug source:\n source: Header {\n source: MissingEtag", None, "Header", False),
        ("something else", None, "GenericError", True),
    ],
)  # fmt: skip
def test_an_error_of_obstore_is_taken_apart(text, status, kind, of_connection):
    failure = obstore_failure(GenericError(text))
    assert (failure.status, failure.kind, failure.of_connection) == (status, kind, of_connection)
    assert failure.body == ("<Code>X</Code>" if status else "")


@pytest.mark.slow
def test_s3_needs_no_library_of_the_other_stores():
    script = (
        "import sys; sys.modules['requests'] = None; import spark_core.storage.s3.store; "
        "print('there')"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    assert told.stdout == "there\n"
