"""What of this machine's credentials goes along when a store is sent to other machines.

Executors of a cluster have neither the driver's environment nor its files. So
what the driver finds there is put into the options that travel inside the
pickled store, anew each time one is pickled: every table of a mark begins with
credentials of that moment. They never become Spark properties, which Spark
shows in its UI and writes to its event log.

An identity that a machine has by itself (instance, container and web-identity
roles, managed identity, metadata server) is left to each machine: it renews
itself there, and on Spark's executors may rightly be another one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from spark_core.errors import SettingsError

if TYPE_CHECKING:
    from spark_core.addresses.namespace import Namespace
    from spark_core.storage.contract import StoreOptions

# botocore's names of the ways in which a machine is somebody by itself.
_MACHINE_IDENTITIES = frozenset({"iam-role", "container-role", "assume-role-with-web-identity"})

_AZURE_ACCOUNTS = ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
_AZURE_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY")
_AZURE_SAS = ("AZURE_STORAGE_SAS_TOKEN",)
_GOOGLE_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
# What `gcloud auth application-default login` writes.
_GCLOUD_FILE = ".config/gcloud/application_default_credentials.json"
# Kinds of Google credential files that say everything; the others name something on this machine.
_GOOGLE_WHOLE = ("service_account", "authorized_user")


def travelling(options: StoreOptions, namespace: Namespace) -> StoreOptions:
    """Return the options as they are to reach another machine.

    Args:
        options: This machine's; `carry_credentials` says what goes along.
        namespace: Only credentials of its kind of store travel, and of an Azure account only its own.

    Raises:
        SettingsError: If what the environment names cannot be read.
    """
    if options.carry_credentials == "never":
        return options
    if namespace.scheme == "s3":
        options = _with_aws(options)
    elif namespace.scheme in ("http", "https"):
        options = replace(options, **_azure(options, namespace.bucket.partition(".")[0], os.environ))
    elif namespace.scheme == "gs":
        options = _with_google_key(options, os.environ)
    return replace(options, carry_credentials="never")


def _with_aws(options: StoreOptions) -> StoreOptions:
    said = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    known = _Aws.of(options.s3_profile, tuple(sorted(said.items())), os.getpid())
    found: dict[str, Any] = {
        "s3_region": options.s3_region or known.region,
        "s3_endpoint": options.s3_endpoint or known.endpoint,
        # Without one it is AWS, whatever the other machine's environment says: every task must mean the same store.
        "s3_own_endpoint_only": True,
    }
    if options.s3_access_key_id is None and known.credentials is not None:
        own = known.credentials.method in _MACHINE_IDENTITIES
        if not own or options.carry_credentials == "always":
            found |= {**_keys_of(known.credentials), "s3_profile": None}
    return replace(options, **found)


def _keys_of(credentials: Any) -> dict[str, str | None]:
    """Return the keys of this moment; botocore renews what is about to expire."""
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
        credentials: botocore's, which renew themselves; None when there are none.
        region: Of the profile or the environment.
        endpoint: Of the profile or the environment, when they name another than AWS's.
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
        """Read it once per environment: a role's credentials are asked for over the network."""
        return _Aws(profile)


def _configured_endpoint(session: boto3.Session) -> str | None:
    """Return the endpoint that the environment or the profile names, by comparing with a client that ignores both."""
    region = session.region_name or "us-east-1"
    # Neither client is used; placeholders keep them from asking a machine's identity for nothing.
    keys = {"aws_access_key_id": "-", "aws_secret_access_key": "-"}
    chosen = session.client("s3", region_name=region, **keys).meta.endpoint_url
    usual = session.client(
        "s3", region_name=region, config=Config(ignore_configured_endpoint_urls=True), **keys
    ).meta.endpoint_url
    return None if chosen == usual else str(chosen)


def _azure(options: StoreOptions, account: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Choose as the store's own client does on this machine."""
    if options.azure_account_key or options.azure_sas_token or options.azure_client_secret:
        return {}
    owner = next((env[name] for name in _AZURE_ACCOUNTS if env.get(name)), account)
    for field, names in (("azure_account_key", _AZURE_KEYS), ("azure_sas_token", _AZURE_SAS)):
        for name in names:
            if env.get(name) and owner == account:
                return {field: env[name]}
    tenant = options.azure_tenant_id or env.get("AZURE_TENANT_ID")
    client = options.azure_client_id or env.get("AZURE_CLIENT_ID")
    secret = env.get("AZURE_CLIENT_SECRET")
    if tenant and client and secret:
        return {"azure_tenant_id": tenant, "azure_client_id": client, "azure_client_secret": secret}
    return {}


def _with_google_key(options: StoreOptions, env: Mapping[str, str]) -> StoreOptions:
    if options.gcs_service_account_key:
        return options
    named = options.gcs_service_account_file or env.get(_GOOGLE_FILE)
    path = Path(named) if named else Path.home() / _GCLOUD_FILE
    if not named and not path.exists():
        return options
    try:
        content = path.read_text()
        kind = json.loads(content).get("type")
    except (OSError, ValueError, AttributeError) as problem:
        # The decoder's own words would quote the file.
        reason = problem.strerror if isinstance(problem, OSError) else "it is not a JSON object"
        raise SettingsError(
            f"the Google credentials file {path} cannot be read ({reason})",
            f"Correct gcs_service_account_file or {_GOOGLE_FILE}.",
        ) from None
    if kind not in _GOOGLE_WHOLE:
        return options
    return replace(options, gcs_service_account_file=None, gcs_service_account_key=content)
