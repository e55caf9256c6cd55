"""The logs of the lease in the store: their records, written and read.

A log shows who held the lease, place by place. Each place is written once.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal, Self

from spark_core import lakegc_keys
from spark_core.errors import CorruptTableError, NotFoundError, ObjectExistsError
from spark_core.records.documents import Count, Document, Instant
from spark_core.run import Run
from spark_core.storage import ObjectStore

_WAY_ON = (
    "This is a file of lakegc's own, not of the server, and who collects here cannot be told "
    "without it. Once you are sure "
    f"that nobody does, delete the objects under {lakegc_keys.LEASE}, all of them, and run again."
)

Work = Literal["sweep", "restore", "prune", "undo"]
State = Literal["held", "released", "failed", "taken"]

_KEY = re.compile(rf"{re.escape(lakegc_keys.LEASE)}(\d{{10}})/(\d{{10}})")
# What a local store leaves if it was killed while it wrote.
_UNPUBLISHED = re.compile(r".*/\.lakegc-[0-9a-f]{16}\.part")


@dataclass(frozen=True)
class Owner:
    """Who holds a lease.

    Attributes:
        id: Made anew for every lease.
        run: Run key.
        repository: Repository name.
        work: What it does under the lease.
        host: Name of its machine, to be shown.
        pid: Its process on that machine, to be shown.
    """

    id: str
    run: str
    repository: str
    work: Work
    host: str
    pid: Count

    @classmethod
    def here(cls, run: Run, work: Work) -> Owner:
        """Describe this process at the beginning of its work on a run."""
        return cls(
            id=secrets.token_hex(16),
            run=str(run.key),
            repository=run.repository.id,
            work=work,
            host=socket.gethostname(),
            pid=os.getpid(),
        )

    def does_the_same_as(self, other: Owner) -> bool:
        """Say whether both do the same work of the same run."""
        return (self.run, self.repository, self.work) == (other.run, other.repository, other.work)

    def __str__(self) -> str:
        return (
            f"{self.work} of run {self.run} of {self.repository} "
            f"(process {self.pid} on {self.host})"
        )


@dataclass(frozen=True)
class LeaseRecord(Document):
    """One place of a log.

    Attributes:
        epoch: Which log.
        number: Which place.
        state: What happened.
        owner: Who holds or held the lease.
        since: When the epoch began.
        written_at: When this was decided, by the writer's clock.
        expires_at: Until when the owner may act, unless it renews the lease.
        taken_by: Who ended another owner's lease.
        earlier_until: The `under_way_until` of the holder before, if this one began sooner; others
            wait for that too.
    """

    CALLED: ClassVar[str] = "a record of a lease"
    NEXT_STEP: ClassVar[str] = _WAY_ON

    epoch: Count
    number: Count
    state: State
    owner: Owner
    since: Instant
    written_at: Instant
    expires_at: Instant
    taken_by: Owner | None = None
    earlier_until: Instant | None = None

    @property
    def under_way_until(self) -> datetime | None:
        """Until when what was sent may be under way; None if all of it has ended."""
        own = None if self.state == "released" else self.expires_at
        return max(
            (until for until in (own, self.earlier_until) if until is not None), default=None
        )

    @property
    def key(self) -> str:
        """Key of the record in the store."""
        return lakegc_keys.lease_key(self.epoch, self.number)

    @property
    def writer(self) -> str:
        """Id of the writer."""
        return (self.taken_by or self.owner).id

    @classmethod
    def from_json(cls, data: bytes, *, name: str) -> Self:
        """Read a record back.

        Raises:
            CorruptTableError: If it is no such record, or lies at the wrong key.
        """
        record = super().from_json(data, name=name)
        if record.key != name:
            raise CorruptTableError(
                name, None, f"the record of a lease that belongs to {record.key}", _WAY_ON
            )
        return record


def write(store: ObjectStore, record: LeaseRecord) -> LeaseRecord | None:
    """Write a record where none is yet, and return the record that stands there.

    That is this one or an earlier one; None if it has been pruned by now.
    """
    with suppress(ObjectExistsError):
        store.put_if_absent(record.key, record.to_json())
        return record
    # It is also ours if the answer to the first try was lost: the client then sends it a second
    # time.
    with suppress(NotFoundError):
        return LeaseRecord.from_json(store.read(record.key), name=record.key)
    return None


def last_record(store: ObjectStore) -> LeaseRecord | None:
    """Return the last record of the newest log; None if nobody ever had a lease."""
    while True:
        found = places(store)
        if not found:
            return None
        *_, key = max(found)
        with suppress(NotFoundError):  # pruned since it was listed, so there are newer ones
            return LeaseRecord.from_json(store.read(key), name=key)


def newest_epoch(store: ObjectStore) -> int:
    """Return the number of the newest epoch, 0 if there is none."""
    return max((epoch for epoch, *_ in places(store)), default=0)


def places(store: ObjectStore) -> list[tuple[int, int, str]]:
    """List epoch, number and key of every record.

    Raises:
        CorruptTableError: If something else lies there.
    """
    found = []
    for batch in store.list(lakegc_keys.LEASE):
        for key in batch.column("key").to_pylist():
            match = _KEY.fullmatch(key)
            if match is not None:
                found.append((int(match[1]), int(match[2]), key))
            elif not _UNPUBLISHED.fullmatch(key):
                raise CorruptTableError(
                    key, None, "no record of a lease, and nothing else belongs there", _WAY_ON
                )
    return found
