"""An HTTP server in a thread whose answers a test decides."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

API = "/api/v1"


@dataclass(frozen=True)
class Asked:
    """A request: path without /api/v1 and decoded, query as the last value of each key, body as
    JSON.
    """

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str]
    raw_path: str = ""


@dataclass(frozen=True)
class Reply:
    """An answer: a body is JSON unless it is bytes; `cut` sends half of it and closes;
    `delay_seconds` comes first.
    """

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    cut: bool = False


# A test gives a reply, or (status, body), or a function of the request; None of it means "as
# otherwise".
Answer = Reply | tuple[int, Any] | Callable[[Asked], "Reply | tuple[int, Any] | None"]


def in_turn(*replies: Reply | tuple[int, Any]) -> Callable[[Asked], Reply | tuple[int, Any] | None]:
    """Give each reply once, in order; after that answer as otherwise."""
    left = list(replies)
    return lambda _: left.pop(0) if left else None


class ScriptedServer:
    """Answers by `overrides` first, then by `answer`, else 404 as the real server does.

    Attributes:
        endpoint: URL, once started.
        calls: Requests so far.
    """

    def __init__(
        self,
        answer: Callable[[Asked], Reply | tuple[int, Any] | None] | None = None,
        *,
        overrides: Mapping[tuple[str, str], Answer] | None = None,
    ) -> None:
        self._answer = answer
        self._overrides: list[tuple[str, re.Pattern[str], Answer]] = []
        for (method, path), reply in (overrides or {}).items():
            self.answer_with(method, path, reply)
        self.calls: list[Asked] = []
        self.endpoint = ""
        self._port = 0

    def answer_with(self, method: str, path: str, reply: Answer) -> None:
        """Answer these requests so from now on; what was said first counts."""
        self._overrides.append((method, re.compile(path), reply))

    def reply(self, asked: Asked) -> Reply:
        self.calls.append(asked)
        for method, path, reply in self._overrides:
            if method == asked.method and path.fullmatch(asked.path):
                found = reply(asked) if callable(reply) else reply
                if found is not None:
                    return found if isinstance(found, Reply) else Reply(*found)
        found = self._answer(asked) if self._answer else None
        if found is None:
            return Reply(404, {"message": "invalid API endpoint"})
        return found if isinstance(found, Reply) else Reply(*found)

    def paths(self) -> list[str]:
        return [f"{asked.method} {asked.path}" for asked in self.calls]

    def __enter__(self) -> Self:
        self.listen()
        return self

    def listen(self) -> None:
        """Begin to answer; on the same port as before, if it did so before."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), _handler(self))
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    def refuse(self) -> None:
        """Refuse new connections; those that are open are served on."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self.refuse()


def _handler(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # One packet for an answer: two would wait 40 ms for an acknowledgement.
        wbufsize = -1
        disable_nagle_algorithm = True

        def answer(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(length)
            asked = Asked(
                self.command,
                unquote(parts.path).removeprefix(API),
                {
                    key: values[-1]
                    for key, values in parse_qs(parts.query, keep_blank_values=True).items()
                },
                json.loads(text) if text else None,
                dict(self.headers.items()),
                self.path,
            )
            reply = server.reply(asked)
            if reply.delay_seconds:
                time.sleep(reply.delay_seconds)
            self.send(reply)

        def send(self, reply: Reply) -> None:
            body = reply.body if isinstance(reply.body, bytes) else _json(reply.body)
            self.send_response_only(reply.status)
            if "Date" not in reply.headers:
                self.send_header("Date", self.date_time_string())
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if "Content-Type" not in reply.headers:
                self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if reply.cut else body)
            if reply.cut:
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer  # noqa: N815 - named by http.server

        def log_message(self, *_: object) -> None:
            """Say nothing: a test's output is its own."""

    return Handler


def _json(body: Any) -> bytes:
    return b"" if body is None else json.dumps(body).encode() + b"\n"


def page(
    items: Iterable[Mapping[str, Any]], query: Mapping[str, str], key: str = "id"
) -> dict[str, Any]:
    """Cut a list as the server does: in order of bytes, behind `after`, at most `amount`."""
    ordered = sorted(items, key=lambda item: item[key].encode())
    behind = [item for item in ordered if item[key].encode() > query.get("after", "").encode()]
    cut = behind[: int(query.get("amount", 100))]
    more = len(cut) < len(behind)
    return {
        "pagination": {
            "has_more": more,
            "max_per_page": 1000,
            "next_offset": cut[-1][key] if more else "",
            "results": len(cut),
        },
        "results": cut,
    }
