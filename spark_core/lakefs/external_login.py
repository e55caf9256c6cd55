"""Log in to the server as an identity that somebody else knows, and get a token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from spark_core.clocks import Clock
from spark_core.errors import LakegcError, PermissionDeniedError, SettingsError
from spark_core.lakefs.answers import Body
from spark_core.lakefs.calls import NOT_IMPLEMENTED, UNKNOWN_ENDPOINT, Answer, Call
from spark_core.lakefs.options import ServerOptions
from spark_core.lakefs.tokens import Token

_CALL = Call("log_in", "log-in as an AWS identity", public=True)
_CALLED = "the token that the server gave"
# A server that learned who asks, and knows no user of that identity, answers 404.
_REFUSED = (400, 401, 403, 404)


class Calls(Protocol):
    """What makes the calls, and logs in by this one: `transport.Transport`."""

    options: ServerOptions
    clock: Clock
    client: Any

    def call(
        self,
        call: Call,
        method: Callable[..., Any],
        *arguments: Any,
        expected: tuple[int, ...],
    ) -> Answer:
        """Make one call that carries no token."""
        ...


def log_in(transport: Calls, identity: Mapping[str, str], seconds: int) -> Token:
    """Hand an identity to the server, and return the token for its user.

    Args:
        transport: Calls the server.
        identity: What the server checks with whoever knows the identity.
        seconds: For how long a token is asked for.

    Raises:
        PermissionDeniedError: If the server does not take the identity.
        SettingsError: If the server has no such log-in.
    """
    from lakefs_sdk.api.external_api import ExternalApi
    from lakefs_sdk.models.external_login_information import ExternalLoginInformation

    asked = ExternalLoginInformation(
        token_expiration_duration=seconds, identityRequest=dict(identity)
    )
    answer = transport.call(
        _CALL,
        ExternalApi(transport.client).external_principal_login_with_http_info,
        asked,
        expected=(*_REFUSED, NOT_IMPLEMENTED),
    )
    if answer.status >= 400:
        raise _refusal(transport, answer)
    body = Body.of(_CALL, answer)
    token = Token.parse(body.text("token"), _CALLED)
    if body.has("token_expiration"):
        return replace(token, ends=body.instant("token_expiration"))
    ends = transport.clock.now() + timedelta(seconds=seconds)
    return token if token.ends is not None else replace(token, ends=ends)


def _refusal(transport: Calls, answer: Answer) -> LakegcError:
    """Return the error; the server's text is not shown, as it may repeat the signed identity."""
    where = f"{_CALL.subject}: {transport.options.endpoint} answered {answer.status}"
    unknown = answer.message in ("", UNKNOWN_ENDPOINT) and answer.status == 404
    if unknown or answer.status == NOT_IMPLEMENTED:
        return SettingsError(
            f"{where}: this server has no such log-in, or it is switched off",
            "lakeFS Enterprise and Cloud have it. Elsewhere, give a key pair or a token.",
        )
    return PermissionDeniedError(
        f"{where}: it does not take the identity",
        "Attach the role that `aws sts get-caller-identity` shows here to a lakeFS user. If it is, "
        "look at this machine's clock, and at aws_iam_headers, which the server may demand.",
    )
