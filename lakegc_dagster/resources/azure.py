"""Dagster's resources for Azure as credentials of the stores.

A code location that has such a resource need not repeat it in the settings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import dagster as dg

from spark_core.errors import SettingsError
from spark_core.storage import StoreOptions

if TYPE_CHECKING:
    # The import takes half a second, so only users of such a resource pay for it.
    from dagster_azure.adls2 import ADLS2Resource
    from dagster_azure.blob import AzureBlobStorageResource

    AzureResource: TypeAlias = AzureBlobStorageResource | ADLS2Resource

# The arguments of Azure's usual chain that lakegc hands on.
_CLIENT_IDS = ("managed_identity_client_id", "workload_identity_client_id")


class NoAzure(dg.ConfigurableResource[Any]):
    """Stands for no Azure resource: the settings and Azure's usual chain give the credentials."""


def with_azure(options: StoreOptions, azure: AzureResource | NoAzure) -> StoreOptions:
    """Put what an Azure resource says over the options.

    The namespaces must lie in its account: a namespace in another account is refused when it is
    opened, and is not looked for in this one.

    Args:
        options: From the settings.
        azure: As Dagster users configure it.

    Raises:
        SettingsError: If the resource is anonymous, or has arguments for Azure's usual chain that
            lakegc cannot hand on.
    """
    if isinstance(azure, NoAzure):
        return options
    from dagster_azure.adls2 import ADLS2Resource

    if isinstance(azure, ADLS2Resource):
        url, signature = f"https://{azure.storage_account}.blob.{azure.endpoint_suffix}", ""
    else:
        parts = urlsplit(
            azure.account_url if "://" in azure.account_url else f"https://{azure.account_url}"
        )
        url, signature = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", parts.query
    plain = replace(
        options,
        azure_endpoint=url,
        azure_account_key=None,
        azure_sas_token=None,
        azure_client_secret=None,
    )
    credential: Any = azure.credential
    kind = (
        "sas"
        if signature and credential.credential_type == "anonymous"
        else credential.credential_type
    )
    if kind == "key":
        return replace(plain, azure_account_key=_given(credential.key, kind, url))
    if kind == "sas":
        return replace(plain, azure_sas_token=_given(signature or credential.token, kind, url))
    if kind == "default_azure_credential":
        return replace(
            plain, azure_client_id=_client_id(credential.kwargs, url) or options.azure_client_id
        )
    raise SettingsError(
        f"the Azure resource for {url} is anonymous, and lakegc reads no store as nobody",
        "Give it a key, a SAS or the default credential.",
    )


def _given(value: str | None, kind: str, url: str) -> str:
    if not value:
        raise SettingsError(
            f"the Azure resource for {url} is to use a {kind} and has none", "Give it one."
        )
    return value


def _client_id(arguments: dict[str, Any], url: str) -> str | None:
    """Find the identity that the arguments of `DefaultAzureCredential` mean."""
    unknown = sorted(arguments.keys() - set(_CLIENT_IDS))
    meant = {arguments[name] for name in _CLIENT_IDS if name in arguments}
    if unknown or len(meant) > 1:
        what = f"the arguments {', '.join(unknown)}" if unknown else "two client ids"
        raise SettingsError(
            f"the Azure resource for {url} gives {what} to Azure's usual chain, which lakegc "
            "cannot hand on to Spark's executors",
            f"Leave one of {', '.join(_CLIENT_IDS)}, and set the rest in the environment.",
        )
    return next(iter(meant), None)
