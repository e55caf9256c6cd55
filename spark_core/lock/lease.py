"""The lease: one collector at a time per namespace, kept by objects that are never overwritten.

`_lakefs/retention/gc/lease/<epoch>/<n>` is the log of one holder's lease; each place of it can be
written only once (create-if-absent):

* `held`: the holder, and until when its lease is good. Every heartbeat is the next place.
* `released`: the holder ended. Anybody may begin the next epoch.
* `failed`: the holder ended while executors may still have been at work on what it had sent. They
  may be, until the lease would have run out.
* `taken`: somebody else ended the lease of a dead holder, at the place of its next heartbeat.

A new holder first closes the newest log, then writes place 0 of the next epoch. After a write, the
writer checks that there is no higher epoch; if there is, it is no holder. A holder deletes nothing
after `Lease.expires_at`; whoever takes over waits `MAX_CLOCK_SKEW` longer. `last_holder` says who
may go on after a holder that did not release its lease.

Why this is enough: `docs/decisions/lease.md`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from spark_core.errors import LakegcError, LeaseLostError, TransientError
from spark_core.lock import processes
from spark_core.lock.held_lease import Lease
from spark_core.lock.last_holder import not_free, require_ended, still_waited_for
from spark_core.lock.lease_log import (
    LeaseRecord,
    Owner,
    Work,
    last_record,
    newest_epoch,
    places,
    write,
)
from spark_core.lock.store_and_clock import require_conditional_put, require_right_clock
from spark_core.run import Run
from spark_core.storage import ObjectStore

# Heartbeats in the time that a lease is good for: two may fail before it runs out.
BEATS_PER_TTL = 3
KEPT_EPOCHS = 2


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
        require_ended(run, last, owner, take_over)
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
        raise not_free(
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
        earlier_until=still_waited_for(last, now),
    )
    written = write(run.store, first)
    if written != first or newest_epoch(run.store) != first.epoch:
        record = last_record(run.store) or first
        same = owner.does_the_same_as(record.owner)
        raise not_free(
            run, record, "it was first by a moment", "Wait until it has ended.", same=same
        )
    return first


@contextmanager
def hold_lease(run: Run, work: Work = "sweep", *, on_this_machine: bool = False) -> Iterator[Lease]:
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
            is alone; or if this machine's clock is further than `MAX_CLOCK_SKEW` from the store's.
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
