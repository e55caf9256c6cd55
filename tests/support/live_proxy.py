"""Something between lakegc and a live server: it changes an answer, breaks off, or is not there for
a while.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.support.live_server import LiveServer
from tests.support.scripted_server import Asked, Reply, ScriptedServer

# Headers that belong to one connection, or that whoever sends the message works out again.
_OWN = {"host", "connection", "content-length", "transfer-encoding", "date", "accept-encoding"}


def proxy(server: LiveServer) -> ScriptedServer:
    """Pass everything on to the server, except what the test tells it to answer."""
    return ScriptedServer(lambda asked: passed_on(server, asked))


def passed_on(server: LiveServer, asked: Asked) -> Reply:
    """Ask the server the same, and answer what it answers."""
    answer = server.http.request(
        asked.method,
        server.endpoint + asked.raw_path,
        body=None if asked.body is None else json.dumps(asked.body),
        headers={name: value for name, value in asked.headers.items() if name.lower() not in _OWN},
        retries=False,
        redirect=False,
        timeout=120,
    )
    kept = {name: value for name, value in answer.headers.items() if name.lower() not in _OWN}
    return Reply(answer.status, bytes(answer.data), kept)


def changed(
    server: LiveServer, change: Callable[[dict[str, Any]], None]
) -> Callable[[Asked], Reply]:
    """Pass a request on and change the JSON of its answer."""

    def answer(asked: Asked) -> Reply:
        reply = passed_on(server, asked)
        body = json.loads(reply.body)
        change(body)
        return Reply(reply.status, body)

    return answer


def away_for(seconds: float) -> Callable[[Asked], Reply | None]:
    """Break every connection off from the first request on, for some seconds, as a server does that
    is restarted.
    """
    began: list[float] = []

    def answer(_: Asked) -> Reply | None:
        began.append(time.monotonic())
        return Reply(200, b"{}", cut=True) if began[-1] - began[0] < seconds else None

    return answer
