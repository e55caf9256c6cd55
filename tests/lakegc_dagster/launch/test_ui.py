"""`lakegc ui`: Dagster's UI on the command line's home, with the sandbox beside it, both ended by
Ctrl-C.
"""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import urllib3

from lakegc_dagster.launch import ui
from lakegc_dagster.launch.home import CODE_LOCATION
from spark_core.errors import LakegcError, SettingsError
from spark_core.settings import load_settings

ASSETS = {
    "namespace_slices",
    "uncommitted_addresses",
    "retained_commits",
    "committed_addresses",
    "policy_expirations",
    "expired_addresses",
    "verdict",
    "deletion_report",
    "house_keeping",
    "repositories",
    "what_if",
}


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def settings(tmp_path):
    file = tmp_path / "lakegc.toml"
    file.write_text('[server]\nendpoint = "http://127.0.0.1:1"\n[dagster]\nhome = "home"\n')
    return load_settings(file, env={})


def test_without_dagsters_web_server_it_says_what_brings_it(settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "dagster_webserver", None)
    with pytest.raises(SettingsError, match=r"The pages of `lakegc ui` need .*lakegc-.*\[ui\]"):
        ui.serve(settings, _free_port())


def test_the_ui_is_on_loopback_and_sees_the_same_home_and_settings_and_sends_nothing(
    settings, tmp_path
):
    words = ui.command(tmp_path / "workspace.yaml", 3055)
    assert words[words.index("-h") + 1] == "127.0.0.1"
    assert words[words.index("-p") + 1] == "3055"
    seen = ui.environment(settings, {"LAKEGC_CONFIG": "another.toml", "PATH": "/bin"})
    assert seen == {
        "PATH": "/bin",
        "LAKEGC_CONFIG": str(tmp_path / "lakegc.toml"),
        "DAGSTER_HOME": str(tmp_path / "home"),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }
    pages = "http://localhost:3055/reports"
    assert ui.environment(settings, {}, pages=pages)["LAKEGC__REPORT__BASE_URL"] == pages


def test_another_host_is_named_to_the_ui_and_a_taken_port_there_is_named(settings, tmp_path):
    words = ui.command(tmp_path / "workspace.yaml", 3055, "0.0.0.0")
    assert words[words.index("-h") + 1] == "0.0.0.0"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"port {port} on 0\.0\.0\.0 cannot be used"):
            ui.serve(settings, port, "0.0.0.0")
    with pytest.raises(SettingsError, match=r"on 192\.0\.2\.1 cannot be used"):
        ui.serve(settings, _free_port(), "192.0.2.1")


@pytest.mark.parametrize(
    ("host", "only_here"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("collector.example.com", False),
    ],
)
def test_only_loopback_addresses_need_no_warning(host, only_here):
    assert ui.is_loopback(host) == only_here


def test_a_taken_port_is_named_and_nothing_is_started(settings):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"port {port} on 127\.0\.0\.1 cannot be used "):
            ui.serve(settings, port)
    assert not settings.dagster_home.exists()


def test_a_ui_that_ends_by_itself_is_an_error(settings, monkeypatch):
    monkeypatch.setattr(ui, "command", lambda *_: [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(LakegcError, match=r"the UI ended with exit code 3"):
        ui.serve(settings, _free_port())


@pytest.mark.slow
@pytest.mark.parametrize("of_sigint", [signal.default_int_handler, signal.SIG_IGN])
def test_a_ui_that_is_ended_is_none_and_the_signals_are_as_before(settings, monkeypatch, of_sigint):
    """A shell's script starts what stands before `&` with SIGINT ignored."""
    script = "import os, signal, time\nos.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(30)"
    monkeypatch.setattr(ui, "command", lambda *_: [sys.executable, "-c", script])
    numbers = (signal.SIGINT, signal.SIGTERM)
    original = signal.signal(signal.SIGINT, of_sigint)
    try:
        before = [signal.getsignal(number) for number in numbers]
        began = time.monotonic()
        ui.serve(settings, _free_port())
        assert time.monotonic() - began < 20
        assert [signal.getsignal(number) for number in numbers] == before
    finally:
        signal.signal(signal.SIGINT, original)


def test_a_ui_that_is_ended_while_it_starts_ends(settings, monkeypatch):
    start = subprocess.Popen

    def ended(*words, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        return start(*words, **options)

    monkeypatch.setattr(subprocess, "Popen", ended)
    monkeypatch.setattr(
        ui, "command", lambda *_: [sys.executable, "-c", "import time\ntime.sleep(60)"]
    )
    began = time.monotonic()
    ui.serve(settings, _free_port())
    assert time.monotonic() - began < 20


def _answer(url, **request):
    try:
        return urllib3.request(
            "POST" if "json" in request else "GET", url, retries=False, timeout=10, **request
        )
    except urllib3.exceptions.HTTPError:
        return None


def _launch_and_wait(graphql):
    """Start a mark as the UI's form does, and wait until the daemon has let it end."""
    config = {"ops": {"check_request": {"config": {"job": "mark", "repository": "lakegc-demo"}}}}
    launch = """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
      __typename ... on LaunchRunSuccess { run { runId } } } }"""
    selector = {"repositoryLocationName": CODE_LOCATION, "repositoryName": "__repository__"}
    selector["pipelineName"] = "start_run"
    params = {"mode": "default", "selector": selector, "runConfigData": config}
    told = _answer(graphql, json={"query": launch, "variables": {"params": params}}).json()
    run_id = told["data"]["launchRun"]["run"]["runId"]
    query = {"query": f'{{ runOrError(runId: "{run_id}") {{ ... on Run {{ status }} }} }}'}
    deadline = time.monotonic() + 120
    while (status := _answer(graphql, json=query).json()["data"]["runOrError"]["status"]) not in {
        "SUCCESS",
        "FAILURE",
    }:
        assert time.monotonic() < deadline, status
        time.sleep(0.5)
    assert status == "SUCCESS"


@pytest.mark.deep
def test_the_ui_of_the_sandbox_opens_shows_the_assets_and_ends_with_ctrl_c(tmp_path):
    port = _free_port()
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LAKEGC", "DAGSTER_HOME"))
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "spark_core.cli.main", "ui", "--sandbox", "--port", str(port)],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + 200
        while _answer(f"http://127.0.0.1:{port}/server_info") is None:
            assert process.poll() is None, process.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.5)
        query = {"query": "{ assetNodes { assetKey { path } } }"}
        nodes = _answer(f"http://127.0.0.1:{port}/graphql", json=query).json()["data"]["assetNodes"]
        assert {node["assetKey"]["path"][0] for node in nodes} == ASSETS
        query = {"query": "{ locationStatusesOrError { ... on WorkspaceLocationStatusEntries "
                          "{ entries { name } } } }"}  # fmt: skip
        found = _answer(f"http://127.0.0.1:{port}/graphql", json=query).json()["data"]
        assert found["locationStatusesOrError"]["entries"] == [{"name": CODE_LOCATION}]
        _launch_and_wait(f"http://127.0.0.1:{port}/graphql")
        elsewhere = {"Host": "evil.example"}
        assert _answer(f"http://127.0.0.1:{port}/", headers=elsewhere).status == 403
        endpoint = load_settings(tmp_path / ".sandbox" / "lakegc.toml", env={}).server.endpoint
        assert _answer(f"{endpoint}/api/v1/healthcheck").status == 204
    finally:
        process.send_signal(signal.SIGINT)
        try:
            output, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, output
    assert "superseded" not in output
    assert _answer(f"{endpoint}/api/v1/healthcheck") is None
    assert _answer(f"http://127.0.0.1:{port}/server_info") is None
