"""The parts that all routes share: credentials, parameters, JSON bodies and answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lakegc_dagster.sandbox.accounts import Accounts, User
from lakegc_dagster.sandbox.core import Core
from lakegc_dagster.sandbox.errors import ApiError, bad_request
from lakegc_dagster.sandbox.records import RepositoryRecord

API = "/api/v1"
DEFAULT_AMOUNT = 100
MAX_AMOUNT = 1000


@dataclass(frozen=True)
class Call:
    """One request with its whole body."""

    core: Core
    accounts: Accounts
    caller: User
    request: Request
    data: bytes

    def path(self, name: str) -> str:
        """Return a parameter of the path."""
        return str(self.request.path_params[name])

    @property
    def repository_id(self) -> str:
        """The repository in the path."""
        return self.path("repository")

    @property
    def repository(self) -> RepositoryRecord:
        """That repository.

        Raises:
            ApiError: 404 if there is none.
        """
        return self.core.repository(self.repository_id)

    @property
    def place(self) -> tuple[Core, str]:
        """The first arguments of what is done to a repository."""
        return self.core, self.repository_id

    @property
    def branch(self) -> tuple[Core, str, str]:
        """The first arguments of what is done to a branch."""
        return self.core, self.repository_id, self.path("branch")

    def text(self, name: str, default: str = "") -> str:
        """Return a query parameter."""
        return self.request.query_params.get(name, default)

    def flag(self, name: str) -> bool:
        """Return a boolean query parameter; a missing one is false."""
        return self.text(name).lower() == "true"

    def amount(self) -> int:
        """Return the largest number of results of a page.

        Raises:
            ApiError: 400 if it is larger than the server's limit.
        """
        value = int(self.text("amount", str(DEFAULT_AMOUNT)))
        if value > MAX_AMOUNT:
            raise bad_request(
                f'parameter "amount" in query has an error: number must be at most {MAX_AMOUNT}'
            )
        return value if value > 0 else DEFAULT_AMOUNT

    def body(self) -> dict[str, Any]:
        """Return the JSON body; the sandbox trusts its clients to send what the API documents."""
        body: dict[str, Any] = json.loads(self.data) if self.data else {}
        return body


def json_bytes(value: object) -> bytes:
    """Encode JSON as the real server does: sorted keys, no spaces, a final line feed."""
    return (
        json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        + b"\n"
    )


def answer(
    value: object, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with JSON."""
    return Response(
        json_bytes(value),
        status,
        {
            "Content-Type": "application/json",
            "X-Content-Type-Options": "nosniff",
            **(headers or {}),
        },
    )


def no_content() -> Response:
    """Answer 204 without a body."""
    return Response(status_code=HTTPStatus.NO_CONTENT)


def page(
    rows: Iterable[dict[str, object]], amount: int, *, offset: Callable[[dict[str, object]], object]
) -> dict[str, object]:
    """Cut one page from results that begin where the page does.

    Args:
        rows: The results; one more than the page holds is read.
        amount: Size of the page.
        offset: Gives the offset of the next page from the last result.
    """
    results: list[dict[str, object]] = []
    has_more = False
    for row in rows:
        if len(results) == amount:
            has_more = True
            break
        results.append(row)
    return {
        "pagination": {
            "has_more": has_more,
            "max_per_page": MAX_AMOUNT,
            "next_offset": offset(results[-1]) if has_more else "",
            "results": len(results),
        },
        "results": results,
    }


def failure(error: ApiError) -> Response:
    """Answer with an error; for HEAD, the server drops the body."""
    return answer({"message": error.message}, error.status, error.headers)


Handler = Callable[[Call], Response]


@dataclass(frozen=True)
class Endpoint:
    """A route of the API, named like its method in lakefs-sdk."""

    method: str
    path: str
    name: str
    handler: Handler
    public: bool = False


@dataclass
class Requests:
    """Counts requests and reports them to an observer.

    Attributes:
        counts: Requests by endpoint name.
        observer: Called in the server's thread with an endpoint's name before the request is
            served.
    """

    counts: Counter[str]
    observer: Callable[[str], None] | None = None


def _names(request: Request, data: bytes) -> dict[str, str]:
    """Return the names in a request's body, query and path, for the ARNs of its resources."""
    try:
        body = json.loads(data) if data else {}
    except ValueError:
        body = {}
    named = (
        {name: value for name, value in body.items() if isinstance(value, str)}
        if isinstance(body, dict)
        else {}
    )
    return {**named, **request.query_params, **request.path_params}


def route(endpoint: Endpoint, core: Core, accounts: Accounts, requests: Requests) -> Route:
    """Make the starlette route of an endpoint."""

    def serve(caller: User, request: Request, data: bytes) -> Response:
        lacking = caller.lacks(endpoint.name, _names(request, data))
        if lacking:
            # The real server's message and status, which are the same as for unknown keys.
            refusal = f"insufficient permissions: not allowed to {','.join(lacking)}"
            return failure(ApiError(HTTPStatus.UNAUTHORIZED, refusal))
        if requests.observer is not None:
            requests.observer(endpoint.name)
        try:
            with core.lock:
                response = endpoint.handler(Call(core, accounts, caller, request, data))
        except ApiError as error:
            return failure(error)
        if response.status_code != HTTPStatus.NO_CONTENT:
            response.headers.setdefault("X-Content-Type-Options", "nosniff")
        return response

    async def run(request: Request) -> Response:
        requests.counts[endpoint.name] += 1
        caller = (
            accounts.owner
            if endpoint.public
            else accounts.caller(request.headers.get("authorization", ""))
        )
        if caller is None:
            return failure(ApiError(HTTPStatus.UNAUTHORIZED, "error authenticating request"))
        return await run_in_threadpool(serve, caller, request, await request.body())

    handler: Callable[[Request], Awaitable[Response]] = run
    made = Route(API + endpoint.path, handler, methods=[endpoint.method], name=endpoint.name)
    # starlette adds HEAD to every GET. The API has its own HEAD, with its own headers.
    made.methods = {endpoint.method}
    return made
