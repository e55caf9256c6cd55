"""Failures of Azure Blob Storage and its two clients as the project's errors, without secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.storage.blob import StorageErrorCode

from spark_core.errors import PermissionDeniedError, SettingsError, TransientError
from spark_core.storage import failures
from spark_core.storage.deletion import KeyAnswer
from spark_core.storage.failures import ABSENT, EXISTS, Explanation
from spark_core.storage.obstore_reads import OBSTORE_ERRORS, obstore_failure

# The errors that the clients raise. Azure's own client fails with built-in errors on answers that
# are not Azure's (a proxy's page, senseless headers).
_ANSWER_ERRORS = (HTTPException, ValueError, TypeError, AttributeError, LookupError)
CLIENT_ERRORS = (AzureError, *OBSTORE_ERRORS, OSError, *_ANSWER_ERRORS)

# What a role and a SAS must allow for each action.
_PERMISSIONS = {
    "list": "Storage Blob Data Reader (of a SAS: l, for lists)",
    "head": "Storage Blob Data Reader (of a SAS: r)",
    "read": "Storage Blob Data Reader (of a SAS: r)",
    "write": "Storage Blob Data Contributor (of a SAS: r, c and w)",
    "delete": "Storage Blob Data Contributor (of a SAS: d)",
    "versions": "Storage Blob Data Reader (of a SAS: l, for lists)",
    "undelete": "Storage Blob Data Contributor (of a SAS: w)",
    "copy": "Storage Blob Data Contributor (of a SAS: r, c and w)",
    "ask the properties of": "Storage Account Contributor, or an account key",
}
_CREDENTIALS_REFUSED = {
    "AuthenticationFailed",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
    "KeyBasedAuthenticationNotPermitted",
    "InvalidAuthorizationHeader",
}
_NETWORK_REFUSED = {
    "AuthorizationFailure",
    "AuthorizationSourceIPMismatch",
    "IpAuthorizationSourceMismatch",
}
_EXISTS = {"BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet"}
_LEASED = {"LeaseIdMissing", "LeaseIdMismatchWithBlobOperation", "LeaseNotPresentWithBlobOperation"}
_KEPT = {
    "BlobImmutableDueToPolicy",
    "BlobImmutableDueToLegalHold",
    "BlobCannotBeDeletedInArchiveTier",
}
# How the client reports, without an answer of the store, that it has no token (any more).
_UNIDENTIFIED = {"ClientAuthenticationError", "CredentialUnavailableError"}
_CODE = re.compile(r"\A\w{1,80}\Z")
# The code in the body of a refusal. Azure's own client takes it from a header.
_BODY_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
# Of the identity provider's text, only its own number for the cause is shown.
_CAUSE = re.compile(r"\bAADSTS\d+\b")


@dataclass(frozen=True)
class AzureFailure(failures.StoreFailure):
    """A failure as Azure reports it."""

    @property
    def passing(self) -> bool:
        """The same request may succeed later."""
        return self.status is None or self.status in (408, 429) or self.status >= 500

    @property
    def refuses(self) -> bool:
        """The store refused: permission, lease, a policy that keeps the blob, old credentials."""
        return self.status in (401, 403) or self.code in _LEASED | _KEPT | _UNIDENTIFIED

    @property
    def absent(self) -> bool:
        """The store itself says that there is no such blob."""
        return self.status == 404 and self.code == "BlobNotFound"


# How obstore reports an answer without what every answer of Azure has, and a redirect to nowhere or
# in circles.
_UNLIKE_AZURE, _REDIRECT = AzureFailure(None, "Header"), AzureFailure(None, "Redirect")


def failure_of(error: Exception) -> AzureFailure:
    """Read status and code from an error of either client."""
    if isinstance(error, OBSTORE_ERRORS):
        failure = obstore_failure(error)
        code = _BODY_CODE.search(failure.body)
        return AzureFailure(
            failure.status, (code[1] if code else "") if failure.status else failure.kind
        )
    if not isinstance(error, HttpResponseError) or error.status_code is None:
        return AzureFailure(None, type(error).__name__)
    code = getattr(error, "error_code", None)
    response: Any = error.response
    if code is None and response is not None:
        code = response.headers.get("x-ms-error-code")
    shown = str(code.value if isinstance(code, StorageErrorCode) else code or "")
    return AzureFailure(error.status_code, shown if _CODE.search(shown) else "")


def is_passing(error: BaseException) -> bool:
    """Say whether a request of obstore may succeed a little later; identities repeat their own."""
    if not isinstance(error, OBSTORE_ERRORS):
        return False
    failure = obstore_failure(error)
    return failure.of_connection or (failure.status is not None and failure_of(error).passing)


def deletion_answer(failure: AzureFailure, *, again: bool) -> KeyAnswer:
    """Return the outcome of a deletion that was not confirmed.

    Args:
        failure: What the store answered.
        again: Whether to ask again for a passing reason; not if the client has done so.
    """
    if failure.absent:
        return KeyAnswer("already_gone")
    return KeyAnswer(
        "refused" if failure.refuses else "failed", str(failure), passing=again and failure.passing
    )


def explain(error: Exception, failure: AzureFailure, action: str) -> Explanation:
    """Choose the error, what was found, and the next step.

    Args:
        error: What a client raised.
        failure: Its parts.
        action: list, head, read, write, copy, delete, or what else is done with it.
    """
    if isinstance(error, ClientAuthenticationError) and not _of_the_store(error):
        return _unidentified(error)
    if isinstance(error, OBSTORE_ERRORS) and failure == AzureFailure(401, ""):
        return _turned_away(str(failure))
    if isinstance(error, _ANSWER_ERRORS) or failure == _UNLIKE_AZURE:
        return (
            TransientError,
            f"the answer is none of Azure's and cannot be read ({failure.code})",
            "Look whether the endpoint is right and what stands before it, and run again.",
        )
    return _absent_or_there(failure, action) or _refused(failure, action)


def _absent_or_there(failure: AzureFailure, action: str) -> Explanation | None:
    """Choose for a failure about the object or the container; None for any other."""
    found: Explanation | None = None
    if failure.status in (409, 412) and failure.code in _EXISTS and action in ("write", "copy"):
        found = EXISTS
    elif failure.code == "ContainerNotFound" or (
        failure.status == 404 and action not in ("read", "head", "copy", "undelete")
    ):
        found = failures.no_place("container")
    elif failure.absent or (failure.status == 404 and failure.code == "CannotVerifyCopySource"):
        found = ABSENT
    elif failure.code == "SourceConditionNotMet":
        found = (
            TransientError,
            "the object was written again while it was copied",
            "Look who writes there, and run again.",
        )
    elif failure.code == "ConditionNotMet":
        found = TransientError, "the object was replaced while it was read", "Run again."
    elif failure.code == "BlobArchived":
        found = (
            SettingsError,
            f"it lies in the archive tier ({failure})",
            "Rehydrate it and run again.",
        )
    return found


def _refused(failure: AzureFailure, action: str) -> Explanation:
    if failure.code in _LEASED:
        step = "Break the lease or wait for its end."
        return PermissionDeniedError, f"somebody holds a lease on it ({failure})", step
    if failure.status in (401, 403):
        return failures.refused(failure, _remedy(failure, action))
    if failure.passing and failure != _REDIRECT:
        return failures.no_answer(failure)
    return failures.not_taken(failure, "Look at the endpoint and the account.")


def _of_the_store(error: HttpResponseError) -> bool:
    """Say whether the store refused, not the identity provider or this machine."""
    response: Any = error.response
    return response is not None and any(
        name.lower().startswith("x-ms-") for name in response.headers
    )


def _turned_away(shown: str) -> Explanation:
    return (
        PermissionDeniedError,
        f"the identity provider, or what stands before the store, refuses ({shown})",
        "Look at the tenant, the client id, and whether its secret has expired.",
    )


def _unidentified(error: ClientAuthenticationError) -> Explanation:
    cause = _CAUSE.search(str(error))
    if cause or error.response is not None:
        return _turned_away(cause[0] if cause else str(failure_of(error)))
    return (
        SettingsError,
        f"there are no usable credentials for Azure ({type(error).__name__})",
        (
            "Set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, AZURE_CLIENT_ID "
            "and AZURE_CLIENT_SECRET, "
            "or run where there is a managed identity. lakegc does not read anonymously."
        ),
    )


def _remedy(failure: AzureFailure, action: str) -> str:
    if failure.code == "KeyBasedAuthenticationNotPermitted":
        return "The account takes no account keys: use a service principal or a managed identity."
    if failure.code in _CREDENTIALS_REFUSED or failure.status == 401:
        return (
            "It does not take these credentials: look at the account and its key, whether the SAS "
            "or secret has expired, "
            "and at this machine's clock."
        )
    if failure.code in _NETWORK_REFUSED:
        return (
            "Look at the account's network rules, whether a SAS is bound to other addresses, and "
            "whether key or SAS are this "
            "account's and have not expired."
        )
    return f"Allow these credentials what {_PERMISSIONS.get(action, action)} allows."
