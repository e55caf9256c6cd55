"""Errors, repetition, timeouts and secrecy of calls to the server."""

from __future__ import annotations

import logging
import socket
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from spark_core import __version__
from spark_core.errors import (
    IncompleteReadError,
    LakegcError,
    NotFoundError,
    PermissionDeniedError,
    RepositoryStateError,
    SettingsError,
    TransientError,
)
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.lakefs.failures import NeverAnsweredError
from tests.spark_core.lakefs.conftest import FakeClock
from tests.support.recorded_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from tests.support.recordings import recorded
from tests.support.scripted_server import Asked, Reply, ScriptedServer, in_turn

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
REPOSITORY = ("GET", "/repositories/docs")
FOUND = {
    "creation_date": 1795245461,
    "default_branch": "main",
    "id": "docs",
    "read_only": False,
    "storage_id": "",
    "storage_namespace": "local://docs",
}


def failing(client: Client, reply: Any, kind: type[LakegcError], match: str, **options: Any) -> str:
    server, _ = client({REPOSITORY: reply}, **options)
    with pytest.raises(kind, match=match) as raised:
        server.repository("docs")
    return str(raised.value)


def test_every_call_names_lakegc_and_its_version(client: Client) -> None:
    server, scripted = client({REPOSITORY: (200, FOUND)})
    server.repository("docs")
    headers = scripted.calls[0].headers
    assert headers["X-Lakefs-Client"] == f"lakegc/{__version__}"
    assert headers["User-Agent"] == f"lakegc/{__version__}"


@pytest.mark.parametrize("suffix", ["", "/", "/api/v1", "/api/v1/"])
def test_the_endpoint_may_end_in_the_path_of_the_api(suffix: str) -> None:
    with ScriptedServer(overrides={REPOSITORY: (200, FOUND)}) as scripted:
        LakeFSServer(ServerOptions(scripted.endpoint + suffix, "key", "secret")).repository("docs")
        assert scripted.calls[0].raw_path == "/api/v1/repositories/docs"


def test_wrong_keys_say_which_action_is_needed(client: Client) -> None:
    text = failing(
        client, recorded("auth", 1), PermissionDeniedError, "error authenticating request"
    )
    assert "fs:ReadRepository" in text
    assert "access_key_id and secret_access_key" in text


def test_a_permission_that_is_denied_without_a_reason_comes_as_an_error_of_the_server(
    client: Client, clock: FakeClock
) -> None:
    denied = (500, {"message": "User does not have the required permissions"})
    failing(client, denied, PermissionDeniedError, "lacks the action fs:ReadRepository")
    server, scripted = client({("POST", ".*/dump"): denied})
    with pytest.raises(
        PermissionDeniedError, match="fs:ListTags, fs:ListBranches and fs:ListCommits"
    ):
        server.dump_refs("docs")
    assert len(scripted.calls) == 1, "it is no server without the call"
    assert clock.slept == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_lacking_permission_names_the_action_and_does_not_blame_the_keys(
    client: Client, status: int
) -> None:
    said = "insufficient permissions: fs:ReadRepository is denied"
    text = failing(
        client,
        (status, {"message": said}),
        PermissionDeniedError,
        "add it to one of the user's policies",
    )
    assert "lacks the action fs:ReadRepository" in text
    assert "access_key_id" not in text


def test_a_read_only_repository_is_a_state_and_not_a_missing_permission(client: Client) -> None:
    server, _ = client(
        {("POST", ".*/gc/prepare_commits/async"): recorded("read-only-bare-deleted", 7)}
    )
    with pytest.raises(RepositoryStateError, match=r"read-only repository.*Make it writable"):
        server.prepare_commits("docs")


def test_a_forbidden_prepare_names_the_retention_action(client: Client) -> None:
    server, _ = client(
        {("POST", ".*/gc/prepare_uncommited"): (403, {"message": "insufficient permissions"})}
    )
    with pytest.raises(
        PermissionDeniedError, match="retention:PrepareGarbageCollectionUncommitted"
    ):
        server.prepare_uncommitted("docs")


def test_an_unknown_repository_says_to_check_its_name(client: Client) -> None:
    failing(
        client,
        recorded("repository", 1),
        NotFoundError,
        r"repository docs.*repository not found.*lakectl repo list",
    )


def test_a_repository_in_deletion_is_named_so(client: Client) -> None:
    failing(
        client,
        (410, {"message": "repository in deletion"}),
        RepositoryStateError,
        "is being deleted",
    )


def test_an_address_without_such_an_api_is_a_setting_to_correct(client: Client) -> None:
    failing(
        client, recorded("repository", 6), SettingsError, "Check that endpoint is a lakeFS server"
    )
    failing(client, Reply(404, b"<html>nginx</html>"), SettingsError, "there is no such API")


def test_a_page_of_some_web_site_is_not_an_empty_answer(client: Client) -> None:
    failing(
        client,
        Reply(200, b"<html>log in</html>"),
        IncompleteReadError,
        "no JSON; is endpoint a lakeFS server",
    )


def test_a_malformed_request_is_a_setting_to_correct(client: Client) -> None:
    failing(
        client,
        recorded("repository", 2),
        SettingsError,
        "validation error.*Check the names in the settings",
    )


def test_a_redirect_is_not_followed_with_the_keys(client: Client) -> None:
    reply = Reply(308, b"", {"Location": "https://elsewhere.example/"})
    failing(client, reply, SettingsError, "redirect, which is not followed")


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_an_overloaded_server_is_asked_again_after_growing_pauses(
    client: Client, clock: FakeClock, status: int
) -> None:
    server, scripted = client(
        {REPOSITORY: in_turn((status, {"message": "slow down"}), (status, None), (200, FOUND))}
    )
    assert server.repository("docs").id == "docs"
    assert clock.slept == [0.5, 1.0]
    assert server.requests["get_repository"] == len(scripted.calls) == 3


def test_asking_again_has_an_end(client: Client, clock: FakeClock) -> None:
    failing(
        client,
        (503, {"message": "throttled"}),
        TransientError,
        r"answered 503 \(throttled\), 5 times",
    )
    assert clock.slept == [0.5, 1.0, 2.0, 4.0]


def test_the_server_may_ask_for_a_longer_pause_but_not_for_any(
    client: Client, clock: FakeClock
) -> None:
    server, _ = client(
        {
            REPOSITORY: in_turn(
                Reply(429, None, {"Retry-After": "7"}),
                Reply(429, None, {"Retry-After": "9999"}),
                (200, FOUND),
            )
        }
    )
    server.repository("docs")
    assert clock.slept == [7.0, 20.0]


def test_other_errors_are_not_asked_again(client: Client, clock: FakeClock) -> None:
    failing(client, (404, {"message": "repository not found"}), NotFoundError, "not found")
    assert clock.slept == []


def test_a_connection_that_breaks_off_is_tried_again(client: Client) -> None:
    server, scripted = client({REPOSITORY: in_turn(Reply(200, FOUND, cut=True), (200, FOUND))})
    assert server.repository("docs").id == "docs"
    assert len(scripted.calls) == 2


def test_a_connection_that_always_breaks_off_is_transient(client: Client) -> None:
    failing(client, Reply(200, FOUND, cut=True), TransientError, "broke off 2 times", tries=2)


def test_a_slow_answer_names_the_setting(client: Client) -> None:
    failing(
        client,
        Reply(200, FOUND, delay_seconds=0.5),
        TransientError,
        r"http://127.0.0.1:\d+ did not answer within read_timeout_seconds = 0.1\b.*"
        r"raise read_timeout_seconds",
        read_timeout=timedelta(seconds=0.1),
    )


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        ("Sat, 21 Nov 2026 00:00:05 GMT", 5.0),
        ("Sat, 21 Nov 2026 00:59:00 GMT", 20.0),
        ("Fri, 20 Nov 2026 23:00:00 GMT", 0.5),
        ("soon", 0.5),
        ("-1", 0.5),
    ],
)
def test_a_throttled_call_waits_as_long_as_the_server_asks(
    client: Client, clock: FakeClock, header: str, seconds: float
) -> None:
    throttled = Reply(
        503, {"message": "Throughput exceeded. Slow down and retry"}, {"Retry-After": header}
    )
    server, _ = client({REPOSITORY: in_turn(throttled, (200, FOUND))})
    server.repository("docs")
    assert clock.slept == [seconds]


def restarting(scripted: ScriptedServer, clock: FakeClock, *, away: float) -> Reply:
    """Let the server go away during an answer, and come back after so many seconds of the clock."""
    scripted.refuse()
    back_at = clock.monotonic() + away

    def come_back(now: float) -> None:
        if now >= back_at:
            scripted.listen()
            clock.while_asleep = lambda _seconds: None

    clock.while_asleep = come_back
    return Reply(200, FOUND, cut=True)


def test_a_server_that_is_restarted_in_the_middle_is_waited_for(
    client: Client, clock: FakeClock
) -> None:
    server, scripted = client({})
    answers = iter([(200, FOUND), None, (200, FOUND)])
    scripted.answer_with(
        *REPOSITORY, lambda _: next(answers) or restarting(scripted, clock, away=30.0)
    )
    assert server.repository("docs").id == "docs"
    assert server.repository("docs").id == "docs"
    # A pause after the answer that broke off, and then those of the connections that were refused.
    assert clock.slept == [0.5, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]


def test_a_server_that_does_not_come_back_is_given_up_after_the_longest_outage(
    client: Client, clock: FakeClock
) -> None:
    server, scripted = client({REPOSITORY: (200, FOUND)}, longest_outage=timedelta(seconds=10))
    server.repository("docs")
    answers = iter([Reply(200, FOUND, cut=True)])
    scripted.answer_with("GET", ".*/branches", lambda _: (scripted.refuse(), next(answers))[1])
    with pytest.raises(
        TransientError, match=r"branches of repository docs: no server answers at .*run again"
    ) as given_up:
        server.branches("docs")
    assert not isinstance(given_up.value, NeverAnsweredError)
    assert sum(clock.slept[1:]) <= 10.0
    scripted.listen()


def test_no_server_is_one_clear_line_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = LakeFSServer(
        ServerOptions(f"http://127.0.0.1:{port}", ACCESS_KEY_ID, SECRET_ACCESS_KEY)
    )
    with pytest.raises(
        NeverAnsweredError,
        match=rf"no server answers at http://127.0.0.1:{port} .*Connection refused"
        r".*correct endpoint",
    ) as raised:
        server.repository("docs")
    assert "\n" not in str(raised.value)


def test_an_unknown_host_is_one_clear_line() -> None:
    server = LakeFSServer(ServerOptions("http://lakefs.invalid", ACCESS_KEY_ID, SECRET_ACCESS_KEY))
    with pytest.raises(NeverAnsweredError, match=r"no server answers at http://lakefs.invalid"):
        server.repository("docs")


def test_tls_against_a_plain_server_is_a_setting_to_correct(client: Client) -> None:
    _, scripted = client({})
    server = LakeFSServer(
        ServerOptions(
            scripted.endpoint.replace("http:", "https:"), ACCESS_KEY_ID, SECRET_ACCESS_KEY
        )
    )
    with pytest.raises(SettingsError, match=r"no TLS connection.*Check endpoint \(http or https\)"):
        server.repository("docs")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"endpoint": "lakefs.example.com"}, "not the URL of a server"),
        ({"endpoint": "ftp://lakefs.example.com"}, "not the URL of a server"),
        ({"endpoint": "http://host:port"}, "endpoint is not a URL"),
        ({"endpoint": "http://me:mine@host"}, "carries a user name or password"),
        ({"secret_access_key": ""}, "access_key_id and secret_access_key are both needed"),
        ({"read_timeout": timedelta(0)}, "read_timeout is 0:00:00"),
        ({"tries": 0}, "tries is 0"),
    ],
)
def test_options_that_cannot_work_refuse_by_name(change: dict[str, Any], match: str) -> None:
    with pytest.raises(SettingsError, match=match) as raised:
        ServerOptions(
            **{"endpoint": "http://host", "access_key_id": "key", "secret_access_key": "secret"}
            | change
        )
    assert "mine" not in str(raised.value)


def test_a_page_of_the_server_may_take_its_minute_by_default() -> None:
    assert ServerOptions("http://host", "key", "secret").read_timeout >= timedelta(seconds=120)


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 410, 429, 500])
def test_no_error_carries_a_key_even_if_the_server_says_it(
    client: Client, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    def echo(asked: Asked) -> tuple[int, Any]:
        return status, {
            "message": f"{SECRET_ACCESS_KEY} of {ACCESS_KEY_ID}, {asked.headers['Authorization']}"
        }

    server, _ = client({("GET", ".*"): echo})
    with pytest.raises(LakegcError) as raised:
        server.repository("docs")
    shown = (
        "".join(traceback.format_exception(raised.value))
        + caplog.text
        + repr(server)
        + repr(raised.value.args)
    )
    for secret in (SECRET_ACCESS_KEY, ACCESS_KEY_ID):
        assert secret not in shown


def test_the_options_do_not_show_the_keys() -> None:
    shown = repr(ServerOptions("http://host", ACCESS_KEY_ID, SECRET_ACCESS_KEY))
    assert SECRET_ACCESS_KEY not in shown
    assert ACCESS_KEY_ID not in shown


def test_an_error_that_is_no_text_is_transient(client: Client) -> None:
    failing(client, Reply(400, b"\xff\xfe\x00"), TransientError, "an error that is no text")
