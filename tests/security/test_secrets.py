"""Secrets are where they are used and nowhere else: not in messages, reprs, logs, tables, metadata, pages, Dagster's home or tracebacks.

Servers and stores here repeat what they were sent: the Authorization header, the
whole URL with its signature, every header. (Executors of a cluster, Spark's
event log and its plans: tests/roundtrip/test_cluster.py.)
"""

import base64
import json
import logging
import pickle
import traceback
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from datetime import timedelta
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lakegc_dagster.cli import main
from lakegc_dagster.settings import load_settings
from spark_core.errors import LakegcError
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.namespace import Namespace
from spark_core.storage import StoreOptions, open_store
from spark_core.storage.probes import honours_conditional_put, read_clock, require_deletable
from tests.support import golden
from tests.support.moto_s3 import moto_s3
from tests.support.recorded_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY, RecordedServer
from tests.support.scripted_s3 import Answer, scripted_s3
from tests.support.scripted_server import Reply, ScriptedServer

AWS_KEY = "AKIASECRETSTESTKEY00"
AWS_SECRET = "aws+SECRET/of/the/store/0000000000000000"
AWS_TOKEN = "FwoGZXIvYXdzSESSION/TOKEN+of==the+store"
AZURE_KEY = base64.b64encode(b"azure account key of the store 0123456789abcdef").decode()
AZURE_SIGNATURE = "aZuRe/SAS+signature0123456789abcdefghijklmn="
AZURE_SAS = f"sv=2024-11-04&sr=c&sp=rlwd&se=2099-01-01T00:00:00Z&sig={quote(AZURE_SIGNATURE, safe='')}"
AZURE_CLIENT_SECRET = "azure~client.secret~0123456789abcdef"
GCS_KEY = (
    rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    .decode()
)
GCS_ACCOUNT = json.dumps(
    {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "0123456789abcdef-of-the-key",
        "private_key": GCS_KEY,
        "client_email": "lakegc@p.iam.gserviceaccount.com",
        "token_uri": "http://127.0.0.1:1/token",
    }
)


def _forms(*secrets):
    """A secret as it is, as it stands in a URL, in base64, in JSON; of several lines each line."""
    found = set()
    for secret in secrets:
        for each in (
            secret,
            quote(secret, safe=""),
            base64.b64encode(secret.encode()).decode(),
            json.dumps(secret)[1:-1],
        ):
            found.add(each)
        found.update(line for line in secret.splitlines() if len(line) > 30 and not line.startswith("-----"))
    return found


LAKEFS = _forms(SECRET_ACCESS_KEY, f"{ACCESS_KEY_ID}:{SECRET_ACCESS_KEY}")
S3 = _forms(AWS_SECRET, AWS_TOKEN)
AZURE = _forms(AZURE_KEY, AZURE_SIGNATURE, AZURE_CLIENT_SECRET)
GCS = _forms(GCS_KEY)
ALL = LAKEFS | S3 | AZURE | GCS

OPTIONS = (
    ServerOptions("http://127.0.0.1:1", ACCESS_KEY_ID, SECRET_ACCESS_KEY),
    StoreOptions(s3_access_key_id=AWS_KEY, s3_secret_access_key=AWS_SECRET, s3_session_token=AWS_TOKEN),
    StoreOptions(azure_account_key=AZURE_KEY, azure_sas_token=AZURE_SAS, azure_client_secret=AZURE_CLIENT_SECRET),
    StoreOptions(gcs_service_account_key=GCS_ACCOUNT),
)


def _found(text, secrets=ALL):
    """Which secrets a text holds; shortened, so that a failing test does not tell them itself."""
    data = text if isinstance(text, bytes) else str(text).encode()
    return sorted(f"{secret[:6]}..." for secret in secrets if secret.encode() in data)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: type(options).__name__)
def test_no_repr_of_options_or_of_what_holds_them_shows_a_secret(options):
    shown = [repr(options), str(options), f"{options}", repr(replace(options)), repr([options]), repr({"o": options})]
    for namespace in ("s3://bucket/repo", "gs://bucket/repo", "https://account.blob.core.windows.net/c/repo"):
        if isinstance(options, StoreOptions):
            try:
                store = open_store(Namespace.parse(namespace), replace(options, s3_region="us-east-1"))
            except LakegcError as refusal:
                shown.append("".join(traceback.format_exception(refusal)))
                continue
            shown += [repr(store), str(store), repr([store])]
    if isinstance(options, ServerOptions):
        shown += [repr(LakeFSServer(options))]
    assert not [_found(text) for text in shown if _found(text)]
    # A comparison that fails prints both sides in full.
    with pytest.raises(AssertionError) as failed:
        assert options == replace(options, read_timeout=timedelta(seconds=1))
    assert not _found("".join(traceback.format_exception(failed.value)))


def test_every_field_that_sounds_like_a_secret_is_left_out_of_repr():
    for kind in (ServerOptions, StoreOptions):
        for field in fields(kind):
            secret = any(word in field.name for word in ("secret", "token", "account_key", "access_key"))
            assert not (secret and field.repr), f"{kind.__name__}.{field.name}"


@contextmanager
def _everything_logged(caplog):
    """Log what lakegc and the libraries below it say; of their debug level, which nobody switches on, all but the wire."""
    with caplog.at_level(logging.INFO):
        yield
    assert not _found("\n".join(record.getMessage() for record in caplog.records))


def _told(call):
    """What a call says when it fails, with every error behind it; or its result."""
    try:
        return repr(call())
    except LakegcError as error:
        return "".join(traceback.format_exception(error))


CALLS = (
    ("repository", lambda server: server.repository("docs")),
    ("list", lambda server: server.repositories()),
    ("branches", lambda server: server.branches("docs")),
    ("rules", lambda server: server.retention_rules("docs")),
    ("prepare_commits", lambda server: server.prepare_commits("docs")),
    ("prepare_uncommitted", lambda server: server.prepare_uncommitted("docs")),
    ("dump", lambda server: server.dump_refs("docs")),
    ("entries", lambda server: server.list_entries("docs", "main", after="")),
)


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 409, 410, 429, 500, 503])
@pytest.mark.parametrize("shape", ["message", "text", "names"])
def test_a_lakefs_server_that_repeats_what_it_was_sent_is_quoted_without_it(status, shape, caplog):
    def echo(asked):
        headers = {
            **asked.headers,
            "url": f"https://b/x?X-Amz-Signature=abc&X-Amz-Security-Token={quote(AWS_TOKEN, safe='')}",
        }
        said = " ".join(f"{name}: {value}" for name, value in headers.items())
        plain = f"{said} secret {SECRET_ACCESS_KEY} of {ACCESS_KEY_ID}"
        bodies = {"message": {"message": plain}, "text": plain.encode(), "names": {"id": plain, "results": [plain]}}
        return Reply(status, bodies[shape], {"Location": f"http://127.0.0.1:1/?sig={quote(AZURE_SIGNATURE, safe='')}"})

    with ScriptedServer(echo) as running, _everything_logged(caplog):
        options = ServerOptions(
            running.endpoint, ACCESS_KEY_ID, SECRET_ACCESS_KEY, tries=1, first_backoff=timedelta(milliseconds=1)
        )
        server = LakeFSServer(options)
        for name, call in CALLS:
            said = _told(lambda call=call: call(server))
            assert not _found(said), name
            assert said, name


STORES = {
    "s3": (
        "s3://bucket/repo",
        {"s3_access_key_id": AWS_KEY, "s3_secret_access_key": AWS_SECRET, "s3_session_token": AWS_TOKEN},
        "s3_endpoint",
        "",
    ),
    "azure-key": (
        "https://account.blob.core.windows.net/container/repo",
        {"azure_account_key": AZURE_KEY},
        "azure_endpoint",
        "/account",
    ),
    "azure-sas": (
        "https://account.blob.core.windows.net/container/repo",
        {"azure_sas_token": AZURE_SAS},
        "azure_endpoint",
        "/account",
    ),
    "gcs": ("gs://bucket/repo", {"gcs_service_account_key": GCS_ACCOUNT}, "gcs_endpoint", ""),
}
OPERATIONS = (
    lambda store: list(store.list("data/")),
    lambda store: store.children(""),
    lambda store: store.head("data/s/x"),
    lambda store: store.exists("_lakefs/x"),
    lambda store: store.read("data/s/x"),
    lambda store: store.read_range("data/s/x", 0, 1),
    lambda store: store.put("_lakefs/x", b"x"),
    lambda store: store.put_if_absent("_lakefs/x", b"x"),
    lambda store: store.delete(["data/s/x", "data/s/y"]),
    lambda store: store.probe_delete("data/s/nobody"),
    lambda store: store.undelete_hint(),
    read_clock,
    require_deletable,
    lambda store: honours_conditional_put(store, "_lakefs/retention/gc/probe/x"),
)


@pytest.mark.parametrize("name", list(STORES))
def test_a_store_that_repeats_what_it_was_sent_is_quoted_without_it(name, caplog):
    uri, keys, setting, path = STORES[name]

    def echo(request):
        said = f"{request.method} {request.target} " + " ".join(f"{n}: {v}" for n, v in request.headers.items())
        said += f" {AWS_SECRET} {AZURE_KEY} {AZURE_SIGNATURE} {AWS_TOKEN}"
        body = f"<?xml version='1.0'?><Error><Code>Echo{status}</Code><Message>{escape(said)}</Message></Error>"
        return Answer(status, body.encode(), {"Content-Type": "application/xml", "x-ms-error-code": "Echo"})

    with ExitStack() as stack:
        endpoint = stack.enter_context(scripted_s3(echo))
        stack.enter_context(_everything_logged(caplog))
        options = StoreOptions(
            **keys,
            **{setting: f"{endpoint}{path}"},
            s3_region="us-east-1",
            allow_http=True,
            max_retries=0,
            retry_timeout=timedelta(seconds=1),
            connect_timeout=timedelta(seconds=2),
            read_timeout=timedelta(seconds=5),
        )
        for status in (400, 403, 404, 500):
            store = open_store(Namespace.parse(uri), options)
            for operation in OPERATIONS:
                said = _told(lambda operation=operation, store=store: operation(store))
                assert not _found(said), (status, operation)
    assert status == 500


SETTINGS = """
throwaway_repositories = ["{name}"]
[server]
endpoint = "{server}"
[storage]
s3_endpoint = "{store}"
s3_region = "us-east-1"
allow_http = true
max_retries = 0
[dagster]
home = "{directory}/dagster"
[repositories.{name}]
mode = "sweep"
min_age_hours = 0
allow_unsafe_min_age = true
clock_margin_minutes = 0
range_partitions = 2
table_parts = 1
repository_cache_seconds = 0
write_reference_mark = true
"""
ENVIRONMENT = {
    "LAKEGC_ACCESS_KEY_ID": ACCESS_KEY_ID,
    "LAKEGC_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
    "AWS_ACCESS_KEY_ID": AWS_KEY,
    "AWS_SECRET_ACCESS_KEY": AWS_SECRET,
    "AWS_SESSION_TOKEN": AWS_TOKEN,
    # Not used by this store, and in the environment of many a machine.
    "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
    "AZURE_STORAGE_SAS_TOKEN": AZURE_SAS,
    "AZURE_CLIENT_SECRET": AZURE_CLIENT_SECRET,
}
NAME = "s3-features"


@pytest.fixture(scope="module")
def played(spark, tmp_path_factory):
    """A passing and a failing run of the command line, and all that they wrote."""
    directory = tmp_path_factory.mktemp("secrets")
    root = golden.unpack(NAME, directory)
    with moto_s3() as s3, pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        bucket, client = s3.bucket(), s3.client()
        for path in root.rglob("*"):
            if path.is_file():
                client.put_object(Bucket=bucket, Key=str(path.relative_to(root)), Body=path.read_bytes())
        with RecordedServer(NAME, root, storage_namespace=f"s3://{bucket}") as server:
            config = directory / "lakegc.toml"
            config.write_text(
                SETTINGS.format(name=NAME, server=server.endpoint, store=s3.endpoint, directory=directory)
            )
            runner = CliRunner()
            said = [runner.invoke(main, ["run", NAME, "--config", str(config), "--debug"])]
            said.append(runner.invoke(main, ["doctor", NAME, "--config", str(config)]))
            said.append(runner.invoke(main, ["report", NAME, "--config", str(config)]))

            def echo(asked):
                header = {name.lower(): value for name, value in asked.headers.items()}["authorization"]
                return Reply(500, {"message": f"no: {header}, {SECRET_ACCESS_KEY}, ?sig={quote(AZURE_SIGNATURE)}"})

            server.answer_with("POST", r"/repositories/[^/]+/gc/prepare_uncommited", echo)
            server.answer_with("GET", r"/repositories/[^/]+/branches", echo)
            server.answer_with("GET", r"/repositories/[^/]+/settings/gc_rules", echo)
            failing = config.read_text().replace("[storage]", "connect_timeout_seconds = 1\n[storage]")
            config.write_text(failing)
            said.append(runner.invoke(main, ["doctor", NAME, "--config", str(config)]))
            said.append(runner.invoke(main, ["rules", "get", NAME, "--config", str(config), "--debug"]))
            said.append(runner.invoke(main, ["mark", NAME, "--config", str(config), "--debug"]))
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        keys = [found["Key"] for page in pages for found in page.get("Contents", [])]
        stored = {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}
    return directory, said, stored


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_runs_that_pass_and_runs_that_fail_write_and_show_no_secret(played, caplog):
    directory, said, stored = played
    assert said[-1].exit_code == 1, said[-1].output
    assert "Traceback" in said[-2].output, said[-2].output
    assert "answered 500" in said[-1].output
    own = {key: data for key, data in stored.items() if key.startswith("_lakefs/retention/gc/")}
    kinds = {"manifest.json", ".parquet", "verdict.json", "report.html", "report.json", "summary.json"}
    assert not [kind for kind in kinds if not any(key.endswith(kind) for key in own)], sorted(own)
    for result in said:
        assert not _found(result.output)
        assert not _found(result.stderr)
    for key, data in stored.items():
        assert not _found(data), key
    written = [path for path in directory.rglob("*") if path.is_file()]
    assert any("dagster" in path.parts for path in written)
    for path in written:
        assert not _found(path.read_bytes()), path


def test_settings_that_are_shown_hold_no_secret(tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "lakegc.toml"
    config.write_text(
        SETTINGS.format(name=NAME, server="http://127.0.0.1:1", store="http://127.0.0.1:1", directory=tmp_path)
    )
    settings = load_settings(config)
    for text in (repr(settings), str(settings), settings.model_dump_json(), repr(settings.store_options())):
        assert not _found(text)
    assert not _found(pickle.dumps(settings.model_dump()))


@pytest.mark.parametrize(
    "line",
    [
        'secret_access_key = "{secret}"',
        'access_key_id = "{secret}"',
        'azure_account_key = "{secret}"',
        's3_session_token = "{secret}"',
    ],
)
def test_a_secret_in_the_settings_file_is_refused_without_showing_it(line, tmp_path):
    config = tmp_path / "lakegc.toml"
    config.write_text(
        f'[server]\nendpoint = "http://127.0.0.1:1"\n{line.format(secret=AWS_SECRET)}\n[repositories.repo]\n'
    )
    answer = CliRunner().invoke(main, ["mark", "repo", "--config", str(config), "--debug"])
    assert answer.exit_code == 2
    assert "secret" in answer.output
    assert not _found(answer.output)
