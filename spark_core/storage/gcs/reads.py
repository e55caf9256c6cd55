"""Whole objects through obstore, with the identity of Google's own client, and only if proved.

obstore reads by the XML API. Its ETag is the MD5 of the content for objects that were uploaded
whole and without a key of Cloud KMS. Only bytes that fit it count. Google's client reads everything
else, and checks a CRC32C.
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

from spark_core.storage.gcs.errors import failure_of
from spark_core.storage.obstore_reads import (
    OBSTORE_ERRORS,
    ONCE,
    claim_process,
    client_options,
    obstore_failure,
    open_store_of_obstore,
)

if TYPE_CHECKING:
    from obstore.store import GCSCredential

    from spark_core.storage.options import StoreOptions

# Answers that may be about obstore's API or its token, and not about the object.
_ASKED_OF_THE_OTHER = (401, 404, 405, 501)
# An instant in the past: obstore then asks before each request, and gets the current token of
# Google's client.
_NOT_KEPT = datetime(2000, 1, 1, tzinfo=UTC)


class ObjectReader:
    """Reads from one bucket.

    Args:
        bucket: Its name.
        endpoint: Base of all URLs.
        credentials: The credentials of Google's client, which renews them too.
        options: The bounds.

    Raises:
        SettingsError: If obstore cannot be opened with this environment.
    """

    def __init__(self, bucket: str, endpoint: str, credentials: Any, options: StoreOptions) -> None:
        self._url, self._credentials = endpoint, credentials
        self._request = Request()
        self._token = ""
        self._objects = open_store_of_obstore(
            lambda: obstore.store.GCSStore(
                bucket,
                # Every option is set: obstore would take a missing one from variables of the
                # environment that lakegc does not follow.
                config={
                    "base_url": endpoint,
                    "skip_signature": isinstance(credentials, AnonymousCredentials),
                },
                credential_provider=self._at_hand,
                # As for Google's client: without both, Google decompresses objects that are stored
                # compressed.
                client_options={
                    **client_options(options, endpoint),
                    "user_agent": "lakegc (gzip)",
                    "default_headers": {"accept-encoding": "gzip"},
                },
                retry_config=ONCE,
            )
        )

    def _at_hand(self) -> GCSCredential:
        return {"token": self._token, "expires_at": _NOT_KEPT}

    def read(self, name: str) -> bytes | None:
        """Read a whole object.

        Args:
            name: Its name in the bucket; a plain one.

        Returns:
            Its content; None if there is no ETag that proves it.

        Raises:
            GoogleAuthError: If there is no token, and none can be had.
        """
        headers: dict[str, str] = {}
        # Done here, not when obstore asks for the token, so that a failure is raised as Google's
        # library raised it.
        self._credentials.before_request(self._request, "GET", self._url, headers)
        self._token = headers.get("authorization", "").removeprefix("Bearer ")
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


def open_reader(
    bucket: str, endpoint: str, credentials: Any, options: StoreOptions
) -> ObjectReader | None:
    """Open a reader of a bucket; None if Google's client has to read.

    It has to in a process forked from one with obstore.
    """
    return ObjectReader(bucket, endpoint, credentials, options) if claim_process() else None


def is_for_the_other_client(error: Exception) -> bool:
    """Say whether an error says nothing of the object, so that Google's client has to read."""
    return failure_of(error).status in _ASKED_OF_THE_OTHER or (
        isinstance(error, OBSTORE_ERRORS) and obstore_failure(error).is_for_the_other_client
    )
