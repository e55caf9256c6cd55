"""Servers on loopback that keep what they are told: one of HTTP, one of SMTP."""

import json
import socketserver
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class _Http(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got.append((self.path, body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class _Smtp(socketserver.StreamRequestHandler):
    """Just enough of RFC 5321 for one message without TLS."""

    def handle(self):
        self.wfile.write(b"220 loopback\r\n")
        lines, in_data = [], False
        for raw in self.rfile:
            line = raw.decode().rstrip("\r\n")
            if in_data and line == ".":
                in_data = False
                self.server.got.append("\n".join(lines))
                self.wfile.write(b"250 kept\r\n")
            elif in_data:
                lines.append(line)
            elif line.upper() == "DATA":
                in_data = True
                self.wfile.write(b"354 go on\r\n")
            elif line.upper().startswith("EHLO"):
                self.wfile.write(b"250-loopback\r\n250 AUTH PLAIN\r\n")
            elif line.upper() == "QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"250 loopback\r\n")


@contextmanager
def _serving(server):
    server.got = []
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def http_listener():
    """Serve HTTP; `got` has path and JSON of each POST, `status` is what is answered."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Http)
    server.status = 200
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    with _serving(server):
        yield server


@contextmanager
def smtp_listener():
    """Serve SMTP without TLS; `got` has each message as text."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Smtp)
    server.daemon_threads = True
    server.port = server.server_address[1]
    with _serving(server):
        yield server
