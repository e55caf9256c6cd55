"""What goes wrong with an S3 store, done to its requests and answers on the way through a proxy."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from urllib.parse import urlencode
from xml.sax.saxutils import unescape

from tests.support.fault_proxy import Forward, ProxiedFaults
from tests.support.scripted_s3 import Answer, Request, error

_OBJECT = re.compile(rb"<Object>.*?</Object>", re.DOTALL)
_KEY = re.compile(rb"<Key>(.*?)</Key>", re.DOTALL)
_CONTENTS = re.compile(rb"<Contents>.*</Contents>", re.DOTALL)


def kind_of(request: Request) -> str:
    """Name what a request asks for: list, delete, or its method."""
    if "list-type" in request.query:
        return "list"
    return "delete" if "delete" in request.query else request.method


def is_copy(request: Request) -> bool:
    """Say whether a request asks for a copy, of an object or a part."""
    return "x-amz-copy-source" in {name.lower() for name in request.headers}


class S3Faults(ProxiedFaults):
    """`RemoteFaults` of S3."""

    kind_of = staticmethod(kind_of)
    is_copy = staticmethod(is_copy)

    @staticmethod
    def busy() -> Answer:
        return error(503, "SlowDown")

    @staticmethod
    def paged(request: Request, keys: int) -> Request:
        query = urlencode({**request.query, "max-keys": str(keys)})
        return replace(request, target=f"{request.path}?{query}")

    def refuse(self, key: str) -> None:
        self._answer_for_keys({key: 1_000_000}, "AccessDenied")

    def throttle(self, key: str, times: int) -> None:
        self._answer_for_keys({key: times}, "SlowDown")

    def _answer_for_keys(self, times: dict[str, int], code: str) -> None:
        """Keep keys out of deletions so many times and answer for them."""
        left = Counter({self.before + key: number for key, number in times.items()})

        def meddle(request: Request, forward: Forward) -> Answer:
            if kind_of(request) != "delete":
                return forward(request)
            kept, errors = [], []
            for entry in _OBJECT.findall(request.body):
                name = unescape(_KEY.search(entry)[1].decode())
                if left[name] > 0:
                    left[name] -= 1
                    errors.append(f"<Error><Key>{name}</Key><Code>{code}</Code></Error>".encode())
                else:
                    kept.append(entry)
            start = request.body.index(b"<Object>")
            end = request.body.rindex(b"</Object>") + len(b"</Object>")
            body = request.body[:start] + b"".join(kept) + request.body[end:]
            if kept:
                answer = forward(replace(request, body=body))
            else:
                answer = Answer(200, b'<?xml version="1.0"?><DeleteResult></DeleteResult>')
            return Answer(
                answer.status,
                answer.body.replace(b"</DeleteResult>", b"".join(errors) + b"</DeleteResult>"),
                answer.headers,
            )

        self.proxy.meddle(meddle)

    def ignore_conditions(self) -> None:
        def meddle(request: Request, forward: Forward) -> Answer:
            headers = {
                name: value
                for name, value in request.headers.items()
                if name.lower() != "if-none-match"
            }
            return forward(replace(request, headers=headers))

        self.proxy.meddle(meddle)

    def expire_credentials(self) -> None:
        def meddle(request: Request, _forward: Forward) -> Answer:
            return Answer(400) if request.method == "HEAD" else error(400, "ExpiredToken")

        self.proxy.meddle(meddle)

    def repeat_page(self) -> None:
        first: list[bytes] = []
        done: list[bool] = []

        def meddle(request: Request, forward: Forward) -> Answer:
            answer = forward(request)
            if kind_of(request) != "list" or done:
                return answer
            objects = _CONTENTS.search(answer.body)
            if not first:
                first.append(objects[0])
                return answer
            done.append(True)
            return Answer(answer.status, answer.body.replace(objects[0], first[0]), answer.headers)

        self.proxy.meddle(meddle)
