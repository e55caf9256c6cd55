"""Whole objects through obstore, as whoever Google's own client is, and only where the bytes prove themselves.

obstore reads by the XML API, whose ETag is the MD5 of the content for objects
that were uploaded whole and without a key of Cloud KMS. Only bytes that fit it
count; everything else is asked of Google's client, which checks a CRC32C.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import obstore
import obstore.store
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import Request

from spark_core.storage.obstores import OBSTORE_ERRORS, ONCE, claim_process, client_options, obstore_failure, unopened

if TYPE_CHECKING:
    from obstore.store import GCSCredential

    from spark_core.storage.contract import StoreOptions

# In the past: obstore then asks before each request, and the token that Google's client has now is at hand.
_NOT_KEPT = datetime(2000, 1, 1, tzinfo=UTC)


class Reader:
    """Reads from one bucket.

    Args:
        bucket: Its name.
        endpoint: Base of all URLs.
        credentials: Those of Google's client, which renews them too.
        options: The bounds.

    Raises:
        SettingsError: If obstore cannot be opened as the environment is.
    """

    def __init__(self, bucket: str, endpoint: str, credentials: Any, options: StoreOptions) -> None:
        self._url, self._credentials = endpoint, credentials
        self._request = Request()
        self._token = ""
        try:
            self._objects = obstore.store.GCSStore(
                bucket,
                # Said whole: what is left out here would be taken from variables of the environment that lakegc does not follow.
                config={"base_url": endpoint, "skip_signature": isinstance(credentials, AnonymousCredentials)},
                credential_provider=self._at_hand,
                # As for Google's client: without both, Google unpacks what is stored compressed.
                client_options={
                    **client_options(options, endpoint),
                    "user_agent": "lakegc (gzip)",
                    "default_headers": {"accept-encoding": "gzip"},
                },
                retry_config=ONCE,
            )
        except (*OBSTORE_ERRORS, ValueError) as error:
            problem = type(error).__name__
        else:
            return
        raise unopened(problem)

    def _at_hand(self) -> GCSCredential:
        return {"token": self._token, "expires_at": _NOT_KEPT}

    def read(self, name: str) -> bytes | None:
        """Read a whole object.

        Args:
            name: In the bucket; a plain one.

        Returns:
            Its content; None when there is no ETag that proves it.

        Raises:
            GoogleAuthError: If there is no token, and none can be had.
        """
        said: dict[str, str] = {}
        # Here, and not where obstore asks for it, so that a failure is raised as Google's library raised it.
        self._credentials.before_request(self._request, "GET", self._url, said)
        self._token = said.get("authorization", "").removeprefix("Bearer ")
        try:
            answer = obstore.get(self._objects, name)
        except OBSTORE_ERRORS as error:
            if obstore_failure(error).kind == "Header":
                return None
            raise
        data = answer.bytes().to_bytes()
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        tag = (answer.meta["e_tag"] or "").strip('"')
        # Google writes it in hex, the emulator in base64.
        return data if tag in (digest.hex(), base64.b64encode(digest).decode()) else None


def open_reader(bucket: str, endpoint: str, credentials: Any, options: StoreOptions) -> Reader | None:
    """Open a reader of a bucket; None where Google's own client has to read: in a process forked from one with obstore."""
    return Reader(bucket, endpoint, credentials, options) if claim_process() else None
