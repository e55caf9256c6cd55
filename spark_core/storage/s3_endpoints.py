"""Whether two endpoints of S3 may lead to one store."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
# Both ports of the web: one store may listen on both.
_WEB = {None, 80, 443}
# A bucket's name is unique in each of these, whichever region, FIPS or private endpoint leads to
# it.
_AWS = ("amazonaws.com", "amazonaws.com.cn", "api.aws")


def may_be_one_store(one: str | None, other: str | None) -> bool:
    """Say whether one name at both endpoints may mean the same place.

    Two host names count as two stores. That is wrong if one store has several names, but nobody can
    know that from here.

    Args:
        one: URL of an endpoint; None if it is not known.
        other: Likewise.

    Examples:
        >>> may_be_one_store("https://minio.example.com", "https://MinIO.example.com:443/")
        True
        >>> may_be_one_store("https://minio.example.com:9000", "https://minio.example.com:9001")
        False
        >>> may_be_one_store(
        ...     "https://s3.us-east-1.amazonaws.com", "https://s3.eu-west-1.amazonaws.com"
        ... )
        True
        >>> may_be_one_store("http://10.0.0.5:9000", "http://minio:9000")
        True
        >>> may_be_one_store("https://minio.example.com", None)
        True
    """
    if one is None or other is None:
        return True
    (host, port), (other_host, other_port) = _place(one), _place(other)
    return port == other_port and _may_be_one_host(host, other_host)


def _may_be_one_host(one: str, other: str) -> bool:
    """Say whether two hosts may be one: a number may be any name, a bare name in any domain."""
    if one == other or _is_number(one) or _is_number(other):
        return True
    return ("." not in one or "." not in other) and one.partition(".")[0] == other.partition(".")[0]


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _place(endpoint: str) -> tuple[str, int | None]:
    parts = urlsplit(endpoint)
    host = (parts.hostname or "").rstrip(".")
    for domain in _AWS:
        if host.endswith(f".{domain}"):
            return ("amazonaws.com" if domain == "api.aws" else domain), None
    port = None if parts.port in _WEB else parts.port
    return ("localhost" if host in _LOOPBACK else host), port
