"""The clients of an Azure storage account: which account, how to show who we are, and how long to try."""

from __future__ import annotations

import base64
import binascii
import logging
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential, TokenCredential
from azure.identity import AzureAuthorityHosts, ClientSecretCredential, DefaultAzureCredential
from azure.storage.blob import BlobServiceClient, ExponentialRetry

from spark_core.errors import SettingsError
from spark_core.storage import deletion
from spark_core.storage.azure.errors import CLIENT_ERRORS, is_passing
from spark_core.storage.azure.reads import Identity, Reader, open_reader

if TYPE_CHECKING:
    from spark_core.addresses.namespace import Namespace
    from spark_core.storage.contract import StoreOptions

T = TypeVar("T")
Credential: TypeAlias = AzureNamedKeyCredential | AzureSasCredential | TokenCredential

# One wait between two tries is never longer, whatever the store asks for.
_LONGEST_WAIT_SECONDS = 60.0
# Pieces in which large objects come; the client's own 4 MiB are many requests for a table.
_PIECE_BYTES = 16 << 20

_SIGNATURE = re.compile(r"([?&]sig=)[^&\s]*")

_AUTHORITIES = {
    "chinacloudapi.cn": AzureAuthorityHosts.AZURE_CHINA,
    "usgovcloudapi.net": AzureAuthorityHosts.AZURE_GOVERNMENT,
}


@dataclass(frozen=True)
class Account:
    """A storage account.

    Attributes:
        name: Its name.
        url: Where it is reached.
        path_style: Whether the name stands in the path of `url`, as with emulators.
    """

    name: str
    url: str
    path_style: bool


@dataclass(frozen=True)
class Place:
    """Where a namespace lies.

    Attributes:
        account: The storage account.
        container: Name of the container.
        before: What stands before every key in the container: empty, or ending in a slash.
    """

    account: Account
    container: str
    before: str


def place_of(namespace: Namespace, options: StoreOptions) -> Place:
    """Find account and container of a namespace, as the server finds them: the host's first label, the path's first segment.

    Like the server, lakegc always speaks TLS to the account; only an explicit endpoint can be without.

    Raises:
        SettingsError: If the host names no account, or the endpoint is unusable or another account's.
    """
    host = namespace.bucket
    account = host.partition(".")[0]
    if "." not in host or _is_address(host):
        raise SettingsError(
            f"{namespace.root}: the host {host!r} names no storage account, whose name the server takes from the host's first "
            "label",
            "An emulator is reached by azure_endpoint, with a namespace "
            "such as https://ACCOUNT.blob.core.windows.net/CONTAINER.",
        )
    container, _, inner = namespace.path.partition("/")
    url, path_style = _endpoint(namespace, account, options)
    return Place(Account(account, url, path_style), container, f"{inner}/" if inner else "")


def _is_address(host: str) -> bool:
    try:
        ip_address(host.rpartition(":")[0] if host.count(":") == 1 else host.strip("[]"))
    except ValueError:
        return False
    return True


def _endpoint(namespace: Namespace, account: str, options: StoreOptions) -> tuple[str, bool]:
    if options.azure_endpoint is None:
        return f"https://{namespace.bucket}", False
    parts = urlsplit(options.azure_endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise SettingsError(
            f"{namespace.root}: azure_endpoint is no URL of the form https://HOST[:PORT][/ACCOUNT] without user and query. "
            "Correct it."
        )
    if parts.scheme == "http" and not options.allow_http:
        raise SettingsError(
            f"{namespace.root}: azure_endpoint {options.azure_endpoint} sends data and signatures without TLS. "
            "Use https://, or set allow_http where nobody else can listen."
        )
    path = parts.path.strip("/")
    named = path or (parts.hostname.partition(".")[0] if ".blob." in parts.hostname else account)
    if named != account:
        raise SettingsError(
            f"{namespace.root}: azure_endpoint leads to the account {named!r}, the namespace lies in {account!r}; a container of "
            "the same name there would be somebody else's",
            "Correct one of them.",
        )
    return f"{parts.scheme}://{parts.netloc}{f'/{path}' if path else ''}", bool(path)


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
        raise SettingsError(f"{root}: {' and '.join(given)} are set, and only one can be meant. Leave one.")
    if options.azure_client_secret and not (options.azure_tenant_id and options.azure_client_id):
        raise SettingsError(
            f"{root}: azure_client_secret belongs to a service principal, whose azure_tenant_id or azure_client_id is missing. "
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
            f"{root}: {name} is no account key, which is a text in base64. Copy it again from the account's access keys."
        )


def credential_of(account: Account, options: StoreOptions, environment: Mapping[str, str]) -> Credential:
    """Choose how to show who we are: what the options say, then the environment, then Azure's usual chain; never nobody.

    Args:
        account: A key or SAS of the environment that belongs to another account is not used.
        options: Explicit credentials.
        environment: The variables.

    Raises:
        SettingsError: If a key is none.
    """
    if options.azure_account_key:
        return AzureNamedKeyCredential(account.name, options.azure_account_key)
    if options.azure_sas_token:
        return AzureSasCredential(options.azure_sas_token)
    if options.azure_client_secret is None:
        of_account = _of_account(account, environment)
        if of_account is not None:
            return of_account
    return _identity(account, options, environment)


def _of_account(account: Account, environment: Mapping[str, str]) -> Credential | None:
    """Find a key or SAS of the account in the environment."""
    owner = environment.get("AZURE_STORAGE_ACCOUNT") or environment.get("AZURE_STORAGE_ACCOUNT_NAME")
    if owner not in (None, account.name):
        return None
    for name in ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"):
        if key := environment.get(name):
            _check_key(key, account.url, name)
            return AzureNamedKeyCredential(account.name, key)
    token = environment.get("AZURE_STORAGE_SAS_TOKEN")
    return AzureSasCredential(token) if token else None


def _identity(account: Account, options: StoreOptions, environment: Mapping[str, str]) -> TokenCredential:
    """Make a service principal when one is named whole, else Azure's usual chain."""
    more = _authority(account, environment)
    tenant = options.azure_tenant_id or environment.get("AZURE_TENANT_ID")
    client = options.azure_client_id or environment.get("AZURE_CLIENT_ID")
    secret = options.azure_client_secret or environment.get("AZURE_CLIENT_SECRET")
    if tenant and client and secret:
        return ClientSecretCredential(tenant, client, secret, **more)
    if client:
        more |= {"managed_identity_client_id": client, "workload_identity_client_id": client}
    return DefaultAzureCredential(**more)


def _authority(account: Account, environment: Mapping[str, str]) -> dict[str, Any]:
    """Tell the identity provider of a national cloud, which the host's domain names, unless the environment does."""
    if environment.get("AZURE_AUTHORITY_HOST"):
        return {}
    return next(({"authority": host} for domain, host in _AUTHORITIES.items() if account.url.endswith(domain)), {})


class Patience(ExponentialRetry):
    """The client's own repetition, which by itself knows no end in time and does not listen to `Retry-After`.

    obstore's requests are repeated by it too, so that both clients are equally patient.
    """

    def __init__(self, options: StoreOptions) -> None:
        retries = options.max_retries
        super().__init__(
            initial_backoff=1,
            increment_base=2,
            random_jitter_range=1,
            retry_total=retries,
            retry_connect=retries,
            retry_read=retries,
            retry_status=retries,
        )
        self._retries = retries
        self._limit_seconds = options.retry_timeout.total_seconds()

    def ask(self, question: Callable[[], T]) -> T:
        """Send a request of obstore, again where that may help; what is said after `Retry-After` obstore does not tell."""
        settings = {"count": 0, "asked": 0.0, "until": monotonic() + self._limit_seconds}
        while True:
            try:
                return question()
            except CLIENT_ERRORS as error:
                if settings["count"] >= self._retries or monotonic() >= settings["until"] or not is_passing(error):
                    raise
            settings["count"] += 1
            deletion.wait(self.get_backoff_time(settings))

    def configure_retries(self, request: Any) -> dict[str, Any]:
        """Note when to give up."""
        return {**super().configure_retries(request), "until": monotonic() + self._limit_seconds, "asked": 0.0}

    def increment(self, settings: dict[str, Any], request: Any, response: Any = None, error: Any = None) -> bool:
        """Say whether to send the request again."""
        if monotonic() >= settings["until"]:
            return False
        after = "" if response is None else str(response.headers.get("Retry-After", ""))
        settings["asked"] = float(after) if after.isdigit() else 0.0
        return bool(super().increment(settings, request, response, error))

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        """Return how many seconds to wait."""
        wanted = max(super().get_backoff_time(settings), float(settings["asked"]))
        left = float(settings["until"]) - monotonic()
        return max(0.0, min(wanted, left, _LONGEST_WAIT_SECONDS))

    def sleep(self, settings: dict[str, Any], transport: Any) -> None:  # noqa: ARG002 - the client's signature
        """Wait as deletions wait, so that both are patient in one place."""
        deletion.wait(self.get_backoff_time(settings))


class _WithoutSignature(logging.Filter):
    """Takes signatures out of what the HTTP client logs when somebody lets it log every URL."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record pass without the signature."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                _SIGNATURE.sub(r"\1...", value) if isinstance(value, str) else value for value in record.args
            )
        return True


_without_signature = _WithoutSignature()


class Clients:
    """The open clients of one account in one process.

    Attributes:
        service: Azure's own client.
        patience: How both are patient.
    """

    def __init__(self, account: Account, credential: Credential, options: StoreOptions) -> None:
        self._account, self._credential, self._options = account, credential, options
        self._readers: dict[str, Reader | None] = {}
        self._opening = threading.Lock()
        self.patience = Patience(options)
        self.service = BlobServiceClient(
            account.url,
            credential=credential,
            retry_policy=self.patience,
            connection_timeout=options.connect_timeout.total_seconds(),
            read_timeout=options.read_timeout.total_seconds(),
            max_chunk_get_size=_PIECE_BYTES,
            # The service redirects nobody; whoever does is not the account.
            permit_redirects=False,
        )

    def reader(self, container: str) -> Reader | None:
        """Return what reads blobs of plain names in a container; None where Azure's own client has to.

        Raises:
            SettingsError: If it cannot be opened as the environment is.
        """
        with self._opening:
            if container not in self._readers:
                self._readers[container] = open_reader(self._account, container, self._credential, self._options)
            return self._readers[container]


@lru_cache(maxsize=16)
def open_clients(account: Account, options: StoreOptions, _process: int) -> Clients:
    """Open the clients that all stores of an account share in this process.

    Raises:
        SettingsError: If the credentials cannot be used with this endpoint.
    """
    credential = credential_of(account, options, os.environ)
    if isinstance(credential, AzureSasCredential):
        logging.getLogger("urllib3.connectionpool").addFilter(_without_signature)
    elif not isinstance(credential, AzureNamedKeyCredential):
        credential = Identity(credential)
    try:
        return Clients(account, credential, options)
    except ValueError as error:
        problem = "tokens are only sent over TLS" if "HTTPS" in str(error) else "it is not taken"
    raise SettingsError(
        f"{account.url}: these credentials cannot be used there ({problem})",
        "Give an account key or a SAS, or an endpoint with https://.",
    )
