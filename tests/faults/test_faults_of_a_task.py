"""When any call of a sweep task fails, on a file system or on S3, its work is in the journal and
the next task completes it.
"""

import itertools
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from spark_core import schemas
from spark_core.addresses.namespace import Namespace, slice_of
from spark_core.errors import LakegcError
from spark_core.records.journal import Journal
from spark_core.records.swept import FINAL
from spark_core.sweep import objects_now
from spark_core.sweep.deadline import Deadline
from spark_core.sweep.delete_batches import run_task
from spark_core.sweep.deletion_orders import DeletionOrders
from tests.support.faults import STORE_KINDS, Faults, FaultyS3Store, FaultyStore
from tests.support.killing import Killed
from tests.support.moto_s3 import moto_s3
from tests.support.written_run import NOW, any_name, written_run

GO = {f"data/{name}/{number}": f"{name}{number}".encode() for name in "st" for number in range(4)}
GONE, LIVE = "data/s/gone", {"data/s/live": b"live", "data/u/live": b"live"}
AGAIN = {"data/t/again": b"back"}
PLAN = pa.schema([*list(schemas.EXPIRED_ADDRESSES)[:3], pa.field("why", pa.string())])


class Task:
    """A namespace, and tasks that sweep eleven of its objects, one process after the other."""

    def __init__(self, store, faults):
        self.store, self.faults = store.failing(faults), faults
        faults.arm(0, "")
        self.journal = Journal(store, "2026-11-20T02-00-00Z", "5" * 64)
        self.processes = itertools.count()
        for address, data in {**GO, **LIVE, **AGAIN}.items():
            store.put(address, data)
        self.modified = store.head("data/s/live").last_modified + timedelta(hours=1)

    def sweep(self, at=0, kind=""):
        """Sweep the rest; return whether it ended by an error."""
        self.faults.arm(0, "")
        done = {row["address"] for row in self.journaled() if row["outcome"] in FINAL}
        rows = [
            {
                "address": address,
                "size_bytes": 2 if address in GO else 4,
                "last_modified": self.modified,
                "why": "staged on main" if address in AGAIN else None,
            }
            for address in sorted(
                {*GO, *AGAIN, GONE} - done, key=lambda address: (slice_of(address), address)
            )
        ]
        deadline = Deadline(datetime.now(UTC) + timedelta(minutes=10), NOW, timedelta(0))
        limits = any_name(self.modified + timedelta(days=1), flat=True)
        orders = DeletionOrders(
            self.journal,
            limits,
            deadline,
            f"{next(self.processes):02x}",
            1,
            batch_rows=5,
            lot_rows=10,
            requests_at_once=1,
            threads=2,
        )
        self.faults.arm(at, kind)
        try:
            run_task(orders, 0, pa.Table.from_pylist(rows, schema=PLAN))
        except (LakegcError, Killed):
            return True
        return False

    def journaled(self):
        return [row for part in self.journal.parts() for row in self.journal.read(part).to_pylist()]

    def there(self):
        keys = [
            key for batch in self.store.list("data/") for key in batch.column("key").to_pylist()
        ]
        return {key: self.store.read(key) for key in keys}

    def require_true(self):
        """Require that live objects are intact, and that the journal has every deletion."""
        self.faults.arm(0, "")
        there, rows = self.there(), self.journaled()
        assert there.items() >= {**LIVE, **AGAIN}.items(), "LOST"
        assert there.items() <= {**GO, **LIVE, **AGAIN}.items(), "changed, or made"
        gone = {row["address"] for row in rows if row["outcome"] in ("deleted", "already_gone")}
        assert not gone & set(there), "said to be gone, and there"
        intended = {row["address"] for row in rows if row["outcome"] == "intended"}
        assert set(GO) - set(there) <= intended, "gone, and nowhere written down before"
        assert {row["address"] for row in rows if row["outcome"] == "kept"} <= set(AGAIN)


def _try_all(task_at, faults, *, every):
    first = task_at(0)
    assert not first.sweep()
    calls = faults.calls()
    first.require_true()
    points = refused = 0
    for call in calls:
        kinds = STORE_KINDS[call.what]
        for kind in kinds if every else [kinds[call.number % len(kinds)]]:
            points += 1
            task = task_at(points)
            refused += task.sweep(call.number, kind)
            fired = faults.fired
            assert fired is not None
            task.require_true()
            assert not task.sweep(), fired
            task.require_true()
            assert task.there() == {**LIVE, **AGAIN}, fired
    return points, refused


@pytest.fixture
def faults(tmp_path):
    return Faults(tmp_path / "faults")


@pytest.fixture(autouse=True)
def _slices_are_listed(monkeypatch):
    monkeypatch.setattr(objects_now, "HEADS", 2)


# The default tests kill a whole sweep at each change of the store (sweep/test_sweep_killed.py).
@pytest.mark.slow
@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["once", "every way"]
)
def test_a_task_that_fails_at_any_call_on_files_is_ended_by_another(
    tmp_path, faults, record_property, every
):
    began, run = time.monotonic(), written_run(tmp_path, spark=None).run

    def task_at(number):
        (tmp_path / f"{number}").mkdir()
        namespace = Namespace.parse(f"local://{number}", server_path=str(tmp_path))
        return Task(FaultyStore(namespace, run.store.options), faults)

    points, refused = _try_all(task_at, faults, every=every)
    took = f"{time.monotonic() - began:.0f} s"
    record_property(
        "figures", f"faults in a task of a sweep, files: {points} points, {refused} refused, {took}"
    )


@pytest.mark.deep
def test_a_task_that_fails_at_any_call_on_s3_is_ended_by_another(faults, record_property):
    began = time.monotonic()
    with moto_s3() as server:
        bucket, options = server.bucket(), replace(server.options(), s3_region="us-east-1")

        def task_at(number):
            return Task(FaultyS3Store(Namespace.parse(f"s3://{bucket}/{number}"), options), faults)

        points, refused = _try_all(task_at, faults, every=True)
    took = f"{time.monotonic() - began:.0f} s"
    record_property(
        "figures", f"faults in a task of a sweep, S3: {points} points, {refused} refused, {took}"
    )
