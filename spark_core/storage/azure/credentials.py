"""Which credentials an Azure storage account gets, and which of them go to other machines."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential, TokenCredential
from azure.identity import AzureAuthorityHosts, ClientSecretCredential, DefaultAzureCredential

from spark_core.errors import SettingsError
from spark_core.storage.azure.account import Account
from spark_core.storage.options import StoreOptions

Credential: TypeAlias = AzureNamedKeyCredential | AzureSasCredential | TokenCredential

_ACCOUNTS = ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY")

_AUTHORITIES = {
    "chinacloudapi.cn": AzureAuthorityHosts.AZURE_CHINA,
    "usgovcloudapi.net": AzureAuthorityHosts.AZURE_GOVERNMENT,
}


def check_options(options: StoreOptions, root: str) -> None:
    """Refuse options that contradict each other.

    Raises:
        SettingsError: Naming the settings.
    """
    given = [
        name
        for name in ("azure_account_key", "azure_sas_token", "azure_client_secret")
        if getattr(options, name) is not None
    ]
    if len(given) > 1:
        raise SettingsError(
            f"{root}: {' and '.join(given)} are set, and only one can be meant. Leave one."
        )
    if options.azure_client_secret and not (options.azure_tenant_id and options.azure_client_id):
        raise SettingsError(
            f"{root}: azure_client_secret belongs to a service principal, whose azure_tenant_id or "
            "azure_client_id is missing. "
            "Set all three."
        )
    _check_key(options.azure_account_key, root, "azure_account_key")


def _check_key(key: str | None, root: str, name: str) -> None:
    try:
        good = key is None or bool(base64.b64decode(key, validate=True))
    except (binascii.Error, ValueError):
        good = False
    if not good:
        raise SettingsError(
            f"{root}: {name} is no account key, which is a text in base64. Copy it again from the "
            "account's access keys."
        )


def credential_of(account: Account, options: StoreOptions, env: Mapping[str, str]) -> Credential:
    """Choose credentials: from the options, then the environment, then Azure's usual chain.

    Access is never anonymous.

    Args:
        account: The account whose containers are asked for.
        options: Explicit credentials.
        env: The environment.

    Raises:
        SettingsError: If a key is not valid.
    """
    options = replace(options, **credentials_to_carry(account, options, env))
    if options.azure_account_key:
        return AzureNamedKeyCredential(account.name, options.azure_account_key)
    if options.azure_sas_token:
        return AzureSasCredential(options.azure_sas_token)
    more = _authority(account, env)
    client = options.azure_client_id or env.get("AZURE_CLIENT_ID")
    if options.azure_tenant_id and client and options.azure_client_secret:
        return ClientSecretCredential(
            options.azure_tenant_id, client, options.azure_client_secret, **more
        )
    if client:
        more |= {"managed_identity_client_id": client, "workload_identity_client_id": client}
    return DefaultAzureCredential(**more)


def credentials_to_carry(
    account: Account, options: StoreOptions, env: Mapping[str, str]
) -> dict[str, Any]:
    """Find the credentials of the environment, which other machines lack.

    There are none to find if the options have some.

    Args:
        account: A key or SAS of the environment that belongs to another account is not used.
        options: Explicit credentials.
        env: The environment.

    Returns:
        Values by the names of `StoreOptions`: a key, a SAS, or a whole service principal.

    Raises:
        SettingsError: If the environment's key is not valid.
    """
    if options.azure_account_key or options.azure_sas_token or options.azure_client_secret:
        return {}
    owner = next((env[name] for name in _ACCOUNTS if env.get(name)), account.name)
    if owner == account.name:
        for name in _KEYS:
            if key := env.get(name):
                _check_key(key, account.url, name)
                return {"azure_account_key": key}
        if token := env.get("AZURE_STORAGE_SAS_TOKEN"):
            return {"azure_sas_token": token}
    tenant = options.azure_tenant_id or env.get("AZURE_TENANT_ID")
    client = options.azure_client_id or env.get("AZURE_CLIENT_ID")
    secret = env.get("AZURE_CLIENT_SECRET")
    if tenant and client and secret:
        return {"azure_tenant_id": tenant, "azure_client_id": client, "azure_client_secret": secret}
    return {}


def _authority(account: Account, env: Mapping[str, str]) -> dict[str, Any]:
    """Return a national cloud's identity provider by the host's domain; the environment wins."""
    if env.get("AZURE_AUTHORITY_HOST"):
        return {}
    return next(
        (
            {"authority": host}
            for domain, host in _AUTHORITIES.items()
            if account.url.endswith(domain)
        ),
        {},
    )
