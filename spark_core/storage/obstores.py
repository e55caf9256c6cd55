"""What stores share that read through obstore: which names it may be given, in which process, how it is opened, what it says.

A small object costs obstore a fraction of the processor time that a vendor's
client takes. It is asked for whole objects by plain names, and nothing else:
whatever needs every name or an answer for each key stays with that client.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError

from spark_core.errors import SettingsError
from spark_core.storage.contract import StoreOptions

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

# What obstore raises: its own errors, and the built-in one for an object that is not there.
OBSTORE_ERRORS = (BaseError, FileNotFoundError)

# Each store repeats a request by the policy of its own client, so that both clients share one.
ONCE: RetryConfig = {"max_retries": 0}

# Safe by construction: obstore cuts slashes, refuses or folds segments and escapes signs, so it is given only names of
# which no client, server or signature has a second form. All other names are read by the store's own client.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.=-]*[A-Za-z0-9_=-](?:/[A-Za-z0-9_.=-]*[A-Za-z0-9_=-])*")

_ANSWER = re.compile(r"status code: (\d{3})[^:]*: (.*?)(?:\n\nDebug source:|\Z)", re.DOTALL)
_ANOTHER_CLIENT_MAY = ("Timeout", "Certificate")
_KIND = re.compile(r"\bkind: (\w+)")

# The process whose obstore has begun to work; its threads do not come along into a forked one.
_working_process: int | None = None


def is_plain(name: str) -> bool:
    """Say whether obstore may be given a name: segments of letters, digits and `_.=-`, none empty or ending in a dot."""
    return _PLAIN_NAME.fullmatch(name) is not None


def claim_process() -> bool:
    """Let obstore work in this process, unless it was forked from one where it does.

    Its runtime is one per process, whatever the store; a forked process would
    wait for ever for threads that stayed in its parent.

    Returns:
        Whether it works here.
    """
    global _working_process  # noqa: PLW0603 - one per process, like obstore's runtime
    if _working_process is None:
        _working_process = os.getpid()
    return _working_process == os.getpid()


def client_options(options: StoreOptions, endpoint: str) -> ClientConfig:
    """Return timeouts, the rule about TLS, and the authorities that the clients built on `requests` trust.

    Raises:
        SettingsError: If the file of certificates that the environment names cannot be read.
    """
    return {
        # Not `options.allow_http`: a redirect must not lead away from TLS where the endpoint has it.
        "allow_http": endpoint.startswith("http://"),
        "connect_timeout": options.connect_timeout,
        "timeout": options.read_timeout,
        "root_certificate": _certificates(os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")),
    }


@lru_cache(maxsize=4)
def _certificates(named: str | None) -> bytes:
    # Not on S3, whose clients do without this library.
    from requests.utils import DEFAULT_CA_BUNDLE_PATH

    path = Path(named or DEFAULT_CA_BUNDLE_PATH)
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        return b"\n".join(file.read_bytes() for file in files if file.is_file())
    except OSError as error:
        problem = error.strerror
    raise unopened(f"{path} cannot be read ({problem})")


def unopened(problem: str) -> SettingsError:
    """Return the error for what keeps obstore from being opened at all."""
    return SettingsError(
        f"the client that reads objects cannot be opened: {problem}",
        "Look at REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE and GOOGLE_SERVICE_ACCOUNT in the environment.",
    )


@dataclass(frozen=True)
class ObstoreFailure:
    """What an error of obstore says; its text holds URLs, and bodies of refusals, and must not be shown.

    Attributes:
        status: HTTP status; None when no answer came, or none that obstore could use.
        body: Of a refusal.
        kind: Without a status, what failed: `Redirect`, `Certificate`, `Header` (an answer that lacks what every answer of
            the store has), or the kind of a failed connection.
    """

    status: int | None
    body: str
    kind: str

    @property
    def of_connection(self) -> bool:
        """Whether the same request may succeed later, as no usable answer came."""
        return self.status is None and self.kind not in ("Redirect", "Header", *_ANOTHER_CLIENT_MAY)

    @property
    def is_for_the_other_client(self) -> bool:
        """Whether the store's own client may read what obstore could not.

        obstore counts the whole body in its timeout, where the others count each wait for more of it; and it refuses a
        certificate of a server that is its own authority, which the others take.
        """
        return self.kind in _ANOTHER_CLIENT_MAY


def obstore_failure(error: Exception) -> ObstoreFailure:
    """Take an error of obstore apart; plain names cannot look like one of the parts."""
    text = str(error)
    if answer := _ANSWER.search(text):
        return ObstoreFailure(int(answer[1]), answer[2], "")
    if "inner: BareRedirect" in text or "kind: Redirect" in text:
        return ObstoreFailure(None, "", "Redirect")
    if "InvalidCertificate(" in text:
        return ObstoreFailure(None, "", "Certificate")
    if "source: Header {" in text:
        return ObstoreFailure(None, "", "Header")
    kind = _KIND.search(text)
    return ObstoreFailure(None, "", kind[1] if kind else type(error).__name__)
