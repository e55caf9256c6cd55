"""Copies inside GCS: rewrites, in as many calls as Google wants, and what it tells for comparing objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from spark_core.errors import IncompleteReadError, NotFoundError, ObjectExistsError, TransientError
from spark_core.storage.copies import Sight

T = TypeVar("T")

SIGHT_FIELDS = "name,size,generation,md5Hash,crc32c"
_KIND = "storage#rewriteResponse"
# Calls in a row that may copy nothing.
_MOST_IDLE_CALLS = 20


class Ask(Protocol):
    """Asks something about a key, again where that may help, and tells what fails as the project's errors."""

    def __call__(self, action: str, key: str, question: Callable[[], T]) -> T:
        """Ask it."""


class Send(Protocol):
    """Sends one request and reads the answer, a success, as JSON."""

    def __call__(self, method: str, url: str, params: dict[str, str]) -> Any:
        """Send it."""


@dataclass(frozen=True)
class Copies:
    """Copies in one bucket.

    Attributes:
        root: Of the namespace, for an error.
        url: Gives the URL of a key's object.
        ask: Asks about a key.
        send: Sends a request.
    """

    root: str
    url: Callable[[str], str]
    ask: Ask
    send: Send

    def sight(self, key: str) -> Sight:
        """Describe an object."""
        told = self.ask("head", key, lambda: self.send("GET", self.url(key), {"fields": SIGHT_FIELDS}))
        return sight_of(told, key, self.root)

    def transfer(self, source: Sight, target: str) -> None:
        """Copy the very generation that was seen, current or not; see `ObjectStore.transfer`."""
        bucket_and_name = self.url(target).partition("/storage/v1/")[2]
        url = f"{self.url(source.key)}/rewriteTo/{bucket_and_name}"
        params = {
            "sourceGeneration": source.version,
            "ifSourceGenerationMatch": source.version,
            "ifGenerationMatch": "0",
            "fields": "kind,done,rewriteToken,totalBytesRewritten",
        }
        idle, copied = 0, -1
        while idle < _MOST_IDLE_CALLS:
            told = self._rewritten(source.key, target, url, params)
            if told["done"] is True:
                return
            params["rewriteToken"] = told["rewriteToken"]
            so_far = int(told["totalBytesRewritten"])
            idle, copied = (idle + 1, copied) if so_far <= copied else (0, so_far)
        raise TransientError(
            f"copy {source.key!r} to {target!r} of {self.root}: {idle} requests in a row copied nothing ({copied} of "
            f"{source.size_bytes} bytes are)",
            "Run again.",
        )

    def _rewritten(self, source: str, target: str, url: str, params: dict[str, str]) -> dict[str, Any]:
        told: Any = None
        changed = False
        try:
            told = self.ask("copy", source, lambda: self.send("POST", url, params))
        except ObjectExistsError:
            # Google says the same whichever of the conditions fails.
            if self._is_there(target):
                raise
            changed = True
        if changed:
            raise TransientError(
                f"{self.root}{source} was written again while it was copied, so the copy was not made",
                "Look who writes there, and run again.",
            )
        known = isinstance(told, dict) and told.get("kind") == _KIND
        if not known or (told.get("done") is not True and not {"rewriteToken", "totalBytesRewritten"} <= told.keys()):
            raise TransientError(
                f"copy {source!r} to {target!r} of {self.root}: the answer is none of GCS's",
                "Look at gcs_endpoint, and run again.",
            )
        return {"done": None, **told}

    def _is_there(self, key: str) -> bool:
        try:
            self.sight(key)
        except NotFoundError:
            return False
        return True


def sight_of(told: Any, key: str, root: str) -> Sight:
    """Read what the description of an object tells for comparing.

    Raises:
        IncompleteReadError: If it is no such description.
    """
    try:
        digests = {name: str(told[name]) for name in ("md5Hash", "crc32c") if told.get(name)}
        return Sight(key, int(told["size"]), str(int(told["generation"])), digests)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise IncompleteReadError(
            f"{root}{key} was answered by something that does not describe an object as GCS does",
            "Look at gcs_endpoint.",
        ) from None
