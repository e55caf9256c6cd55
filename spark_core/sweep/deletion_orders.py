"""What the driver tells every task of a round, and what a task tells the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeAlias

from spark_core.addresses.candidates import Limits
from spark_core.records.journal import Journal
from spark_core.storage import ObjectStore
from spark_core.storage.outcomes import Outcomes, Pace
from spark_core.sweep.deadline import Clocks, Deadline
from spark_core.sweep.objects_now import Row
from spark_core.sweep.pacing import Rate
from spark_core.sweep.stop_sign import StopSign

# Rows that are looked at together.
BATCH_ROWS = 1_000
# Most rows of one intent.
LOT_ROWS = 25_000
# Requests of a task that are under way at once, where deletions have no limit.
REQUESTS_AT_ONCE = 4
# Undeleted objects that a task names to the driver.
NAMED = 20

# Deletes objects as `ObjectStore.delete` does: one outcome per address, in the order given. With
# each address comes the object as it was looked at. `already_gone` and `changed`: it found the
# object gone, or another one there, and had not asked for a deletion.
Dispose: TypeAlias = Callable[[ObjectStore, Mapping[str, Row], Pace], Outcomes]

# What became of an object: its outcome, and the cause of one that is not wanted.
Answer: TypeAlias = tuple[str, str | None]


def delete(store: ObjectStore, rows: Mapping[str, Row], pace: Pace) -> Outcomes:
    """Delete objects for good.

    Each was there a moment ago, and lakegc asks for its deletion: a repeated request finds the
    result of the first one.
    """
    return [
        replace(one, outcome="deleted") if one.outcome == "already_gone" else one
        for one in store.delete(list(rows), pace=pace)
    ]


@dataclass(frozen=True)
class DeletionOrders:
    """What the driver tells every task of a round.

    Attributes:
        journal: Where intents and outcomes are written. Objects are deleted in the journal's store.
        limits: The limits that each address is compared with once more.
        deadline: Until when requests may be sent.
        sweep: Id of the process that sweeps.
        round: Number of the round in that process.
        deletes_per_second: Most deletions of each task per second; None: no limit.
        rate: With which the tasks of each process begin to look for the store's own pace; None: it
            has none.
        threads: Objects that a task asks the store for at once.
        dispose: Deletes objects, or moves them to quarantine.
        batch_rows: Rows of one batch.
        lot_rows: Rows of one lot.
        requests_at_once: Requests of a task that are under way at once, where deletions have no
            limit.
        clocks: The executor's clocks; None means its own.
        tasks_lock: As `Lease.tasks_lock` has it.
        is_ended: Says whether the driver wants the tasks to end; None: it never does.
        clock_ahead: How far the run's clock, which dates what is journaled, is ahead of the
            driver's, which keeps the deadline.
    """

    journal: Journal
    limits: Limits
    deadline: Deadline
    sweep: str
    round: int
    deletes_per_second: float | None = None
    rate: Rate | None = None
    threads: int = 8
    dispose: Dispose = delete
    batch_rows: int = BATCH_ROWS
    lot_rows: int = LOT_ROWS
    requests_at_once: int = REQUESTS_AT_ONCE
    clocks: Clocks | None = None
    tasks_lock: str | None = None
    is_ended: StopSign | None = None
    clock_ahead: timedelta = timedelta()


@dataclass
class Tally:
    """What tasks did, as far as the driver needs it.

    Attributes:
        objects: Number by outcome; `unsent` ones are left to the next round.
        size_bytes: Bytes by outcome.
        left: Some of the objects that the store did not delete: address, outcome and cause.
        retries: Attempts at tasks that had an earlier attempt.
        busy: Times that the store was busy.
        paces: Keys a second that the store takes from a process, as each task knew it at its end;
            nothing of tasks that never saw it busy.
    """

    objects: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)
    left: list[tuple[str, str, str]] = field(default_factory=list)
    retries: int = 0
    busy: int = 0
    paces: list[float] = field(default_factory=list)

    def count(self, address: str, size: int, answer: Answer) -> None:
        """Add one object."""
        outcome, error = answer
        self.objects[outcome] += 1
        self.size_bytes[outcome] += size
        if outcome in {"refused", "failed"} and len(self.left) < NAMED:
            self.left.append((address, outcome, error or ""))

    def add(self, other: Tally) -> None:
        """Add what another task did."""
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)
        self.left = sorted([*self.left, *other.left])[:NAMED]
        self.retries += other.retries
        self.busy += other.busy
        self.paces += other.paces

    @property
    def concluded(self) -> int:
        """Number of objects that are not left to the next round."""
        return self.objects.total() - self.objects["unsent"]
