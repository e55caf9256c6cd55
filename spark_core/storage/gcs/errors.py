"""Failures of GCS and its two clients as the project's errors, without secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass

import requests
from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.auth.exceptions import GoogleAuthError, TransportError
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from urllib3.exceptions import HTTPError

from spark_core.errors import PermissionDeniedError
from spark_core.json_and_toml import read_json
from spark_core.storage import failures
from spark_core.storage.deletion import KeyAnswer
from spark_core.storage.failures import ABSENT, EXISTS, Explanation
from spark_core.storage.obstore_reads import OBSTORE_ERRORS, obstore_failure

# The errors that the clients raise: obstore's, Google's own through requests and urllib3, and those
# of its file transfers.
CLIENT_ERRORS = (
    *OBSTORE_ERRORS,
    GoogleAPICallError,
    RetryError,
    GoogleAuthError,
    InvalidResponse,
    DataCorruption,
    requests.RequestException,
    HTTPError,
    OSError,
)

# What a role must allow for each action.
PERMISSIONS = {
    "list": "storage.objects.list",
    "head": "storage.objects.get (and storage.objects.list)",
    "read": "storage.objects.get (and storage.objects.list)",
    "write": "storage.objects.create (and, to replace, storage.objects.delete)",
    "versions": "storage.objects.list",
    "undelete": "storage.objects.restore and storage.objects.create",
    "copy": "storage.objects.get and storage.objects.create",
    "delete": "storage.objects.delete",
    "describe": "storage.buckets.get",
}
_PASSING_STATUSES = {408, 429, 500, 502, 503, 504}
# Google sends it with 403, but it only means "slower, please".
_PASSING_REASONS = {"rateLimitExceeded", "userRateLimitExceeded", "backendError", "internalError"}
_NARROW_SCOPE = {"insufficientPermissions", "insufficientScopes"}
# The XML API's word, which has one code for all refusals.
_NARROW_SCOPE_TEXT = "Provided scope(s) are not authorized"
# obstore's errors by the names of Google's client.
_KINDS = {
    "Redirect": requests.exceptions.TooManyRedirects.__name__,
    "Certificate": requests.exceptions.SSLError.__name__,
}

# The text before the kind of an error of the token service.
_UNAUTHORIZED = "unauthorized:"

_WORD = re.compile(r"[A-Za-z]{1,64}")
_CODE = re.compile(rb"<Code>(\w{1,64})</Code>")


@dataclass(frozen=True)
class GcsFailure(failures.StoreFailure):
    """A failure as Google reports it; its code is Google's reason."""

    @property
    def refuses(self) -> bool:
        """Whether the store said no, and would say so again: credentials or a permission."""
        return (self.status in (401, 403) and not self.passing) or self.code.startswith(
            _UNAUTHORIZED
        )

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.status in _PASSING_STATUSES or self.code in _PASSING_REASONS


def reason_of(body: bytes) -> str:
    """Read the reason from an error's body; empty if there is none in one word."""
    if (code := _CODE.search(body)) is not None:
        return code[1].decode()
    try:
        errors = read_json(body)["error"]["errors"]
        reason = errors[0]["reason"]
    except (ValueError, LookupError, TypeError):
        return ""
    return reason if isinstance(reason, str) and _WORD.fullmatch(reason) else ""


def failure_of(error: BaseException | None) -> GcsFailure:
    """Read status and reason from an error of either client."""
    if isinstance(error, OBSTORE_ERRORS):
        failure = obstore_failure(error)
        if failure.status is None:
            return GcsFailure(None, _KINDS.get(failure.kind, failure.kind))
        narrow = _NARROW_SCOPE_TEXT in failure.body
        return GcsFailure(
            failure.status, "insufficientScopes" if narrow else reason_of(failure.body.encode())
        )
    if isinstance(error, RetryError):
        return failure_of(error.cause)
    if isinstance(error, GoogleAPICallError | InvalidResponse):
        answer = error.response
        status = error.code if isinstance(error, GoogleAPICallError) else answer.status_code
        return GcsFailure(
            None if status is None else int(status),
            reason_of(answer.content) if answer is not None else "",
        )
    kind = type(error).__name__
    refused = isinstance(error, GoogleAuthError) and not is_passing(error)
    return GcsFailure(None, f"{_UNAUTHORIZED} {kind}" if refused else kind)


def is_passing(error: BaseException) -> bool:
    """Say whether the same request may succeed a little later."""
    if isinstance(error, OBSTORE_ERRORS):
        return failure_of(error).passing or obstore_failure(error).of_connection
    if isinstance(error, GoogleAuthError):
        return isinstance(error, TransportError) or error.retryable
    if isinstance(error, GoogleAPICallError | InvalidResponse):
        return failure_of(error).passing
    return isinstance(
        error,
        DataCorruption
        | requests.ConnectionError
        | requests.Timeout
        | requests.exceptions.ChunkedEncodingError
        # The client's download raises a built-in ConnectionError if a body was cut off.
        | HTTPError
        | ConnectionError,
    )


def deletion_answer(failure: GcsFailure) -> KeyAnswer:
    """Return what the answer to one key of a deletion means, for a success too."""
    if failure.status is not None and 200 <= failure.status < 300:
        return KeyAnswer("deleted")
    if failure.status == 404:
        return KeyAnswer("already_gone")
    return KeyAnswer("refused" if failure.refuses else "failed", str(failure), failure.passing)


def unsure_of_gone(answer: KeyAnswer) -> KeyAnswer:
    """Return the answer where nobody knows whether the bucket is there: no object is gone then."""
    if answer.outcome != "already_gone":
        return answer
    return KeyAnswer("failed", "HTTP 404, and whether the bucket is there could not be told")


def unconfirmed(error: Exception) -> KeyAnswer:
    """Return what a failed deletion request means for each key; none is known to be gone."""
    failure = failure_of(error)
    return KeyAnswer("refused" if failure.refuses else "failed", str(failure), is_passing(error))


def explain(error: Exception, failure: GcsFailure, action: str) -> Explanation:
    """Choose the error, what was found, and the next step.

    Args:
        error: What a client raised.
        failure: Its parts.
        action: One of `PERMISSIONS`.
    """
    found: Explanation
    if isinstance(error, GoogleAuthError) and not is_passing(error):
        found = (
            PermissionDeniedError,
            f"Google gives no token for these credentials ({type(error).__name__})",
            (
                "They have expired, were revoked, or are wrong: look at the key file, or log in "
                "again, and run again."
            ),
        )
    elif failure.status == 412:
        found = EXISTS
    elif failure.passing:
        found = _passing(failure)
    elif failure.refuses:
        found = failures.refused(failure, _remedy(failure, action))
    elif failure.status == 404 and action not in ("read", "head", "copy", "undelete"):
        found = failures.no_place("bucket", "gcs_endpoint")
    elif failure.status == 404:
        found = ABSENT
    elif failure.status == 400:
        step = (
            "Look at the bucket's name and at gcs_endpoint; buckets where the requester pays are "
            "not supported."
        )
        found = failures.not_taken(failure, step)
    else:
        found = _passing(failure)
    return found


def _passing(failure: GcsFailure) -> Explanation:
    step = "Look at gcs_endpoint and the network, and run again."
    if failure.code == requests.exceptions.SSLError.__name__:
        step = (
            "Look at the endpoint's certificate; for a private authority name its file in "
            "REQUESTS_CA_BUNDLE."
        )
    return failures.no_answer(failure, step)


def _remedy(failure: GcsFailure, action: str) -> str:
    if failure.status == 401:
        return (
            "It does not take these credentials: look at the key file or log in again; they may "
            "have expired."
        )
    if failure.code in _NARROW_SCOPE:
        return (
            "The token of this machine has too narrow a scope, whatever its roles: give it the "
            "access scope "
            "cloud-platform or devstorage.read_write."
        )
    return f"Allow {PERMISSIONS[action]} for these credentials."
