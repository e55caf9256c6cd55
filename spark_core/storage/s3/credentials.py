"""Which of this machine's AWS credentials go along when a store is sent to other machines."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from spark_core.errors import SettingsError
from spark_core.storage.options import StoreOptions

# botocore's names of the sources from which a machine has an identity by itself.
_MACHINE_IDENTITIES = frozenset({"iam-role", "container-role", "assume-role-with-web-identity"})


def credentials_to_carry(options: StoreOptions) -> dict[str, Any]:
    """Find which of this machine's credentials, region and endpoint go along to another one.

    Returns:
        Values by the names of `StoreOptions`.

    Raises:
        SettingsError: If what the environment names cannot be used.
    """
    variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    known = _Aws.of(options.s3_profile, tuple(sorted(variables.items())), os.getpid())
    found: dict[str, Any] = {
        "s3_region": options.s3_region or known.region,
        "s3_endpoint": options.s3_endpoint or known.endpoint,
        # Without an endpoint it is AWS, whatever the other machine's environment says: every task
        # must mean the same store.
        "s3_own_endpoint_only": True,
    }
    if options.s3_access_key_id is None and known.credentials is not None:
        own = known.credentials.method in _MACHINE_IDENTITIES
        if not own or options.carry_credentials == "always":
            found |= {**_keys_of(known.credentials), "s3_profile": None}
    return found


def _keys_of(credentials: Any) -> dict[str, str | None]:
    """Return the current keys; botocore renews keys that are about to expire."""
    try:
        keys = credentials.get_frozen_credentials()
    except (BotoCoreError, ClientError) as error:
        raise _unusable(error) from None
    return {
        "s3_access_key_id": keys.access_key,
        "s3_secret_access_key": keys.secret_key,
        "s3_session_token": keys.token,
    }


def _unusable(error: Exception) -> SettingsError:
    return SettingsError(
        f"the AWS credentials of this machine cannot be used ({error})",
        "Log in again, or correct the AWS configuration.",
    )


class _Aws:
    """What this machine's AWS environment and configuration files say.

    Attributes:
        credentials: botocore's, which renew themselves; None if there are none.
        region: Region of the profile or the environment.
        endpoint: Endpoint of the profile or the environment, if it is not AWS's.
    """

    def __init__(self, profile: str | None) -> None:
        try:
            session = boto3.Session(profile_name=profile)
            self.credentials: Any = session.get_credentials()
            self.region: str | None = session.region_name
            self.endpoint = _configured_endpoint(session)
        except BotoCoreError as error:
            raise _unusable(error) from None

    @staticmethod
    @lru_cache(maxsize=4)
    def of(profile: str | None, _environment: tuple[tuple[str, str], ...], _process: int) -> _Aws:
        """Read it once per environment: getting a role's credentials takes the network."""
        return _Aws(profile)


def _configured_endpoint(session: boto3.Session) -> str | None:
    """Return the endpoint of environment or profile, compared with a client that ignores both."""
    region = session.region_name or "us-east-1"
    # Neither client is used. Placeholders keep them from asking for a machine's identity for
    # nothing.
    keys = {"aws_access_key_id": "-", "aws_secret_access_key": "-"}
    chosen = session.client("s3", region_name=region, **keys).meta.endpoint_url
    usual = session.client(
        "s3", region_name=region, config=Config(ignore_configured_endpoint_urls=True), **keys
    ).meta.endpoint_url
    return None if chosen == usual else str(chosen)
