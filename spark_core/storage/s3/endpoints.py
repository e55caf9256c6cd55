"""Whether two endpoints of S3 may lead to one store."""

from __future__ import annotations

from urllib.parse import urlsplit

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
# Both ports of the web: one store may listen on both.
_WEB = {None, 80, 443}
# A bucket's name is given once in each of these, whichever region, FIPS or private endpoint leads to it.
_AWS = ("amazonaws.com", "amazonaws.com.cn", "api.aws")


def may_be_one_store(one: str | None, other: str | None) -> bool:
    """Say whether what lies under one name at both endpoints may be the same.

    Two host names are taken for two stores. That is not so where one store has
    several names, of which nobody can know from here.

    Args:
        one: URL of an endpoint; None if it is not known.
        other: Likewise.

    Examples:
        >>> may_be_one_store("https://minio.example.com", "https://MinIO.example.com:443/")
        True
        >>> may_be_one_store("https://minio.example.com:9000", "https://minio.example.com:9001")
        False
        >>> may_be_one_store("https://s3.us-east-1.amazonaws.com", "https://s3.eu-west-1.amazonaws.com")
        True
        >>> may_be_one_store("https://minio.example.com", None)
        True
    """
    return one is None or other is None or _place(one) == _place(other)


def _place(endpoint: str) -> tuple[str, int | None]:
    parts = urlsplit(endpoint)
    host = (parts.hostname or "").rstrip(".")
    for domain in _AWS:
        if host.endswith(f".{domain}"):
            return ("amazonaws.com" if domain == "api.aws" else domain), None
    port = None if parts.port in _WEB else parts.port
    return ("localhost" if host in _LOOPBACK else host), port
