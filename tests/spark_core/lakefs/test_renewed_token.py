"""Logging in with bearer tokens: where they are, when they are renewed, what is never shown."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_core.errors import LakegcError, PermissionDeniedError, SettingsError, TransientError
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.lakefs.permissions import Permissions
from spark_core.lakefs.renewed_token import RenewedToken
from spark_core.lakefs.tokens import Token, TokenInFile, TokenOfCommand
from tests.spark_core.lakefs.conftest import FakeClock
from tests.support.scripted_server import Asked, Reply, ScriptedServer

REPOSITORY = ("GET", "/repositories/docs")
FOUND = {
    "creation_date": 1795245461,
    "default_branch": "main",
    "id": "docs",
    "read_only": False,
    "storage_id": "",
    "storage_namespace": "local://docs",
}
REFUSED = (401, {"message": "error authenticating request"})


def jwt(ends: datetime | None, name: str = "first") -> str:
    claims = {"sub": name} | ({} if ends is None else {"exp": int(ends.timestamp())})
    parts = ({"alg": "HS256"}, claims, name)
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    )


class Tokens:
    """A source that gives one token after the other, then the last one again."""

    called = "the token of the test"

    def __init__(self, *texts: str, is_cheap: bool = False) -> None:
        self.texts, self.is_cheap, self.readings = list(texts), is_cheap, 0

    def read(self, _log_in: Any) -> Token:
        self.readings += 1
        return Token.parse(self.texts.pop(0) if len(self.texts) > 1 else self.texts[0], self.called)


def shared(clock: FakeClock, *texts: str, **options: Any) -> tuple[RenewedToken, Tokens]:
    source = Tokens(*texts, **options)
    return RenewedToken(source, lambda *_: pytest.fail("no log-in is needed"), clock), source


def accepting(*tokens: str) -> Callable[[Asked], Reply | tuple[int, Any]]:
    """Answer only calls with one of these tokens."""
    return lambda asked: (
        (200, FOUND)
        if asked.headers.get("Authorization") in {f"Bearer {token}" for token in tokens}
        else REFUSED
    )


def test_a_token_is_used_until_shortly_before_it_ends(clock: FakeClock) -> None:
    first, second = jwt(clock.now() + timedelta(hours=1)), jwt(clock.now() + timedelta(hours=9))
    login, source = shared(clock, first, second)
    clock.sleep(55 * 60 - 1)
    assert login.authorization() == f"Bearer {first}"
    assert source.readings == 1
    clock.sleep(60 * 60)
    assert login.authorization() == f"Bearer {second}"


@pytest.mark.parametrize(("life", "before"), [(3600, 300), (600, 60), (100, 10)])
def test_it_is_renewed_five_minutes_before_or_in_the_last_tenth_of_its_life(
    clock: FakeClock, life: int, before: int
) -> None:
    first, second = jwt(clock.now() + timedelta(seconds=life)), jwt(None)
    login, _ = shared(clock, first, second)
    login.authorization()
    clock.sleep(life - before - 1)
    assert login.authorization() == f"Bearer {first}"
    clock.sleep(1)
    assert login.authorization() == f"Bearer {second}"


def test_a_token_that_comes_again_shortly_before_its_end_is_not_asked_for_at_each_call(
    clock: FakeClock,
) -> None:
    login, source = shared(clock, jwt(clock.now() + timedelta(seconds=100)))
    for _ in range(99):
        login.authorization()
        clock.sleep(1)
    assert source.readings <= 4
    clock.sleep(60)
    for _ in range(9):
        login.authorization()
        clock.sleep(0.1)
    assert source.readings <= 6


def test_a_token_without_an_end_is_read_once(clock: FakeClock) -> None:
    login, source = shared(clock, "opaque")
    for _ in range(3):
        assert login.authorization() == "Bearer opaque"
        clock.sleep(10**6)
    assert source.readings == 1


def test_a_refused_token_is_read_once_more_and_the_call_is_made_with_the_new_one(
    client: Callable[..., tuple[LakeFSServer, ScriptedServer]], clock: FakeClock
) -> None:
    source = Tokens("old", "new")
    with ScriptedServer(overrides={REPOSITORY: accepting("new")}) as scripted:
        server = LakeFSServer(ServerOptions(scripted.endpoint, token=source), clock=clock)
        assert server.repository("docs").id == "docs"
        assert len(scripted.calls) == server.requests["get_repository"] == 2
        server.repository("docs")
        assert (len(scripted.calls), source.readings) == (3, 2)
    assert clock.slept == []


def test_a_call_that_may_not_be_repeated_is_made_again_after_a_refused_token(
    clock: FakeClock,
) -> None:
    """A refused call had no effect."""
    answers = {("DELETE", ".*/settings/gc_rules"): accepting("new")}
    with ScriptedServer(overrides=answers) as scripted:
        options = ServerOptions(scripted.endpoint, token=Tokens("old", "new"), tries=1)
        LakeFSServer(options, clock=clock).delete_retention_rules("docs")
        assert len(scripted.calls) == 2


def test_a_token_that_stays_refused_is_an_error_with_its_name_and_a_next_step(
    clock: FakeClock,
) -> None:
    ended = jwt(clock.now() - timedelta(hours=1))
    source = Tokens(ended)
    with ScriptedServer(overrides={REPOSITORY: accepting()}) as scripted:
        server = LakeFSServer(ServerOptions(scripted.endpoint, token=source), clock=clock)
        with pytest.raises(
            PermissionDeniedError,
            match=r"error authenticating request.*Check the token of the test \(which says that it "
            r"ended at 2026-11-20 23:00:00 UTC\) first.*then the user's policy",
        ) as raised:
            server.repository("docs")
        assert ended not in str(raised.value)
        assert (len(scripted.calls), source.readings) == (1, 2)


def test_a_lacking_permission_does_not_cost_a_token(clock: FakeClock) -> None:
    source = Tokens("one", "two")
    lacking = (401, {"message": "insufficient permissions: not allowed to fs:ReadRepository"})
    with ScriptedServer(overrides={REPOSITORY: lacking}) as scripted:
        server = LakeFSServer(ServerOptions(scripted.endpoint, token=source), clock=clock)
        with pytest.raises(PermissionDeniedError, match="lacks the action fs:ReadRepository"):
            server.repository("docs")
    assert source.readings == 1


def test_many_threads_share_one_renewal(clock: FakeClock) -> None:
    login, source = shared(clock, "old", "new")
    old, reading = login.authorization(), source.read
    at_once, most = threading.Semaphore(1), []

    def slowly(log_in: Any) -> Token:
        most.append(at_once.acquire(blocking=False))
        time.sleep(0.05)
        at_once.release()
        return reading(log_in)

    source.read = slowly  # type: ignore[method-assign]
    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(login.renewed(old))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 16
    assert most == [True]


def test_many_threads_ask_only_once_where_there_is_no_other_token(clock: FakeClock) -> None:
    login, source = shared(clock, "same")
    refused = login.authorization()
    assert [login.renewed(refused) for _ in range(16)] == [False] * 16
    assert source.readings == 2
    clock.sleep(10)
    login.renewed(refused)
    assert source.readings == 3


def test_a_file_that_changes_counts_at_the_next_call(tmp_path: Path, clock: FakeClock) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    with ScriptedServer(overrides={REPOSITORY: (200, FOUND)}) as scripted:
        options = ServerOptions(scripted.endpoint, token=TokenInFile(str(file)))
        server = LakeFSServer(options, clock=clock)
        server.repository("docs")
        file.write_text("second")
        server.repository("docs")
        sent = [asked.headers["Authorization"] for asked in scripted.calls]
    assert sent == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, r"cannot be read \(No such file or directory\)"),
        (b"\xffhush", "it is not UTF-8"),
        (b" \n", "is empty"),
        (b"hu\xe2\x80\x93sh", r"has U\+2013"),
        (b"hush\nhush", r"has U\+000A"),
    ],
)
def test_a_file_without_a_token_is_named_and_not_quoted(
    tmp_path: Path, content: bytes | None, text: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=text) as raised:
        TokenInFile(str(file)).read(None)  # type: ignore[arg-type]
    assert str(file) in str(raised.value)
    assert "hush" not in "".join(traceback.format_exception(raised.value))


def command(script: str, **options: Any) -> TokenOfCommand:
    return TokenOfCommand((sys.executable, "-c", script), **options)


def test_a_command_gives_what_it_prints() -> None:
    source = command("import sys; print(' hush '); print('a warning', file=sys.stderr)")
    assert source.read(None).text == "hush"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "kind", "text"),
    [
        (command("print('hush'); exit(3)"), SettingsError, "ended with status 3"),
        (
            command("import sys; print('hush', file=sys.stderr); exit(1)"),
            SettingsError,
            "ended with status 1",
        ),
        (command("pass"), SettingsError, "is empty"),
        (
            command("import sys; sys.stdout.buffer.write(bytes([255]))"),
            SettingsError,
            "printed what is not text",
        ),
        (
            command("import time; print('hush', flush=True); time.sleep(60)", seconds=0.5),
            TransientError,
            r"gave no token within 0\.5 seconds.*Run it by hand",
        ),
        (TokenOfCommand(("/no/such/program", "hush")), SettingsError, "cannot be started"),
    ],
    ids=["fails", "says why", "prints nothing", "prints no text", "is slow", "is not there"],
)
def test_a_command_that_gives_no_token_is_named_and_not_quoted(
    source: TokenOfCommand, kind: type[LakegcError], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(kind, match=text) as raised:
        source.read(None)  # type: ignore[arg-type]
    assert source.arguments[0] in str(raised.value)
    shown = "".join(traceback.format_exception(raised.value)) + "".join(capfd.readouterr())
    assert "hush" not in shown.replace("print('hush'", "")


def test_a_command_that_is_late_takes_along_what_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = "import time; time.sleep(60)"
    script = (
        "import subprocess, sys, time; "
        f"started = subprocess.Popen([sys.executable, '-c', '{child}']); "
        f"open('{pid}', 'w').write(str(started.pid)); time.sleep(60)"
    )
    with pytest.raises(TransientError):
        command(script, seconds=2).read(None)  # type: ignore[arg-type]
    until = time.monotonic() + 5
    while time.monotonic() < until and _is_running(int(pid.read_text())):
        time.sleep(0.02)
    assert not _is_running(int(pid.read_text()))


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_the_health_of_a_server_is_asked_without_any_token() -> None:
    with ScriptedServer(overrides={("GET", "/healthcheck"): (204, None)}) as scripted:
        options = ServerOptions(scripted.endpoint, token=TokenInFile("/no/such/file"))
        Permissions(options).require_lakefs()
        assert "Authorization" not in scripted.calls[0].headers


def test_keys_and_a_token_at_once_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"keys and a token for http://host.*Leave one"):
        ServerOptions("http://host", "key", "secret", token=TokenOfCommand(("echo", "hush")))


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 410, 429, 500])
def test_no_token_is_in_an_error_a_log_or_a_repr_even_if_the_server_says_it(
    status: int, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = ["tokenAAAA/+one", "tokenBBBB/+two"]

    def echo(asked: Asked) -> tuple[int, Any]:
        return status, {"message": f"{' '.join(tokens)} and {asked.headers['Authorization']}"}

    with ScriptedServer(overrides={("GET", ".*"): echo}) as scripted:
        source = Tokens(*tokens)
        server = LakeFSServer(ServerOptions(scripted.endpoint, token=source), clock=clock)
        # Both are had, so that both are known.
        server._transport._login.renewed(server._transport._login.authorization())
        with pytest.raises(LakegcError) as raised:
            server.repository("docs")
    shown = "".join(traceback.format_exception(raised.value)) + caplog.text + repr(server)
    assert not [token for token in tokens if token in shown]


@pytest.mark.parametrize(
    "source",
    [
        TokenInFile("/run/token"),
        TokenOfCommand(("vault", "hush")),
    ],
    ids=lambda source: type(source).__name__,
)
def test_what_says_where_a_token_is_does_not_show_it(source: Any) -> None:
    options = ServerOptions("http://host", token=source)
    assert "hush" not in repr(options) + str(options) + source.called
    assert pickle.loads(pickle.dumps(options)) == options


def test_the_end_of_a_token_is_read_without_believing_the_rest() -> None:
    ends = datetime(2030, 1, 2, tzinfo=UTC)
    assert Token.parse(jwt(ends), "it").ends == ends
    broken = [jwt(None), "a.b.c", "a.!!.c", "e30.W10.x", "e30.eyJleHAiOiJzb29uIn0.x", "x" * 9]
    # `exp` beyond what an instant holds.
    broken.append(jwt(ends).replace(jwt(ends).split(".")[1], _encoded({"exp": 10**30})))
    assert [Token.parse(text, "it").ends for text in broken] == [None] * 7


def _encoded(claims: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


def test_a_command_runs_with_the_environment_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAKEGC_TEST_TOKEN", "hush")
    # As docs/logging-in.md has it for a token in a variable.
    source = TokenOfCommand(("printenv", "LAKEGC_TEST_TOKEN"))
    assert source.read(None).text == "hush"  # type: ignore[arg-type]
