"""What Azure Blob Storage and its two clients say when something fails, told as the project's errors, without what could be secret.

Texts of the clients hold the URL, and so a shared access signature; bodies of
refusals hold the text that was signed. Only the status, the code and the kind
of failure are taken out of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, TypeAlias

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.storage.blob import StorageErrorCode

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

# What the clients raise. Azure's own trips over answers that are not Azure's (a proxy's page, senseless headers) with built-in errors.
_ANSWER_ERRORS = (HTTPException, ValueError, TypeError, AttributeError, LookupError)
CLIENT_ERRORS = (AzureError, *OBSTORE_ERRORS, OSError, *_ANSWER_ERRORS)

# Of a role, of a SAS: what must be allowed for each action.
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
_NETWORK_REFUSED = {"AuthorizationFailure", "AuthorizationSourceIPMismatch", "IpAuthorizationSourceMismatch"}
_EXISTS = {"BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet"}
_LEASED = {"LeaseIdMissing", "LeaseIdMismatchWithBlobOperation", "LeaseNotPresentWithBlobOperation"}
_KEPT = {"BlobImmutableDueToPolicy", "BlobImmutableDueToLegalHold", "BlobCannotBeDeletedInArchiveTier"}
# How the client says, without an answer of the store, that it has no token (any more).
_UNIDENTIFIED = {"ClientAuthenticationError", "CredentialUnavailableError"}
_CODE = re.compile(r"\A\w{1,80}\Z")
# The code in the body of a refusal; Azure's own client takes it from a header.
_BODY_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
# Of what the identity provider says only its own number for the cause.
_CAUSE = re.compile(r"\bAADSTS\d+\b")


@dataclass(frozen=True)
class Failure:
    """The parts of a store's answer that may be shown.

    Attributes:
        status: HTTP status; None when no answer came.
        code: Azure's code, or the kind of failure.
    """

    status: int | None
    code: str

    def __str__(self) -> str:
        return " ".join(filter(None, [f"HTTP {self.status}" if self.status else "no answer", self.code]))

    @property
    def passing(self) -> bool:
        """The same request may succeed later."""
        return self.status is None or self.status in (408, 429) or self.status >= 500

    @property
    def refuses(self) -> bool:
        """The store would not do it: a permission, a lease, a policy that keeps the blob, credentials that ran out."""
        return self.status in (401, 403) or self.code in _LEASED | _KEPT | _UNIDENTIFIED

    @property
    def absent(self) -> bool:
        """There is no such blob, and the store itself says so."""
        return self.status == 404 and self.code == "BlobNotFound"


# What obstore says of an answer without what each of Azure's has, and of a redirect that leads nowhere or in circles.
_UNLIKE_AZURE, _REDIRECT = Failure(None, "Header"), Failure(None, "Redirect")


def failure_of(error: Exception) -> Failure:
    """Take status and code out of an error of either client."""
    if isinstance(error, OBSTORE_ERRORS):
        failure = obstore_failure(error)
        code = _BODY_CODE.search(failure.body)
        return Failure(failure.status, (code[1] if code else "") if failure.status else failure.kind)
    if not isinstance(error, HttpResponseError) or error.status_code is None:
        return Failure(None, type(error).__name__)
    code = getattr(error, "error_code", None)
    response: Any = error.response
    if code is None and response is not None:
        code = response.headers.get("x-ms-error-code")
    shown = str(code.value if isinstance(code, StorageErrorCode) else code or "")
    return Failure(error.status_code, shown if _CODE.search(shown) else "")


def is_passing(error: Exception) -> bool:
    """Say whether a request of obstore may succeed a little later; an identity repeats its own."""
    if not isinstance(error, OBSTORE_ERRORS):
        return False
    failure = obstore_failure(error)
    return failure.of_connection or (failure.status is not None and failure_of(error).passing)


def deletion_answer(failure: Failure, *, again: bool) -> Answer:
    """Tell what a deletion ended in that was not confirmed.

    Args:
        failure: What the store answered.
        again: Whether what passes is worth asking again; not where the client had done so.
    """
    if failure.absent:
        return Answer("already_gone")
    return Answer("refused" if failure.refuses else "failed", str(failure), passing=again and failure.passing)


def explained(error: Exception, action: str, key: str, root: str) -> LakegcError:
    """Return the project's error for an error of the client.

    Args:
        error: What was raised.
        action: list, head, read, write, copy, delete, or what else is done with it.
        key: What it was about.
        root: The namespace.
    """
    kind, found, step = _told(error, failure_of(error), action)
    return kind(f"{action} {key!r} of {root}: {found}", step)


_Told: TypeAlias = tuple[type[LakegcError], str, str]


def _told(error: Exception, failure: Failure, action: str) -> _Told:
    """Choose the error, what was found, and the next step."""
    if isinstance(error, ClientAuthenticationError) and not _of_the_store(error):
        return _unidentified(error)
    if isinstance(error, OBSTORE_ERRORS) and failure == Failure(401, ""):
        return _turned_away(str(failure))
    if isinstance(error, _ANSWER_ERRORS) or failure == _UNLIKE_AZURE:
        return (
            TransientError,
            f"the answer is none of Azure's and cannot be read ({failure.code})",
            "Look whether the endpoint is right and what stands before it, and run again.",
        )
    return _absent_or_there(failure, action) or _refused(failure, action)


def _absent_or_there(failure: Failure, action: str) -> _Told | None:
    """Choose for what is about the object or the container, None for anything else."""
    found: _Told | None = None
    if failure.status in (409, 412) and failure.code in _EXISTS and action in ("write", "copy"):
        found = (
            ObjectExistsError,
            "there is such an object already, and it was left as it is",
            "Another writer was first.",
        )
    elif failure.code == "ContainerNotFound" or (
        failure.status == 404 and action not in ("read", "head", "copy", "undelete")
    ):
        found = SettingsError, "there is no such container", "Look at the storage namespace and the endpoint."
    elif failure.absent or (failure.status == 404 and failure.code == "CannotVerifyCopySource"):
        found = NotFoundError, "the store has no such object", "Look whether it was moved or deleted."
    elif failure.code == "SourceConditionNotMet":
        found = (
            TransientError,
            "the object was written again while it was copied",
            "Look who writes there, and run again.",
        )
    elif failure.code == "ConditionNotMet":
        found = TransientError, "the object was replaced while it was read", "Run again."
    elif failure.code == "BlobArchived":
        found = SettingsError, f"it lies in the archive tier ({failure})", "Rehydrate it and run again."
    return found


def _refused(failure: Failure, action: str) -> _Told:
    if failure.code in _LEASED:
        step = "Break the lease or wait for its end."
        return PermissionDeniedError, f"somebody holds a lease on it ({failure})", step
    if failure.status in (401, 403):
        return PermissionDeniedError, f"the store refuses ({failure})", _remedy(failure, action)
    if failure.passing and failure != _REDIRECT:
        return (
            TransientError,
            f"the store did not answer or could not now ({failure}), also when asked again",
            "Look at the endpoint and the network, and run again.",
        )
    return (
        SettingsError,
        f"the store does not take the request as it was sent ({failure})",
        "Look at the endpoint and the account.",
    )


def _of_the_store(error: HttpResponseError) -> bool:
    """Say whether it is the store that refused, not the identity provider or this machine."""
    response: Any = error.response
    return response is not None and any(name.lower().startswith("x-ms-") for name in response.headers)


def _turned_away(shown: str) -> _Told:
    return (
        PermissionDeniedError,
        f"the identity provider, or what stands before the store, refuses ({shown})",
        "Look at the tenant, the client id, and whether its secret has expired.",
    )


def _unidentified(error: ClientAuthenticationError) -> _Told:
    cause = _CAUSE.search(str(error))
    if cause or error.response is not None:
        return _turned_away(cause[0] if cause else str(failure_of(error)))
    return (
        SettingsError,
        f"there are no usable credentials for Azure ({type(error).__name__})",
        (
            "Set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, "
            "or run where there is a managed identity. lakegc does not read anonymously."
        ),
    )


def _remedy(failure: Failure, action: str) -> str:
    if failure.code == "KeyBasedAuthenticationNotPermitted":
        return "The account takes no account keys: use a service principal or a managed identity."
    if failure.code in _CREDENTIALS_REFUSED or failure.status == 401:
        return (
            "It does not take these credentials: look at the account and its key, whether the SAS or secret has expired, "
            "and at this machine's clock."
        )
    if failure.code in _NETWORK_REFUSED:
        return (
            "Look at the account's network rules, whether a SAS is bound to other addresses, and whether key or SAS are this "
            "account's and have not expired."
        )
    return f"Allow these credentials what {_PERMISSIONS.get(action, action)} allows."
