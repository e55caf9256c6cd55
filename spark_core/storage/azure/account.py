"""Which Azure storage account a namespace lies in, and where that account is reached."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from spark_core.addresses.namespace import Namespace
from spark_core.errors import SettingsError
from spark_core.storage.endpoint_urls import url_of
from spark_core.storage.options import StoreOptions


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
class AzurePlace:
    """Where a namespace lies.

    Attributes:
        account: The storage account.
        container: Name of the container.
        before: What stands before every key in the container: empty, or ending in a slash.
    """

    account: Account
    container: str
    before: str


def place_of(namespace: Namespace, options: StoreOptions) -> AzurePlace:
    """Find account and container of a namespace as the server does.

    The account is the host's first label, the container the path's first segment. Like the server,
    lakegc always speaks TLS to the account. Only an explicit endpoint can be without.

    Raises:
        SettingsError: If the host names no account, or the endpoint is unusable or another
            account's.
    """
    host = namespace.bucket
    account = host.partition(".")[0]
    if "." not in host or _is_address(host):
        raise SettingsError(
            f"{namespace.root}: the host {host!r} names no storage account, whose name the server "
            "takes from the host's first "
            "label",
            "An emulator is reached by azure_endpoint, with a namespace "
            "such as https://ACCOUNT.blob.core.windows.net/CONTAINER.",
        )
    container, _, inner = namespace.path.partition("/")
    url, path_style = _endpoint(namespace, account, options)
    return AzurePlace(Account(account, url, path_style), container, f"{inner}/" if inner else "")


def _is_address(host: str) -> bool:
    try:
        ip_address(host.rpartition(":")[0] if host.count(":") == 1 else host.strip("[]"))
    except ValueError:
        return False
    return True


def _endpoint(namespace: Namespace, account: str, options: StoreOptions) -> tuple[str, bool]:
    if options.azure_endpoint is None:
        return f"https://{namespace.bucket}", False
    parts = url_of(
        options.azure_endpoint, "azure_endpoint", namespace.root, options, form="[/ACCOUNT]"
    )
    path, host = parts.path.strip("/"), parts.hostname or ""
    named = path or (host.partition(".")[0] if ".blob." in host else account)
    if named != account:
        raise SettingsError(
            f"{namespace.root}: azure_endpoint leads to the account {named!r}, the namespace lies "
            f"in {account!r}; a container of "
            "the same name there would be somebody else's",
            "Correct one of them.",
        )
    return f"{parts.scheme}://{parts.netloc}{f'/{path}' if path else ''}", bool(path)
