"""Sweeps that are repeated: the record of what is gone grows, and nothing is deleted twice."""

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_core import schemas, sweep
from spark_core.checks import verdict
from spark_core.errors import (
    ChainError,
    ClosedPartitionError,
    DeletionFailedError,
    PermissionDeniedError,
)
from spark_core.model import Branch
from spark_core.records import tables
from spark_core.storage import DeleteOutcome
from spark_core.storage.local import LocalStore
from spark_core.storage.outcomes import unpaced
from spark_core.sweep import references_now, spread
from spark_core.sweep.deletion_report import measure
from tests.support.looks import looked
from tests.support.passing_mark import passing_mark, plant
from tests.support.stored_rows import rows_of
from tests.support.written_run import written_run

X, Y, Z = "data/s/x", "data/s/y", "data/s/z"


class _Denying(LocalStore):
    """A store that does not delete what is named in the file `denied`, and writes down what it was
    asked.
    """

    def probe_delete(self, key):
        if (Path(self.options.local_path) / "forbidden").exists():
            return DeleteOutcome(key, "refused", "HTTP 403 AccessDenied")
        return super().probe_delete(key)

    def delete(self, keys, *, pace=unpaced):
        folder = Path(self.options.local_path)
        with (folder / "asked").open("a") as asked:
            asked.writelines(f"{key}\n" for key in keys)
        denied = set((folder / "denied").read_text().split())
        allowed = iter(super().delete([key for key in keys if key not in denied], pace=pace))
        return [
            DeleteOutcome(key, "failed", "SlowDown") if key in denied else next(allowed)
            for key in keys
        ]


@dataclass
class _Case:
    """A concluded mark of x, y and z over a store that can be told to deny."""

    run: object
    folder: Path

    def sweep(self, *, denied=()):
        (self.folder / "denied").write_text("\n".join(denied))
        (self.folder / "asked").write_text("")
        return self.run.keep(sweep.sweep(self.run))

    @property
    def asked(self):
        """What the store was asked to delete of the repository's.

        The sweep takes away lakegc's own things, too.
        """
        return sorted(
            key for key in (self.folder / "asked").read_text().split() if key.startswith("data/")
        )

    def rows(self, report):
        found = {row.address: row for row in rows_of(report)}
        assert len(found) == report.manifest.rows, "one row for each object"
        return found


def _sweepable(folder, spark, store):
    run = written_run(folder, spark=spark).run
    server = SimpleNamespace(
        repository=lambda _repository: run.repository,
        repositories=lambda: [run.repository],
        branches=lambda _repository: [Branch("main", "c")],
        storage_config=lambda _repository: SimpleNamespace(may_compact=False),
    )
    return replace(
        run,
        store=store(run.namespace, run.environment.store_options),
        environment=replace(run.environment, server=server),
        options=replace(run.options, may_sweep=True),
    )


@pytest.fixture(autouse=True)
def _nothing_came_back(monkeypatch):
    """Look nowhere again: there is no server here, and `revival` has tests of its own."""
    monkeypatch.setattr(references_now, "reader_of_references", lambda _: looked(()))


@pytest.fixture
def case(tmp_path, spark):
    run = _sweepable(tmp_path, spark, _Denying)
    passing_mark(run, expired=(X, Y, Z))
    verdict.conclude(run)
    plant(run, [X, Y, Z])
    return _Case(run, tmp_path)


@pytest.mark.spark
def test_a_repeated_sweep_takes_what_was_left_and_keeps_the_record_of_what_was_gone(case):
    first = case.sweep(denied=[Y, Z])
    with pytest.raises(
        DeletionFailedError,
        match=rf"2 of 3 objects were not deleted.* {Y}: failed \(SlowDown\); {Z}:",
    ):
        sweep.require_complete(first)
    before = case.rows(first)
    assert case.asked == [X, Y, Z]

    second = case.sweep(denied=[Z])
    assert case.asked == [Y, Z]
    after = case.rows(second)
    assert after[X] == before[X]
    assert [(after[key].outcome, after[key].attempts) for key in (X, Y, Z)] == [
        ("deleted", 1),
        ("deleted", 2),
        ("failed", 2),
    ]

    third = case.sweep()
    assert case.asked == [Z]
    sweep.require_complete(third)
    assert {key: row.attempts for key, row in case.rows(third).items()} == {X: 1, Y: 2, Z: 3}
    assert third.manifest.facts["deleted_objects"] == 3
    assert third.manifest.facts["deleted_bytes"] == 12
    with pytest.raises(ClosedPartitionError, match="was swept at"):
        case.sweep()


@pytest.mark.spark
def test_a_store_that_may_not_be_deleted_in_is_found_out_before_the_first_deletion(case):
    (case.folder / "forbidden").touch()
    with pytest.raises(
        PermissionDeniedError, match=r"may list but not delete\. Allow .*local://repo/"
    ):
        case.sweep()
    assert case.asked == []
    assert all(case.run.store.exists(key) for key in (X, Y, Z))
    (case.folder / "forbidden").unlink()
    sweep.require_complete(case.sweep())
    assert case.asked == [X, Y, Z]


@pytest.mark.spark
def test_a_report_of_another_plan_is_not_carried_on(case):
    first = case.sweep(denied=[X])
    edited = replace(first.manifest, parents={"expired_addresses": "0" * 64})
    case.run.store.put(tables.manifest_key(tables.DELETION_REPORT, case.run.key), edited.to_json())
    with pytest.raises(ChainError, match="was swept by another plan"):
        case.sweep()
    assert case.asked == []


class _Timed(LocalStore):
    """A store that writes down when it was asked and for how many keys."""

    def delete(self, keys, *, pace=unpaced):
        def paced():
            pace()
            if keys[0].startswith("data/"):
                with Path(self.options.local_path, "times").open("a") as times:
                    times.write(f"{time.monotonic()} {len(keys)}\n")

        return super().delete(keys, pace=paced)


@pytest.mark.slow
@pytest.mark.spark
def test_a_limit_of_deletions_is_kept_and_costs_the_time_that_it_says(tmp_path, spark):
    run = _sweepable(tmp_path, spark, _Timed)
    run = replace(run, options=replace(run.options, max_deletes_per_second=9.0))
    addresses = [f"data/s/{number:02}" for number in range(20)]
    passing_mark(run, expired=addresses)
    verdict.conclude(run)
    plant(run, addresses)
    report = run.keep(sweep.sweep(run))
    assert report.manifest.facts["deleted_objects"] == 20
    times = [line.split() for line in (tmp_path / "times").read_text().splitlines()]
    sent = sorted((float(instant), int(count)) for instant, count in times)
    assert sum(count for _, count in sent) == 20
    # A request begins a little after its pace allowed it, so a second is taken for a little less
    # here.
    in_a_second = [
        sum(count for instant, count in sent if begin <= instant < begin + 0.95)
        for begin, _ in sent
    ]
    assert max(in_a_second) <= 9
    assert sent[-1][0] - sent[0][0] >= 20 / 9 - 1


def test_objects_and_bytes_are_counted_by_what_the_store_said_of_each():
    outcomes = ["deleted", "deleted", "already_gone", "refused", "failed", "failed", "kept"]
    rows = [
        {
            "address": f"data/s/{number}",
            "size_bytes": 10**number,
            "reason": "in no commit, and not staged",
            "outcome": outcome,
            "attempts": 1,
        }
        for number, outcome in enumerate(outcomes)
    ]
    assert measure(pa.RecordBatch.from_pylist(rows, schema=schemas.DELETION_REPORT)) == {
        "deleted_objects": 2,
        "deleted_bytes": 11,
        "already_gone_objects": 1,
        "already_gone_bytes": 100,
        "kept_objects": 1,
        "kept_bytes": 1_000_000,
        "refused_objects": 1,
        "refused_bytes": 1_000,
        "failed_objects": 2,
        "failed_bytes": 110_000,
    }


@pytest.mark.spark
def test_what_is_kept_is_looked_at_once_more_where_an_executor_was_lost(case, monkeypatch):
    delete, settled, until = sweep.delete_in_rounds, [], case.run.now() + timedelta(minutes=3)
    monkeypatch.setattr(
        sweep,
        "recheck_leftovers",
        lambda _run, _journal, wait, _named: settled.append(wait) or frozenset(),
    )

    def losing(run, plan, journal, held, *given, **named):
        swept = delete(run, plan, journal, held, *given, **named)
        held.sent_until = until
        return swept

    monkeypatch.setattr(sweep, "delete_in_rounds", losing)
    case.sweep()
    assert settled == [until]


@pytest.mark.spark
def test_the_next_sweep_begins_with_the_pace_that_the_last_one_found(case):
    first = case.sweep(denied=[X])
    assert spread._last_known_pace(case.run) is None, "the store was never busy"
    facts = {**first.manifest.facts, "store_was_busy": 3, "store_keys_per_second": 4_000}
    busy = replace(first.manifest, facts=facts)
    case.run.store.put(tables.manifest_key(tables.DELETION_REPORT, case.run.key), busy.to_json())
    assert spread._last_known_pace(case.run) == 4_000
    assert spread.rate_to_begin_with(case.run, 2) is None, "a disk has no pace"
    remote = SimpleNamespace(store=case.run.store, namespace=SimpleNamespace(kind="s3"))
    rate = spread.rate_to_begin_with(remote, 2)
    assert (rate.per_second, rate.ceiling) == (1_700.0, 2_000.0)
