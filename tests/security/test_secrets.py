"""Secrets are where they are used and nowhere else: not in messages, reprs, logs, tables, metadata,
pages, Dagster's home or tracebacks.

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
from datetime import UTC, datetime, timedelta
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lakegc_dagster.sandbox import Sandbox
from spark_core import tries
from spark_core.addresses.namespace import Namespace
from spark_core.backoff import Backoff
from spark_core.cli.main import main
from spark_core.errors import LakegcError
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.lakefs.tokens import TokenOfCommand
from spark_core.lakefs.transport import Transport
from spark_core.settings import load_settings
from spark_core.storage import StoreOptions, open_store
from spark_core.storage.probes import honours_conditional_put, read_clock, require_deletable
from tests.support.recorded_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from tests.support.scripted_s3 import Answer, scripted_s3
from tests.support.scripted_server import Reply, ScriptedServer
from tests.support.upstream import upstream_scenario

LAKEFS_TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJsYWtlZ2MifQ.a-bearer-token-of-lakefs"
AWS_KEY = "AKIASECRETSTESTKEY00"
AWS_SECRET = "aws+SECRET/of/the/store/0000000000000000"
AWS_TOKEN = "FwoGZXIvYXdzSESSION/TOKEN+of==the+store"
AZURE_KEY = base64.b64encode(b"azure account key of the store 0123456789abcdef").decode()
AZURE_SIGNATURE = "aZuRe/SAS+signature0123456789abcdefghijklmn="
AZURE_SAS = (
    f"sv=2024-11-04&sr=c&sp=rlwd&se=2099-01-01T00:00:00Z&sig={quote(AZURE_SIGNATURE, safe='')}"
)
AZURE_CLIENT_SECRET = "azure~client.secret~0123456789abcdef"
GCS_KEY = (
    rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    .private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
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
        found.update(
            line for line in secret.splitlines() if len(line) > 30 and not line.startswith("-----")
        )
    return found


LAKEFS = _forms(SECRET_ACCESS_KEY, f"{ACCESS_KEY_ID}:{SECRET_ACCESS_KEY}", LAKEFS_TOKEN)
S3 = _forms(AWS_SECRET, AWS_TOKEN)
AZURE = _forms(AZURE_KEY, AZURE_SIGNATURE, AZURE_CLIENT_SECRET)
GCS = _forms(GCS_KEY)
ALL = LAKEFS | S3 | AZURE | GCS

OPTIONS = (
    ServerOptions("http://127.0.0.1:1", ACCESS_KEY_ID, SECRET_ACCESS_KEY),
    ServerOptions("http://127.0.0.1:1", token=TokenOfCommand(("echo", LAKEFS_TOKEN))),
    StoreOptions(
        s3_access_key_id=AWS_KEY, s3_secret_access_key=AWS_SECRET, s3_session_token=AWS_TOKEN
    ),
    StoreOptions(
        azure_account_key=AZURE_KEY,
        azure_sas_token=AZURE_SAS,
        azure_client_secret=AZURE_CLIENT_SECRET,
    ),
    StoreOptions(gcs_service_account_key=GCS_ACCOUNT),
)


def _found(text, secrets=ALL):
    """Which secrets a text holds; shortened, so that a failing test does not tell them itself."""
    data = text if isinstance(text, bytes) else str(text).encode()
    return sorted(f"{secret[:6]}..." for secret in secrets if secret.encode() in data)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: type(options).__name__)
def test_no_repr_of_options_or_of_what_holds_them_shows_a_secret(options):
    shown = [
        repr(options),
        str(options),
        f"{options}",
        repr(replace(options)),
        repr([options]),
        repr({"o": options}),
    ]
    for namespace in (
        "s3://bucket/repo",
        "gs://bucket/repo",
        "https://account.blob.core.windows.net/c/repo",
    ):
        if isinstance(options, StoreOptions):
            try:
                store = open_store(
                    Namespace.parse(namespace), replace(options, s3_region="us-east-1")
                )
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
            secret = any(
                word in field.name for word in ("secret", "token", "account_key", "access_key")
            )
            assert not (secret and field.repr), f"{kind.__name__}.{field.name}"


@contextmanager
def _everything_logged(caplog):
    """Log what lakegc and the libraries below it say.

    Of their debug level, which nobody switches on, all but the wire.
    """
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
            "url": f"https://b/x?X-Amz-Signature=abc&X-Amz-Security-Token={quote(AWS_TOKEN, safe='')}",  # noqa: E501 - a row of data
        }
        said = " ".join(f"{name}: {value}" for name, value in headers.items())
        plain = f"{said} secret {SECRET_ACCESS_KEY} of {ACCESS_KEY_ID}"
        bodies = {
            "message": {"message": plain},
            "text": plain.encode(),
            "names": {"id": plain, "results": [plain]},
        }
        return Reply(
            status,
            bodies[shape],
            {"Location": f"http://127.0.0.1:1/?sig={quote(AZURE_SIGNATURE, safe='')}"},
        )

    with ScriptedServer(echo) as running, _everything_logged(caplog):
        options = ServerOptions(
            running.endpoint,
            ACCESS_KEY_ID,
            SECRET_ACCESS_KEY,
            tries=1,
            first_backoff=timedelta(milliseconds=1),
        )
        server = LakeFSServer(options)
        for name, call in CALLS:
            said = _told(lambda call=call: call(server))
            assert not _found(said), name
            assert said, name


STORES = {
    "s3": (
        "s3://bucket/repo",
        {
            "s3_access_key_id": AWS_KEY,
            "s3_secret_access_key": AWS_SECRET,
            "s3_session_token": AWS_TOKEN,
        },
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
        said = f"{request.method} {request.target} " + " ".join(
            f"{n}: {v}" for n, v in request.headers.items()
        )
        said += f" {AWS_SECRET} {AZURE_KEY} {AZURE_SIGNATURE} {AWS_TOKEN}"
        body = (
            f"<?xml version='1.0'?><Error><Code>Echo{status}</Code><Message>{escape(said)}"
            "</Message></Error>"
        )
        return Answer(
            status, body.encode(), {"Content-Type": "application/xml", "x-ms-error-code": "Echo"}
        )

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
[server]
endpoint = "{server}"
[storage]
local_path = "{blocks}"
[dagster]
home = "{directory}/dagster"
[repositories.{name}]
mode = "sweep"
repository_cache_seconds = 0
write_reference_mark = true
"""
ENVIRONMENT = {
    "LAKEGC_ACCESS_KEY_ID": ACCESS_KEY_ID,
    "LAKEGC_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
    # Not used by a local store, and in the environment of many a machine.
    "AWS_ACCESS_KEY_ID": AWS_KEY,
    "AWS_SECRET_ACCESS_KEY": AWS_SECRET,
    "AWS_SESSION_TOKEN": AWS_TOKEN,
    "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
    "AZURE_STORAGE_SAS_TOKEN": AZURE_SAS,
    "AZURE_CLIENT_SECRET": AZURE_CLIENT_SECRET,
}
NAME = "repo"


def _echo(asked):
    header = {name.lower(): value for name, value in asked.headers.items()}.get("authorization", "")
    return Reply(
        500, {"message": f"no: {header}, {SECRET_ACCESS_KEY}, ?sig={quote(AZURE_SIGNATURE)}"}
    )


@pytest.fixture(scope="module")
def played(spark, tmp_path_factory):
    """What passing and failing commands said, and the folders of all that they wrote."""
    directory = tmp_path_factory.mktemp("secrets")
    config, runner = directory / "lakegc.toml", CliRunner()

    def lakegc(*words):
        return runner.invoke(main, [*words, "--config", str(config)], env=ENVIRONMENT)

    keys = {"access_key_id": ACCESS_KEY_ID, "secret_access_key": SECRET_ACCESS_KEY}
    with (
        Sandbox(directory / "sandbox", **keys) as sandbox,
        ScriptedServer(_echo) as echoing,
        pytest.MonkeyPatch.context() as hurried,
    ):
        upstream_scenario(sandbox, NAME, now=datetime.now(UTC))
        words = {"name": NAME, "blocks": sandbox.blockstore, "directory": directory}
        config.write_text(SETTINGS.format(server=sandbox.endpoint, **words))
        passing = [lakegc("run", NAME, "--debug"), lakegc("doctor", NAME), lakegc("report", NAME)]
        config.write_text(SETTINGS.format(server=echoing.endpoint, **words))
        # A server that only ever fails is asked again as often as any other, but at once.
        hurried.setattr(Transport, "_backoff", lambda _transport, **bounds: Backoff(0, 0, **bounds))
        hurried.setattr(tries, "RETRY_AFTER", timedelta())
        failing = [
            lakegc("rules", "get", NAME, "--debug"),
            lakegc("doctor", NAME),
            lakegc("mark", NAME, "--debug"),
        ]
        return passing, failing, (sandbox.blockstore, directory / "dagster")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_runs_that_pass_and_runs_that_fail_write_and_show_no_secret(played):
    passing, failing, folders = played
    assert passing[0].exit_code == 0, passing[0].output
    assert [result.exit_code for result in failing] == [1, 1, 1]
    assert "Traceback" in failing[0].output
    # "answered 500 (no: ...", which the doctor's table may fold in front of the number.
    assert ["500 (no: " in result.output for result in failing] == [True] * 3
    for result in (*passing, *failing):
        assert not _found(result.output)
        assert not _found(result.stderr)
    written = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    kinds = {
        "manifest.json",
        ".parquet",
        "verdict.json",
        "report.html",
        "report.json",
        "summary.json",
    }
    assert not [kind for kind in kinds if not any(path.name.endswith(kind) for path in written)]
    for path in written:
        assert not _found(path.read_bytes()), path


def test_settings_that_are_shown_hold_no_secret(tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "lakegc.toml"
    config.write_text(
        SETTINGS.format(name=NAME, server="http://127.0.0.1:1", blocks=tmp_path, directory=tmp_path)
    )
    settings = load_settings(config)
    for text in (
        repr(settings),
        str(settings),
        settings.model_dump_json(),
        repr(settings.store_options()),
    ):
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
        f'[server]\nendpoint = "http://127.0.0.1:1"\n{line.format(secret=AWS_SECRET)}\n'
        "[repositories.repo]\n"
    )
    answer = CliRunner().invoke(main, ["mark", "repo", "--config", str(config), "--debug"])
    assert answer.exit_code == 2
    assert "secret" in answer.output
    assert not _found(answer.output)
