"""Undo: bring back the objects of a sweep, and prove that they are there.

Nothing is deleted here and no object is ever replaced. `deleted` finds what a sweep deleted,
`bringing_back` brings an object back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from spark_core import lakegc_keys, recorded_work
from spark_core.errors import IncompleteReadError, LakegcError, TransientError
from spark_core.lock import lease
from spark_core.lock.held_lease import Lease
from spark_core.phases import phase, restoring
from spark_core.recorded_work import Tally, TaskOrders
from spark_core.records.manifest import Part
from spark_core.run import Run
from spark_core.schemas import RESTORATIONS
from spark_core.storage.undelete import UndeleteOutcome
from spark_core.undo.bringing_back import BringingBack
from spark_core.undo.deleted import Deleted

# Rounds that bring nothing back before the restore gives up.
_IDLE_ROUNDS = 3
# The result names at most this many objects that are not back.
_NAMED = 1_000


@dataclass
class Restored:
    """What a restore did.

    Attributes:
        objects: By outcome of `UndeleteOutcome`.
        size_bytes: By outcome.
        left: Some of the objects that are not back.
        record: Folder of the tables of all outcomes, ending in a slash; None if nothing was written
            down.
    """

    objects: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)
    left: list[UndeleteOutcome] = field(default_factory=list)
    record: str | None = None

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for is back or, in a dry run, could come back."""
        return not self.objects["failed"] and not self.objects["not_restorable"]

    def add(self, tally: Tally) -> None:
        """Add what tasks did."""
        self.objects.update(tally.objects)
        self.size_bytes.update(tally.size_bytes)
        named = tally.named[: _NAMED - len(self.left)]
        self.left += [UndeleteOutcome(key, outcome, error) for key, outcome, error in named]  # type: ignore[arg-type]


def restore(run: Run, addresses: Sequence[str] | None = None, *, dry_run: bool = False) -> Restored:
    """Bring back what the sweep of a run deleted.

    The deleted objects meet what the mark saw of them. Tasks of Spark bring back many objects, in
    rounds that each end before the lease may run out; this process brings back few.

    Args:
        run: The run whose sweep is undone.
        addresses: Only these, relative or in full; all that the sweep deleted when None.
        dry_run: Only say what could come back; writes nothing.

    Returns:
        The outcome of each object; the tables of all outcomes are stored under
        `lakegc_keys.RESTORES`.

    Raises:
        ChainError: If the run was never swept.
        LeaseHeldError: If a collector is at work in the namespace.
        IncompleteReadError: If Spark lost objects on the way.
    """
    wanted = (
        None
        if addresses is None
        else list(dict.fromkeys(_relative(run, address) for address in addresses))
    )
    done = Restored()
    with phase(lambda: restoring(done.objects["restored"])):
        deleted = Deleted.read(run)
        if dry_run:
            _bring_back_all(run, deleted, wanted, done, None)
            return done
        with lease.hold_lease(run, work="restore") as held:
            # Found again: a sweep that ended in between has written down more.
            _bring_back_all(run, Deleted.read(run), wanted, done, held)
    return done


def _relative(run: Run, address: str) -> str:
    return address.removeprefix(run.store.root)


def _bring_back_all(
    run: Run,
    deleted: Deleted,
    wanted: Sequence[str] | None,
    done: Restored,
    held: Lease | None,
) -> None:
    """Bring back in rounds until each object has an outcome; a dry run, without a lease, looks."""
    began = run.now()
    folder = None if held is None else lakegc_keys.record(lakegc_keys.RESTORES, run.key, began)
    if held is not None:
        # Before the first object is back: what a mark knows of them is wrong from then on.
        run.store.put(lakegc_keys.restored_key(began), b"")
    work = BringingBack(str(run.key), began, run.options.read_threads, dry_run=held is None)
    orders = TaskOrders(run.store, work, RESTORATIONS, folder)
    objects, parts, idle = deleted.objects(run, wanted), list[Part](), 0
    nothing_is_back = False
    try:
        while True:
            tally = recorded_work.work_on(run, objects, parts, orders, held=held)
            done.add(tally)
            parts += tally.parts
            done.record = folder if parts else None
            if tally.problem is not None:
                raise tally.problem
            if not tally.left:
                # What is there already a task may have brought that died before it told of it.
                nothing_is_back = set(+done.objects) <= {"not_restorable"}
                return
            if not tally.cut:
                raise IncompleteReadError(
                    f"run {run.key} of {run.repository.id}: Spark lost {tally.left} of the objects "
                    "that were to be brought back; the others have their outcome. Run the same "
                    "command again; if it stays, report it with this text."
                )
            idle = 0 if tally.done else idle + 1
            if idle == _IDLE_ROUNDS:
                raise _without_time(run, tally.left)
    finally:
        if held is not None:
            # A mark that listed the store meanwhile does not know of what came back after that.
            # Without this note, the next clean mark finds it.
            with suppress(LakegcError):
                if nothing_is_back:
                    run.store.delete([lakegc_keys.restored_key(began)])
                else:
                    run.store.put(lakegc_keys.restored_key(run.now()), b"")


def _without_time(run: Run, left: int) -> TransientError:
    return TransientError(
        f"run {run.key} of {run.repository.id}: {_IDLE_ROUNDS} rounds passed without a single "
        "object brought back, because the lease was over before (it is good for "
        f"{run.options.lease_ttl}); {left} are left. Raise lease_ttl_seconds, or give Spark more "
        "cores, and run the same command again: it goes on from what it finds."
    )
