"""The lease: one collector at a time per namespace, kept by objects that are never overwritten.

`_lakefs/retention/gc/lease/` holds one log per epoch, `<epoch>/<n>`: what happened to one holder's
lease, in order. Each place of a log can be written only once (create-if-absent), so the store
decides who wrote it:

* `held`: the holder, and until when its lease is good. Every heartbeat is the next place.
* `released`: the holder ended. Anybody may begin the next epoch.
* `failed`: the holder ended while executors may still have been at work on what it had sent. They
  may be, until the lease would have run out.
* `taken`: somebody else ended the lease of a dead holder, at the place of that holder's next
  heartbeat.

A new holder first closes the newest log and then writes place 0 of the next epoch. A heartbeat and
a take-over want the same place, so one of them learns that it came too late. After a write, the
writer checks whether there is a higher epoch. If there is, it wrote into a log that others had left
behind, and it is no holder. (Old logs are pruned, the two newest never.)

A holder deletes nothing after `Lease.expires_at`, by whatever clock. Whoever takes over waits
`MAX_CLOCK_SKEW` longer by its own clock. So the two never overlap as long as clocks agree to 5
minutes. Before a lease is taken, this machine's clock is compared with the store's. A clock that is
ahead would keep everybody waiting until then, or end a lease that is still good.

Nobody goes on before the lease of a holder that did not release it has run out, with one exception.
Who may go on then:

* The same run doing the same work. The command names the run. Where the kernel of the machine that
  both ran on knows that none of the holder's processes is left (`processes`), it need not wait for
  the end of the lease: only for what they had sent, as long as they themselves would have waited
  for an answer, and half a minute. Others wait as ever, also for what that holder had sent.
* Anything else only with `take_over` naming the dead run: somebody must have looked why it died.
* Anybody, if the holder ended by itself, or did house-keeping or undid a removal, which nobody has
  to finish.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from spark_core import lakegc_keys
from spark_core.clocks import MAX_CLOCK_SKEW, SystemClock, require_near, require_not_set_back
from spark_core.errors import (
    LakegcError,
    LeaseHeldError,
    LeaseLostError,
    SameWorkError,
    TransientError,
    UnsafePlanError,
)
from spark_core.lock import processes
from spark_core.lock.lease_log import (
    LeaseRecord,
    Owner,
    State,
    Work,
    last_record,
    newest_epoch,
    places,
    write,
)
from spark_core.run import Run
from spark_core.storage import ObjectStore
from spark_core.storage.probes import honours_conditional_put, read_clock

# Heartbeats in the time that a lease is good for: two may fail before it runs out.
BEATS_PER_TTL = 3
KEPT_EPOCHS = 2
# No settings make a lease good for longer (`lease_ttl_seconds`). It matters only if a clock was
# ahead.
LONGEST_TTL = timedelta(hours=1)
# Instants are shown in whole seconds, and nobody is told one that is too early.
_ALMOST_A_SECOND = timedelta(microseconds=999_999)
# Added to the longest time for which a request may be under way.
_REQUEST_MARGIN = timedelta(seconds=30)

_TERMS_UNKNOWN = (
    "a lease taken now would keep everybody else waiting for as much, or end one under which "
    "somebody is at work"
)


class Lease:
    """A lease that this process holds, until its block ends or `expires_at`.

    As a context manager it is released at the end. `held` gives one that renews itself.

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
                f"it ran out at {_shown(self.expires_at)} and could not be renewed in time"
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


def acquire(
    run: Run,
    *,
    take_over: str | None = None,
    work: Work = "sweep",
    on_this_machine: bool = False,
) -> Lease:
    """Become the one collector of a namespace.

    Args:
        run: The run that is to delete or move objects.
        take_over: Key of the dead run whose lease may be taken over.
        work: What is to be done under the lease.
        on_this_machine: All that deletes runs here, each task of it under `Lease.tasks_lock`.

    Returns:
        The lease; use it as a context manager.

    Raises:
        LeaseHeldError: If another collector has it or died with it. The text says who, since and
            until when, and what to do.
        SameWorkError: The same, if the holder does this work of this run and will end.
        CorruptTableError: If a record cannot be read, so that nobody knows who holds it.
    """
    owner = Owner.here(run, work)
    last = last_record(run.store)
    if last is not None:
        _require_ended(run, last, owner, take_over)
        if last.state in ("held", "failed"):
            _close_for(run, last, owner)
    presence = processes.announce(owner.id) if on_this_machine else None
    try:
        return Lease(run, _begin(run, last, owner), presence)
    except BaseException:
        if presence is not None:
            presence.close(nothing_under_way=True)
        raise


def _close_for(run: Run, last: LeaseRecord, owner: Owner) -> None:
    """Write the end of another holder's lease at the place of its next heartbeat."""
    closing = replace(
        last, number=last.number + 1, state="taken", written_at=run.now(), taken_by=owner
    )
    written = write(run.store, closing)
    if written != closing:
        record = written or last
        same = owner.does_the_same_as(record.owner)
        raise _held(
            run,
            record,
            "it was at work or taken over in this very moment",
            "Run again in a while.",
            same=same,
        )


def _begin(run: Run, last: LeaseRecord | None, owner: Owner) -> LeaseRecord:
    """Write the first record of the next epoch."""
    now = run.now()
    first = LeaseRecord(
        epoch=1 if last is None else last.epoch + 1,
        number=0,
        state="held",
        owner=owner,
        since=now,
        written_at=now,
        expires_at=now + run.options.lease_ttl,
        earlier_until=_still_waited_for(last, now),
    )
    written = write(run.store, first)
    if written != first or newest_epoch(run.store) != first.epoch:
        record = last_record(run.store) or first
        same = owner.does_the_same_as(record.owner)
        raise _held(run, record, "it was first by a moment", "Wait until it has ended.", same=same)
    return first


@contextmanager
def held(run: Run, work: Work = "sweep", *, on_this_machine: bool = False) -> Iterator[Lease]:
    """Hold the lease of a namespace while the block works, after the store proved itself.

    The store must prove that a lease means something (`require_conditional_put`). A thread renews
    the lease, so that a long step does not let it run out. The block calls `Lease.beat` before it
    sends anything that deletes: that tells it if the lease is lost. `Run.take_over` is what may be
    taken over.

    Args:
        run: The run.
        work: What is done under the lease.
        on_this_machine: As `acquire` has it.

    Yields:
        The lease.

    Raises:
        UnsafePlanError: If the store does not honour create-if-absent, and nobody said that the run
            is alone; or if this machine's clock is further than `max_clock_skew` from the store's.
        LeaseHeldError: As `acquire` does.
    """
    require_conditional_put(run)
    require_right_clock(run)
    with acquire(run, take_over=run.take_over, work=work, on_this_machine=on_this_machine) as lease:
        ended = threading.Event()
        pause = run.options.lease_ttl.total_seconds() / BEATS_PER_TTL
        beating = threading.Thread(
            target=_keep_beating, args=(lease, ended, pause), name="lakegc-lease", daemon=True
        )
        beating.start()
        try:
            with suppress(TransientError):  # the next holder prunes
                prune(run.store, lease)
            yield lease
        finally:
            ended.set()
            beating.join()


def _keep_beating(lease: Lease, ended: threading.Event, pause: float) -> None:
    while not ended.wait(pause):
        try:
            lease.beat()
        except LeaseLostError:
            return  # the worker's next `beat` raises it
        except LakegcError:
            # Not renewed: a later beat renews it, or it runs out, which `expires_at` shows.
            continue


def require_conditional_put(run: Run) -> None:
    """Refuse a store on which two collectors could both seem to hold the lease (safety 33).

    Raises:
        UnsafePlanError: If the store does not honour create-if-absent, and the options do not say
            that nobody else collects.
    """
    if run.options.exclusive:
        return
    if not honours_conditional_put(
        run.store, f"{lakegc_keys.PROBE}condition-{secrets.token_hex(8)}"
    ):
        raise UnsafePlanError(
            f"{run.store.root}: the store does not keep the condition of a put (a second writer of "
            "one object was not told so), "
            "so no lease can keep two collectors apart there",
            "Use a store or a gateway that honours "
            f"If-None-Match; or, if nobody else ever collects {run.repository.id}, set exclusive "
            "= true for it.",
        )


def require_right_clock(run: Run) -> None:
    """Refuse to take a lease by a clock that is not the store's.

    All who come later compare the lease's end with their own clocks.

    Raises:
        UnsafePlanError: If the clock is further off than `max_clock_skew`, or was set back by more
            since the run began.
    """
    clock, limit = run.environment.clock, run.options.max_clock_skew
    require_near(
        read_clock(run.store), f"the store of {run.store.root}", at_most=limit, why=_TERMS_UNKNOWN
    )
    if isinstance(clock, SystemClock):
        require_not_set_back(clock.ahead, at_most=limit, why=_TERMS_UNKNOWN)


def prune(store: ObjectStore, lease: Lease) -> None:
    """Delete the logs of old epochs, except the two newest.

    So the highest number never disappears. Nothing of the newest log is deleted: a slow taker-over
    could write into the gap. The next holder tries again what cannot be deleted now.

    Args:
        store: Rooted at the namespace.
        lease: The caller's lease.
    """
    old = [key for epoch, _, key in places(store) if epoch <= lease.epoch - KEPT_EPOCHS]
    if old:
        store.delete(old)


def _require_ended(run: Run, last: LeaseRecord, owner: Owner, take_over: str | None) -> None:
    """Refuse while the last holder may be at work, or somebody has to look at it first."""
    if last.under_way_until is None:
        return
    until, now = last.under_way_until, run.now()
    same = owner.does_the_same_as(last.owner)
    from_then_on = until + MAX_CLOCK_SKEW
    left = _left_to_wait(run, last) if same else None
    if left is not None:
        from_then_on = min(from_then_on, now + left)
    needs_a_name = _needs_a_name(last, same=same)
    by_name = f"take it over by name with --take-over {last.owner.run}"
    if now < from_then_on:
        why = _why_under_way(last, may_live=left is None)
        if left is None and _is_beyond_any_lease(run, until, now):
            raise _held(run, last, why, _clock_was_ahead(until))
        at = f"at {_shown(from_then_on + _ALMOST_A_SECOND)} or later"
        what = f"Run again {at}."
        if left is None and last.state == "held":
            next_step = by_name if needs_a_name else "run again"
            what = f"Wait until it has ended. If it is dead: {at}, {next_step}."
        raise _held(run, last, why, what, same=same)
    if needs_a_name and take_over != last.owner.run:
        named = (
            ""
            if take_over is None
            else f", and it is not run {take_over}, the one to be taken over"
        )
        raise _held(
            run,
            last,
            f"its lease ran out at {_shown(last.expires_at)}, so it died or lost the store{named}",
            "Look at what it left undone; run the same command as it did to finish it, or "
            f"{by_name}.",
        )


def _needs_a_name(last: LeaseRecord, *, same: bool) -> bool:
    """Say whether a person must name the run whose lease ran out while it was held."""
    nobody_waits = last.owner.work in ("prune", "undo")
    return last.state == "held" and not nobody_waits and not same


def _why_under_way(last: LeaseRecord, *, may_live: bool) -> str:
    """Say why the last holder, or what it sent, may be at work still.

    Args:
        last: The last lease.
        may_live: Whether a process of the holder may be left.
    """
    if not may_live:
        return (
            "none of its processes is left on this machine, and what they had sent may be under "
            "way still"
        )
    if last.state == "held":
        return (
            "it renews its lease while it lives, and did so last until "
            f"{_shown(last.expires_at)}; clocks may differ by {MAX_CLOCK_SKEW}"
        )
    return "it has ended, and what it or the one before it had sent may be under way still"


def _is_beyond_any_lease(run: Run, until: datetime, now: datetime) -> bool:
    """Say whether a lease ends later than any lease can that was written by a right clock."""
    return until > now + max(LONGEST_TTL, run.options.lease_ttl) + MAX_CLOCK_SKEW


def _clock_was_ahead(until: datetime) -> str:
    return (
        f"No lease is good until {_shown(until)}: a clock was ahead when "
        "that was written. Set the clocks right (NTP); once you are sure that nobody "
        f"collects, delete the objects under {lakegc_keys.LEASE}, all of them, and run "
        "again."
    )


def _still_waited_for(last: LeaseRecord | None, now: datetime) -> datetime | None:
    """Return until when something of earlier holders is waited for by those who come later."""
    until = None if last is None else last.under_way_until
    return None if until is None or now >= until + MAX_CLOCK_SKEW else until


def _left_to_wait(run: Run, last: LeaseRecord) -> timedelta | None:
    """Return how long what a holder had sent may still be under way, if its processes are gone.

    Returns:
        None if nobody can tell.
    """
    longest = run.store.longest_request
    gone = None if longest is None else processes.ended_for(last.owner.id)
    if longest is None or gone is None:
        return None
    return max(longest + _REQUEST_MARGIN - gone, timedelta())


def _held(
    run: Run, record: LeaseRecord, why: str, what: str, *, same: bool = False
) -> LeaseHeldError:
    kind = SameWorkError if same else LeaseHeldError
    return kind(
        f"{run.store.root}: the lease is that of the {record.owner}, since "
        f"{_shown(record.since)}: {why}",
        what,
    )


def _shown(instant: datetime) -> str:
    return instant.replace(microsecond=0).isoformat()
