"""One task of a sweep on a local store, with clocks that move only when told."""

import os
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from spark_core import schemas
from spark_core.clocks import ClockReading
from spark_core.errors import IncompleteReadError
from spark_core.records.journal import Journal
from spark_core.storage.local import LocalStore
from spark_core.storage.outcomes import unpaced
from spark_core.sweep.deadline import Clocks, Deadline
from spark_core.sweep.delete_batches import run_task
from spark_core.sweep.deletion_orders import DeletionOrders
from tests.support.written_run import NOW, OLD, any_name, written_run

A, B, C, D, E = (f"data/s/{name}" for name in "abcde")
PLAN = pa.schema([*list(schemas.EXPIRED_ADDRESSES)[:3], pa.field("why", pa.string())])


class Clock:
    """A machine's clocks, which move only when told; the store's agrees with them."""

    def __init__(self):
        self.seconds = 0.0
        self.wall = lambda: NOW + timedelta(seconds=self.seconds)
        self.clocks = Clocks(
            self.wall, lambda: self.seconds, lambda _: ClockReading(timedelta(0), timedelta(0))
        )


class Store(LocalStore):
    """A local store that lists in order, as others do, notes what it is asked, and answers as a
    test wants.
    """

    def watch(self, clock):
        self.clock, self.deleted, self.listed, self.headed = clock, [], [], []
        self.answers, self.unreadable, self.takes, self.repeats, self.forgets = {}, set(), 0.0, 0, 0
        self.listing_takes = 0.0
        return self

    def list(self, prefix):
        if prefix.startswith("data/"):
            self.listed.append(prefix)
            self.clock.seconds += self.listing_takes
        if prefix in self.unreadable:
            raise IncompleteReadError(f"{prefix} could not be listed to its end.")
        if prefix.startswith("data/") and self.forgets:
            self.forgets -= 1
            return iter(())
        if not prefix.startswith("data/"):
            return super().list(prefix)
        listed = pa.Table.from_batches(super().list(prefix), schemas.OBJECT_LISTING)
        return iter(listed.sort_by("key").combine_chunks().to_batches())

    def head(self, key):
        self.headed.append(key)
        if key in self.unreadable:
            raise IncompleteReadError(f"{key} could not be asked for.")
        return super().head(key)

    def delete(self, keys, *, pace=unpaced):
        for _ in range(1 + self.repeats):
            pace()
            self.clock.seconds += self.takes
        self.deleted.append(list(keys))
        rest = iter(super().delete([key for key in keys if key not in self.answers]))
        return [self.answers.get(key) or next(rest) for key in keys]


class Case:
    def __init__(self, folder):
        run = written_run(folder, spark=None).run
        self.clock = Clock()
        self.folder = folder / "repo"
        self.store = Store(run.namespace, run.store.options).watch(self.clock)
        self.journal = Journal(self.store, str(run.key), "5" * 64)
        deadline = Deadline(NOW + timedelta(minutes=10), NOW, timedelta(0))
        self.orders = DeletionOrders(
            self.journal,
            any_name(run.cutoff, flat=True),
            deadline,
            "ab",
            1,
            batch_rows=3,
            lot_rows=1,
            clocks=self.clock.clocks,
        )

    def plant(self, *addresses, data=b"1234", written=OLD):
        for address in addresses:
            self.store.put(address, data)
            os.utime(self.folder / address, (written.timestamp(), written.timestamp()))

    def run(self, *addresses, why=None, **orders):
        rows = [
            {
                "address": address,
                "size_bytes": 4,
                "last_modified": OLD,
                "why": (why or {}).get(address),
            }
            for address in sorted(addresses)
        ]
        return run_task(replace(self.orders, **orders), 0, pa.Table.from_pylist(rows, schema=PLAN))

    def journaled(self, kind):
        """Rows of the journal, batch by batch: address -> (outcome, error)."""
        parts = sorted(
            (part for part in self.journal.parts() if part.kind == kind),
            key=lambda part: part.batch,
        )
        return [
            {
                row["address"]: (row["outcome"], row["error"])
                for row in self.journal.read(part).to_pylist()
            }
            for part in parts
        ]

    def outcomes(self):
        return {
            address: told for rows in self.journaled("outcome") for address, told in rows.items()
        }

    def there(self):
        return {
            key
            for batch in LocalStore.list(self.store, "data/")
            for key in batch.column("key").to_pylist()
        }
