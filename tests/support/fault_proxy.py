"""A proxy on loopback before an emulator: it forwards everything until a test adds a fault.

A backend's `Faults` (see `store_conformance`) can be built on it: its store
talks to the proxy, so what goes wrong goes wrong on the wire, below the clients
and their own repetitions.
"""

from __future__ import annotations

import http.client
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal
from urllib.parse import urlsplit

from tests.support.scripted_s3 import Answer, Request, scripted_s3

Forward = Callable[[Request], Answer]
# Gets the request and the way to pass one on; returns what the client gets.
Meddler = Callable[[Request, Forward], Answer]

# Headers of one connection; and of an answer, those that the server of the proxy writes itself.
_HOP = {"connection", "keep-alive", "transfer-encoding"}
_OF_SERVER = {"date", "server"}


@dataclass
class FaultProxy:
    """A running proxy.

    Attributes:
        endpoint: URL of the proxy.
        meddlers: The last one added sees a request first, the next one when that passes it on;
            empty means a plain proxy.
    """

    endpoint: str
    meddlers: list[Meddler] = field(default_factory=list)

    def reset(self) -> None:
        """Pass everything on again."""
        self.meddlers.clear()

    def meddle(self, meddler: Meddler) -> None:
        """Let a meddler see every request from now on."""
        self.meddlers.append(meddler)


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    """Serve before an emulator until the end of the block.

    Args:
        upstream: `http://HOST:PORT` of the emulator.
    """
    host = urlsplit(upstream).netloc

    def forward(request: Request) -> Answer:
        connection = http.client.HTTPConnection(host, timeout=60)
        try:
            # The client's own Host stays: signatures and the links in answers are made of it.
            headers = {
                name: value
                for name, value in request.headers.items()
                if name.lower() not in (*_HOP, "content-length", "expect")
            }
            if request.body or request.method in ("POST", "PUT"):
                headers["Content-Length"] = str(len(request.body))
            connection.request(request.method, request.target, request.body or None, headers)
            answer = connection.getresponse()
            # One name for the length, which some emulators write in small letters: it must not be
            # sent twice.
            kept = {
                "Content-Length" if name.lower() == "content-length" else name: value
                for name, value in answer.getheaders()
                if name.lower() not in _HOP | _OF_SERVER
            }
            return Answer(answer.status, answer.read(), kept)
        finally:
            connection.close()

    proxy: list[FaultProxy] = []
    lock = Lock()

    def serve(request: Request) -> Answer:
        with lock:
            meddlers = list(proxy[0].meddlers)

        def through(number: int) -> Forward:
            if number < 0:
                return forward
            return lambda asked: meddlers[number](asked, through(number - 1))

        answer = through(len(meddlers) - 1)(request)
        if request.method != "HEAD":
            answer.headers["Content-Length"] = str(len(answer.body))
        return answer

    with scripted_s3(serve) as endpoint:
        proxy.append(FaultProxy(endpoint))
        yield proxy[0]


class Once:
    """Do something the first time that a condition holds, whichever thread sees it."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._lock = Lock()
        self._done = False

    def __call__(self) -> None:
        with self._lock:
            if self._done:
                return
            self._done = True
        self._action()


class ProxiedFaults:
    """The faults that are alike behind every proxy; a kind of store says how its requests look.

    Attributes:
        has_throttled: A client may have been told to slow down.
    """

    def __init__(self, proxy: FaultProxy, before: str) -> None:
        """Take the proxy between the store and its server, and the namespace's part of keys."""
        self.proxy, self.before = proxy, before
        self.has_throttled = False

    @staticmethod
    def kind_of(request: Request) -> str:
        """Name what a request asks for: list, delete, or another word."""
        raise NotImplementedError

    @staticmethod
    def is_copy(request: Request) -> bool:
        """Say whether a request asks for a copy."""
        raise NotImplementedError

    @staticmethod
    def busy() -> Answer:
        """Say "slow down" as the store does."""
        raise NotImplementedError

    @staticmethod
    def paged(request: Request, keys: int) -> Request:
        """Ask for pages of so many keys."""
        raise NotImplementedError

    def throttle_requests(self, kind: Literal["list", "delete"], times: int) -> None:
        left = Counter({kind: times})
        self.has_throttled = True

        def meddle(request: Request, forward: Forward) -> Answer:
            if left[self.kind_of(request)] > 0:
                left[self.kind_of(request)] -= 1
                return self.busy()
            return forward(request)

        self.proxy.meddle(meddle)

    def after_copy(self, action: Callable[[], None]) -> None:
        self._after(self.is_copy, action)

    def in_the_middle(self, kind: Literal["list", "delete"], action: Callable[[], None]) -> None:
        self._after(lambda request: self.kind_of(request) == kind, action)

    def _after(self, holds: Callable[[Request], bool], action: Callable[[], None]) -> None:
        once = Once(action)

        def meddle(request: Request, forward: Forward) -> Answer:
            answer = forward(request)
            if holds(request):
                once()
            return answer

        self.proxy.meddle(meddle)

    def pages_of(self, keys: int) -> None:
        self.proxy.meddle(
            lambda request, forward: forward(
                self.paged(request, keys) if self.kind_of(request) == "list" else request
            )
        )
