"""A lakeFS server whose users have policies: its own executable, with a scripted authorization
service.

The open-source server checks policies itself, but asks a configured service for users and their
policies. Here that service is a few answers on loopback.
"""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Any

from spark_core.lakefs import ServerOptions
from tests.support.scripted_server import Asked, ScriptedServer

VARIABLE = "LAKEGC_LIVE_LAKEFS"
_STARTS_WITHIN_SECONDS = 60
# The server then ends by itself if the tests are killed.
_LIVES_SECONDS = 900
_KEY, _SECRET = "KEY-OF-", "secret-of-"
_NOTHING_MORE = {"has_more": False, "max_per_page": 1000, "next_offset": "", "results": 1}


def why_not() -> str | None:
    """Say why the tests that need the executable are skipped; None when it is there."""
    named = os.environ.get(VARIABLE, "")
    return (
        None
        if named and Path(named).exists()
        else f"name a lakeFS executable in {VARIABLE} (the one that `lakefs run` is of)"
    )


@dataclass
class Authority:
    """A running server.

    Attributes:
        endpoint: Where it answers.
        blocks: Its local store.
        policies: Policy by user; a test adds and changes them.
    """

    endpoint: str
    blocks: Path
    policies: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def keys(self, name: str) -> tuple[str, str]:
        """The key pair of a user."""
        return f"{_KEY}{name}", f"{_SECRET}{name}"

    def options(self, name: str) -> ServerOptions:
        """How a user reaches the server."""
        return ServerOptions(self.endpoint, *self.keys(name), tries=1)


def _service(policies: Mapping[str, Mapping[str, Any]]) -> ScriptedServer:
    """The authorization service of the server (lakeFS `api/authorization.yml`)."""

    def answer(asked: Asked) -> tuple[int, Any] | None:
        what = asked.path.strip("/").split("/")
        if what[0] != "auth":
            return (204, None) if what[0] == "healthcheck" else (200, {"version": "test"})
        return (201, {}) if asked.method != "GET" else _about(policies, what[1:])

    return ScriptedServer(answer)


def _about(policies: Mapping[str, Mapping[str, Any]], what: list[str]) -> tuple[int, Any]:
    """Describe a user, by name or by key, or list what the user has."""
    kind, given, *more = what
    name = given.removeprefix(_KEY)
    if name not in policies:
        return 404, {"message": "not found"}
    if kind == "credentials":
        known = {"access_key_id": given, "secret_access_key": f"{_SECRET}{name}", "user_name": name}
        return 200, {**known, "creation_date": 1, "user_id": 1}
    if not more:
        return 200, {"username": name, "creation_date": 1}
    policy = {"name": "policy", "creation_date": 1, "statement": policies[name]["statement"]}
    return 200, {"pagination": _NOTHING_MORE, "results": [policy] if more == ["policies"] else []}


@contextmanager
def authority(folder: Path) -> Iterator[Authority]:
    """Start a server with one user, `admin`, who may do everything; stop it at the end of the
    block.
    """
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    policies: dict[str, Mapping[str, Any]] = {
        "admin": {"statement": [{"effect": "allow", "action": ["*"], "resource": "*"}]}
    }
    with _service(policies) as service, (folder / "log").open("w") as log:
        settings = {
            "DATABASE_TYPE": "local",
            "DATABASE_LOCAL_PATH": f"{folder}/kv",
            "AUTH_ENCRYPT_SECRET_KEY": "of this test only",
            "AUTH_API_ENDPOINT": f"{service.endpoint}/api/v1",
            "AUTH_UI_CONFIG_RBAC": "external",
            "AUTH_CACHE_ENABLED": "false",
            "BLOCKSTORE_TYPE": "local",
            "BLOCKSTORE_LOCAL_PATH": f"{folder}/blocks",
            "BLOCKSTORE_SIGNING_SECRET_KEY": "of this test only",
            "COMMITTED_LOCAL_CACHE_DIR": f"{folder}/cache",
            "LISTEN_ADDRESS": address,
            "LOGGING_LEVEL": "WARN",
            "STATS_ENABLED": "false",
            "USAGE_REPORT_ENABLED": "false",
            "SECURITY_CHECK_LATEST_VERSION": "false",
        }
        environment = {
            **os.environ,
            **{f"LAKEFS_{name}": value for name, value in settings.items()},
        }
        command = ["timeout", str(_LIVES_SECONDS), os.environ[VARIABLE], "run"]
        with subprocess.Popen(
            command, env=environment, cwd=folder, stdout=log, stderr=log
        ) as process:
            try:
                _wait(f"http://{address}", process, folder / "log")
                yield Authority(f"http://{address}", folder / "blocks", policies)
            finally:
                process.terminate()


def _wait(endpoint: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers, and complete its setup."""
    until = time.monotonic() + _STARTS_WITHIN_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(f"{endpoint}/_health", timeout=1).close()
        except OSError:
            time.sleep(0.1)
            continue
        asked = urllib.request.Request(
            f"{endpoint}/api/v1/setup_lakefs",
            data=b'{"username": "admin"}',
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        urllib.request.urlopen(asked, timeout=10).close()
        return
    raise RuntimeError(f"the lakeFS server did not start: {log.read_text()[-2000:]}")
