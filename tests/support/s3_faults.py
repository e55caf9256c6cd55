"""What goes wrong with an S3 store, done to its requests and answers on the way through a proxy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Literal
from urllib.parse import urlencode
from xml.sax.saxutils import unescape

from tests.support.fault_proxy import FaultProxy, Forward, Once
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


class S3Faults:
    """`RemoteFaults` of S3.

    Args:
        proxy: Between the store and its server.
        before: The namespace's part of every key.
    """

    def __init__(self, proxy: FaultProxy, before: str) -> None:
        self._proxy, self._before = proxy, before

    def refuse(self, key: str) -> None:
        self._answer_for_keys({key: 1_000_000}, "AccessDenied")

    def throttle(self, key: str, times: int) -> None:
        self._answer_for_keys({key: times}, "SlowDown")

    def _answer_for_keys(self, times: dict[str, int], code: str) -> None:
        """Keep keys out of deletions so many times and answer for them."""
        left = Counter({self._before + key: number for key, number in times.items()})

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
                answer = forward(Request(**{**vars(request), "body": body}))
            else:
                answer = Answer(200, b'<?xml version="1.0"?><DeleteResult></DeleteResult>')
            return Answer(
                answer.status,
                answer.body.replace(b"</DeleteResult>", b"".join(errors) + b"</DeleteResult>"),
                answer.headers,
            )

        self._proxy.meddle(meddle)

    def throttle_requests(self, kind: Literal["list", "delete"], times: int) -> None:
        left = Counter({kind: times})

        def meddle(request: Request, forward: Forward) -> Answer:
            if left[kind_of(request)] > 0:
                left[kind_of(request)] -= 1
                return error(503, "SlowDown")
            return forward(request)

        self._proxy.meddle(meddle)

    def ignore_conditions(self) -> None:
        def meddle(request: Request, forward: Forward) -> Answer:
            headers = {name: value for name, value in request.headers.items() if name.lower() != "if-none-match"}
            return forward(Request(**{**vars(request), "headers": headers}))

        self._proxy.meddle(meddle)

    def expire_credentials(self) -> None:
        def meddle(request: Request, _forward: Forward) -> Answer:
            return Answer(400) if request.method == "HEAD" else error(400, "ExpiredToken")

        self._proxy.meddle(meddle)

    def after_copy(self, action: Callable[[], None]) -> None:
        once = Once(action)

        def meddle(request: Request, forward: Forward) -> Answer:
            answer = forward(request)
            if is_copy(request):
                once()
            return answer

        self._proxy.meddle(meddle)

    def in_the_middle(self, kind: Literal["list", "delete"], action: Callable[[], None]) -> None:
        once = Once(action)

        def meddle(request: Request, forward: Forward) -> Answer:
            answer = forward(request)
            if kind_of(request) == kind:
                once()
            return answer

        self._proxy.meddle(meddle)

    def pages_of(self, keys: int) -> None:
        def meddle(request: Request, forward: Forward) -> Answer:
            if kind_of(request) != "list":
                return forward(request)
            target = f"{request.path}?{urlencode({**request.query, 'max-keys': str(keys)})}"
            return forward(Request(**{**vars(request), "target": target}))

        self._proxy.meddle(meddle)

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

        self._proxy.meddle(meddle)
