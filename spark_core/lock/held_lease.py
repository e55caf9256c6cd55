"""A lease that this process holds: renewed by heartbeats, lost to others, and ended."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Self

from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import LakegcError, LeaseLostError
from spark_core.lock import processes
from spark_core.lock.last_holder import in_seconds
from spark_core.lock.lease_log import LeaseRecord, Owner, State, newest_epoch, write
from spark_core.run import Run


class Lease:
    """A lease that this process holds, until its block ends or `expires_at`.

    As a context manager it is released at the end. `lease.hold_lease` gives one that renews itself.

    Attributes:
        sent_until: Until when executors may send what they were given under it; None if each of
            them has answered. Whoever gives work to executors sets it before and clears it after.
    """

    def __init__(
        self, run: Run, first: LeaseRecord, presence: processes.Presence | None = None
    ) -> None:
        self._run = run
        self._presence = presence
        self._record = first
        self._lost: LeaseLostError | None = None
        self.sent_until: datetime | None = None
        # The heartbeat may come from a thread beside the one that works.
        self._writing = threading.Lock()

    @property
    def expires_at(self) -> datetime:
        """Until when the holder may delete, by the run's clock; `beat` extends it."""
        return self._record.expires_at

    @property
    def epoch(self) -> int:
        """The number of this holder among the holders of the namespace."""
        return self._record.epoch

    @property
    def owner(self) -> Owner:
        """The holder: this process."""
        return self._record.owner

    @property
    def tasks_lock(self) -> str | None:
        """Path of the lock that each task holds (`processes`); None if there is none."""
        return None if self._presence is None else self._presence.path

    def beat(self) -> None:
        """Renew the lease: write its next place, and check that no other epoch has begun.

        Raises:
            LeaseLostError: If somebody else has the lease, or it ran out so long ago that somebody
                may.
            TransientError: If the store does not answer; then the lease is simply not renewed.
        """
        with self._writing:
            if self._lost is not None:
                raise self._lost
            try:
                self._renew()
            except LeaseLostError as lost:
                self._lost = lost
                raise

    def _renew(self) -> None:
        store, now = self._run.store, self._run.now()
        if now >= self.expires_at + MAX_CLOCK_SKEW:
            raise self._gone(
                f"it ran out at {in_seconds(self.expires_at)} and could not be renewed in time"
            )
        last = self._record
        wanted = replace(
            last,
            number=last.number + 1,
            written_at=now,
            expires_at=now + self._run.options.lease_ttl,
            state="held",
        )
        written = write(store, wanted)
        while written is not None and written.writer == self.owner.id and written != wanted:
            # The answer to an earlier heartbeat was lost. That heartbeat stands, and this one comes
            # after it.
            wanted = replace(wanted, number=wanted.number + 1)
            written = write(store, wanted)
        if written is None:
            raise self._gone("others took it over, and went on")
        if written != wanted:
            raise self._gone(f"it was ended by the {written.taken_by or written.owner}")
        newest = newest_epoch(store)
        if newest != self.epoch:
            raise self._gone(
                f"epoch {newest} of the leases has begun, this one is of epoch {self.epoch}"
            )
        self._record = written

    def _gone(self, why: str) -> LeaseLostError:
        return LeaseLostError(
            f"{self._run.store.root}: the lease of the {self.owner} is lost: {why}",
            "Look who collects this namespace, and run the same command again: it goes on where "
            "it ended.",
        )

    def close(self) -> None:
        """End the lease; does nothing to a lost one.

        Others may begin at once, unless executors may still be at work on what was sent. A store
        that does not answer now is no reason to fail: the lease then runs out by itself.
        """
        with self._writing:
            now = self._run.now()
            over = self.sent_until is None or now >= self.sent_until + MAX_CLOCK_SKEW
            if self._lost is None:
                with suppress(LakegcError):
                    self._write_end(now, "released" if over else "failed")
            if self._presence is not None:
                self._presence.close(nothing_under_way=over)

    def _write_end(self, now: datetime, state: State) -> None:
        last = self._record
        ended = replace(last, number=last.number + 1, written_at=now, state=state)
        written = write(self._run.store, ended)
        if written is not None and written.writer == self.owner.id and written != ended:
            # A heartbeat whose answer was lost.
            write(
                self._run.store,
                replace(ended, number=ended.number + 1, expires_at=written.expires_at),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
