"""Hold the options of the server: how to reach it, and how long to wait for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from spark_core.errors import SettingsError
from spark_core.lakefs.tokens import TokenSource
from spark_core.pasted_keys import require_plain

_API = "/api/v1"


@dataclass(frozen=True)
class ServerOptions:
    """Address of the lakeFS server, how to log in, and how long to wait for it.

    Attributes:
        endpoint: URL of the server, with or without `/api/v1`.
        access_key_id: Key of a lakeFS user; empty where tokens are sent instead.
        secret_access_key: Its secret; never shown.
        token: Where bearer tokens come from that are sent instead of the keys.
        ca_certificate: File with certificates to trust instead of the system's; None for the
            system's.
        client_certificate: File with the certificate that this machine shows a server that demands
            one.
        client_key: File with its key; None if that is in the same file.
        connect_timeout: How long a connection may take; no setting, as one that takes longer is
            one to a server that is away (`longest_outage`).
        read_timeout: How long an answer may take. A page of prepare_uncommitted
            takes up to a minute (`ugc.prepare_interval`), so a value near 60 s
            breaks large repositories.
        prepare_deadline: How long a task of the server (prepare_commits, refs
            dump) may take altogether. A task whose server process died stays
            unfinished for ever, so a limit is needed.
        first_poll: Pause before the state of a task is read for the first time; doubles each time.
        longest_poll: Longest of these pauses.
        max_pages: Pages after which a list or scan counts as endless.
        tries: How often a repeatable call is made when the server is overloaded or fails.
        first_backoff: Pause before the second try; doubles each time.
        longest_backoff: Longest of these pauses.
        longest_outage: How long a server that answered before may be away, for instance to restart.

    Examples:
        >>> "secret-key" in repr(ServerOptions("https://lakefs.example.com", "key", "secret-key"))
        False
    """

    endpoint: str
    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    token: TokenSource | None = field(default=None, repr=False)
    ca_certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    connect_timeout: timedelta = timedelta(seconds=10)
    read_timeout: timedelta = timedelta(seconds=120)
    prepare_deadline: timedelta = timedelta(minutes=20)
    first_poll: timedelta = timedelta(milliseconds=100)
    longest_poll: timedelta = timedelta(seconds=10)
    max_pages: int = 100_000
    tries: int = 5
    first_backoff: timedelta = timedelta(milliseconds=500)
    longest_backoff: timedelta = timedelta(seconds=20)
    longest_outage: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.endpoint)
            host = parts.hostname
            parts.port  # noqa: B018 - reading it is what validates it
        except ValueError:
            raise SettingsError(
                "endpoint is not a URL; write it as https://lakefs.example.com"
            ) from None
        if parts.username or parts.password:
            raise SettingsError(
                f"endpoint of {host} carries a user name or password: URLs end up in messages and "
                "logs. Give the keys as access_key_id and secret_access_key."
            )
        if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
            raise SettingsError(
                f"endpoint {self.endpoint!r} is not the URL of a server; write it as "
                "https://lakefs.example.com"
            )
        self._require_one_login()
        for name in (
            "connect_timeout",
            "read_timeout",
            "prepare_deadline",
            "first_poll",
            "longest_poll",
        ):
            if getattr(self, name) <= timedelta(0):
                raise SettingsError(
                    f"{name} is {getattr(self, name)}; it has to be longer than nothing"
                )
        for name in ("max_pages", "tries"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it has to be at least 1")

    def _require_one_login(self) -> None:
        keys = self.access_key_id, self.secret_access_key
        if self.token is not None and any(keys):
            raise SettingsError(
                f"keys and a token for {self.endpoint}, and only one can be meant", "Leave one."
            )
        if self.token is None and not all(keys):
            raise SettingsError(
                f"no keys for {self.endpoint}: access_key_id and secret_access_key are both "
                "needed. Set them in the environment or in the file that the settings name."
            )
        for name in ("access_key_id", "secret_access_key"):
            require_plain(getattr(self, name), f"the {name} for {self.endpoint}")

    def require_files(self) -> None:
        """Make sure that the files of certificates are there; urllib3 would say it of a connection.

        Raises:
            SettingsError: If one cannot be read, or a key has no certificate.
        """
        if self.client_key is not None and self.client_certificate is None:
            raise SettingsError(
                "client_key is set and client_certificate is not", "Set both, or neither."
            )
        for name in ("ca_certificate", "client_certificate", "client_key"):
            file = getattr(self, name)
            try:
                if file is not None:
                    Path(file).open("rb").close()
            except OSError as problem:
                raise SettingsError(
                    f"{name} {file} cannot be read ({problem.strerror})", "Correct the name."
                ) from None

    @property
    def url(self) -> str:
        """URL of the server, below which its pages lie; it has no slash at its end."""
        return self.endpoint.rstrip("/").removesuffix(_API)

    @property
    def api_url(self) -> str:
        """Base URL of the API."""
        return f"{self.url}{_API}"
