"""What S3 and its two clients say when something fails, told as the project's errors, without what could be secret.

Bodies of refusals hold key ids and the text that was signed, so only the
status, the code and the kind of failure are taken out of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
)
from obstore.exceptions import AlreadyExistsError, BaseError, UnauthenticatedError

from spark_core.errors import (
    LakegcError,
    NotFoundError,
    ObjectExistsError,
    PermissionDeniedError,
    SettingsError,
    TransientError,
)
from spark_core.storage.deletion import Answer

# What both clients raise; obstore adds built-in errors of its own.
CLIENT_ERRORS = (ClientError, BotoCoreError, BaseError, OSError)

# What a policy must allow for each action.
_PERMISSIONS = {
    "list": "s3:ListBucket",
    "head": "s3:GetObject (and s3:ListBucket)",
    "read": "s3:GetObject (and s3:ListBucket)",
    "write": "s3:PutObject",
    "copy": "s3:GetObject and s3:PutObject (of tagged objects also s3:GetObjectTagging and s3:PutObjectTagging)",
    "delete": "s3:DeleteObject",
    "versions": "s3:ListBucketVersions",
    "undelete": "s3:DeleteObjectVersion",
}
_KEYS_REFUSED = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidToken",
    "InvalidClientTokenId",
    "TokenRefreshRequired",
    "Unauthenticated",
}
# What S3 says where the bucket is not.
_ELSEWHERE = {
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "TemporaryRedirect",
}
_PASSING = {
    "SlowDown",
    "SlowDownWrite",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "RequestTimeout",
    "RequestTimeTooSkewed",
    "InternalError",
    "OperationAborted",
}
# What S3 and its likes answer for one key of a deletion.
_GONE = {"NoSuchKey", "NoSuchVersion", "NotFound"}
_REFUSED = {
    "AccessDenied",
    "AccessForbidden",
    "AllAccessDisabled",
    "ObjectLocked",
    "InvalidObjectState",
    "MethodNotAllowed",
}

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_KIND = re.compile(r"kind: (\w+)")
_REGION = re.compile(r"<Region>([a-z0-9-]+)</Region>")


@dataclass(frozen=True)
class Failure:
    """The parts of a failure that may be shown.

    Attributes:
        status: HTTP status; None when no answer came.
        code: S3's code, or the kind of failure.
        region: Where the bucket lies, when S3 said that it is not here.
        asked_for_role: Whether it was the role's token service that failed.
    """

    status: int | None
    code: str
    region: str | None = None
    asked_for_role: bool = False

    @property
    def refuses(self) -> bool:
        """Whether the store said no, and would say so again: credentials or a permission."""
        # S3 says 400 to a token that has expired.
        return self.code in _KEYS_REFUSED or (self.status in (401, 403) and self.code not in _PASSING)

    def __str__(self) -> str:
        return " ".join(filter(None, [f"HTTP {self.status}" if self.status else "no answer", self.code]))


def failure_of(error: Exception) -> Failure:
    """Take status and code out of an error of either client."""
    if isinstance(error, ClientError):
        return _of_answer(error)
    if isinstance(error, BotoCoreError):
        return Failure(None, type(error).__name__)
    text = str(error)
    status, code, region = _STATUS.search(text), _CODE.search(text) or _KIND.search(text), _REGION.search(text)
    shown, where = code[1] if code else "", region[1] if region else None
    if isinstance(error, FileNotFoundError):
        return Failure(404, shown)
    if isinstance(error, UnauthenticatedError) and status is None:
        # The credentials could not even be asked for: a role that may not be assumed any more, for instance.
        return Failure(401, "Unauthenticated")
    if "inner: BareRedirect" in text:
        return Failure(301, "PermanentRedirect", where)
    # The text holds the key too, which can be named like anything: absence is only what the class says.
    return Failure(int(status[1]) if status and status[1] != "404" else None, shown, where)


def _of_answer(error: ClientError) -> Failure:
    told = error.response.get("Error", {})
    answered = error.response.get("ResponseMetadata", {})
    region = told.get("Region") or answered.get("HTTPHeaders", {}).get("x-amz-bucket-region")
    role = error.operation_name.startswith("AssumeRole")
    return Failure(answered.get("HTTPStatusCode"), str(told.get("Code", "")), region, role)


def deletion_answer(code: str) -> Answer:
    """Return what an error of one key in the answer to a bulk deletion means."""
    if code in _GONE:
        return Answer("already_gone")
    if code in _REFUSED or code in _KEYS_REFUSED:
        return Answer("refused", code)
    return Answer("failed", code, passing=code in _PASSING)


def explained(error: Exception, action: str, key: str, root: str, *, region: str | None = None) -> LakegcError:
    """Return the project's error for an error of either client.

    Args:
        error: What was raised.
        action: list, head, read, write, copy or delete.
        key: What it was about.
        root: The namespace.
        region: Where the bucket is known to lie, if the error itself does not say it.
    """
    failure = failure_of(error)
    failure = replace(failure, region=failure.region or region)
    kind, found, step = _told(error, failure, action)
    return kind(f"{action} {key!r} of {root}: {found}", step)


def _told(error: Exception, failure: Failure, action: str) -> tuple[type[LakegcError], str, str]:
    """Choose the error, what was found, and the next step."""
    found: tuple[type[LakegcError], str, str]
    if isinstance(error, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError):
        found = SettingsError, f"there are no usable credentials ({failure.code})", "Look at the AWS settings."
    elif isinstance(error, AlreadyExistsError) or failure.status == 412:
        found = (
            ObjectExistsError,
            "there is such an object already, and it was left as it is",
            "Another writer was first.",
        )
    elif failure.code == "NoSuchBucket" or (failure.status == 404 and action not in ("read", "head", "copy")):
        found = SettingsError, "there is no such bucket", "Look at the storage namespace and the endpoint."
    elif failure.asked_for_role and failure.refuses:
        found = (
            PermissionDeniedError,
            f"the role cannot be assumed any more ({failure})",
            "Look at s3_role_arn: at sts:AssumeRole for these credentials and at the role's trust policy.",
        )
    elif failure.refuses:
        found = PermissionDeniedError, f"the store refuses ({failure})", _remedy(failure, action)
    elif failure.status == 404:
        found = NotFoundError, "the store has no such object", "Look whether it was moved or deleted."
    elif failure.code in _ELSEWHERE and failure.region:
        found = (
            SettingsError,
            f"the bucket lies in another region, {failure.region} ({failure})",
            f'Set s3_region = "{failure.region}", or leave it out: the bucket is asked for it.',
        )
    elif failure.status in (301, 302, 307, 308, 400) and failure.code not in _PASSING:
        found = (
            SettingsError,
            f"the store does not take the request as it was sent ({failure})",
            "Look at the region, the endpoint and the path style.",
        )
    else:
        found = (
            TransientError,
            f"the store did not answer or could not now ({failure}), also when asked again",
            "Look at the endpoint and the network, and run again.",
        )
    return found


def _remedy(failure: Failure, action: str) -> str:
    if failure.code in _KEYS_REFUSED:
        return "It does not take these credentials: look at the key, its secret and whether they have expired."
    return f"Allow {_PERMISSIONS[action]} for these credentials."
