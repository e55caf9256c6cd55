"""Failed calls as errors of the one tree, which say what to do and carry no key."""

from __future__ import annotations

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
from spark_core.lakefs.logins import Login
from spark_core.lakefs.options import ServerOptions
from spark_core.plain_text import visible

_MESSAGE_SHOWN = 300
# Characters that are searched for secrets: the text of somebody's hook is as long as he likes, and
# the search takes the square of its length.
_MESSAGE_READ = 10 * _MESSAGE_SHOWN
# Secrets in a store's URL or a header. Of a signed URL only the name of the parameter is shown.
_SIGNED = re.compile(
    r"((?:\b(?:basic|bearer)\s+)|(?:\b(?:x-(?:amz|goog)-[a-z-]+|sig|se|sp|signature"
    r"|awsaccesskeyid|[a-z_-]*token|authorization)"
    r"[\"']?\s*[=:]\s*[\"']?(?:(?:basic|bearer)\s+)?))[^\s\"'&,;]+",
    re.IGNORECASE,
)


class ServerAwayError(TransientError):
    """No connection to the server can be made: it is being restarted, or was never there."""


class NeverAnsweredError(ServerAwayError):
    """No connection could be made, and none ever was in this process: a wrong endpoint, mostly."""


class NoSuchCallError(SettingsError):
    """The server does not know the call: it is too old for it, or is no lakeFS server."""


class ServerErrors:
    """The errors of one server, in words that say what to do.

    Args:
        options: Its address and limits.
        login: The keys or tokens that are sent; no text may hold them.
    """

    def __init__(self, options: ServerOptions, login: Login) -> None:
        self.options, self._login = options, login

    def of_answer(self, call: Call, answer: Answer) -> LakegcError:
        """Return the error for an answer without success: what it means and what to do about it."""
        text = self.shown(answer.message)
        found = f"{call.subject}: {self.options.endpoint} answered {answer.status}" + (
            f" ({text})" if text else ""
        )
        return (
            _not_allowed(call, answer, found, self._login)
            or _not_there(answer, found)
            or self._of_the_server(call, answer, found)
        )

    def _of_the_server(self, call: Call, answer: Answer, found: str) -> LakegcError:
        """Return the error for an answer that neither rights nor names explain."""
        status, times = answer.status, f"{self.options.tries if call.repeatable else 1} times"
        if status == BROKEN_OFF:
            return TransientError(
                f"{call.subject}: the connection to {self.options.endpoint} broke off {times}",
                "Look at the server's log and at what stands before it, and run again.",
            )
        if status == TOO_MANY or status >= 500:
            return TransientError(
                f"{found}, {times}", "Look at the server's log and load, and run again."
            )
        if 300 <= status < 400:
            return SettingsError(
                f"{found}, a redirect, which is not followed because the keys would go along",
                "Set endpoint to the address that the server really has (often https instead of "
                "http).",
            )
        return SettingsError(
            f"{found}: it does not accept the request", "Check the names in the settings."
        )

    def of_connection(self, call: Call, error: urllib3.exceptions.HTTPError) -> LakegcError | None:
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
                f"{_seconds(options.connect_timeout)} seconds",
                "Check endpoint and the network, and run again.",
            )
        if isinstance(error, urllib3.exceptions.ProxyError):
            return ServerAwayError(
                f"{call.subject}: the proxy gives no connection to {options.endpoint} "
                f"({self._why(error.original_error)})",
                "Look at HTTPS_PROXY (for http:// HTTP_PROXY), at the proxy's own rules, and at "
                "NO_PROXY if the server is to be reached without it, and run again.",
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
        text = _SIGNED.sub(r"\1***", text[:_MESSAGE_READ])
        text = visible(" ".join(text.split()))
        return text if len(text) <= _MESSAGE_SHOWN else f"{text[:_MESSAGE_SHOWN]}..."

    @property
    def _secrets(self) -> tuple[str, ...]:
        """Keys and tokens, also as in a URL, in case the server or a proxy repeats its input."""
        plain = self._login.secrets
        forms = {*plain, *(quote(each, safe="") for each in plain)}
        return tuple(sorted((form for form in forms if form), key=len, reverse=True))

    def _why(self, error: Exception) -> str:
        """Return the system's or the proxy's own words at the end of urllib3's."""
        return self.shown(str(error).rpartition(": ")[2])


def _not_allowed(call: Call, answer: Answer, found: str, login: Login) -> LakegcError | None:
    """Return the error for an answer that refuses the user or his keys; None for another answer."""
    needed = f"the action {call.action}" if call.action else "any valid user"
    if answer.status == 403 and answer.message == READ_ONLY:
        return RepositoryStateError(
            f"{found}: the server prepares no garbage collection for a read-only repository",
            "Make it writable, or leave it out of lakegc.",
        )
    if answer.lacks_permission:
        return PermissionDeniedError(
            found,
            f"The server knows who asks; their user lacks {needed}: add it to one of the user's "
            "policies.",
        )
    if answer.status in (401, 403):
        return PermissionDeniedError(
            found,
            f"Needed: {needed}. Check {login.called} first (lakeFS answers 401 for what it does "
            "not know and for a lacking permission alike), then the user's policy.",
        )
    return None


def _not_there(answer: Answer, found: str) -> LakegcError | None:
    """Return the error for an answer that knows no such call or thing; None for another answer."""
    status, message = answer.status, answer.message
    if status == 404 and message == UNKNOWN_REPOSITORY:
        return NotFoundError(
            found,
            "Check the repository's name in the settings against `lakectl repo list`; the data of "
            "a deleted repository stays in the store and no run can collect it through the server.",
        )
    if (status == 404 and not message) or message == UNKNOWN_ENDPOINT:
        return NoSuchCallError(
            f"{found}: there is no such API",
            "Check that endpoint is a lakeFS server, not a path behind one, and that the server is "
            "not too old for this call.",
        )
    if status == 404:
        return NotFoundError(found, "Check that it exists on the server, and run again.")
    if status == 410:
        return RepositoryStateError(
            f"{found}: the repository is being deleted",
            "Take it out of the settings once it is gone.",
        )
    return None


def _seconds(value: timedelta) -> str:
    return f"{value.total_seconds():g}"
