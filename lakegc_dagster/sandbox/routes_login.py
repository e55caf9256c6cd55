"""Routes that give a bearer token: for a key pair, and for an AWS identity."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus

from starlette.responses import Response

from lakegc_dagster.sandbox.errors import ApiError, not_found
from lakegc_dagster.sandbox.tokens import aws_key_of
from lakegc_dagster.sandbox.web import Call, Endpoint, answer

# As the real server's defaults.
_LIFE = timedelta(days=7)


def _login(call: Call) -> Response:
    body = call.body()
    user = call.accounts.with_keys(body["access_key_id"], body["secret_access_key"])
    if user is None:
        raise ApiError(HTTPStatus.UNAUTHORIZED, "error authenticating request")
    return _token(call, user.name, _LIFE)


def _external_login(call: Call) -> Response:
    body = call.body()
    user = call.accounts.with_aws_key(aws_key_of(body["identityRequest"]))
    if user is None:
        raise not_found()
    asked = timedelta(seconds=body.get("token_expiration_duration") or _LIFE.total_seconds())
    return _token(call, user.name, min(asked, call.core.behaviour.longest_login))


def _token(call: Call, user: str, life: timedelta) -> Response:
    token, ends = call.accounts.tokens.give(user, life)
    return answer({"token": token, "token_expiration": ends})


ENDPOINTS = [
    Endpoint("POST", "/auth/login", "login", _login, public=True),
    Endpoint(
        "POST",
        "/auth/external/principal/login",
        "external_principal_login",
        _external_login,
        public=True,
    ),
]
