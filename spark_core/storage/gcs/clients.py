"""The clients of a GCS bucket and an authorized session, opened with the same credentials, endpoint and bounds."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import google.auth
from google.api_core.retry import Retry
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError
from google.auth.transport import DEFAULT_REFRESH_STATUS_CODES
from google.auth.transport.requests import AuthorizedSession
from google.cloud import storage
from google.oauth2 import credentials as user
from google.oauth2 import service_account
from requests.adapters import HTTPAdapter

from spark_core.errors import SettingsError
from spark_core.storage.contract import StoreOptions
from spark_core.storage.gcs.errors import is_passing
from spark_core.storage.gcs.reads import Reader, open_reader

# Reads, writes and deletes objects; nothing about who may do what.
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)

# By these Google's client, and so the user, may expect to be led elsewhere.
_ENDPOINT_VARIABLES = ("STORAGE_EMULATOR_HOST", "API_ENDPOINT_OVERRIDE")

# Without it the client describes the bucket for its traces: a thread of its own, and a permission that nobody granted.
_NO_BUCKET_METADATA = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"

# Between the first two attempts at most, then doubled up to the longest.
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0

# Threads of one process share the session.
_CONNECTIONS = 32


@dataclass(frozen=True)
class Clients:
    """What is open in one process.

    Attributes:
        client: Google's own; brings and sends whole objects.
        session: For single requests to the JSON API; adds the token and renews it.
        endpoint: Base of all URLs, without a slash at its end.
        credentials: Of all clients.
        options: What they were opened with.
    """

    client: storage.Client
    session: Any
    endpoint: str
    credentials: Any
    options: StoreOptions
    _readers: dict[str, Reader | None] = field(default_factory=dict)
    _opening: threading.Lock = field(default_factory=threading.Lock)

    def reader(self, bucket: str) -> Reader | None:
        """Return what reads objects of plain names in a bucket; None where Google's client has to.

        Raises:
            SettingsError: If it cannot be opened as the environment is.
        """
        with self._opening:
            if bucket not in self._readers:
                self._readers[bucket] = open_reader(bucket, self.endpoint, self.credentials, self.options)
            return self._readers[bucket]

    def objects_url(self, bucket: str) -> str:
        """URL of the listing of a bucket; an object's is this, a slash and its name."""
        return f"{self.bucket_url(bucket)}/o"

    def bucket_url(self, bucket: str) -> str:
        """URL of a bucket."""
        return f"{self.endpoint}/storage/v1/b/{quote(bucket, safe='')}"

    def object_url(self, bucket: str, name: str) -> str:
        """URL of an object; the name is one segment of it, so that nothing on the way folds it."""
        return f"{self.objects_url(bucket)}/{quote(name, safe='~')}"


def check_options(options: StoreOptions, root: str) -> None:
    """Refuse options that contradict each other or the environment.

    Raises:
        SettingsError: Naming the setting.
    """
    if options.gcs_endpoint is None:
        found = [name for name in _ENDPOINT_VARIABLES if os.environ.get(name)]
        if found:
            raise SettingsError(
                f"{root}: {found[0]} is set in the environment, which lakegc does not follow, and gcs_endpoint is not set, so "
                "it is not clear which store is meant",
                f"Set gcs_endpoint, or unset {found[0]}.",
            )
        return
    parts = urlsplit(options.gcs_endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise SettingsError(
            f"{root}: gcs_endpoint is no URL of the form https://HOST[:PORT] without user and query. Correct it."
        )
    if parts.scheme == "http" and not options.allow_http:
        raise SettingsError(
            f"{root}: gcs_endpoint {options.gcs_endpoint} sends data and tokens without TLS. "
            "Use https://, or set allow_http where nobody else can listen."
        )


@lru_cache(maxsize=16)
def open_clients(options: StoreOptions, _process: int) -> Clients:
    """Open what all stores of these options share in this process; a forked one must not share its parent's connections.

    Raises:
        SettingsError: If there are no credentials that can be used.
    """
    os.environ.setdefault(_NO_BUCKET_METADATA, "true")
    credentials = _credentials(options)
    universe = credentials.universe_domain
    endpoint = (options.gcs_endpoint or f"https://storage.{universe}").rstrip("/")
    # A token that is refused is renewed, where there is one.
    renewed = () if isinstance(credentials, AnonymousCredentials) else DEFAULT_REFRESH_STATUS_CODES
    session = AuthorizedSession(  # type: ignore[no-untyped-call]
        credentials, refresh_status_codes=renewed, refresh_timeout=options.read_timeout.total_seconds()
    )
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
    # Google redirects nobody; a deletion that went where a redirect leads would be one in another store.
    session.max_redirects = 0
    # Google compresses answers only for clients that say so twice, here and in Accept-Encoding.
    session.headers["User-Agent"] = "lakegc (gzip)"
    client = storage.Client(
        project="<none>",
        credentials=credentials,
        _http=session,
        client_options={"api_endpoint": endpoint, "universe_domain": universe},
    )
    return Clients(client, session, endpoint, credentials, options)


def _credentials(options: StoreOptions) -> Any:
    """Find the credentials.

    An endpoint on plain HTTP is an emulator: it has no tokens to check, and a
    real one must not be sent without TLS. Everywhere else nobody is anonymous,
    because a public bucket that may be read cannot be collected.
    """
    if options.gcs_endpoint is not None and urlsplit(options.gcs_endpoint).scheme == "http":
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    named = "the usual Google chain"
    try:
        if options.gcs_service_account_key is not None:
            named = "the key that came along from the driver"
            credentials = _from_content(options.gcs_service_account_key)
        elif options.gcs_service_account_file is not None:
            named = f"gcs_service_account_file {options.gcs_service_account_file}"
            credentials = _from_content(Path(options.gcs_service_account_file).read_text())
        else:
            credentials, _ = google.auth.default(scopes=_SCOPES)
    except (OSError, ValueError, GoogleAuthError) as error:
        # Its own text could quote a key.
        problem = f"{named} gives none that can be used ({type(error).__name__})"
    else:
        if not isinstance(credentials, AnonymousCredentials):
            return credentials
        problem = f"{named} gives anonymous ones"
    raise SettingsError(
        f"credentials for GCS: {problem}",
        "Set gcs_service_account_file or "
        "GOOGLE_APPLICATION_CREDENTIALS to a key file that this machine has, log in with `gcloud auth "
        "application-default login`, or run where a service account is attached.",
    )


def _from_content(content: str) -> Any:
    """Make credentials from what a key file holds: of a service account, or of a person who logged in."""
    said = json.loads(content)
    kind = said.get("type") if isinstance(said, dict) else None
    if kind == "service_account":
        return service_account.Credentials.from_service_account_info(said, scopes=_SCOPES)  # type: ignore[no-untyped-call]
    if kind == "authorized_user":
        return user.Credentials.from_authorized_user_info(said)  # type: ignore[no-untyped-call]
    raise ValueError(f"a key file of the kind {kind!r}")


def patience(options: StoreOptions) -> Retry:
    """Return how often, how long and for what one request is sent again; made anew for each, as it counts."""
    failed = 0

    def again(error: Exception) -> bool:
        nonlocal failed
        failed += 1
        return failed <= options.max_retries and is_passing(error)

    return Retry(
        predicate=again,
        initial=FIRST_WAIT_SECONDS,
        maximum=LONGEST_WAIT_SECONDS,
        timeout=options.retry_timeout.total_seconds(),
    )
