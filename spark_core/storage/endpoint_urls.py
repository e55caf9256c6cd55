"""The URLs of stores as the settings give them."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from spark_core.errors import SettingsError
from spark_core.storage.options import StoreOptions

_USUAL_PORTS = {"http": 80, "https": 443}


def bare_url(endpoint: str) -> str:
    """Return a URL so that two of one place are alike, without user and query.

    Examples:
        >>> bare_url("https://me:secret@S3.example.com:443/?token=x")
        'https://s3.example.com'
        >>> bare_url("http://127.0.0.1:9000/behind/")
        'http://127.0.0.1:9000/behind'
    """
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, _USUAL_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def url_of(
    endpoint: str,
    name: str,
    root: str,
    options: StoreOptions,
    *,
    form: str = "",
    sent: str = "signatures",
) -> SplitResult:
    """Read the parts of an endpoint of the settings.

    Args:
        endpoint: The URL.
        name: Name of the setting.
        root: The namespace.
        options: Whether it may be without TLS.
        form: What the URL may hold after `https://HOST[:PORT]`.
        sent: What would be sent there besides data.

    Raises:
        SettingsError: If it is no such URL, or lacks TLS.
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise SettingsError(
            f"{root}: {name} is no URL of the form https://HOST[:PORT]{form} without user and "
            "query. Correct it."
        )
    if parts.scheme == "http" and not options.allow_http:
        raise SettingsError(
            f"{root}: {name} {endpoint} sends data and {sent} without TLS. "
            "Use https://, or set allow_http where nobody else can listen."
        )
    return parts
