"""Bearer tokens of the sandbox, and the AWS identities for which it gives some."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from lakegc_dagster.sandbox.errors import ApiError

_HEADER = {"alg": "HS256", "typ": "JWT"}
_STS = re.compile(r"sts(\.[a-z0-9-]+)?\.amazonaws\.com(\.cn)?")
_AUDIENCE = "login"
# The parts of a signed question to AWS that never differ.
_FIXED = {
    "method": "POST",
    "action": "GetCallerIdentity",
    "version": "2011-06-15",
    "algorithm": "AWS4-HMAC-SHA256",
}
_SIGNED = ("host", "x-lakefs-server-id")


class Tokens:
    """Gives JSON Web Tokens with an end, and knows them again.

    Args:
        now: The sandbox's clock.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._secret = secrets.token_bytes(32)

    def give(self, user: str, life: timedelta) -> tuple[str, int]:
        """Return a token for a user, and when it ends, in unix seconds."""
        began = self._now()
        ends = int((began + life).timestamp())
        claims = {
            "aud": _AUDIENCE,
            "exp": ends,
            "iat": int(began.timestamp()),
            "jti": secrets.token_hex(8),
            "sub": user,
        }
        signed = f"{_encoded(_HEADER)}.{_encoded(claims)}"
        return f"{signed}.{self._signature(signed)}", ends

    def user_of(self, token: str) -> str | None:
        """Return the user of a token; None if it is another's, or has ended."""
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(self._signature(signed).encode(), signature.encode()):
            return None
        claims = json.loads(_decoded(signed.partition(".")[2]))
        return str(claims["sub"]) if self._now().timestamp() < claims["exp"] else None

    def _signature(self, signed: str) -> str:
        return _base64(hmac.new(self._secret, signed.encode(), hashlib.sha256).digest())


def aws_key_of(identity_request: Mapping[str, Any]) -> str:
    """Return the AWS key id of an identity, if it has the shape of a signed question to AWS.

    A real server has AWS answer the question. The sandbox does not know the key's secret, so that
    the signature is only looked at.

    Raises:
        ApiError: 400 or 401, for another shape, or a question that has ended.
    """
    try:
        text = base64.b64decode(identity_request["identity_token"], validate=True)
        identity = json.loads(text)
        signed_at = datetime.strptime(identity["date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        life = timedelta(seconds=int(identity["expiration_duration"]))
        is_whole = (
            all(identity[name] == wanted for name, wanted in _FIXED.items())
            and bool(_STS.fullmatch(identity["host"]))
            and bool(re.fullmatch("[0-9a-f]{64}", identity["signature"]))
            and all(name in identity["signed_headers"] for name in _SIGNED)
            and isinstance(identity["region"], str)
            and isinstance(identity["security_token"], str)
        )
        key = str(identity["access_key_id"])
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise ApiError(HTTPStatus.BAD_REQUEST, "bad identity token") from None
    if not is_whole:
        raise ApiError(HTTPStatus.BAD_REQUEST, "bad identity token")
    # By real time, as AWS would: the client signed it just now.
    if not timedelta(minutes=-5) <= datetime.now(UTC) - signed_at <= life:
        raise ApiError(HTTPStatus.UNAUTHORIZED, "error authenticating request")
    return key


def _encoded(value: object) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
