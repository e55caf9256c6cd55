"""What goes wrong with a GCS store, done to its requests and answers on the way through a proxy."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from urllib.parse import quote, urlencode

from tests.support.fault_proxy import Forward, ProxiedFaults
from tests.support.scripted_s3 import Answer, Request

_BOUNDARY = re.compile(r'boundary="?([^";]+)"?')
_CONTENT_ID = re.compile(rb"Content-ID: <([^>]+)>")


def error(status: int, reason: str) -> Answer:
    """An error as the JSON API writes it."""
    told = {
        "error": {
            "code": status,
            "message": "as scripted",
            "errors": [{"reason": reason, "message": "as scripted"}],
        }
    }
    return Answer(status, json.dumps(told).encode(), {"Content-Type": "application/json"})


def stored(data: bytes, *, cut: int = 0) -> Answer:
    """The content of an object as the XML API sends it, proved by its ETag."""
    headers = {
        "ETag": f'"{hashlib.md5(data).hexdigest()}"',
        "Last-Modified": "Sat, 21 Nov 2026 09:00:00 GMT",
    }
    return Answer(200, data, headers, cut)


def kind_of(request: Request) -> str:
    """Name what a request asks for: list, delete, or its method."""
    if request.method == "GET" and request.path.endswith("/o"):
        return "list"
    return "delete" if request.path.startswith("/batch/") else request.method


def parts_of(request: Request) -> list[bytes]:
    """Take the parts out of a batch request."""
    return request.body.split(f"--{_boundary(request.headers)}".encode())[1:-1]


def name_in(part: bytes) -> str:
    """Name the object that a part is about, still percent-encoded."""
    return re.search(rb"DELETE \S+/o/(\S+) HTTP", part)[1].decode()


def batch_answer(*parts: tuple[bytes, Answer]) -> Answer:
    """Write the answer to a batch: for each part of the request what it is answered."""
    body = b"".join(_answered(part, answer) for part, answer in parts)
    return Answer(
        200, body + b"--answers--\r\n", {"Content-Type": "multipart/mixed; boundary=answers"}
    )


def _answered(part: bytes, answer: Answer) -> bytes:
    part_id = _CONTENT_ID.search(part)[1].decode()
    head = (
        f"--answers\r\nContent-Type: application/http\r\nContent-ID: <response-{part_id}>\r\n\r\n"
    )
    return (
        f"{head}HTTP/1.1 {answer.status} Said\r\nContent-Type: application/json\r\n\r\n".encode()
        + answer.body
        + b"\r\n"
    )


def _boundary(headers: dict[str, str]) -> str:
    return _BOUNDARY.search(
        next(value for name, value in headers.items() if name.lower() == "content-type")
    )[1]


class GcsFaults(ProxiedFaults):
    """`RemoteFaults` of GCS."""

    kind_of = staticmethod(kind_of)

    @staticmethod
    def is_copy(request: Request) -> bool:
        return "/rewriteTo/" in request.path

    @staticmethod
    def busy() -> Answer:
        return error(503, "backendError")

    @staticmethod
    def paged(request: Request, keys: int) -> Request:
        query = urlencode({**request.query, "maxResults": str(keys)})
        return replace(request, target=f"{request.path}?{query}")

    def refuse(self, key: str) -> None:
        self._answer_for_key(key, 1_000_000, error(403, "forbidden"))

    def throttle(self, key: str, times: int) -> None:
        self._answer_for_key(key, times, error(429, "rateLimitExceeded"))

    def _answer_for_key(self, key: str, times: int, said: Answer) -> None:
        """Keep a key out of batches so many times and answer for it."""
        name = quote(self.before + key, safe="~")
        left = Counter({name: times})

        def meddle(request: Request, forward: Forward) -> Answer:
            parts = parts_of(request) if kind_of(request) == "delete" else []
            held = [part for part in parts if name_in(part) == name and left[name] > 0]
            if not held:
                return forward(request)
            left[name] -= 1
            boundary = _boundary(request.headers).encode()
            kept = [part for part in parts if part not in held]
            more = batch_answer((held[0], said))
            if not kept:
                return more
            body = b"".join(b"--" + boundary + part for part in kept) + b"--" + boundary + b"--\r\n"
            answer = forward(replace(request, body=body))
            theirs = f"--{_boundary(answer.headers)}".encode()
            ours = more.body.removesuffix(b"--answers--\r\n").replace(b"--answers", theirs)
            return replace(answer, body=ours + answer.body)

        self.proxy.meddle(meddle)

    def ignore_conditions(self) -> None:
        def meddle(request: Request, forward: Forward) -> Answer:
            query = {
                name: value for name, value in request.query.items() if name != "ifGenerationMatch"
            }
            return forward(
                replace(
                    request,
                    target=f"{request.path}?{urlencode(query)}" if query else request.target,
                )
            )

        self.proxy.meddle(meddle)

    def expire_credentials(self) -> None:
        self.proxy.meddle(lambda _request, _forward: error(401, "authError"))

    def repeat_page(self) -> None:
        first: list[object] = []
        done: list[bool] = []

        def meddle(request: Request, forward: Forward) -> Answer:
            answer = forward(request)
            if kind_of(request) != "list" or done:
                return answer
            told = json.loads(answer.body)
            if not first:
                first.extend(told["items"])
                return answer
            done.append(True)
            return replace(answer, body=json.dumps({**told, "items": first}).encode())

        self.proxy.meddle(meddle)
