"""A role that is assumed for a bucket: credentials for an hour, renewed before they end.

The keys that may assume the role travel to executors; the role's own keys do not. Each process
assumes the role by itself, so a sweep of many hours goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from spark_core.errors import PermissionDeniedError, SettingsError, TransientError
from spark_core.storage.s3 import private_doors
from spark_core.storage.s3.errors import S3Failure, failure_of

if TYPE_CHECKING:
    from spark_core.errors import LakegcError
    from spark_core.storage.options import StoreOptions

# Name of a role's sessions in the provider's audit log.
SESSION_NAME = "lakegc"


def assume_role(
    session: boto3.Session, options: StoreOptions, default_region: str
) -> boto3.Session:
    """Open a session that has the role, with the credentials of another that may assume it.

    Args:
        session: Has the credentials that may.
        options: Names the role and, where it is not AWS's own, the endpoint of its token service.
        default_region: Where the token service is asked when nothing else says.

    Returns:
        A session whose credentials renew themselves, already asked for once.

    Raises:
        PermissionDeniedError: If the role may not be assumed.
        SettingsError: If there is no such role or endpoint.
        TransientError: If the token service does not answer.
    """

    def sts(service: str, **credentials: Any) -> Any:
        return session.client(
            service,
            region_name=session.region_name or options.s3_region or default_region,
            endpoint_url=options.s3_sts_endpoint,
            config=Config(
                connect_timeout=options.connect_timeout.total_seconds(),
                read_timeout=options.read_timeout.total_seconds(),
                retries={"mode": "standard", "total_max_attempts": options.max_retries + 1},
            ),
            **credentials,
        )

    credentials = private_doors.role_credentials(
        sts, session.get_credentials(), options.s3_role_arn or "", SESSION_NAME
    )
    failure = None
    try:
        credentials.get_frozen_credentials()
    except (BotoCoreError, ClientError) as error:
        failure = failure_of(error)
    if failure is not None:
        # Raised outside the handler: chained to the client's error, it would carry the answer's
        # body into logs.
        raise _cannot_assume(options, failure)
    return private_doors.session_of(credentials, session.region_name)


def _cannot_assume(options: StoreOptions, failure: S3Failure) -> LakegcError:
    what = f"s3_role_arn {options.s3_role_arn} cannot be assumed ({failure})."
    if failure.refuses:
        return PermissionDeniedError(
            f"{what} Allow sts:AssumeRole on it for these credentials, and name them in the role's "
            "trust policy."
        )
    if failure.status is not None and failure.status < 500:
        return SettingsError(f"{what} Look at the role's name and at s3_sts_endpoint.")
    return TransientError(f"{what} Look at the network and at s3_sts_endpoint, and run again.")
