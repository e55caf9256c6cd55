"""The proxy through which the server is called: the one of the environment, as lakectl takes it.

urllib3 does not look for one by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from urllib3.util import make_headers

from spark_core.errors import SettingsError


@dataclass(frozen=True)
class Proxy:
    """A proxy.

    Attributes:
        url: Its URL, without user and password.
        headers: What logs in to it; never shown.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)


def proxy_of(url: str) -> Proxy | None:
    """Return the proxy for a URL, by `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`.

    A server on loopback is reached without one, whatever the environment says: no proxy reaches
    that machine.

    Raises:
        SettingsError: If the environment's proxy is none that can be used.
    """
    parts = urlsplit(url)
    host, proxies = parts.hostname or "", getproxies_environment()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if not named or _is_loopback(host) or _is_left_out(host, parts.port, proxies.get("no", "")):
        return None
    found = urlsplit(named if "://" in named else f"http://{named}")
    if found.scheme not in {"http", "https"} or not found.hostname:
        raise SettingsError(
            f"{parts.scheme.upper()}_PROXY or ALL_PROXY names no proxy that speaks HTTP",
            "Write it as http://proxy.example.com:3128.",
        )
    place = found._replace(netloc=found.netloc.rpartition("@")[2]).geturl()
    if found.username is None:
        return Proxy(place, {})
    login = f"{unquote(found.username)}:{unquote(found.password or '')}"
    return Proxy(place, dict(make_headers(proxy_basic_auth=login)))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_left_out(host: str, port: int | None, no_proxy: str) -> bool:
    """Say whether `NO_PROXY` names a host: itself, a domain above it, or a block of addresses."""
    if proxy_bypass(host if port is None else f"{host}:{port}"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(address in block for block in map(_block, no_proxy.split(",")) if block is not None)


def _block(entry: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(entry.strip(), strict=False) if "/" in entry else None
    except ValueError:
        return None
