"""What Hadoop's keys say about S3, Azure and GCS stores; no message ever contains credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spark_core.errors import SettingsError

if TYPE_CHECKING:
    from spark_core.storage import StoreOptions

_S3A = "fs.s3a."
_AZURE = "fs.azure."
_GCS_FILES = (
    "google.cloud.auth.service.account.json.keyfile",
    "fs.gs.auth.service.account.json.keyfile",
)

_S3_SECRETS = {
    "access.key": "s3_access_key_id",
    "secret.key": "s3_secret_access_key",
    "session.token": "s3_session_token",
}
# What is read beside them.
_S3_USED = {
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "connection.ssl.enabled",
    "aws.credentials.provider",
    "assumed.role.arn",
    "assumed.role.sts.endpoint",
}
_AWS_ITSELF = {"s3.amazonaws.com", "https://s3.amazonaws.com", "http://s3.amazonaws.com"}
# The AWS chain does the work of these providers by itself, or the keys below say it.
_PROVIDERS = (
    "SimpleAWSCredentialsProvider",
    "TemporaryAWSCredentialsProvider",
    "AssumedRoleCredentialProvider",
    "EnvironmentVariableCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "EC2ContainerCredentialsProviderWrapper",
    "ContainerCredentialsProvider",
    "DefaultAWSCredentialsProviderChain",
    "DefaultCredentialsProvider",
    "ProfileCredentialsProvider",
    "ProfileAWSCredentialsProvider",
    "WebIdentityTokenCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
    "StaticCredentialsProvider",
)
_AZURE_HOST = re.compile(r"\.(?P<account>[a-z0-9]+)\.(?:dfs|blob)\.[a-z0-9.-]+$")
_TENANT = re.compile(r"^https?://[^/]+/(?P<tenant>[^/]+)/oauth2(?:/v2\.0)?/token/?$")
_AZURE_SECRETS = {
    "account.key": "azure_account_key",
    "sas.fixed.token": "azure_sas_token",
    "account.oauth2.client.id": "azure_client_id",
    "account.oauth2.client.secret": "azure_client_secret",
    "account.oauth2.client.endpoint": "azure_tenant_id",
    "account.oauth2.msi.tenant": "azure_tenant_id",
}
_AZURE_READ = ("account.auth.type", "account.oauth.provider.type")


@dataclass(frozen=True)
class StoreKeys:
    """What the keys say about object stores.

    Attributes:
        settings: Setting (as in an environment variable, without its prefix) -> its text, and the
            key that said so.
        ignored: Key -> why it has no effect.
        notes: Sentences about keys that became something else than their words say.
    """

    settings: Mapping[str, tuple[str, str]]
    ignored: Mapping[str, str]
    notes: tuple[str, ...] = ()
    _s3: Mapping[str, str] = field(default_factory=dict, repr=False)
    # By account; "" holds for every account that has nothing of its own.
    _azure: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def over(self, options: StoreOptions, storage_namespace: str) -> StoreOptions:
        """Put the credentials over options of a store.

        Args:
            options: From the settings.
            storage_namespace: Tells which Azure account is meant.
        """
        from dataclasses import replace

        host = urlsplit(storage_namespace).hostname or ""
        account = {**self._azure.get("", {}), **self._azure.get(host.partition(".")[0], {})}
        own: dict[str, Any] = {**self._s3, **account}
        return replace(options, **own)


def read_store_keys(keys: Mapping[str, str], region: str | None) -> StoreKeys:
    """Read the keys of all stores.

    Args:
        keys: Hadoop configuration by key.
        region: Of the bucket, from the command line.

    Raises:
        SettingsError: If a key asks for what lakegc does not do, such as deleting without
            credentials.
    """
    settings: dict[str, tuple[str, str]] = {}
    ignored: dict[str, str] = {}
    notes: list[str] = []
    if region:
        settings["STORAGE__S3_REGION"] = region, "REGION"
    s3 = _read_s3(keys, settings, ignored, notes)
    azure = _read_azure(keys, ignored)
    for key in _GCS_FILES:
        if keys.get(key):
            settings["STORAGE__GCS_SERVICE_ACCOUNT_FILE"] = keys[key], key
            break
    for key in sorted(keys):
        if key.startswith(("fs.gs.", "google.cloud.")) and key not in _GCS_FILES:
            ignored[key] = "of Hadoop's GCS connector, which lakegc does not use"
    return StoreKeys(settings, ignored, tuple(notes), s3, azure)


def _read_s3(
    keys: Mapping[str, str],
    settings: dict[str, tuple[str, str]],
    ignored: dict[str, str],
    notes: list[str],
) -> dict[str, str]:
    given = {
        key.removeprefix(_S3A): value.strip() for key, value in keys.items() if key.startswith(_S3A)
    }
    secrets = _s3_secrets(given)
    _read_providers(given.get("aws.credentials.provider", ""), notes)
    if (endpoint := given.get("endpoint", "")) and endpoint.lower().rstrip("/") not in _AWS_ITSELF:
        plain = given.get("connection.ssl.enabled", "").lower() == "false"
        url = endpoint if "://" in endpoint else f"{'http' if plain else 'https'}://{endpoint}"
        settings["STORAGE__S3_ENDPOINT"] = url, f"{_S3A}endpoint"
        if url.startswith("http://"):
            settings["STORAGE__ALLOW_HTTP"] = "true", f"{_S3A}endpoint"
    if style := given.get("path.style.access", ""):
        settings["STORAGE__S3_PATH_STYLE"] = style.lower(), f"{_S3A}path.style.access"
    if arn := given.get("assumed.role.arn", ""):
        settings["STORAGE__S3_ROLE_ARN"] = arn, f"{_S3A}assumed.role.arn"
    if sts := given.get("assumed.role.sts.endpoint", ""):
        settings["STORAGE__S3_STS_ENDPOINT"] = (
            sts if "://" in sts else f"https://{sts}",
            f"{_S3A}assumed.role.sts.endpoint",
        )
    if (named := given.get("endpoint.region", "")) and "STORAGE__S3_REGION" not in settings:
        settings["STORAGE__S3_REGION"] = named, f"{_S3A}endpoint.region"
    for name in sorted(given.keys() - _S3_SECRETS.keys() - _S3_USED):
        ignored[f"{_S3A}{name}"] = (
            "of one bucket; give it without bucket.NAME"
            if name.startswith("bucket.")
            else "of Hadoop's S3A, which lakegc does not use"
        )
    return secrets


def _s3_secrets(given: Mapping[str, str]) -> dict[str, str]:
    secrets = {option: given[name] for name, option in _S3_SECRETS.items() if given.get(name)}
    if ("s3_access_key_id" in secrets) != ("s3_secret_access_key" in secrets):
        raise SettingsError(
            "only one of fs.s3a.access.key and fs.s3a.secret.key is set",
            "Set both, or neither to use the AWS chain (environment, profile, role).",
        )
    return secrets


def _read_providers(text: str, notes: list[str]) -> None:
    """Say for each class that gives credentials what stands in its place.

    Raises:
        SettingsError: If objects are to be deleted without credentials.
    """
    for provider in filter(None, (part.strip() for part in text.split(","))):
        name = provider.rpartition(".")[2]
        if name.startswith("Anonymous"):
            raise SettingsError(
                f"fs.s3a.aws.credentials.provider names {name}: nothing is deleted without "
                "credentials",
                "Take it out, or name another.",
            )
        if name not in _PROVIDERS:
            notes.append(
                f"fs.s3a.aws.credentials.provider names {provider}, a Java class; lakegc "
                "uses fs.s3a.access.key and fs.s3a.secret.key if they are set, else the AWS chain "
                "(environment, profile, role)"
            )


def _read_azure(keys: Mapping[str, str], ignored: dict[str, str]) -> dict[str, dict[str, str]]:
    """Read the credentials of every Azure account; "" holds the values for all accounts."""
    found: dict[str, dict[str, str]] = {}
    types: dict[str, str] = {}
    for key in sorted(keys):
        if not key.startswith(_AZURE):
            continue
        host = _AZURE_HOST.search(key)
        account = host["account"] if host else ""
        name = (key[: host.start()] if host else key).removeprefix(_AZURE)
        if name in _AZURE_SECRETS:
            found.setdefault(account, {})[_AZURE_SECRETS[name]] = _tenant(
                keys[key].strip(), key, name
            )
        elif name == "account.auth.type":
            types[account] = keys[key].strip()
        elif name not in _AZURE_READ:
            ignored[key] = "of Hadoop's Azure driver, which lakegc does not use"
    for account, kind in types.items():
        if kind.lower() == "custom":
            raise SettingsError(
                f"fs.azure.account.auth.type of {account or 'all accounts'} is Custom, a Java "
                "class",
                "Use an "
                "account key, a SAS token or OAuth, or take it out to use the Azure chain "
                "(environment, managed identity).",
            )
    return {
        account: _of_kind(types.get(account, types.get("", "")), own)
        for account, own in found.items()
    }


def _of_kind(kind: str, own: Mapping[str, str]) -> dict[str, str]:
    """Keep what the kind of authentication uses: OAuth leaves out an account key beside it."""
    if kind.lower() == "oauth":
        return {
            option: text
            for option, text in own.items()
            if option in {"azure_client_id", "azure_client_secret", "azure_tenant_id"}
        }
    if kind.lower() == "sas":
        return {option: text for option, text in own.items() if option == "azure_sas_token"}
    if kind.lower() == "sharedkey" or "azure_account_key" in own:
        return {option: text for option, text in own.items() if option == "azure_account_key"}
    return dict(own)


def _tenant(text: str, key: str, name: str) -> str:
    """Return the tenant that a token endpoint belongs to; other values stay as they are."""
    if name != "account.oauth2.client.endpoint":
        return text
    found = _TENANT.match(text)
    if found is None:
        raise SettingsError(
            f"{key} is not a token endpoint like "
            "https://login.microsoftonline.com/TENANT/oauth2/token."
        )
    return found["tenant"]
