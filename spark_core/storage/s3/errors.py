"""Failures of S3 and its two clients as the project's errors, without secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.exceptions import ConnectionError as NoConnectionError
from botocore.parsers import ResponseParserError
from obstore.exceptions import AlreadyExistsError, BaseError, UnauthenticatedError

from spark_core.errors import IncompleteReadError, PermissionDeniedError, SettingsError
from spark_core.storage import failures
from spark_core.storage.deletion import KeyAnswer
from spark_core.storage.failures import ABSENT, EXISTS, Explanation
from spark_core.storage.s3.listing_pages import STATUS

# Those of boto3's parser, for an answer that is not as S3 writes it.
_ANSWER_ERRORS = (ResponseParserError, ValueError)
# The errors that both clients raise; obstore adds built-in errors of its own.
CLIENT_ERRORS = (ClientError, BotoCoreError, BaseError, OSError, *_ANSWER_ERRORS)

# What a policy must allow for each action.
_PERMISSIONS = {
    "list": "s3:ListBucket",
    "head": "s3:GetObject (and s3:ListBucket)",
    "read": "s3:GetObject (and s3:ListBucket)",
    "write": "s3:PutObject",
    "copy": (
        "s3:GetObject and s3:PutObject (of tagged objects also s3:GetObjectTagging and "
        "s3:PutObjectTagging)"
    ),
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
# S3's code in a region where the bucket is not.
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
# Answers of S3 and similar stores for one key of a deletion.
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
class S3Failure(failures.StoreFailure):
    """A failure as S3 reports it.

    Attributes:
        region: Where the bucket lies, if S3 said that it is elsewhere.
        asked_for_role: Whether the role's token service failed.
    """

    region: str | None = None
    asked_for_role: bool = False

    @property
    def refuses(self) -> bool:
        """Whether the store said no, and would say so again: credentials or a permission."""
        # S3 answers 400 for an expired token.
        return self.code in _KEYS_REFUSED or (
            self.status in (401, 403) and self.code not in _PASSING
        )


def failure_of(error: Exception) -> S3Failure:
    """Read status and code from an error of either client."""
    if isinstance(error, ClientError):
        return _of_answer(error)
    text = str(error)
    if isinstance(error, BotoCoreError | ResponseParserError | ValueError):
        # What follows the words of a parser may be the answer itself.
        return S3Failure(
            None,
            text.partition(":")[0] if isinstance(error, _ANSWER_ERRORS) else type(error).__name__,
        )
    status, code, region = (
        _STATUS.search(text),
        _CODE.search(text) or _KIND.search(text),
        _REGION.search(text),
    )
    shown, where = code[1] if code else "", region[1] if region else None
    if isinstance(error, FileNotFoundError):
        return S3Failure(404, shown)
    if isinstance(error, UnauthenticatedError) and status is None:
        # No credentials could be had: a role that may not be assumed any more, for instance.
        return S3Failure(401, "Unauthenticated")
    if "inner: BareRedirect" in text:
        return S3Failure(301, "PermanentRedirect", where)
    # The text also holds the key, which can have any name. So only the class tells absence.
    return S3Failure(int(status[1]) if status and status[1] != "404" else None, shown, where)


def _of_answer(error: ClientError) -> S3Failure:
    fields = error.response.get("Error", {})
    answered = error.response.get("ResponseMetadata", {})
    region = fields.get("Region") or answered.get("HTTPHeaders", {}).get("x-amz-bucket-region")
    role = error.operation_name.startswith("AssumeRole")
    status, code = answered.get("HTTPStatusCode"), str(fields.get("Code", ""))
    if code == str(status):
        # The client puts the status where it can read no code.
        status = error.response.get(STATUS, status)
        code = "with a body that breaks off" if status == 200 else ""
    return S3Failure(status, code, region, role)


def is_passing(error: Exception, failure: S3Failure) -> bool:
    """Say whether a request may do better later: the store was busy, failed, or did not answer."""
    if isinstance(error, NoConnectionError | HTTPClientError):
        return True
    return failure.code in _PASSING or failure.status in (200, 429) or (failure.status or 0) >= 500


def deletion_answer(code: str) -> KeyAnswer:
    """Return what an error of one key in the answer to a bulk deletion means."""
    if code in _GONE:
        return KeyAnswer("already_gone")
    if code in _REFUSED or code in _KEYS_REFUSED:
        return KeyAnswer("refused", code)
    return KeyAnswer("failed", code, passing=code in _PASSING)


def explain(error: Exception, failure: S3Failure, action: str) -> Explanation:
    """Choose the error, what was found, and the next step.

    Args:
        error: What a client raised.
        failure: Its parts.
        action: One of those that need a permission.
    """
    found: Explanation
    if isinstance(error, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError):
        found = (
            SettingsError,
            f"there are no usable credentials ({failure.code})",
            "Look at the AWS settings.",
        )
    elif isinstance(error, _ANSWER_ERRORS):
        found = (
            IncompleteReadError,
            f"the answer is none of S3's and cannot be read ({failure.code})",
            "Look whether the endpoint is right and what stands before it.",
        )
    elif isinstance(error, AlreadyExistsError) or failure.status == 412:
        found = EXISTS
    elif failure.code == "NoSuchBucket" or (
        failure.status == 404 and action not in ("read", "head", "copy")
    ):
        found = failures.no_place("bucket")
    elif failure.asked_for_role and failure.refuses:
        found = (
            PermissionDeniedError,
            f"the role cannot be assumed any more ({failure})",
            (
                "Look at s3_role_arn: at sts:AssumeRole for these credentials and at the role's "
                "trust policy."
            ),
        )
    elif failure.refuses:
        found = failures.refused(failure, _remedy(failure, action))
    elif failure.status == 404:
        found = ABSENT
    elif failure.code in _ELSEWHERE and failure.region:
        found = (
            SettingsError,
            f"the bucket lies in another region, {failure.region} ({failure})",
            f'Set s3_region = "{failure.region}", or leave it out: the bucket is asked for it.',
        )
    elif failure.status in (301, 302, 307, 308, 400) and failure.code not in _PASSING:
        found = failures.not_taken(failure, "Look at the region, the endpoint and the path style.")
    else:
        found = failures.no_answer(failure)
    return found


def _remedy(failure: S3Failure, action: str) -> str:
    if failure.code in _KEYS_REFUSED:
        return (
            "It does not take these credentials: look at the key, its secret and whether they "
            "have expired."
        )
    return f"Allow {_PERMISSIONS[action]} for these credentials."
