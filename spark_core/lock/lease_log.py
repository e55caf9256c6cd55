"""The logs of the lease in the store: who held it, place by place, each written once; and whether a process still lives."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

from spark_core import layout
from spark_core.errors import CorruptTableError, NotFoundError, ObjectExistsError
from spark_core.records.sealed import digest, seal
from spark_core.run import Run
from spark_core.storage import ObjectStore

LEASE_FORMAT = 1
# Read as well: every format of a release (see `sealed`). 1: 0.1.0.
LEASE_FORMATS = (1,)

_WAY_ON = (
    "This is a file of lakegc's own, not of the server, and who collects here cannot be told without it. Once you are sure "
    f"that nobody does, delete the objects under {layout.LEASE}, all of them, and run again."
)

Work = Literal["sweep", "restore", "prune"]
State = Literal["held", "released", "failed", "taken"]

_KEY = re.compile(rf"{re.escape(layout.LEASE)}(\d{{10}})/(\d{{10}})")
_INSTANTS = ("since", "written_at", "expires_at", "earlier_until")
# What a local store leaves when it was killed while it wrote.
_UNPUBLISHED = re.compile(r".*/\.lakegc-[0-9a-f]{16}\.part")

# Ids of the leases of this process whose block has not ended.
live: set[str] = set()


@dataclass(frozen=True)
class Owner:
    """Who holds a lease.

    Attributes:
        id: Made anew for every lease.
        run: Run key.
        repository: Repository name.
        work: What it does under the lease.
        host: Name of its machine.
        boot: The machine's boot and process space, where they can be told.
        pid: Its process there ...
        started: ... and when that began, in the machine's own count; a later process may get the number again.
    """

    id: str
    run: str
    repository: str
    work: Work
    host: str
    boot: str | None
    pid: int
    started: int | None

    @classmethod
    def here(cls, run: Run, work: Work) -> Owner:
        """Describe this process as one that begins to work on a run."""
        pid = os.getpid()
        return cls(
            id=secrets.token_hex(16),
            run=str(run.key),
            repository=run.repository.id,
            work=work,
            host=socket.gethostname(),
            boot=_boot(),
            pid=pid,
            started=_own_start(),
        )

    def does_the_same_as(self, other: Owner) -> bool:
        """Say whether both do the same work of the same run."""
        return (self.run, self.repository, self.work) == (other.run, other.repository, other.work)

    @property
    def is_dead(self) -> bool:
        """It ended for certain; False where that cannot be told from here."""
        if self.boot is None or self.started is None or (self.host, self.boot) != (socket.gethostname(), _boot()):
            return False
        try:
            started = _started(self.pid)
        except OSError:
            return False
        if self.pid == os.getpid() and self.started == started:
            return self.id not in live
        return started != self.started

    def __str__(self) -> str:
        return f"{self.work} of run {self.run} of {self.repository} (process {self.pid} on {self.host})"


@dataclass(frozen=True)
class Record:
    """One place of a log.

    Attributes:
        epoch: Which log.
        number: Which place.
        state: What happened.
        owner: Who holds or held the lease.
        since: When the epoch began.
        written_at: When this was decided, by the clock of who wrote it.
        expires_at: Until when the owner may act, unless it renews the lease.
        taken_by: Who ended another one's lease.
        earlier_until: Until when something that holders before this one had sent may still be under way; None if nothing is.
    """

    epoch: int
    number: int
    state: State
    owner: Owner
    since: datetime
    written_at: datetime
    expires_at: datetime
    taken_by: Owner | None = None
    earlier_until: datetime | None = None

    @property
    def under_way_until(self) -> datetime | None:
        """Until when something of this or an earlier holder may be under way; None if all of it has ended."""
        own = None if self.state == "released" else self.expires_at
        return max((until for until in (own, self.earlier_until) if until is not None), default=None)

    @property
    def key(self) -> str:
        """Where it lies."""
        return layout.lease_key(self.epoch, self.number)

    @property
    def writer(self) -> str:
        """Id of who wrote it."""
        return (self.taken_by or self.owner).id

    def to_json(self) -> bytes:
        """Write the record, with a digest: one of which a letter is damaged must not end before its time."""
        texts = {
            name: None if instant is None else instant.isoformat()
            for name, instant in vars(self).items()
            if name in _INSTANTS
        }
        return seal({"format": LEASE_FORMAT, **asdict(self), **texts})

    @classmethod
    def from_json(cls, data: bytes, *, name: str) -> Record:
        """Read a record back.

        Args:
            data: The bytes as stored.
            name: Key, for the message.

        Raises:
            CorruptTableError: If it is no such record, or lies where it does not belong.
        """
        try:
            document = json.loads(data)
            if document.pop("sha256") != digest(document) or data != seal(document):
                raise CorruptTableError(name, None, "the record of a lease that was edited or damaged", _WAY_ON)
            written = document.pop("format")
            if written not in LEASE_FORMATS or document["state"] not in get_args(State):
                problem = f"a lease of another lakegc, in format {written!r}; use the one that wrote it"
                raise CorruptTableError(name, None, problem, _WAY_ON)
            taken_by = document.pop("taken_by")
            record = cls(
                **{**document, "owner": Owner(**document["owner"])}
                | {name: document[name] and _instant(document[name]) for name in _INSTANTS},
                taken_by=None if taken_by is None else Owner(**taken_by),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise CorruptTableError(name, None, f"not a record of a lease ({problem!r})", _WAY_ON) from problem
        if record.key != name:
            raise CorruptTableError(name, None, f"the record of a lease that belongs to {record.key}", _WAY_ON)
        return record


def write(store: ObjectStore, record: Record) -> Record | None:
    """Write a record where none is yet, and return what stands there: it, or what was first; None if that is pruned by now."""
    with suppress(ObjectExistsError):
        store.put_if_absent(record.key, record.to_json())
        return record
    # Ours, too, if the answer to the first try was lost: the client then sends it a second time.
    with suppress(NotFoundError):
        return Record.from_json(store.read(record.key), name=record.key)
    return None


def last_record(store: ObjectStore) -> Record | None:
    """Return the last record of the newest log; None if nobody ever had a lease."""
    while True:
        found = places(store)
        if not found:
            return None
        *_, key = max(found)
        with suppress(NotFoundError):  # pruned since it was listed, so there are newer ones
            return Record.from_json(store.read(key), name=key)


def newest_epoch(store: ObjectStore) -> int:
    """Return the number of the newest epoch, 0 if there is none."""
    return max((epoch for epoch, *_ in places(store)), default=0)


def places(store: ObjectStore) -> list[tuple[int, int, str]]:
    """List epoch, number and key of every record.

    Raises:
        CorruptTableError: If something else lies there.
    """
    found = []
    for batch in store.list(layout.LEASE):
        for key in batch.column("key").to_pylist():
            match = _KEY.fullmatch(key)
            if match is not None:
                found.append((int(match[1]), int(match[2]), key))
            elif not _UNPUBLISHED.fullmatch(key):
                raise CorruptTableError(key, None, "no record of a lease, and nothing else belongs there", _WAY_ON)
    return found


def _boot() -> str | None:
    """Name this boot of the machine and the space in which its process numbers count; None where that cannot be told."""
    try:
        if Path("/proc/self").readlink().name != str(os.getpid()):
            return None  # it shows the processes of another space, by other numbers
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def _own_start() -> int | None:
    """Return when this process began; None where that cannot be told."""
    try:
        return _started(os.getpid())
    except OSError:
        return None


def _started(pid: int) -> int | None:
    """Return when a process began, in the machine's own count; None if there is none that still runs.

    Raises:
        OSError: If there may be one that the system does not show.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        try:
            # Sends nothing. A system may hide the processes of others (`hidepid`), and not that they are there.
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        raise
    # The name in parentheses may hold anything, parentheses too.
    state, *rest = text.rpartition(")")[2].split()
    return None if state in ("Z", "X") else int(rest[18])


def _instant(text: Any) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no zone")
    return instant
