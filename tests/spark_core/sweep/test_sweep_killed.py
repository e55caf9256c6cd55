"""Sweeps that are killed at any moment and begun again.

Nothing else is deleted, and the report is the same.
"""

import itertools
import os
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.records.journal import ROWS, Journal
from spark_core.records.swept import FINAL, PLANNED, report_rows
from spark_core.storage.outcomes import DeleteOutcome, unpaced
from spark_core.sweep import deletion_report
from spark_core.sweep.deadline import Deadline
from spark_core.sweep.delete_batches import run_task
from spark_core.sweep.deletion_orders import DeletionOrders
from tests.support.killing import Killed, KillingStore
from tests.support.written_run import NOW, OLD, any_name, written_run

GONE = "data/s/gone"
CHANGED = "data/s/changed"
AGAIN = "data/t/again"
DENIED = "data/t/denied"
GO = [f"data/{name}/{number}" for name in ("s", "t") for number in range(3)]
ALL = sorted([GONE, CHANGED, AGAIN, DENIED, *GO])
PLAN = pa.schema([*list(schemas.EXPIRED_ADDRESSES)[:3], pa.field("why", pa.string())])
WANTED = {
    GONE: ("already_gone", None),
    CHANGED: ("kept", "changed since the mark: it has 5 bytes, the mark saw 4"),
    AGAIN: ("kept", "referenced again: staged on main"),
    DENIED: ("refused", "AccessDenied"),
    **dict.fromkeys(GO, ("deleted", None)),
}


class Store(KillingStore):
    """One that also denies an object."""

    delete_batch_size = 2

    def delete(self, keys, *, pace=unpaced):
        told = {key: DeleteOutcome(key, "refused", "AccessDenied") for key in keys if key == DENIED}
        rest = iter(super().delete([key for key in keys if key not in told], pace=pace))
        return [told.get(key) or next(rest) for key in keys]


class Small:
    """A sweep of ten objects in this process.

    The executors' part without Spark, again and again until it is through.
    """

    def __init__(self, folder):
        folder.mkdir()
        run = written_run(folder, spark=None).run
        self.store = Store(run.namespace, run.store.options).arm(0, after=False)
        self.journal = Journal(self.store, str(run.key), "5" * 64)
        self.limits = any_name(run.cutoff, flat=True)
        for address in (*GO, CHANGED, AGAIN, DENIED, "data/s/live"):
            self.store.put(address, b"12345" if address == CHANGED else b"1234")
            os.utime(folder / "repo" / address, (OLD.timestamp(), OLD.timestamp()))
        self.processes = itertools.count()

    def sweep(self, *, dies_at=0, after=False, everything=False):
        """Sweep what is left, or everything, as a process of its own.

        Return whether it was killed.
        """
        self.store.arm(dies_at, after=after)
        deadline = Deadline(datetime.now(UTC) + timedelta(minutes=10), NOW, timedelta(0))
        name = f"{next(self.processes):02x}"
        orders = DeletionOrders(
            self.journal,
            self.limits,
            deadline,
            name,
            1,
            batch_rows=2,
            lot_rows=4,
            requests_at_once=1,
        )
        done = {row["address"] for row in self.rows() if row["outcome"] in FINAL and not everything}
        rows = [
            {
                "address": address,
                "size_bytes": 4,
                "last_modified": OLD,
                "why": "staged on main" if address == AGAIN else None,
            }
            for address in ALL
            if address not in done
        ]
        try:
            run_task(orders, 0, pa.Table.from_pylist(rows, schema=PLAN))
        except Killed:
            return True
        return False

    def rows(self):
        return [row for part in self.journal.parts() for row in self.journal.read(part).to_pylist()]

    def there(self):
        return {
            key for batch in self.store.list("data/") for key in batch.column("key").to_pylist()
        }


KEPT = {CHANGED, AGAIN, DENIED, "data/s/live"}


def test_killed_before_or_after_any_change_of_the_store_it_ends_as_if_it_had_not_been(
    tmp_path,
):
    whole = Small(tmp_path / "whole")
    assert not whole.sweep()
    changes = whole.store.changes
    assert changes == 11, "intents, requests and outcomes of three lots"
    journaled = [("whole", row) for row in whole.rows()]
    points = list(itertools.product(range(1, changes + 1), (False, True)))
    for dies_at, after in points:
        case = Small(tmp_path / f"{dies_at}-{after}")
        assert case.sweep(dies_at=dies_at, after=after)
        assert case.there() >= KEPT
        assert not case.sweep()
        assert case.there() == KEPT
        assert set(case.store.asked) <= set(GO)
        journaled += [(f"{dies_at}-{after}", row) for row in case.rows()]
    # The reports of all cases at once: each has its own addresses.
    rows = [
        {**row, "address": f"{case}/{row['address']}", "sweep": "00"} for case, row in journaled
    ]
    cases = ["whole", *(f"{dies_at}-{after}" for dies_at, after in points)]
    found = {case: {} for case in cases}
    for row in reported([f"{case}/{a}" for case in cases for a in ALL], rows):
        case, _, address = row["address"].partition("/")
        found[case][address] = (row["outcome"], row["error"])
        assert (row["deleted_at"] is not None) == (row["outcome"] == "deleted")
    assert found["whole"] == WANTED
    for case in cases:
        assert found[case] == WANTED, f"killed at {case}"


def reported(addresses, rows):
    """Rows of the report of a plan, from rows of its journal."""
    names, many = pa.array(addresses), len(addresses)
    plan = pa.table([hashed(names), names, [4] * many, ["why"] * many], schema=PLANNED)
    return report_rows(plan, _journal(rows)).to_pylist()


def _journal(rows):
    return pa.Table.from_pylist([{"address_hash": 0, **row} for row in rows], schema=ROWS)


def test_a_task_that_runs_again_beside_its_first_attempt_deletes_nothing_twice_and_tells_it_as_one(
    tmp_path,
):
    case = Small(tmp_path / "case")
    assert case.sweep(dies_at=7, after=True), "the first attempt goes with its executor"
    assert not case.sweep(everything=True)
    assert case.store.asked == []
    found_gone = {row["address"] for row in case.rows() if row["outcome"] == "already_gone"}
    assert found_gone == {GONE, *GO}, "the second attempt finds gone what the first has deleted"
    rows = reported(ALL, [{**row, "sweep": "00"} for row in case.rows()])
    assert {row["address"]: (row["outcome"], row["error"]) for row in rows} == WANTED


# What was written down of one object, in order -> what the report says of it, and after how many
# attempts.
STORIES = {
    "never named": ([], None),
    "asked and deleted": (["intended", "deleted"], ("deleted", 1)),
    "gone before": (["already_gone"], ("already_gone", 0)),
    "killed, then found gone": (["intended", "already_gone"], ("deleted", 1)),
    "killed before it was sent, then deleted": (
        ["intended", "intended", "deleted"],
        ("deleted", 2),
    ),
    "no answer, then found gone": (["intended", "failed", "already_gone"], ("deleted", 1)),
    "denied, then gone by somebody else": (
        ["intended", "refused", "already_gone"],
        ("already_gone", 1),
    ),
    "never sent, then gone by somebody else": (
        ["intended", "unsent", "already_gone"],
        ("already_gone", 0),
    ),
    "never sent, then deleted": (["intended", "unsent", "intended", "deleted"], ("deleted", 1)),
    "failed, then deleted": (["intended", "failed", "intended", "deleted"], ("deleted", 2)),
    "failed, then denied": (["intended", "failed", "intended", "refused"], ("refused", 2)),
    "not looked at": (["failed"], ("failed", 0)),
    "kept": (["kept"], ("kept", 0)),
    "failed, then kept": (["intended", "failed", "kept"], ("kept", 1)),
    "only intended": (["intended"], None),
    "two attempts beside each other": (["intended", "already_gone", "deleted"], ("deleted", 1)),
}


def test_the_report_tells_each_story_of_the_journal_by_its_end():
    rows = [
        {
            "address": name,
            "size_bytes": 4,
            "outcome": outcome,
            "error": f"{outcome} {number}" if outcome in {"kept", "refused", "failed"} else None,
            "at": NOW + timedelta(seconds=number),
            "sweep": "ab",
        }
        for name, (told, _) in STORIES.items()
        for number, outcome in enumerate(told)
    ]
    rows.append({**rows[0], "address": "not of the plan", "outcome": "deleted"})
    found = {row["address"]: row for row in reported(list(STORIES), rows)}
    assert {name: (row["outcome"], row["attempts"]) for name, row in found.items()} == {
        name: wanted for name, (_, wanted) in STORIES.items() if wanted is not None
    }
    assert found["failed, then denied"]["error"] == "refused 3"
    assert found["failed, then kept"]["error"] == "kept 2"
    assert found["failed, then deleted"]["error"] is None

    def finished(sweep):
        journal = _journal(rows)
        done = journal.filter(deletion_report.are_finished(journal, sweep))
        return set(done["address"].to_pylist())

    assert finished("other") == {
        name for name, (_, wanted) in STORIES.items() if wanted is not None and wanted[0] in FINAL
    } | {"not of the plan"}
    assert finished("ab") >= {"not looked at", "failed, then denied"}
