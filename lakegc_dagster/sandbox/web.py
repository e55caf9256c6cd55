"""The plumbing of every route: credentials, parameters, JSON bodies and answers as the real server words them."""

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

API = "/api/v1"
DEFAULT_AMOUNT = 100
MAX_AMOUNT = 1000
_TYPE_NAMES = {int: "an integer", str: "a string", bool: "a boolean", list: "an array", dict: "an object"}
_MISSING = object()


@dataclass(frozen=True)
class Call:
    """One request, read whole."""

    core: Core
    caller: User
    request: Request
    data: bytes

    def path(self, name: str) -> str:
        """Return a part of the path."""
        return str(self.request.path_params[name])

    @property
    def repository_id(self) -> str:
        """The repository that the path names."""
        return self.path("repository")

    @property
    def branch_id(self) -> str:
        """The branch that the path names."""
        return self.path("branch")

    def text(self, name: str, default: str = "") -> str:
        """Return a query parameter."""
        return self.request.query_params.get(name, default)

    def required(self, name: str) -> str:
        """Return a query parameter that must be there and not empty.

        Raises:
            ApiError: 400.
        """
        value = self.request.query_params.get(name)
        if value is None:
            raise bad_request(f'parameter "{name}" in query has an error: value is required but missing')
        if not value:
            raise bad_request(f'parameter "{name}" in query has an error: empty value is not allowed')
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a query parameter that is true or false.

        Raises:
            ApiError: 400 for anything else.
        """
        value = self.request.query_params.get(name)
        if value is None or value == "":
            return default
        if value.lower() not in {"true", "false"}:
            raise bad_request(f'parameter "{name}" in query has an error: value {value}: an invalid boolean')
        return value.lower() == "true"

    def amount(self) -> int:
        """Return how many results a page may have.

        Raises:
            ApiError: 400 for no number or one out of range.
        """
        text = self.text("amount", str(DEFAULT_AMOUNT))
        try:
            value = int(text)
        except ValueError:
            raise bad_request(f'parameter "amount" in query has an error: value {text}: an invalid integer') from None
        if value > MAX_AMOUNT:
            raise bad_request(f'parameter "amount" in query has an error: number must be at most {MAX_AMOUNT}')
        if value < -1:
            raise bad_request('parameter "amount" in query has an error: number must be at least -1')
        return value if value > 0 else DEFAULT_AMOUNT

    def json(self, schema: str, fields: Mapping[str, Field]) -> dict[str, Any]:
        """Return the JSON body, its fields checked as the API's schema does.

        Args:
            schema: Name of the schema, for the message.
            fields: What the body may hold; other properties are let through.

        Raises:
            ApiError: 400 with the place and the fault.
        """
        try:
            body = json.loads(self.data) if self.data else None
        except ValueError as error:
            raise bad_request(f"request body has an error: failed to decode request body: {error}") from None
        if body is None:
            raise bad_request("request body has an error: value is required but missing")
        return check(body, fields, f"request body has an error: doesn't match schema #/components/schemas/{schema}")


@dataclass(frozen=True)
class Field:
    """A property of a JSON body.

    Attributes:
        kind: Python type of its value.
        required: Whether it must be there.
        items: For a list: the type of its items, or the fields of its objects.
    """

    kind: type
    required: bool = False
    items: type | Mapping[str, Field] | None = None


def check(body: object, fields: Mapping[str, Field], problem: str, place: str = "") -> dict[str, Any]:
    """Check an object against its fields.

    Raises:
        ApiError: 400 with the place and the fault.
    """
    if not isinstance(body, dict):
        raise bad_request(f'{problem}: Error at "{place}": value must be an object')
    for name, field in fields.items():
        here = f"{place}/{name}"
        value = body.get(name, _MISSING)
        if value is _MISSING:
            if field.required:
                raise bad_request(f'{problem}: Error at "{here}": property "{name}" is missing')
            continue
        if value is None:
            raise bad_request(f'{problem}: Error at "{here}": Value is not nullable')
        _check_value(value, field.kind, problem, here)
        if isinstance(value, list) and field.items is not None:
            for index, item in enumerate(value):
                if isinstance(field.items, type):
                    _check_value(item, field.items, problem, f"{here}/{index}")
                else:
                    check(item, field.items, problem, f"{here}/{index}")
    return body


def _check_value(value: object, expected: type, problem: str, place: str) -> None:
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise bad_request(f'{problem}: Error at "{place}": value must be {_TYPE_NAMES[expected]}')


def json_bytes(value: object) -> bytes:
    """Print JSON as the real server: keys sorted, no spaces, a line end."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def answer(value: object, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with JSON."""
    return Response(
        json_bytes(value),
        status,
        {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", **(headers or {})},
    )


def no_content() -> Response:
    """Answer that it is done, with nothing to say."""
    return Response(status_code=HTTPStatus.NO_CONTENT)


def page(
    rows: Iterable[dict[str, object]], amount: int, *, offset: Callable[[dict[str, object]], object]
) -> dict[str, object]:
    """Cut one page from an iterable of results that begins where the page does.

    Args:
        rows: The results; one more than the page needs is taken.
        amount: Size of the page.
        offset: What the next page is asked for with, from the last result.
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
    """Answer with an error; a HEAD gets it without a body from the server below."""
    return answer({"message": error.message}, error.status, error.headers)


Handler = Callable[[Call], Response]


@dataclass(frozen=True)
class Endpoint:
    """A route of the API, named as lakefs-sdk names its method."""

    method: str
    path: str
    name: str
    handler: Handler
    public: bool = False


@dataclass
class Requests:
    """What the server counts and tells about requests.

    Attributes:
        counts: Requests by endpoint name.
        observer: Called with an endpoint's name before it is served, in the server's thread.
    """

    counts: Counter[str]
    observer: Callable[[str], None] | None = None


def _names(request: Request, data: bytes) -> dict[str, str]:
    """Return what a request names, for the resources that it needs: in its body, its query, its path."""
    try:
        body = json.loads(data) if data else {}
    except ValueError:
        body = {}
    named = {name: value for name, value in body.items() if isinstance(value, str)} if isinstance(body, dict) else {}
    return {**named, **request.query_params, **request.path_params}


def route(endpoint: Endpoint, core: Core, accounts: Accounts, requests: Requests) -> Route:
    """Make the route of an endpoint."""

    def serve(caller: User, request: Request, data: bytes) -> Response:
        lacking = caller.lacks(endpoint.name, _names(request, data))
        if lacking:
            # What the real server says, and its status: the same as for keys that it does not know.
            refusal = f"insufficient permissions: not allowed to {','.join(lacking)}"
            return failure(ApiError(HTTPStatus.UNAUTHORIZED, refusal))
        if requests.observer is not None:
            requests.observer(endpoint.name)
        try:
            with core.lock:
                response = endpoint.handler(Call(core, caller, request, data))
        except ApiError as error:
            return failure(error)
        if response.status_code != HTTPStatus.NO_CONTENT:
            response.headers.setdefault("X-Content-Type-Options", "nosniff")
        return response

    async def run(request: Request) -> Response:
        requests.counts[endpoint.name] += 1
        caller = accounts.owner if endpoint.public else accounts.caller(request.headers.get("authorization", ""))
        if caller is None:
            return failure(ApiError(HTTPStatus.UNAUTHORIZED, "error authenticating request"))
        return await run_in_threadpool(serve, caller, request, await request.body())

    handler: Callable[[Request], Awaitable[Response]] = run
    made = Route(API + endpoint.path, handler, methods=[endpoint.method], name=endpoint.name)
    # starlette lets every GET answer HEAD as well; the API has its own HEAD, with its own headers.
    made.methods = {endpoint.method}
    return made
