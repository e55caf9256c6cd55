"""URLs of the settings that may name a user, and never a password."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

# No URL holds these: Python's own reader drops some of them in silence.
_NO_URL = re.compile(r"[\s\x00-\x1f\x7f\\]")


@dataclass(frozen=True)
class UrlWithUser:
    """The parts of a URL.

    Attributes:
        scheme: What stands before `://`.
        user: The user before `@`, decoded; None if it names nobody.
        host: Host, without the brackets of an address.
        port: Port; None if it names none.
        path: Path, as it is written.
    """

    scheme: str
    user: str | None
    host: str
    port: int | None
    path: str

    @property
    def address(self) -> str:
        """The URL without its user."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def split_url(url: str, *, schemes: tuple[str, ...], named_in: str) -> UrlWithUser:
    """Return the parts of a URL that may name a user.

    Args:
        url: The URL.
        schemes: What may stand before `://`; the first is the usual one.
        named_in: Setting that names the variable with the user's password, for the refusal.

    Raises:
        ValueError: If it is no such URL, or has a password in it. The text never quotes the URL.

    Examples:
        >>> split_url("smtp://me%40example.com@host:25", schemes=("smtp",), named_in="p").user
        'me@example.com'
    """
    wanted = f"a URL like {schemes[0]}://USER@HOST"
    try:
        parts = urlsplit(url)
        port = parts.port
        # As a socket does, so that a name that none can be is refused here.
        (parts.hostname or "").encode("idna")
    except ValueError:
        raise ValueError(wanted) from None
    if parts.password is not None:
        raise ValueError(
            "a URL without a password: put that into an environment variable, and the variable's "
            f"name into {named_in}"
        )
    # A password with a slash in it ends the host too early, and stands in the path then.
    is_in_path = "@" in parts.path.replace("@base64/", "/")
    if _NO_URL.search(url) or is_in_path or parts.query or parts.fragment:
        raise ValueError(wanted)
    if parts.scheme not in schemes or not parts.hostname:
        raise ValueError(wanted)
    user = unquote(parts.username) if parts.username else None
    return UrlWithUser(parts.scheme, user, parts.hostname, port, parts.path)
