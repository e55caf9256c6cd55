"""Copies inside an Azure storage account, which may still be under way after the answer.

A client once gave the Content-MD5 of a blob, and a copy inherits it. It says nothing about the
bytes of the copy, so these are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

from azure.core import MatchConditions
from azure.core.credentials import AzureSasCredential
from azure.storage.blob import BlobClient, ContainerClient

from spark_core.errors import NotFoundError, TransientError
from spark_core.storage import deletion
from spark_core.storage.copies import Copies
from spark_core.storage.objects import Description

_FIRST_LOOK_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 30.0
_SUCCESS, _PENDING = "success", "pending"


@dataclass(frozen=True)
class Container(Copies):
    """Where the copies are made.

    Attributes:
        client: The container's.
        before: What stands before every key.
        patience: How long a copy may stand still.
    """

    client: ContainerClient
    before: str
    patience: timedelta

    def describe(self, key: str) -> Description:
        """Describe a blob."""
        properties = self._properties(key)
        return Description(key, properties.size, properties.etag)

    def transfer(self, source: Description, target: str, *, version: str | None = None) -> None:
        """Copy a blob or a noncurrent version of it; see `ObjectStore.transfer`.

        Args:
            source: The blob to copy.
            target: A free key.
            version: Id of a version of `source.key`.
        """

        def begin() -> Any:
            return self._blob(target).start_copy_from_url(
                self._url(source.key, version),
                source_etag=source.version,
                source_match_condition=MatchConditions.IfNotModified,
                match_condition=MatchConditions.IfMissing,
            )

        answer = self.unless_there(source.key, target, lambda: self.ask("copy", source.key, begin))
        if answer.get("copy_status") != _SUCCESS:
            self._wait(source.key, target)

    def finish_left_copy(self, target: str) -> None:
        """Wait for a copy that a killed process began, and delete what a failed one left."""
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
            TransientError: If it failed, was given up, or stands still; what it left is deleted.
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
            f"copy {source!r} to {target!r} of {self.root}: the service began and did not end it "
            f"({found.copy.status}, "
            f"{progress or 'nothing'} copied)",
            "Run again.",
        )

    def _take_away(self, key: str, tag: str) -> None:
        self.ask(
            "delete",
            key,
            lambda: self._blob(key).delete_blob(
                etag=tag, match_condition=MatchConditions.IfNotModified
            ),
        )

    def _properties(self, key: str) -> Any:
        return self.ask("head", key, lambda: self._blob(key).get_blob_properties())

    def _blob(self, key: str) -> BlobClient:
        return self.client.get_blob_client(self.before + key)

    def _url(self, key: str, version: str | None) -> str:
        """Return the URL of the source, with a signature if we use one, as the service wants."""
        params = [] if version is None else [f"versionid={quote(version, safe='')}"]
        credential = self.client.credential
        if isinstance(credential, AzureSasCredential):
            params.append(credential.signature.lstrip("?"))
        url = self._blob(key).url
        return "&".join([f"{url}?{params[0]}", *params[1:]]) if params else url


def _is_left_over(found: Any) -> bool:
    """Say whether a blob is left by a failed or abandoned copy: one without content or owner."""
    return found.copy.status in ("failed", "aborted") and found.size == 0
