"""The clients of a GCS bucket and a session, with the same credentials, endpoint and bounds."""

from __future__ import annotations

import os
from dataclasses import dataclass
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
from spark_core.json_and_toml import read_json
from spark_core.storage.endpoint_urls import url_of
from spark_core.storage.gcs.errors import is_passing
from spark_core.storage.gcs.reads import ObjectReader, open_reader
from spark_core.storage.obstore_reads import Readers
from spark_core.storage.options import StoreOptions

# Allows reading, writing and deleting objects, but no changes of permissions.
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)

# Google's client, and so the user, may expect these to lead it elsewhere.
_ENDPOINT_VARIABLES = ("STORAGE_EMULATOR_HOST", "API_ENDPOINT_OVERRIDE")

# Without it the client describes the bucket for its traces. That takes a thread of its own, and a
# permission that nobody granted.
_NO_BUCKET_METADATA = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"

# Pause between the first two attempts at most, then doubled up to the longest.
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0

# Threads of one process share the session.
_CONNECTIONS = 32


@dataclass(frozen=True)
class GCSClients:
    """What is open in one process.

    Attributes:
        client: Google's own; downloads and uploads whole objects.
        session: For single requests to the JSON API; adds the token and renews it.
        endpoint: Base of all URLs, without a slash at its end.
        readers: Read objects of plain names.
        has_private_key: Whether the credentials can sign links by themselves.
    """

    client: storage.Client
    session: Any
    endpoint: str
    readers: Readers[ObjectReader]
    has_private_key: bool

    def objects_url(self, bucket: str) -> str:
        """URL of the listing of a bucket; an object's URL is this, a slash and its name."""
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
                f"{root}: {found[0]} is set in the environment, which lakegc does not follow, and "
                "gcs_endpoint is not set, so "
                "it is not clear which store is meant",
                f"Set gcs_endpoint, or unset {found[0]}.",
            )
        return
    url_of(options.gcs_endpoint, "gcs_endpoint", root, options, sent="tokens")


@lru_cache(maxsize=16)
def open_clients(options: StoreOptions, _process: int) -> GCSClients:
    """Open the clients that all stores of these options share in this process.

    A forked process must not share its parent's connections.

    Raises:
        SettingsError: If there are no credentials that can be used.
    """
    os.environ.setdefault(_NO_BUCKET_METADATA, "true")
    credentials = _credentials(options)
    universe = credentials.universe_domain
    endpoint = (options.gcs_endpoint or f"https://storage.{universe}").rstrip("/")
    # A refused token is renewed, if there is one.
    renewed = () if isinstance(credentials, AnonymousCredentials) else DEFAULT_REFRESH_STATUS_CODES
    session = AuthorizedSession(  # type: ignore[no-untyped-call]
        credentials,
        refresh_status_codes=renewed,
        refresh_timeout=options.read_timeout.total_seconds(),
    )
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
    # Google never redirects. A deletion that followed a redirect would happen in another store.
    session.max_redirects = 0
    # Google compresses answers only for clients that ask twice, here and in Accept-Encoding.
    session.headers["User-Agent"] = "lakegc (gzip)"
    client = storage.Client(
        project="<none>",
        credentials=credentials,
        _http=session,
        client_options={"api_endpoint": endpoint, "universe_domain": universe},
    )
    readers = Readers[ObjectReader](
        lambda bucket: open_reader(bucket, endpoint, credentials, options)
    )
    has_private_key = isinstance(credentials, service_account.Credentials)
    return GCSClients(client, session, endpoint, readers, has_private_key)


def _credentials(options: StoreOptions) -> Any:
    """Find the credentials.

    An endpoint on plain HTTP is an emulator. It has no tokens to check, and a real one must not be
    sent without TLS. Everywhere else access is never anonymous, because a public bucket that may be
    read cannot be collected.
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
        # The error's own text could quote a key.
        problem = f"{named} gives none that can be used ({type(error).__name__})"
    else:
        if not isinstance(credentials, AnonymousCredentials):
            return credentials
        problem = f"{named} gives anonymous ones"
    raise SettingsError(
        f"credentials for GCS: {problem}",
        "Set gcs_service_account_file or "
        "GOOGLE_APPLICATION_CREDENTIALS to a key file that this machine has, log in with `gcloud "
        "auth "
        "application-default login`, or run where a service account is attached.",
    )


def _from_content(content: str) -> Any:
    """Make credentials from a key file: of a service account, or of a person who logged in."""
    document = read_json(content)
    kind = document.get("type") if isinstance(document, dict) else None
    if kind == "service_account":
        return service_account.Credentials.from_service_account_info(  # type: ignore[no-untyped-call]
            document, scopes=_SCOPES
        )
    if kind == "authorized_user":
        return user.Credentials.from_authorized_user_info(document)  # type: ignore[no-untyped-call]
    raise ValueError(f"a key file of the kind {kind!r}")


def patience(options: StoreOptions) -> Retry:
    """Return the repetition of one request; made anew for each, because it counts."""
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
