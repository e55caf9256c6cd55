"""Faults at the n-th call of a whole run, on the driver or in a worker, to the store or the server.

Calls are counted in a file under a lock, because stores travel to workers as copies. After a
process is killed, all its further calls fail as well, so that no clean-up code can do what `kill
-9` would prevent.
"""

from __future__ import annotations

import fcntl
import io
import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import urllib3
from urllib3.exceptions import IncompleteRead, ProtocolError, ReadTimeoutError

from spark_core.errors import (
    IncompleteReadError,
    ObjectExistsError,
    PermissionDeniedError,
    TransientError,
)
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage import DeleteOutcome
from spark_core.storage.local import LocalStore
from spark_core.storage.outcomes import unpaced
from spark_core.storage.s3.store import S3Store
from tests.support.killing import Killed

ERROR, TIMEOUT, CUT, WRONG, EMPTY, TWICE = (
    "error",
    "timeout",
    "cut off",
    "wrong bytes",
    "empty",
    "told twice",
)
BEFORE, AFTER = "killed before", "killed after"

# What can go wrong with a call of a store.
_READ = (ERROR, TIMEOUT, CUT, WRONG, EMPTY, BEFORE)
_LIST = (ERROR, TIMEOUT, CUT, EMPTY, BEFORE)
_HEAD = (ERROR, TIMEOUT, BEFORE)
_WRITE = (ERROR, TIMEOUT, BEFORE, AFTER)
STORE_KINDS = {
    "read": _READ,
    "read_range": _READ,
    "open_source": _READ,
    "list": _LIST,
    "children": _LIST,
    "head": _HEAD,
    "describe": _HEAD,
    "put": _WRITE,
    "put_if_absent": (*_WRITE, TWICE),
    "open_sink": _WRITE,
    "transfer": (*_WRITE, TWICE),
    "link_to": (*_WRITE, TWICE),
    "delete": _WRITE,
}
# With a call to the server; a list may also come empty where it is not.
HTTP_KINDS = (ERROR, "denied", TIMEOUT, CUT, WRONG, EMPTY, "empty list", BEFORE, AFTER)


@dataclass(frozen=True)
class Call:
    """One call that was made.

    Attributes:
        number: The n-th, from 1.
        what: Method of the store, or HTTP method.
        on: Key, prefix or path.
    """

    number: int
    what: str
    on: str


@dataclass(frozen=True)
class Faults:
    """The call that fails, and how; a directory holds what all copies of a store share."""

    folder: Path

    def arm(self, at: int, kind: str, *, what: str = "", on: str = "") -> None:
        """Let the n-th call from now fail, of all calls or of a kind on names that contain a text;
        0 for none.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("calls", "fired", "dead"):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "armed").write_text(json.dumps([at, kind, what, on]))

    def calls(self) -> list[Call]:
        """Return the calls since it was armed."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [Call(number, *json.loads(line)) for number, line in enumerate(lines, 1)]

    @property
    def fired(self) -> str | None:
        """What failed, in words; None if the call was never made."""
        path = self.folder / "fired"
        return path.read_text() if path.exists() else None

    @property
    def is_dead(self) -> bool:
        """Whether the process was killed."""
        return (self.folder / "dead").exists()

    def next(self, what: str, on: str, kinds: Sequence[str]) -> str | None:
        """Count a call, and return how it fails; None if it does not.

        Raises:
            Killed: If the process is dead, or dies now.
        """
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (self.folder / "dead").exists():
                raise Killed
            calls = self.folder / "calls"
            with calls.open("a") as log:
                log.write(json.dumps([what, on]) + "\n")
            at, kind, *chosen = json.loads((self.folder / "armed").read_text())
            if not (chosen[0] in what and chosen[1] in on):
                return None
            number = sum(chosen[0] in call.what and chosen[1] in call.on for call in self.calls())
            if number != at:
                return None
            # Threads take turns otherwise than they did before, so the n-th call may be one that
            # cannot fail that way.
            if kind not in kinds:
                # To die after a question is to die before it; another fault would be another tale.
                kind = BEFORE if kind == AFTER else kinds[at % len(kinds)]
            (self.folder / "fired").write_text(f"{kind}: at call {number}, {what} {on}")
            if kind == BEFORE:
                self.die()
            return str(kind)

    def die(self) -> None:
        """End the process, for itself and all its workers."""
        (self.folder / "dead").touch()
        raise Killed


class Faulty:
    """Put before a store's class: its calls fail as it is told."""

    faults: Faults
    _inside = threading.local()

    def failing(self, faults: Faults) -> Self:
        """Take orders from here on."""
        self.faults = faults
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "faults": self.faults}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.faults = state["faults"]

    @contextmanager
    def _counted(self, what: str, on: str) -> Iterator[str | None]:
        """Count a call that somebody outside makes, not those that it is made of."""
        if getattr(self._inside, "call", False):
            yield None
            return
        kind = self.faults.next(what, on, STORE_KINDS[what])
        if kind == ERROR and what != "delete":
            raise PermissionDeniedError(f"{what} {on!r} of {self.root}: AccessDenied. Ask again.")
        if kind == TIMEOUT and STORE_KINDS[what][:4] != _WRITE:
            raise _timed_out(self, what, on)
        self._inside.call = True
        try:
            yield kind
        finally:
            self._inside.call = False
        if kind == AFTER:
            self.faults.die()
        if kind == TIMEOUT and what != "delete":
            raise _timed_out(self, what, on)
        if kind == TWICE:
            raise ObjectExistsError(
                f"{what} {on!r}: {self.root} has such an object already; it was left as it is. "
                "Look."
            )

    def children(self, prefix: str) -> tuple[list[str], pa.Table]:
        with self._counted("children", prefix) as kind:
            if kind == CUT:
                raise _cut_off(self, prefix)
            if kind == EMPTY:
                return [], OBJECT_LISTING.empty_table()
            return super().children(prefix)

    def list(self, prefix: str) -> Iterator[pa.RecordBatch]:
        with self._counted("list", prefix) as kind:
            batches = [] if kind == EMPTY else list(super().list(prefix))
        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2) if kind == CUT else batch
        if kind == CUT:
            raise _cut_off(self, prefix)

    def head(self, key: str) -> Any:
        with self._counted("head", key):
            return super().head(key)

    def written_at(self, key: str) -> Any:
        with self._counted("read", key) as kind:
            written = super().written_at(key)
        brought = self.small_files.get(key)
        if brought is not None:
            self.small_files.keep(key, _damaged(brought, kind))
        return written

    def content(self, key: str) -> Any:
        with self._counted("head", key):
            return super().content(key)

    def describe(self, key: str) -> Any:
        with self._counted("describe", key):
            return super().describe(key)

    def read(self, key: str) -> bytes:
        with self._counted("read", key) as kind:
            return _damaged(super().read(key), kind)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        with self._counted("read_range", key) as kind:
            data = _damaged(super().read_range(key, start, length), kind)
        if len(data) != length:
            raise _cut_off(self, key)
        return data

    @contextmanager
    def open_source(self, key: str) -> Iterator[Any]:
        with self._counted("open_source", key) as kind, super().open_source(key) as source:
            found = io.BytesIO(_damaged(source.read(), kind))
        yield found

    def put(self, key: str, data: bytes) -> None:
        with self._counted("put", key):
            super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        with self._counted("put_if_absent", key):
            super().put_if_absent(key, data)

    @contextmanager
    def open_sink(self, key: str) -> Iterator[Any]:
        # What is written may be read from elsewhere meanwhile, so it is gathered first.
        nested, gathered = getattr(self._inside, "call", False), io.BytesIO()
        if nested:
            with super().open_sink(key) as sink:
                yield sink
            return
        yield gathered
        with self._counted("open_sink", key), super().open_sink(key) as sink:
            sink.write(gathered.getvalue())

    def transfer(self, source: Any, target: str) -> None:
        with self._counted("transfer", target):
            super().transfer(source, target)

    def link_to(self, key: str, target: str, *, young: bool = False) -> bool:
        with self._counted("link_to", target):
            return super().link_to(key, target, young=young)

    def delete(
        self, keys: Sequence[str], *, pace: Callable[[], None] = unpaced
    ) -> list[DeleteOutcome]:
        return self._deleted(keys, lambda: super(Faulty, self).delete(keys, pace=pace))

    def delete_first_names(
        self, second: Mapping[str, Any], *, pace: Callable[[], None] = unpaced
    ) -> list[DeleteOutcome]:
        return self._deleted(
            second, lambda: super(Faulty, self).delete_first_names(second, pace=pace)
        )

    def _deleted(
        self, keys: Collection[str], delete: Callable[[], list[DeleteOutcome]]
    ) -> list[DeleteOutcome]:
        with self._counted("delete", ", ".join(keys)) as kind:
            if kind == ERROR:
                return [DeleteOutcome(key, "refused", "AccessDenied") for key in keys]
            outcomes = delete()
            if kind == TIMEOUT:
                return [DeleteOutcome(key, "failed", "no answer") for key in keys]
            return outcomes


class FaultyStore(Faulty, LocalStore):
    """A local store whose calls fail."""


class FaultyS3Store(Faulty, S3Store):
    """A store in a bucket whose calls fail, above the client and its own repetitions."""


def _damaged(data: bytes, kind: str | None) -> bytes:
    if kind == CUT:
        return data[: len(data) // 2]
    if kind == WRONG:
        return bytes(byte ^ 0x5A for byte in data)
    return b"" if kind == EMPTY else data


def _timed_out(store: Any, what: str, on: str) -> TransientError:
    return TransientError(f"{what} {on!r} of {store.root}: no answer in time. Run again.")


def _cut_off(store: Any, on: str) -> IncompleteReadError:
    return IncompleteReadError(f"{on!r} of {store.root} was cut off. Run again.")


class FaultyConnections:
    """Stands between the SDK and its connections to the server.

    Args:
        connections: The `urllib3.PoolManager`.
        faults: Which call fails, and how.
    """

    def __init__(self, connections: Any, faults: Faults) -> None:
        self._connections = connections
        self._faults = faults

    def request(self, method: str, url: str, **options: Any) -> urllib3.BaseHTTPResponse:
        """Send a request, as a `PoolManager` does, without reading the answer's body."""
        path = url.partition("/api/v1")[2]
        kind = self._faults.next(method, path, HTTP_KINDS)
        if kind == ERROR:
            return _answer(500, b'{"message": "internal"}')
        if kind == "denied":
            return _answer(403, b'{"message": "insufficient permissions"}')
        response = self._connections.request(method, url, **options)
        if kind is None:
            return response
        body = response.read()
        if kind == AFTER:
            self._faults.die()
        if kind == TIMEOUT:
            raise ReadTimeoutError(self._connections, url, "Read timed out.")
        if kind == "empty list":
            return _answer(response.status, _without_results(body), response.headers)
        if kind == CUT and len(body) % 2:
            raise ProtocolError(
                "Connection broken", IncompleteRead(len(body) // 2, len(body) - len(body) // 2)
            )
        return _answer(response.status, _damaged(body, kind), response.headers)


def _without_results(body: bytes) -> bytes:
    document = json.loads(body) if body else None
    if not isinstance(document, dict) or "results" not in document:
        return body
    pagination = {"has_more": False, "max_per_page": 1000, "next_offset": "", "results": 0}
    return json.dumps({**document, "results": [], "pagination": pagination}).encode()


def _answer(status: int, body: bytes, headers: Any = None) -> urllib3.HTTPResponse:
    kept = {
        name: value
        for name, value in (headers or {}).items()
        if name.lower() in ("content-type", "date")
    }
    return urllib3.HTTPResponse(io.BytesIO(body), kept, status, preload_content=False)
