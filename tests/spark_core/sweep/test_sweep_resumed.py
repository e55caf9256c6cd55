"""Whole sweeps on Spark: what they keep, and how they go on after an executor or the whole process
was killed.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_core import lakegc_keys, schemas, sweep
from spark_core.checks import verdict
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import (
    ChainError,
    ClosedPartitionError,
    CorruptTableError,
    IncompleteReadError,
    LakegcError,
)
from spark_core.lock import lease_log, processes
from spark_core.model import Branch
from spark_core.records import journal, tables
from spark_core.records.writing import parts_of
from spark_core.spark import placement
from spark_core.spark.exchange import source_of
from spark_core.storage.local import LocalStore
from spark_core.storage.outcomes import unpaced
from spark_core.sweep import deletion_report, references_now, rounds, spread, tasks_of_a_round
from tests.support.looks import looked
from tests.support.passing_mark import passing_mark, plant
from tests.support.stored_rows import rows_of
from tests.support.written_run import written_run

DIED = "Spark failed .* Deletions had begun"
GO = [f"data/{name}/{number}" for name in ("s", "t") for number in range(3)]
GONE, CHANGED, AGAIN, LIVE = "data/s/gone", "data/s/changed", "data/t/again", "data/s/live"
WANTED = {
    GONE: ("already_gone", None, 4),
    CHANGED: ("kept", "changed since the mark: it has 5 bytes, the mark saw 4", 4),
    AGAIN: ("kept", "referenced again: staged on main", 4),
    **dict.fromkeys(GO, ("deleted", None, 4)),
}


class DyingStore(LocalStore):
    """A store whose executor dies at the n-th change that batches make, once.

    N is in the file `dies_at`.
    """

    delete_batch_size = 2

    def _change(self, key, act):
        folder = Path(self.options.local_path)
        if not key.startswith(("data/s", "data/t", journal.folder("")[:-1])) or key.endswith(
            ".json"
        ):
            return act()
        told = act() if (folder / "after").exists() else None
        with (folder / "changes").open("a") as changes:
            changes.write(f"{key}\n")
        if len((folder / "changes").read_text().splitlines()) == int(
            (folder / "dies_at").read_text()
        ):
            os._exit(9)
        return act() if told is None else told

    def put_if_absent(self, key, data):
        return self._change(key, lambda: LocalStore.put_if_absent(self, key, data) or True)

    def delete(self, keys, *, pace=unpaced):
        return self._change(keys[0], lambda: LocalStore.delete(self, keys, pace=pace))


class Case:
    """A concluded mark of nine objects, of which six may go by now."""

    def __init__(self, folder, spark, store=DyingStore):
        run = written_run(folder, spark=spark).run
        server = SimpleNamespace(
            repository=lambda _: run.repository,
            branches=lambda _: [Branch("main", "c")],
            storage_config=lambda _: SimpleNamespace(may_compact=False),
            repositories=lambda: [run.repository],
        )
        self.folder = folder
        self.run = replace(
            run,
            store=store(run.namespace, run.store.options),
            environment=replace(run.environment, server=server),
            options=replace(run.options, may_sweep=True),
        )
        self.arm(0)

    def arm(self, dies_at, *, after=False):
        (self.folder / "dies_at").write_text(str(dies_at))
        (self.folder / "changes").write_text("")
        (self.folder / "after").unlink(missing_ok=True)
        if after:
            (self.folder / "after").touch()

    def mark(self):
        passing_mark(self.run, expired=(*GO, GONE, CHANGED, AGAIN))
        verdict.conclude(self.run)
        plant(self.run, [*GO, CHANGED, AGAIN, LIVE])
        (self.folder / "repo" / CHANGED).write_bytes(b"12345")
        return self

    def outlast_the_lease(self):
        """Wait until the lease of a sweep that was killed, or whose executor was, has run out."""
        lasts = self.run.options.lease_ttl + MAX_CLOCK_SKEW
        self.run.environment.clock.sleep(lasts.total_seconds())

    def sweep(self, tell=sweep.unheard):
        return self.run.keep(sweep.sweep(self.run, tell))

    def rows(self, stored):
        return {row.address: row for row in rows_of(stored)}

    def there(self):
        return {
            key for batch in self.run.store.list("data/") for key in batch.column("key").to_pylist()
        }


@pytest.fixture(autouse=True)
def _one_came_back(monkeypatch):
    monkeypatch.setattr(
        references_now,
        "reader_of_references",
        lambda _: looked([(AGAIN, "staged on main"), (LIVE, "head of main")]),
    )


@pytest.fixture(autouse=True)
def _executors_delete(monkeypatch):
    """Let executors do everything, however little it is: they can be killed."""
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)


@pytest.fixture
def case(tmp_path, spark):
    return Case(tmp_path, spark).mark()


def told(rows):
    return {address: (row.outcome, row.error, row.size_bytes) for address, row in rows.items()}


@pytest.mark.spark
def test_a_sweep_says_of_each_object_what_became_of_it_and_tells_how_far_it_has_come(case):
    progress, known = [], []

    def tell(reached):
        progress.append(reached)
        owner = lease_log.last_record(case.run.store).owner
        known.append(Path(processes._path(owner.id)))
        assert known[-1].exists(), "this machine's kernel knows who works"

    stored = case.sweep(tell)
    assert not known[-1].exists()
    rows = case.rows(stored)
    assert told(rows) == WANTED
    assert case.there() == {CHANGED, AGAIN, LIVE}
    assert {address for address, row in rows.items() if row.deleted_at is not None} == set(GO)
    facts = stored.manifest.facts
    assert (
        facts["kept_objects"],
        facts["kept_bytes"],
        facts["deleted_objects"],
        facts["rounds"],
    ) == (2, 8, 6, 1)
    assert (progress[-1].concluded, progress[-1].kept, progress[-1].failed) == (9, 2, 0)
    sweep.require_complete(stored)
    with pytest.raises(ClosedPartitionError, match="was swept at"):
        case.sweep()
    last = lease_log.last_record(case.run.store)
    assert (last.owner.run, last.state) == (str(case.run.key), "released")


# The changes of the one task: intent, three requests, outcome; then parts and manifest of the
# report.
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("dies_at", "after"),
    [
        (3, True),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((2, False), (5, False))),
    ],
)
def test_after_an_executor_was_killed_the_same_command_ends_as_if_it_had_not_been(
    case, dies_at, after, monkeypatch
):
    monkeypatch.setattr(spread, "REQUESTS_AT_ONCE", 1)
    case.arm(dies_at, after=after)
    with pytest.raises(LakegcError, match=DIED):
        case.sweep()
    case.outlast_the_lease()
    gone = set(GO) - case.there()
    assert len(gone) == {2: 0, 3: 4, 5: 6}[dies_at]
    case.arm(0)
    stored = case.sweep()
    assert told(case.rows(stored)) == WANTED
    assert case.there() == {CHANGED, AGAIN, LIVE}
    sweep.require_complete(stored)


class NotingStore(LocalStore):
    """A store that writes down which parts of the journal are read."""

    def read(self, key):
        if "/outcome-" in key:
            with Path(self.options.local_path, "read").open("a") as read:
                read.write(f"{key}\n")
        return super().read(key)


@pytest.mark.slow
@pytest.mark.spark
def test_however_many_rounds_there_are_each_reads_only_what_was_journaled_since_the_one_before(
    tmp_path, spark, monkeypatch
):
    case, whole = Case(tmp_path, spark, NotingStore).mark(), rounds.delete_as_tasks
    sizes, read_by = [], []

    def two_objects(run, sources, *given, **named):
        rows = {name: each.here(threads=1) for name, each in sources.items()}
        left = tasks_of_a_round._left(1, rows).rows[0]
        sizes.append(left.num_rows)
        read_by.append((tmp_path / "read").read_text().split() if sizes[1:] else [])
        few = source_of(left.sort_by("address").slice(0, 2), tasks_of_a_round.PLANNED)
        told = whole(run, {**sources, "planned": few}, *given, **named)
        told.objects["unsent"] += max(0, sizes[-1] - 2)
        return told

    with monkeypatch.context() as patch:
        patch.setattr(rounds, "delete_as_tasks", two_objects)
        draft = sweep.sweep(case.run)
    assert sizes == [9, 7, 5, 3, 1]
    assert [len(read) for read in read_by] == [0, 1, 2, 3, 4]
    assert len(set(read_by[-1])) == 4, "none of them twice"
    stored = case.run.keep(draft)
    assert told(case.rows(stored)) == WANTED


@pytest.mark.spark
@pytest.mark.parametrize(
    "driver_rows", [placement.MOST_ROWS_OF_THE_DRIVER, 0], ids=["few objects", "many objects"]
)
def test_a_listing_of_the_journal_that_lacks_an_object_is_made_again_and_then_refused(
    case, monkeypatch, driver_rows
):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", driver_rows)
    expired = case.run.load(tables.EXPIRED_ADDRESSES)
    written = journal.Journal(case.run.store, str(case.run.key), expired.manifest.sha256)

    def conclude(batch, outcome, *addresses):
        rows = {"size_bytes": 4, "outcome": outcome, "error": None, "at": case.run.now()}
        told = [{"address": address, **rows} for address in addresses]
        written.conclude(batch, pa.RecordBatch.from_pylist(told, schema=schemas.JOURNAL))

    conclude("ab.1.0.7.0", "deleted", *GO, GONE, CHANGED)
    # A task that ran twice: nine rows, and nothing of the ninth object.
    conclude("ab.1.0.8.0", "already_gone", GONE)
    without = written.parts()
    conclude("ab.1.0.7.1", "kept", AGAIN)
    answers = [without, written.parts()]
    monkeypatch.setattr(journal.Journal, "parts", lambda _: answers.pop(0))
    whole = deletion_report.write_report(case.run, expired, written)
    assert sum(part.rows for part in parts_of(whole.receipts)) == 9
    answers[:] = [without] * 2
    with pytest.raises(IncompleteReadError, match="tells of 8 of 9 objects"):
        deletion_report.write_report(case.run, expired, written)


@pytest.mark.slow
@pytest.mark.spark
def test_a_journal_of_another_plan_or_with_a_damaged_part_ends_the_sweep_by_name(case):
    case.arm(4, after=True)
    with pytest.raises(LakegcError, match=DIED):
        case.sweep()
    case.outlast_the_lease()
    before = case.there()
    case.arm(0)
    folder = journal.folder(case.run.key)
    (part,) = [
        key
        for batch in case.run.store.list(folder)
        for key in batch.column("key").to_pylist()
        if "intent" in key
    ]
    data = case.run.store.read(part)
    case.run.store.put(part, data[:50] + bytes([data[50] ^ 1]) + data[51:])
    draft = None
    with pytest.raises(CorruptTableError, match=part):
        draft = case.sweep()
    case.run.store.put(part, data)
    bound = f"{folder}_plan.json"
    other = journal.Journal(case.run.store, str(case.run.key), "0" * 64)
    case.run.store.delete([bound])
    other.bind(case.run.instance)
    with pytest.raises(ChainError, match="was swept by another plan"):
        case.sweep()
    assert draft is None
    assert case.there() <= before


SCRIPT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from spark_core.sweep import references_now, spread
from spark_core.spark.session import spark_config
from tests.support.looks import looked
import test_sweep_resumed as tests

builder = SparkSession.builder
for key, value in spark_config(master="local[1]").items():
    builder = builder.config(key, value)
spread.REQUESTS_AT_ONCE = 1
references_now.reader_of_references = lambda _: looked([(tests.AGAIN, "staged on main")])
tests.Case(Path(sys.argv[1]), builder.getOrCreate(), tests.SlowStore).sweep()
"""


class SlowStore(DyingStore):
    """A store that takes its time for each request, one after the other, so that the process can be
    killed between two.
    """

    one_at_a_time = threading.Lock()

    def delete(self, keys, *, pace=unpaced):
        if not keys[0].startswith("data/"):
            return LocalStore.delete(self, keys, pace=pace)
        with self.one_at_a_time:
            outcomes = LocalStore.delete(self, keys, pace=pace)
            time.sleep(3)
        return outcomes


def begun(folder):
    """A sweep on Spark in a process of its own."""
    paths = [str(Path(__file__).parents[3]), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder)],
        env=environment,
        start_new_session=True,
        stderr=subprocess.PIPE,
    )


def wait_for_a_deletion(process, case):
    until = time.monotonic() + 240
    while not set(GO) - case.there():
        assert process.poll() is None, process.stderr.read().decode()[-2000:]
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.spark
@pytest.mark.slow
def test_an_interrupt_ends_a_sweep_on_spark_after_the_requests_under_way(case, tmp_path):
    """As Ctrl-C in a terminal, which interrupts the whole group of processes."""
    process = begun(tmp_path)
    try:
        wait_for_a_deletion(process, case)
        os.killpg(process.pid, signal.SIGINT)
        _, told_on_stderr = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    left = set(GO) & case.there()
    assert len(left) == 4, "one request of two objects was under way"
    assert "to have deleted 2 objects in rounds that ended, and left 4; none is under way" in (
        told_on_stderr.decode()
    )
    assert lease_log.last_record(case.run.store).state == "released"
    assert [
        key
        for batch in case.run.store.list(lakegc_keys.PROBE)
        for key in batch.column("key").to_pylist()
        if "stop" in key
    ] == []
    stored = case.sweep()
    assert told(case.rows(stored)) == WANTED
    assert case.there() == {CHANGED, AGAIN, LIVE}


@pytest.mark.spark
@pytest.mark.deep
def test_a_process_that_is_killed_in_the_middle_is_followed_by_the_same_command(case, tmp_path):
    process = begun(tmp_path)
    try:
        wait_for_a_deletion(process, case)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()
    assert set(GO) & case.there(), "it was killed in the middle"
    assert not case.run.store.exists(tables.manifest_key(tables.DELETION_REPORT, case.run.key))
    last = lease_log.last_record(case.run.store)
    assert last.state == "held"
    until = time.monotonic() + 60
    while processes.ended_for(last.owner.id) is None:
        assert time.monotonic() < until, "what Spark had started does not end"
        time.sleep(0.05)
    # Its calls on this disk ended with it: there is nothing to wait for.
    stored = case.sweep()
    assert told(case.rows(stored)) == WANTED
    assert case.there() == {CHANGED, AGAIN, LIVE}
