"""Logging in as an AWS identity: what is signed, what is sent, when it is renewed, what refuses."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from spark_core.errors import PermissionDeniedError, SettingsError, TransientError
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.lakefs.aws_role import TokenOfAwsRole
from tests.spark_core.lakefs.conftest import FakeClock
from tests.spark_core.lakefs.test_renewed_token import FOUND, REFUSED, REPOSITORY, accepting
from tests.support.scripted_server import Asked, ScriptedServer

KEY, SECRET, SESSION = "AKIALOGINTEST0000000", "aws+secret/of/the/role", "session/Token+of=="
LOGIN = ("POST", "/auth/external/principal/login")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine whose AWS credentials are those of the environment."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


class LakeFS(ScriptedServer):
    """Gives tokens `token-1`, `token-2`, each for so many seconds, and accepts the last one."""

    def __init__(self, clock: FakeClock, life: float) -> None:
        super().__init__(overrides={LOGIN: self._log_in, REPOSITORY: self._repository})
        self._clock, self._life = clock, life
        self.asked: list[Any] = []

    def _log_in(self, asked: Asked) -> tuple[int, Any]:
        self.asked.append((asked.body, dict(asked.headers)))
        ends = int(self._clock.now().timestamp() + self._life)
        return 200, {"token": f"token-{len(self.asked)}", "token_expiration": ends}

    def _repository(self, asked: Asked) -> Any:
        return accepting(f"token-{len(self.asked)}")(asked)

    def identity(self) -> dict[str, Any]:
        """The identity of the last log-in."""
        body, _ = self.asked[-1]
        found = json.loads(base64.b64decode(body["identityRequest"]["identity_token"]))
        assert isinstance(found, dict)
        return found


def server_of(lakefs: ScriptedServer, clock: FakeClock, **options: Any) -> LakeFSServer:
    source = TokenOfAwsRole.at(lakefs.endpoint, **options)
    return LakeFSServer(ServerOptions(lakefs.endpoint, token=source), clock=clock)


def signature_of(identity: dict[str, Any], headers: dict[str, str]) -> str:
    """Sign the question anew, by AWS's own description (Signature Version 4, query string)."""
    scope = f"{identity['date'][:8]}/{identity['region']}/sts/aws4_request"
    query = {
        "Action": identity["action"],
        "Version": identity["version"],
        "X-Amz-Algorithm": identity["algorithm"],
        "X-Amz-Credential": f"{identity['access_key_id']}/{scope}",
        "X-Amz-Date": identity["date"],
        "X-Amz-Expires": identity["expiration_duration"],
        "X-Amz-Security-Token": identity["security_token"],
        "X-Amz-SignedHeaders": ";".join(identity["signed_headers"]),
    }
    given = {"host": identity["host"], **{name.lower(): text for name, text in headers.items()}}
    canonical = "\n".join(
        [
            identity["method"],
            "/",
            "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(query.items())),
            *(f"{name}:{given[name]}" for name in identity["signed_headers"]),
            "",
            ";".join(identity["signed_headers"]),
            hashlib.sha256(b"").hexdigest(),
        ]
    )
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"{identity['algorithm']}\n{identity['date']}\n{scope}\n{hashed}"
    key = f"AWS4{SECRET}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


def test_the_identity_is_a_question_to_aws_signed_for_this_server(clock: FakeClock) -> None:
    with LakeFS(clock, 3600) as lakefs:
        assert server_of(lakefs, clock).repository("docs").id == "docs"
        body, headers = lakefs.asked[0]
        identity = lakefs.identity()
    assert body.keys() == {"token_expiration_duration", "identityRequest"}
    assert body["token_expiration_duration"] == 3600
    assert "Authorization" not in headers
    assert identity | {"date": 0, "signature": 0} == {
        "method": "POST",
        "host": "sts.eu-central-1.amazonaws.com",
        "region": "eu-central-1",
        "action": "GetCallerIdentity",
        "date": 0,
        "expiration_duration": "60",
        "access_key_id": KEY,
        "signature": 0,
        "signed_headers": ["host", "x-lakefs-server-id"],
        "version": "2011-06-15",
        "algorithm": "AWS4-HMAC-SHA256",
        "security_token": SESSION,
    }
    named = {"X-LakeFS-Server-ID": "127.0.0.1"}
    assert identity["signature"] == signature_of(identity, named)
    assert identity["signature"] != signature_of(identity, {"X-LakeFS-Server-ID": "elsewhere"})
    assert SECRET not in json.dumps(identity)


def test_other_headers_are_signed_where_the_server_wants_them(clock: FakeClock) -> None:
    with LakeFS(clock, 3600) as lakefs:
        source = TokenOfAwsRole((("X-Mine", "a b"),), timedelta(hours=2), timedelta(seconds=30))
        options = ServerOptions(lakefs.endpoint, token=source)
        LakeFSServer(options, clock=clock).repository("docs")
        identity = lakefs.identity()
        assert lakefs.asked[0][0]["token_expiration_duration"] == 7200
    assert identity["signed_headers"] == ["host", "x-mine"]
    assert identity["expiration_duration"] == "30"
    assert identity["signature"] == signature_of(identity, {"X-Mine": "a b"})


def test_keys_without_a_session_are_an_identity_too(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    with LakeFS(clock, 3600) as lakefs:
        server_of(lakefs, clock).repository("docs")
        assert lakefs.identity()["security_token"] == ""


def test_the_log_in_is_renewed_before_it_ends(clock: FakeClock) -> None:
    with LakeFS(clock, 3600) as lakefs:
        server = server_of(lakefs, clock)
        server.repository("docs")
        clock.sleep(3600 - 301)
        server.repository("docs")
        assert len(lakefs.asked) == 1
        clock.sleep(1)
        server.repository("docs")
        assert len(lakefs.asked) == 2
        assert server.requests["log_in"] == 2
        assert server.requests["get_repository"] == 3


def test_a_server_that_does_not_say_when_a_token_ends_gave_it_for_as_long_as_was_asked(
    clock: FakeClock,
) -> None:
    answers = {LOGIN: (200, {"token": "opaque"}), REPOSITORY: (200, FOUND)}
    with ScriptedServer(overrides=answers) as lakefs:
        server = server_of(lakefs, clock, life=timedelta(minutes=10))
        server.repository("docs")
        clock.sleep(530)
        server.repository("docs")
        clock.sleep(30)
        server.repository("docs")
    assert server.requests["log_in"] == 2


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ((501, {"message": "Not Implemented"}), SettingsError, "Enterprise and Cloud have it"),
        ((404, None), SettingsError, "has no such log-in"),
        ((404, {"message": "invalid API endpoint"}), SettingsError, "has no such log-in"),
        ((404, {"message": "not found"}), PermissionDeniedError, "Attach the role"),
        (REFUSED, PermissionDeniedError, "does not take the identity.*this machine's clock"),
        ((400, {"message": "bad"}), PermissionDeniedError, "aws_iam_headers"),
        ((503, {"message": "slow down"}), TransientError, "503.*5 times"),
    ],
)
def test_a_log_in_that_is_refused_says_what_to_do(
    clock: FakeClock, answer: Any, kind: Any, text: str
) -> None:
    with (
        ScriptedServer(overrides={LOGIN: answer, REPOSITORY: REFUSED}) as lakefs,
        pytest.raises(kind, match=text) as raised,
    ):
        server_of(lakefs, clock).repository("docs")
    assert lakefs.paths() == ["POST /auth/external/principal/login"] * (5 if "503" in text else 1)
    assert "log-in as an AWS identity" in str(raised.value)


@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500, 501])
def test_a_log_in_that_the_server_repeats_is_not_quoted(clock: FakeClock, status: int) -> None:
    def echo(asked: Asked) -> tuple[int, Any]:
        return status, {"message": f"cannot take {json.dumps(asked.body)}"}

    with (
        ScriptedServer(overrides={LOGIN: echo}) as lakefs,
        pytest.raises(Exception, match="log-in as an AWS identity") as raised,
    ):
        server_of(lakefs, clock).repository("docs")
    sent = lakefs.calls[0].body["identityRequest"]["identity_token"]
    shown = "".join(traceback.format_exception(raised.value))
    assert not [part for part in (sent, sent[:200], SECRET, SESSION) if part in shown]


def test_a_machine_without_an_identity_says_so(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    with (
        LakeFS(clock, 1) as lakefs,
        pytest.raises(SettingsError, match="no AWS credentials were found to log in"),
    ):
        server_of(lakefs, clock).repository("docs")
    monkeypatch.setenv("AWS_PROFILE", "none")
    with (
        LakeFS(clock, 1) as lakefs,
        pytest.raises(TransientError, match=r"cannot be had \(ProfileNotFound\)"),
    ):
        server_of(lakefs, clock).repository("docs")


def test_a_machine_without_a_region_asks_where_aws_answers_for_any(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with LakeFS(clock, 3600) as lakefs:
        server_of(lakefs, clock).repository("docs")
        assert lakefs.identity()["region"] == "us-east-1"


def test_without_boto3_the_extra_is_named(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with (
        LakeFS(clock, 1) as lakefs,
        pytest.raises(SettingsError, match=r"^Log-ins by AWS identity need boto3.*\[s3\]"),
    ):
        server_of(lakefs, clock).repository("docs")
