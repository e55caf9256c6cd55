"""Faults of Azure: a proxy before Azurite that pages, throttles, expires and ignores on demand."""

from __future__ import annotations

import re
import urllib.parse
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import (
    AccountSasPermissions,
    ContainerClient,
    ResourceTypes,
    generate_account_sas,
)

from tests.support.azurite import ACCOUNT, ACCOUNT_KEY
from tests.support.fault_proxy import FaultProxy, Forward, Once, ProxiedFaults
from tests.support.scripted_s3 import Answer, Request

_SUBREQUEST = re.compile(rb"^DELETE /[^/]*/[^/]*/([^ ?]*)\S* HTTP/1\.1", re.MULTILINE)
_BLOBS = re.compile(rb"<Blobs>.*</Blobs>|<Blobs/>", re.DOTALL)


def error(status: int, code: str, more: str = "") -> Answer:
    """An error as Azure writes it."""
    text = (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f"<Error><Code>{code}</Code><Message>as scripted</Message>{more}</Error>"
    )
    return Answer(
        status,
        text.encode(),
        {"x-ms-error-code": code, "x-ms-request-id": "1", "Content-Type": "application/xml"},
    )


def batch(*answers: tuple[int | None, int, str], boundary: str = "batchresponse_1") -> Answer:
    """Answers to a bulk deletion: number of the key (None for all), status, code."""
    parts = []
    for number, status, code in answers:
        named = "" if number is None else f"Content-ID: {number}\r\n"
        coded = f"x-ms-error-code: {code}\r\n" if code else ""
        parts.append(
            f"--{boundary}\r\nContent-Type: application/http\r\n{named}\r\nHTTP/1.1 {status} "
            f"Told\r\n{coded}x-ms-request-id: 1\r\n\r\n"
        )
    body = "".join([*parts, f"--{boundary}--"])
    return Answer(202, body.encode(), {"Content-Type": f"multipart/mixed; boundary={boundary}"})


def kind_of(request: Request) -> str:
    """Say what a request is: list, delete, or another."""
    if request.query.get("comp") == "list":
        return "list"
    if request.query.get("comp") == "batch" or request.method == "DELETE":
        return "delete"
    return request.method.lower()


def _unsigned(request: Request, **query: str) -> Request:
    """Sign a request by a SAS, which does not bind its query and headers, so that they can be
    changed.
    """
    token = generate_account_sas(
        ACCOUNT,
        ACCOUNT_KEY,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(read=True, write=True, delete=True, list=True, create=True),
        datetime.now(UTC) + timedelta(hours=1),
    )
    parts = urllib.parse.urlsplit(request.target)
    asked = "&".join(filter(None, [parts.query, urllib.parse.urlencode(query), token]))
    headers = {
        name: value for name, value in request.headers.items() if name.lower() != "authorization"
    }
    return replace(request, target=f"{parts.path}?{asked}", headers=headers)


class AzureFaults(ProxiedFaults):
    """`RemoteFaults` of Azure; `container` is a client without the proxy."""

    kind_of = staticmethod(kind_of)

    def __init__(self, proxy: FaultProxy, container: ContainerClient, before: str) -> None:
        super().__init__(proxy, before)
        self.container = container

    @staticmethod
    def is_copy(request: Request) -> bool:
        return "x-ms-copy-source" in {name.lower() for name in request.headers}

    @staticmethod
    def busy() -> Answer:
        return error(503, "ServerBusy")

    @staticmethod
    def paged(request: Request, keys: int) -> Request:
        return _unsigned(request, maxresults=str(keys))

    def refuse(self, key: str) -> None:
        """Somebody holds a lease on the blob."""
        self.container.get_blob_client(self.before + key).acquire_lease()

    def ignore_conditions(self) -> None:
        def plain(request: Request, forward: Forward) -> Answer:
            if "If-None-Match" not in request.headers:
                return forward(request)
            headers = {
                name: value for name, value in request.headers.items() if name != "If-None-Match"
            }
            return forward(_unsigned(replace(request, headers=headers)))

        self.proxy.meddle(plain)

    def in_the_middle(self, kind: Literal["list", "delete"], action: Callable[[], None]) -> None:
        once, seen = Once(action), Counter[str]()

        def interrupt(request: Request, forward: Forward) -> Answer:
            seen[kind_of(request)] += 1
            if kind_of(request) == kind and seen[kind] > 1:
                once()
                # What the action set up holds for this request too.
                return (
                    self.proxy.meddlers[-1](request, forward)
                    if self.proxy.meddlers[-1] is not interrupt
                    else forward(request)
                )
            return forward(request)

        self.proxy.meddle(interrupt)

    def throttle(self, key: str, times: int) -> None:
        left = Counter({key: times})

        def busy(request: Request, forward: Forward) -> Answer:
            if request.query.get("comp") != "batch":
                return forward(request)
            answers: list[tuple[int | None, int, str]] = []
            for number, match in enumerate(_SUBREQUEST.finditer(request.body)):
                name = urllib.parse.unquote(match[1].decode())
                asked = name.removeprefix(self.before)
                if left[asked] > 0:
                    left[asked] -= 1
                    answers.append((number, 503, "ServerBusy"))
                else:
                    answers.append((number, *self._delete(name)))
            # Azure need not answer in the order of the question.
            return batch(*reversed(answers))

        self.proxy.meddle(busy)

    def _delete(self, name: str) -> tuple[int, str]:
        try:
            self.container.delete_blob(name, delete_snapshots="include")
        except ResourceNotFoundError as told:
            return 404, str(getattr(told.error_code, "value", told.error_code))
        except HttpResponseError as told:
            return told.status_code or 500, str(told.error_code)
        return 202, ""

    def expire_credentials(self) -> None:
        detail = (
            "<AuthenticationErrorDetail>Signed expiry time has to be after signed start time"
            "</AuthenticationErrorDetail>"
        )
        self.proxy.meddle(lambda _request, _forward: error(403, "AuthenticationFailed", detail))

    def repeat_page(self) -> None:
        told: list[bytes] = []

        def repeat(request: Request, forward: Forward) -> Answer:
            answer = forward(request)
            if kind_of(request) != "list" or len(told) > 1:
                return answer
            told.append(answer.body)
            if len(told) == 1:
                return answer
            again = _BLOBS.search(told[0])
            assert again is not None
            return replace(answer, body=_BLOBS.sub(lambda _: again[0], answer.body))

        self.proxy.meddle(repeat)
