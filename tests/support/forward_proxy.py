"""A forward proxy on loopback: tunnels TLS, passes on plain HTTP, and says for whom it did."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from select import select
from urllib.parse import urlsplit

_HOP_BY_HOP = {"proxy-authorization", "proxy-connection", "connection", "transfer-encoding"}


class ForwardProxy:
    """A proxy that leads each name to a port of loopback.

    Attributes:
        url: Where it listens; with user and password where it demands them.
        passed: `METHOD host:port` of what it was asked for.
    """

    def __init__(self, ports: Mapping[str, int], user: str | None) -> None:
        self.ports, self.user = ports, user
        self.passed: list[str] = []
        self.url = ""

    def accepts(self, header: str) -> bool:
        """Say whether a caller may use the proxy."""
        if self.user is None:
            return True
        return header == f"Basic {base64.b64encode(self.user.encode()).decode()}"


@contextmanager
def forward_proxy(ports: Mapping[str, int], *, user: str | None = None) -> Iterator[ForwardProxy]:
    """Run a proxy until the end of the block.

    Args:
        ports: By the name of a host, the port of 127.0.0.1 that answers for it.
        user: `name:password` that it demands.
    """
    proxy = ForwardProxy(ports, user)

    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy))
    server.daemon_threads = True
    proxy.url = f"http://{user + '@' if user else ''}127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(proxy: ForwardProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _target(self, host: str, port: int) -> tuple[str, int] | None:
            proxy.passed.append(f"{self.command} {host}:{port}")
            if not proxy.accepts(self.headers.get("Proxy-Authorization", "")):
                self.send_response(407)
                self.send_header("Proxy-Authenticate", 'Basic realm="proxy"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return None
            if host not in proxy.ports:
                self.send_error(502, "no such host")
                return None
            return "127.0.0.1", proxy.ports[host]

        def do_CONNECT(self) -> None:
            host, _, port = self.path.rpartition(":")
            target = self._target(host, int(port))
            if target is None:
                return
            with socket.create_connection(target) as behind:
                self.send_response(200)
                self.end_headers()
                _tunnel(self.connection, behind)

        def _plain(self) -> None:
            parts = urlsplit(self.path)
            target = self._target(parts.hostname or "", parts.port or 80)
            if target is None:
                return
            _pass_on(self, target)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _plain  # noqa: N815 - as above

        def log_message(self, *_: object) -> None: ...

    return Handler


def _pass_on(caller: BaseHTTPRequestHandler, target: tuple[str, int]) -> None:
    body = caller.rfile.read(int(caller.headers.get("Content-Length") or 0))
    kept = {
        name: value for name, value in caller.headers.items() if name.lower() not in _HOP_BY_HOP
    }
    behind = HTTPConnection(*target)
    path = urlsplit(caller.path)._replace(scheme="", netloc="").geturl()
    behind.request(caller.command, path, body, kept)
    answer = behind.getresponse()
    content = answer.read()
    caller.send_response(answer.status)
    for name, value in answer.getheaders():
        if name.lower() not in _HOP_BY_HOP:
            caller.send_header(name, value)
    caller.end_headers()
    caller.wfile.write(content)
    behind.close()


def _tunnel(one: socket.socket, other: socket.socket) -> None:
    to = {one: other, other: one}
    with suppress(OSError):
        while True:
            ready, _, _ = select([one, other], [], [], 30)
            for end in ready:
                data = end.recv(65_536)
                if not data:
                    return
                to[end].sendall(data)
            if not ready:
                return
