"""Say where the credentials for a store come from, without showing them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from spark_core.errors import SettingsError
from spark_core.extras import require
from spark_core.storage import StoreOptions

# botocore's names for the sources of credentials.
_AWS = {
    "explicit": "the settings of this code location",
    "env": "the environment (AWS_ACCESS_KEY_ID)",
    "shared-credentials-file": "the AWS credentials file",
    "config-file": "the AWS configuration file",
    "iam-role": "the role of this machine",
    "container-role": "the role of this container",
    "assume-role": "a role that the AWS configuration assumes",
    "assume-role-with-web-identity": "a web identity (service account)",
    "sso": "an AWS SSO login",
    "custom-process": "a program that the AWS configuration names",
}


def credential_source(
    scheme: str, options: StoreOptions, env: Mapping[str, str] | None = None
) -> str:
    """Say where the credentials for a store come from.

    Args:
        scheme: Scheme of the storage namespace.
        options: How the store is reached.
        env: The environment; None for that of this process.

    Raises:
        SettingsError: If there are no credentials, or their configuration cannot be used.
    """
    variables = os.environ if env is None else env
    if scheme == "local":
        return f"none are needed: files, as the system's user {os.geteuid()}"
    if scheme == "s3":
        return _aws(options)
    return _google(options, variables) if scheme == "gs" else _azure(options, variables)


def _aws(options: StoreOptions) -> str:
    require("s3", "Namespaces s3://")
    import boto3
    from botocore.exceptions import BotoCoreError

    role = f", to assume the role {options.s3_role_arn}" if options.s3_role_arn else ""
    if options.s3_access_key_id:
        return _AWS["explicit"] + role
    try:
        found = boto3.Session(profile_name=options.s3_profile).get_credentials()
    except BotoCoreError as error:
        raise SettingsError(
            f"the AWS configuration cannot be used ({error})",
            "Correct it, or s3_profile in [storage].",
        ) from None
    if found is None:
        raise SettingsError(
            "no credentials for S3 were found",
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or run where an instance "
            "role gives them.",
        )
    profile = f", profile {options.s3_profile}" if options.s3_profile else ""
    return _AWS.get(str(found.method), str(found.method)) + profile + role


def _azure(options: StoreOptions, env: Mapping[str, str]) -> str:
    for value, words in (
        (options.azure_account_key, "an account key, from the settings of this code location"),
        (
            options.azure_sas_token,
            "a shared access signature, from the settings of this code location",
        ),
        (
            options.azure_client_secret,
            "a service principal, from the settings of this code location",
        ),
    ):
        if value:
            return words
    for names, words in (
        (("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"), "an account key"),
        (("AZURE_STORAGE_SAS_TOKEN",), "a shared access signature"),
        (("AZURE_CLIENT_SECRET",), "a service principal"),
        (("AZURE_FEDERATED_TOKEN_FILE",), "a workload identity"),
    ):
        named = [name for name in names if env.get(name)]
        if named:
            return f"{words}, from the environment ({named[0]})"
    return (
        "the usual Azure chain (managed identity, `az login`); the listing below shows whether it "
        "gives any"
    )


def _google(options: StoreOptions, env: Mapping[str, str]) -> str:
    named = options.gcs_service_account_file or env.get("GOOGLE_APPLICATION_CREDENTIALS")
    if named:
        where = (
            "the settings" if options.gcs_service_account_file else "GOOGLE_APPLICATION_CREDENTIALS"
        )
        if not Path(named).is_file():
            raise SettingsError(
                f"the key file {named}, named by {where}, is not there", "Correct the name."
            )
        return f"the key file named by {where}"
    return (
        "the usual Google chain (`gcloud auth application-default login`, metadata server); the "
        "listing below shows whether it gives any"
    )
