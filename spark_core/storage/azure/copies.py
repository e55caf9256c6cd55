"""Copies inside an Azure storage account, which the service may go on making after it has answered.

The Content-MD5 of a blob is a property that a client once gave and that a copy
inherits: it says nothing about the bytes of the copy, so these are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from azure.core import MatchConditions
from azure.core.credentials import AzureSasCredential
from azure.storage.blob import BlobClient, ContainerClient

from spark_core.errors import NotFoundError, ObjectExistsError, TransientError
from spark_core.storage import deletion
from spark_core.storage.copies import Sight

T = TypeVar("T")

_FIRST_LOOK_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 30.0
_SUCCESS, _PENDING = "success", "pending"


class Ask(Protocol):
    """Sends one request about a key, counts it, and tells what fails as the project's errors."""

    def __call__(self, action: str, key: str, question: Callable[[], T]) -> T:
        """Send it."""


@dataclass(frozen=True)
class Copies:
    """Copies in one container.

    Attributes:
        client: The container's.
        root: Of the namespace, for an error.
        before: What stands before every key.
        patience: How long a copy may stand still.
        ask: Sends a request.
    """

    client: ContainerClient
    root: str
    before: str
    patience: timedelta
    ask: Ask

    def sight(self, key: str) -> Sight:
        """Describe a blob."""
        told = self._properties(key)
        return Sight(key, told.size, told.etag)

    def transfer(self, source: Sight, target: str, *, version: str | None = None) -> None:
        """Copy a blob, or a version of it that is not the current one; see `ObjectStore.transfer`.

        Args:
            source: What is copied.
            target: Key of none.
            version: Id of a version of `source.key`.
        """

        def begin() -> Any:
            return self._blob(target).start_copy_from_url(
                self._url(source.key, version),
                source_etag=source.version,
                source_match_condition=MatchConditions.IfNotModified,
                match_condition=MatchConditions.IfMissing,
            )

        try:
            told = self.ask("copy", source.key, begin)
        except ObjectExistsError:
            # Not every answer tells which of the two conditions fails.
            if self._is_there(target):
                raise
            told = None
        if told is None:
            raise TransientError(
                f"{self.root}{source.key} was written again while it was copied, so the copy was not made",
                "Look who writes there, and run again.",
            )
        if told.get("copy_status") != _SUCCESS:
            self._wait(source.key, target)

    def settle(self, target: str) -> None:
        """See an earlier copy to its end that a killed process had begun, and take away what a failed one left."""
        try:
            found = self._properties(target)
        except NotFoundError:
            return
        if found.copy.status == _PENDING:
            self._wait(str(found.copy.id), target)
        elif _is_left_over(found):
            self._take_away(target, found.etag)

    def _wait(self, source: str, target: str) -> None:
        """Wait for a copy as long as it goes on; give it up when it stands still.

        Raises:
            TransientError: If it failed, was given up, or stands still; what it left is taken away.
        """
        progress, still, delay = "", 0.0, _FIRST_LOOK_SECONDS
        while True:
            found = self._properties(target)
            if found.copy.status == _SUCCESS:
                return
            if found.copy.status != _PENDING:
                break
            still = still + delay if found.copy.progress == progress else 0.0
            progress = str(found.copy.progress)
            if still > self.patience.total_seconds():
                self.ask("copy", target, partial(self._blob(target).abort_copy, str(found.copy.id)))
                found = self._properties(target)
                break
            deletion.wait(delay)
            delay = min(delay * 2, _LONGEST_WAIT_SECONDS)
        if _is_left_over(found):
            self._take_away(target, found.etag)
        raise TransientError(
            f"copy {source!r} to {target!r} of {self.root}: the service began and did not end it ({found.copy.status}, "
            f"{progress or 'nothing'} copied)",
            "Run again.",
        )

    def _is_there(self, key: str) -> bool:
        try:
            self._properties(key)
        except NotFoundError:
            return False
        return True

    def _take_away(self, key: str, tag: str) -> None:
        self.ask(
            "delete",
            key,
            lambda: self._blob(key).delete_blob(etag=tag, match_condition=MatchConditions.IfNotModified),
        )

    def _properties(self, key: str) -> Any:
        return self.ask("head", key, lambda: self._blob(key).get_blob_properties())

    def _blob(self, key: str) -> BlobClient:
        return self.client.get_blob_client(self.before + key)

    def _url(self, key: str, version: str | None) -> str:
        """Name the source; where a signature shows who we are, the service wants it for the source as well."""
        params = [] if version is None else [f"versionid={quote(version, safe='')}"]
        credential = self.client.credential
        if isinstance(credential, AzureSasCredential):
            params.append(credential.signature.lstrip("?"))
        url = self._blob(key).url
        return "&".join([f"{url}?{params[0]}", *params[1:]]) if params else url


def _is_left_over(found: Any) -> bool:
    """Say whether a blob is what a copy leaves that failed or was given up: one without content, and nobody's."""
    return found.copy.status in ("failed", "aborted") and found.size == 0
