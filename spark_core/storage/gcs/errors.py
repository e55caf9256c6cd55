"""What GCS and its two clients say when something fails, told as the project's errors, without what could be secret.

Bodies and texts of failures hold URLs of uploads, which are keys by
themselves, and answers of the token service. Only the status, the reason in
one word and the kind of failure are taken out of them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import requests
from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.auth.exceptions import GoogleAuthError, TransportError
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from urllib3.exceptions import HTTPError

from spark_core.errors import (
    LakegcError,
    NotFoundError,
    ObjectExistsError,
    PermissionDeniedError,
    SettingsError,
    TransientError,
)
from spark_core.storage.deletion import Answer
from spark_core.storage.obstores import OBSTORE_ERRORS, obstore_failure

# What the clients raise: obstore, and Google's by itself, through requests and urllib3, and from the transport of files.
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
# Said with 403 when it only means "slower, please".
_PASSING_REASONS = {"rateLimitExceeded", "userRateLimitExceeded", "backendError", "internalError"}
_NARROW_SCOPE = {"insufficientPermissions", "insufficientScopes"}
# How the XML API says it, which has one code for all refusals.
_NARROW_SCOPE_TEXT = "Provided scope(s) are not authorized"
# What obstore meets as Google's client names it.
_KINDS = {
    "Redirect": requests.exceptions.TooManyRedirects.__name__,
    "Certificate": requests.exceptions.SSLError.__name__,
}

# Before the kind of an error of the token service.
_UNAUTHORIZED = "unauthorized:"

_WORD = re.compile(r"[A-Za-z]{1,64}")
_CODE = re.compile(rb"<Code>(\w{1,64})</Code>")


@dataclass(frozen=True)
class Failure:
    """The parts of a failure that may be shown.

    Attributes:
        status: HTTP status; None when no answer came.
        reason: Google's reason in one word, or the kind of failure.
    """

    status: int | None
    reason: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, [f"HTTP {self.status}" if self.status else "no answer", self.reason]))

    @property
    def refuses(self) -> bool:
        """Whether the store said no, and would say so again: credentials or a permission."""
        return (self.status in (401, 403) and not self.passing) or self.reason.startswith(_UNAUTHORIZED)

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.status in _PASSING_STATUSES or self.reason in _PASSING_REASONS


def reason_of(body: bytes) -> str:
    """Take the reason out of an error's body, empty when there is none in one word."""
    if (code := _CODE.search(body)) is not None:
        return code[1].decode()
    try:
        errors = json.loads(body)["error"]["errors"]
        reason = errors[0]["reason"]
    except (ValueError, LookupError, TypeError):
        return ""
    return reason if isinstance(reason, str) and _WORD.fullmatch(reason) else ""


def failure_of(error: BaseException | None) -> Failure:
    """Take status and reason out of an error of either client."""
    if isinstance(error, OBSTORE_ERRORS):
        failure = obstore_failure(error)
        if failure.status is None:
            return Failure(None, _KINDS.get(failure.kind, failure.kind))
        narrow = _NARROW_SCOPE_TEXT in failure.body
        return Failure(failure.status, "insufficientScopes" if narrow else reason_of(failure.body.encode()))
    if isinstance(error, RetryError):
        return failure_of(error.cause)
    if isinstance(error, GoogleAPICallError | InvalidResponse):
        answer = error.response
        status = error.code if isinstance(error, GoogleAPICallError) else answer.status_code
        return Failure(None if status is None else int(status), reason_of(answer.content) if answer is not None else "")
    kind = type(error).__name__
    refused = isinstance(error, GoogleAuthError) and not is_passing(error)
    return Failure(None, f"{_UNAUTHORIZED} {kind}" if refused else kind)


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
        # A built-in ConnectionError is how the client's download says that a body was cut off.
        | HTTPError
        | ConnectionError,
    )


def deletion_answer(failure: Failure) -> Answer:
    """Return what the answer to one key of a deletion means, of a success too."""
    if failure.status is not None and 200 <= failure.status < 300:
        return Answer("deleted")
    if failure.status == 404:
        return Answer("already_gone")
    return Answer("refused" if failure.refuses else "failed", str(failure), failure.passing)


def unconfirmed(error: Exception) -> Answer:
    """Return what the failure of a whole deletion request means for each of its keys; none of them is known to be gone."""
    failure = failure_of(error)
    return Answer("refused" if failure.refuses else "failed", str(failure), is_passing(error))


def explained(error: Exception, action: str, key: str, root: str) -> LakegcError:
    """Return the project's error for an error of the client.

    Args:
        error: What was raised.
        action: One of `PERMISSIONS`.
        key: What it was about.
        root: The namespace.
    """
    kind, found, step = _told(error, failure_of(error), action)
    return kind(f"{action} {key!r} of {root}: {found}", step)


def _told(error: Exception, failure: Failure, action: str) -> tuple[type[LakegcError], str, str]:
    """Choose the error, what was found, and the next step."""
    found: tuple[type[LakegcError], str, str]
    if isinstance(error, GoogleAuthError) and not is_passing(error):
        found = (
            PermissionDeniedError,
            f"Google gives no token for these credentials ({type(error).__name__})",
            "They have expired, were revoked, or are wrong: look at the key file, or log in again, and run again.",
        )
    elif failure.status == 412:
        found = (
            ObjectExistsError,
            "there is such an object already, and it was left as it is",
            "Another writer was first.",
        )
    elif failure.passing:
        found = _passing(failure)
    elif failure.refuses:
        found = PermissionDeniedError, f"the store refuses ({failure})", _remedy(failure, action)
    elif failure.status == 404 and action not in ("read", "head", "copy", "undelete"):
        found = SettingsError, "there is no such bucket", "Look at the storage namespace and gcs_endpoint."
    elif failure.status == 404:
        found = NotFoundError, "the store has no such object", "Look whether it was moved or deleted."
    elif failure.status == 400:
        found = (
            SettingsError,
            f"the store does not take the request as it was sent ({failure})",
            "Look at the bucket's name and at gcs_endpoint; buckets where the requester pays are not supported.",
        )
    else:
        found = _passing(failure)
    return found


def _passing(failure: Failure) -> tuple[type[LakegcError], str, str]:
    step = "Look at gcs_endpoint and the network, and run again."
    if failure.reason == requests.exceptions.SSLError.__name__:
        step = "Look at the endpoint's certificate; for a private authority name its file in REQUESTS_CA_BUNDLE."
    return TransientError, f"the store did not answer or could not now ({failure}), also when asked again", step


def _remedy(failure: Failure, action: str) -> str:
    if failure.status == 401:
        return "It does not take these credentials: look at the key file or log in again; they may have expired."
    if failure.reason in _NARROW_SCOPE:
        return (
            "The token of this machine has too narrow a scope, whatever its roles: give it the access scope "
            "cloud-platform or devstorage.read_write."
        )
    return f"Allow {PERMISSIONS[action]} for these credentials."
