"""A server on loopback that answers as a function says: for what no healthy S3 server does."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Request:
    """What the client asked; `target` is path and query as they were sent."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    target: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What the client gets; with `cut` the connection ends that many bytes before the promised
    length.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0


def error(status: int, code: str, more: str = "") -> Answer:
    """An error as S3 writes it."""
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>as scripted</Message>{more}</Error>"
    )
    return Answer(status, text.encode())


@contextmanager
def scripted_s3(
    answer: Callable[[Request], Answer],
    *,
    certificate: Path | None = None,
    clients_of: Path | None = None,
) -> Iterator[str]:
    """Serve until the end of the block, with TLS when there is a certificate (with its key), then
    for clients of one authority alone if there is one; gives the endpoint.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body in one packet, at once: otherwise each answer on a connection that is
        # used again waits 40 ms for the client's kernel.
        wbufsize = -1
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {
                name: values[0]
                for name, values in parse_qs(parts.query, keep_blank_values=True).items()
            }
            told = answer(
                Request(self.command, parts.path, query, body, self.path, dict(self.headers))
            )
            self.send_response(told.status)
            for name, value in {"Content-Length": str(len(told.body)), **told.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(told.body[: len(told.body) - told.cut])
            self.close_connection = bool(told.cut)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the names that the server looks for

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Say nothing: a client that hangs up is part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        if clients_of is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients_of)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
