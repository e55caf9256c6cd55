"""Reading through obstore, shared by several stores: names, processes, opening, failures.

A small object costs obstore a fraction of the processor time that a vendor's client takes. obstore
reads whole objects of plain names, and nothing else. The vendor's client does all that needs every
name or an answer for each key.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from obstore.exceptions import BaseError

from spark_core.errors import SettingsError
from spark_core.storage.options import StoreOptions

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

T = TypeVar("T")

# The errors that obstore raises: its own, and the built-in one for an object that is not there.
OBSTORE_ERRORS = (BaseError, FileNotFoundError)

# Each store repeats a request by the policy of its own client, so that both clients share one.
ONCE: RetryConfig = {"max_retries": 0}

# Safe by construction: obstore cuts slashes, refuses or folds segments and escapes characters. So
# it is given only names that have a single form for every client, server and signature. The store's
# own client reads all other names.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.=-]*[A-Za-z0-9_=-](?:/[A-Za-z0-9_.=-]*[A-Za-z0-9_=-])*")

_ANSWER = re.compile(r"status code: (\d{3})[^:]*: (.*?)(?:\n\nDebug source:|\Z)", re.DOTALL)
_ANOTHER_CLIENT_MAY = ("Timeout", "Certificate")
_KIND = re.compile(r"\bkind: (\w+)")

# The process in which obstore has begun to work. Its threads are missing in a forked process.
_working_process: int | None = None


def is_plain(name: str) -> bool:
    """Say whether obstore may be given a name.

    Its segments hold letters, digits and `_.=-`, and none is empty or ends in a dot.
    """
    return _PLAIN_NAME.fullmatch(name) is not None


def claim_process() -> bool:
    """Let obstore work in this process, unless it was forked from one in which obstore works.

    obstore has one runtime per process, whatever the store. A forked process would wait for ever
    for threads that stayed in its parent.

    Returns:
        Whether it works here.
    """
    global _working_process  # noqa: PLW0603 - one per process, like obstore's runtime
    if _working_process is None:
        _working_process = os.getpid()
    return _working_process == os.getpid()


def client_options(options: StoreOptions, endpoint: str) -> ClientConfig:
    """Return timeouts, the rule about TLS, and the authorities that `requests` clients trust.

    Raises:
        SettingsError: If the file of certificates that the environment names cannot be read.
    """
    return {
        # Not `options.allow_http`: a redirect must not lead away from TLS if the endpoint has it.
        "allow_http": endpoint.startswith("http://"),
        "connect_timeout": options.connect_timeout,
        "timeout": options.read_timeout,
        "root_certificate": _certificates(
            os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
        ),
    }


@lru_cache(maxsize=4)
def _certificates(named: str | None) -> bytes:
    # Not on S3, whose clients work without this library.
    from requests.utils import DEFAULT_CA_BUNDLE_PATH

    path = Path(named or DEFAULT_CA_BUNDLE_PATH)
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        return b"\n".join(file.read_bytes() for file in files if file.is_file())
    except OSError as error:
        problem = error.strerror
    raise _unopened(f"{path} cannot be read ({problem})")


def open_store_of_obstore(store: Callable[[], T]) -> T:
    """Open a store of obstore's, and report only the kind of a problem.

    Its text about the environment may hold a key.

    Raises:
        SettingsError: If it cannot be opened with this environment.
    """
    try:
        return store()
    except (*OBSTORE_ERRORS, ValueError) as error:
        problem = type(error).__name__
    raise _unopened(problem)


class Readers(Generic[T]):
    """Readers of objects of plain names: one per bucket or container, opened on first use.

    Args:
        open_reader: Opens one; None if the store's own client has to read.
    """

    def __init__(self, open_reader: Callable[[str], T | None]) -> None:
        self._open_reader = open_reader
        self._opened: dict[str, T | None] = {}
        self._opening = threading.Lock()

    def of(self, name: str, key: str) -> T | None:
        """Return the reader of a bucket or container for a key; None if the vendor's client reads.

        Raises:
            SettingsError: If it cannot be opened with this environment.
        """
        if not is_plain(f"{name}/{key}"):
            return None
        with self._opening:
            if name not in self._opened:
                self._opened[name] = self._open_reader(name)
            return self._opened[name]


def _unopened(problem: str) -> SettingsError:
    return SettingsError(
        f"the client that reads objects cannot be opened: {problem}",
        "Look at REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE and GOOGLE_SERVICE_ACCOUNT in the environment.",
    )


@dataclass(frozen=True)
class ObstoreFailure:
    """An error of obstore without its text, which holds URLs and bodies and must not be shown.

    Attributes:
        status: HTTP status; None if no answer came, or none that obstore could use.
        body: Body of a refusal.
        kind: What failed, if there is no status: `Redirect`, `Certificate`, `Header` (an answer
            that lacks what every answer of the store has), or the kind of a failed connection.
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

        obstore's timeout covers the whole body, where the others' covers each wait for more of it.
        obstore also refuses the certificate of a server that is its own authority, which the others
        take.
        """
        return self.kind in _ANOTHER_CLIENT_MAY


def obstore_failure(error: Exception) -> ObstoreFailure:
    """Read the parts of an error of obstore; no plain name looks like one of the parts."""
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
