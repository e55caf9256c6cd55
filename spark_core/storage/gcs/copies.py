"""Copies inside GCS: rewrites in as many calls as Google wants, and facts to compare objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from spark_core.errors import IncompleteReadError, TransientError
from spark_core.storage.copies import Copies
from spark_core.storage.objects import Description

SIGHT_FIELDS = "name,size,generation,md5Hash,crc32c"
_KIND = "storage#rewriteResponse"
# How many calls in a row may copy nothing.
_MOST_IDLE_CALLS = 20


class Send(Protocol):
    """Sends one request and reads the answer, a success, as JSON."""

    def __call__(self, method: str, url: str, params: dict[str, str]) -> Any:
        """Send it."""


@dataclass(frozen=True)
class Bucket(Copies):
    """Where the copies are made.

    Attributes:
        url: Gives the URL of a key's object.
        send: Sends a request.
    """

    url: Callable[[str], str]
    send: Send

    def describe(self, key: str) -> Description:
        """Describe an object."""
        answer = self.ask(
            "head", key, lambda: self.send("GET", self.url(key), {"fields": SIGHT_FIELDS})
        )
        return description_of(answer, key, self.root)

    def transfer(self, source: Description, target: str) -> None:
        """Copy the exact generation that was seen, current or not; see `ObjectStore.transfer`."""
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
            answer = self._rewritten(source.key, target, url, params)
            if answer["done"] is True:
                return
            params["rewriteToken"] = answer["rewriteToken"]
            so_far = int(answer["totalBytesRewritten"])
            idle, copied = (idle + 1, copied) if so_far <= copied else (0, so_far)
        raise TransientError(
            f"copy {source.key!r} to {target!r} of {self.root}: {idle} requests in a row copied "
            f"nothing ({copied} of "
            f"{source.size_bytes} bytes are)",
            "Run again.",
        )

    def _rewritten(
        self, source: str, target: str, url: str, params: dict[str, str]
    ) -> dict[str, Any]:
        answer = self.unless_there(
            source, target, lambda: self.ask("copy", source, lambda: self.send("POST", url, params))
        )
        known = isinstance(answer, dict) and answer.get("kind") == _KIND
        if not known or (
            answer.get("done") is not True
            and not {"rewriteToken", "totalBytesRewritten"} <= answer.keys()
        ):
            raise TransientError(
                f"copy {source!r} to {target!r} of {self.root}: the answer is none of GCS's",
                "Look at gcs_endpoint, and run again.",
            )
        return {"done": None, **answer}


def description_of(answer: Any, key: str, root: str) -> Description:
    """Read from the description of an object what is needed to compare it.

    Raises:
        IncompleteReadError: If it is no such description.
    """
    try:
        digests = {name: str(answer[name]) for name in ("md5Hash", "crc32c") if answer.get(name)}
        return Description(key, int(answer["size"]), str(int(answer["generation"])), digests)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise IncompleteReadError(
            f"{root}{key} was answered by something that does not describe an object as GCS does",
            "Look at gcs_endpoint.",
        ) from None
