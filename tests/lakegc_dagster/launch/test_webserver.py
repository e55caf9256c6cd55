"""Requests to Dagster's own server behind the guard, and what the same ones do without it."""

import asyncio
import json
import signal
import threading
from queue import Queue
from urllib.parse import urlencode

import dagster as dg
import pytest
import uvicorn
from click.testing import CliRunner

from lakegc_dagster.in_dagster.private_doors import serve_pages
from lakegc_dagster.launch import webserver
from lakegc_dagster.launch.home import open_instance, prepare_home
from lakegc_dagster.launch.request_guard import hosts_of
from lakegc_dagster.launch.webserver import GuardedPages

KEY = dg.AssetKey("verdict")
WIPE = """mutation { wipeAssets(assetPartitionRanges: [{assetKey: {path: ["verdict"]}}])
  { __typename } }"""
JSON = {"content-type": "application/json"}
OWN = {"origin": "http://localhost:3000", "sec-fetch-site": "same-origin"}
ELSEWHERE = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}


def ask(app, method, address, headers=(), *, body=b"", kind="http"):
    """Send one request to an ASGI application; return status, headers and text of its answer."""
    path, _, query = address.partition("?")
    named = {"host": "localhost:3000", **dict(headers)}
    scope = {
        "type": kind,
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 3000),
        "extensions": {"websocket.http.response": {}},
        "subprotocols": ["graphql-ws"],
    }
    if kind == "websocket":
        del scope["method"]
        arrives = [{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}]
    else:
        arrives = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]
    sent = []

    async def receive():
        return arrives.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    first = sent[0]
    text = b"".join(message.get("body", b"") for message in sent).decode()
    return first.get("status", first["type"]), dict(first.get("headers", ())), text


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    workspace = home / "workspace.yaml"
    workspace.write_text("load_from: []\n")
    made, ended = Queue(), threading.Event()

    def serve(app):
        made.put(app)
        ended.wait()

    with pytest.MonkeyPatch.context() as patch, open_instance(home) as instance:
        patch.setenv("DAGSTER_HOME", str(home))
        # Only a main thread may.
        patch.setattr(signal, "signal", lambda *_: None)
        serving = threading.Thread(target=serve_pages, args=(workspace, serve))
        serving.start()
        app = made.get(timeout=60)
        yield instance, app, GuardedPages(app, hosts_of("127.0.0.1", []))
        ended.set()
        serving.join()


@pytest.fixture
def asset(served):
    """Record that an asset was made, and return whether Dagster still knows."""
    instance, _, _ = served

    def is_recorded():
        return instance.get_latest_materialization_event(KEY) is not None

    instance.report_runless_asset_event(dg.AssetMaterialization(KEY))
    assert is_recorded()
    return is_recorded


# What a page elsewhere can send: by an image, a form, and a script that need not see the answer.
UNASKED = [
    ("GET", f"/graphql?{urlencode({'query': WIPE})}", {"accept": "image/*"}, b""),
    # As `/graphql%0A` arrives.
    ("GET", f"/graphql\n?{urlencode({'query': WIPE})}", {"accept": "image/*"}, b""),
    ("POST", f"/graphql?{urlencode({'query': WIPE})}", {}, b""),
    ("POST", f"/graphql?{urlencode({'query': WIPE})}", {"content-type": "text/plain"}, b"x"),
    (
        "POST",
        "/graphql",
        {"content-type": "text/plain; application/json"},
        json.dumps({"query": WIPE}).encode(),
    ),
]


@pytest.mark.parametrize("sender", [ELSEWHERE, {}], ids=["said", "unsaid"])
@pytest.mark.parametrize(
    "wanted", UNASKED, ids=["image", "line-end", "form", "text", "json-as-text"]
)
def test_59_a_page_elsewhere_changed_what_the_ui_can_change(served, asset, wanted, sender):
    _, app, guarded = served
    method, address, headers, body = wanted
    headers = {**sender, **headers}
    status, _, text = ask(guarded, method, address, headers, body=body)
    assert status == 403
    assert text.startswith("lakegc: ")
    assert text.endswith("\n")
    assert asset()
    # It is the guard that does this, and not Dagster.
    assert ask(app, method, address, headers, body=body)[0] == 200
    assert not asset()


def test_59_a_page_whose_name_was_led_here_changed_what_the_ui_can_change(served, asset):
    _, app, guarded = served
    headers = {"host": "evil.example:3000", "origin": "http://evil.example:3000", **JSON}
    headers["sec-fetch-site"] = "same-origin"
    body = json.dumps({"query": WIPE}).encode()
    status, _, text = ask(guarded, "POST", "/graphql", headers, body=body)
    assert status == 403
    assert "for the host 'evil.example:3000'" in text
    assert asset()
    assert ask(app, "POST", "/graphql", headers, body=body)[0] == 200
    assert not asset()


RECORDED = {
    "materialization": lambda events, key: events.get_latest_materialization_events([key]).get(key),
    "observation": lambda events, key: events.fetch_observations(key, limit=1).records,
    "check": lambda events, key: events.get_asset_check_execution_history(
        dg.AssetCheckKey(key, "c"), limit=1
    ),
}


@pytest.mark.parametrize("report", RECORDED)
def test_59_a_page_elsewhere_reported_what_never_was(served, report):
    instance, app, guarded = served
    key = dg.AssetKey(["forged", report])
    address = f"/report_asset_{report}/forged/{report}?check_name=c&passed=true&data_version=1"
    assert ask(guarded, "POST", address, ELSEWHERE)[0] == 403
    assert not RECORDED[report](instance.event_log_storage, key)
    assert ask(app, "POST", address, ELSEWHERE)[0] == 200
    assert RECORDED[report](instance.event_log_storage, key)


@pytest.mark.parametrize("sender", [OWN, {}], ids=["its own page", "a program"])
def test_the_ui_and_programs_change_things_as_before(served, asset, sender):
    _, _, guarded = served
    body = json.dumps({"query": WIPE}).encode()
    assert ask(guarded, "POST", "/graphql", {**sender, **JSON}, body=body)[0] == 200
    assert not asset()


def test_a_websocket_is_opened_for_the_ui_s_own_pages_alone(served):
    _, app, guarded = served
    assert ask(app, "GET", "/graphql", ELSEWHERE, kind="websocket")[0] == "websocket.accept"
    assert ask(guarded, "GET", "/graphql", OWN, kind="websocket")[0] == "websocket.accept"
    assert ask(guarded, "GET", "/graphql", ELSEWHERE, kind="websocket")[0] == 403


def test_no_page_elsewhere_shows_the_ui_in_a_frame(served):
    _, app, guarded = served
    for path in ("/", "/graphql", "/server_info"):
        assert ask(guarded, "GET", path, {"accept": "text/html"})[1][b"x-frame-options"] == (
            b"SAMEORIGIN"
        )
    assert b"x-frame-options" not in ask(app, "GET", "/")[1]


def test_a_probe_by_the_address_of_a_pod_is_answered_and_nothing_else_of_it(served):
    _, _, guarded = served
    pod = {"host": "10.0.0.5:3000"}
    assert json.loads(ask(guarded, "GET", "/server_info", pod)[2])["dagster_version"]
    assert ask(guarded, "GET", "/", pod)[0] == 403


# What answers GET, by the code behind it. Whatever is new here could change something.
READING = {
    "download_captured_logs_endpoint",
    "download_debug_file_endpoint",
    "download_notebook",
    "graphql_http_endpoint",
    "index_html_endpoint",
    "webserver_info_endpoint",
}
POSTING = {
    "graphql_http_endpoint",
    "report_asset_check_endpoint",
    "report_asset_materialization_endpoint",
    "report_asset_observation_endpoint",
}


def test_dagster_answers_to_no_path_that_the_guard_was_not_made_for(served):
    _, app, _ = served
    answering = {"GET": set(), "POST": set(), "websocket": set()}
    for route in app.routes:
        if route.name.endswith("_static"):
            continue
        kinds = getattr(route, "methods", {"websocket"}) - {"HEAD"}
        for kind in kinds:
            answering[kind].add(route.endpoint.__name__)
        if "graphql" in route.name:
            assert route.path == "/graphql"
    assert answering == {"GET": READING, "POST": POSTING, "websocket": {"graphql_ws_endpoint"}}


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Run the command on a home without code locations, with a module in the daemon's place."""
    home = prepare_home(tmp_path / "home")
    workspace = home / "workspace.yaml"
    workspace.write_text("load_from: []\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("LAKEGC__SERVER__ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)

    def run(daemon, *words):
        monkeypatch.setattr(webserver, "DAEMON", ("-m", daemon))
        words = ["-w", str(workspace), "-p", "0", *words]
        return CliRunner().invoke(webserver.main, words)

    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.mark.slow
def test_the_pages_end_with_an_error_when_the_daemon_does(started):
    result = started("this", "--daemon")
    assert (result.exit_code, result.output) == (
        1,
        "Error: Dagster's daemon ended by itself, with exit code 0\n",
    )


def test_the_command_takes_the_hosts_of_the_settings(started, monkeypatch):
    seen = []
    monkeypatch.setenv("LAKEGC__UI__HOSTS", '["lakegc.example.com"]')
    monkeypatch.setattr(uvicorn.Server, "run", lambda self: seen.append(self.config.app))
    assert started("this", "-h", "10.0.0.5").exit_code == 0
    (app,) = seen
    assert isinstance(app, GuardedPages)
    assert app.hosts == hosts_of("10.0.0.5", ["lakegc.example.com"])
    monkeypatch.setenv("LAKEGC__UI__HOSTS", '["https://lakegc.example.com"]')
    result = started("this")
    assert result.exit_code == 1
    assert "[ui] hosts: wanted names or addresses like lakegc.example.com" in result.output
    assert len(seen) == 1
