"""Failed calls as errors of the one tree, which say what to do and carry no key."""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from urllib.parse import quote

import urllib3.exceptions

from spark_core.errors import (
    LakegcError,
    NotFoundError,
    PermissionDeniedError,
    RepositoryStateError,
    SettingsError,
    TransientError,
)
from spark_core.lakefs.calls import (
    BROKEN_OFF,
    READ_ONLY,
    TOO_MANY,
    UNKNOWN_ENDPOINT,
    UNKNOWN_REPOSITORY,
    Answer,
    Call,
)
from spark_core.lakefs.options import ServerOptions
from spark_core.plain_text import visible

_MESSAGE_SHOWN = 300
# Secrets in a store's URL or a header. Of a signed URL only the name of the parameter is shown.
_SIGNED = re.compile(
    r"((?:\b(?:basic|bearer)\s+)|(?:\b(?:x-(?:amz|goog)-[a-z-]+|sig|se|sp|signature"
    r"|awsaccesskeyid|[a-z_-]*token|authorization)"
    r"[\"']?\s*[=:]\s*[\"']?(?:(?:basic|bearer)\s+)?))[^\s\"'&,;]+",
    re.IGNORECASE,
)


class ServerAwayError(TransientError):
    """No connection to the server can be made: it is being restarted, or was never there."""


class NoSuchCallError(SettingsError):
    """The server does not know the call: it is too old for it, or is no lakeFS server."""


class Failures:
    """Words errors for one server.

    Args:
        options: Its address, limits and keys; no text may hold the keys.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.options = options

    def of(self, call: Call, answer: Answer) -> LakegcError:
        """Return the error for an answer without success: what it means and what to do about it."""
        status, text = answer.status, self.shown(answer.message)
        found = f"{call.subject}: {self.options.endpoint} answered {status}" + (
            f" ({text})" if text else ""
        )
        times = f"{self.options.tries if call.repeatable else 1} times"
        needed = f"the action {call.action}" if call.action else "any valid user"
        meanings: tuple[tuple[bool, type[LakegcError], str, str], ...] = (
            (
                status == BROKEN_OFF,
                TransientError,
                f"{call.subject}: the connection to {self.options.endpoint} broke off {times}",
                "Look at the server's log and at what stands before it, and run again.",
            ),
            (
                status == 403 and answer.message == READ_ONLY,
                RepositoryStateError,
                f"{found}: the server prepares no garbage collection for a read-only repository",
                "Make it writable, or leave it out of lakegc.",
            ),
            (
                answer.lacks_permission,
                PermissionDeniedError,
                f"{found}",
                (
                    f"The server knows the keys; their user lacks {needed}: add it to one of the "
                    "user's policies."
                ),
            ),
            (
                status in (401, 403),
                PermissionDeniedError,
                f"{found}",
                (
                    f"Needed: {needed}. Check access_key_id and secret_access_key first "
                    "(lakeFS answers 401 for wrong keys and for a lacking permission alike), then "
                    "the user's policy."
                ),
            ),
            (
                status == 404 and answer.message == UNKNOWN_REPOSITORY,
                NotFoundError,
                f"{found}",
                (
                    "Check the repository's name in the settings against `lakectl repo list`; "
                    "the data of a deleted repository stays in the store and no run can collect it "
                    "through the server."
                ),
            ),
            (
                (status == 404 and not answer.message) or answer.message == UNKNOWN_ENDPOINT,
                NoSuchCallError,
                f"{found}: there is no such API",
                (
                    "Check that endpoint is a lakeFS server, "
                    "not a path behind one, and that the server is not too old for this call."
                ),
            ),
            (
                status == 404,
                NotFoundError,
                found,
                "Check that it exists on the server, and run again.",
            ),
            (
                status == 410,
                RepositoryStateError,
                f"{found}: the repository is being deleted",
                "Take it out of the settings once it is gone.",
            ),
            (
                status == TOO_MANY or status >= 500,
                TransientError,
                f"{found}, {times}",
                "Look at the server's log and load, and run again.",
            ),
            (
                300 <= status < 400,
                SettingsError,
                f"{found}, a redirect, which is not followed because the keys would go along",
                (
                    "Set endpoint to the address that the server really has (often https instead "
                    "of http)."
                ),
            ),
        )
        for applies, kind, what, step in meanings:
            if applies:
                return kind(what, step)
        return SettingsError(
            f"{found}: it does not accept the request", "Check the names in the settings."
        )

    def lost(self, call: Call, error: urllib3.exceptions.HTTPError) -> LakegcError | None:
        """Translate an error of urllib3; None for a connection that broke off in the middle."""
        options = self.options
        if isinstance(error, urllib3.exceptions.ReadTimeoutError):
            return TransientError(
                f"{call.subject}: {options.endpoint} did not answer within "
                f"read_timeout_seconds = {_seconds(options.read_timeout)}",
                "Look at the server's load, or raise read_timeout_seconds (a page of "
                "prepare_uncommitted alone takes up to a minute), and run again.",
            )
        if isinstance(
            error, (urllib3.exceptions.NewConnectionError, urllib3.exceptions.NameResolutionError)
        ):
            return ServerAwayError(
                f"{call.subject}: no server answers at {options.endpoint} ({self._why(error)})",
                "Start the server or correct endpoint, and run again.",
            )
        if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
            return ServerAwayError(
                f"{call.subject}: no connection to {options.endpoint} within "
                f"connect_timeout_seconds = {_seconds(options.connect_timeout)}",
                "Check endpoint and the network, or raise connect_timeout_seconds, and run again.",
            )
        if isinstance(error, urllib3.exceptions.LocationValueError):
            return SettingsError(
                f"{call.subject}: endpoint {options.endpoint} is not a URL that can be called"
            )
        return None

    def shown(self, text: str) -> str:
        """Shorten foreign text for a message, and remove the keys and any signature."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = visible(" ".join(_SIGNED.sub(r"\1***", text).split()))
        return text if len(text) <= _MESSAGE_SHOWN else f"{text[:_MESSAGE_SHOWN]}..."

    @property
    def _secrets(self) -> tuple[str, ...]:
        """The keys as they are, and as sent, in case the server or a proxy repeats its input."""
        options = self.options
        pair = base64.b64encode(
            f"{options.access_key_id}:{options.secret_access_key}".encode()
        ).decode()
        plain = (options.secret_access_key, options.access_key_id)
        forms = {pair, *plain, *(quote(each, safe="") for each in (pair, *plain))}
        return tuple(sorted((form for form in forms if form), key=len, reverse=True))

    def _why(self, error: urllib3.exceptions.HTTPError) -> str:
        """Return the system's own words at the end of urllib3's."""
        return self.shown(str(error).rpartition(": ")[2])


def _seconds(value: timedelta) -> str:
    return f"{value.total_seconds():g}"
