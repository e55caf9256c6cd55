"""When any call of a quarantine, restore or purge fails, each object stays whole somewhere until
its quarantine is over.
"""

import errno
import os
import shutil
import time
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from spark_core import lakegc_keys, schemas
from spark_core.checks import verdict
from spark_core.errors import DeletionFailedError, LakegcError
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.writing import Draft
from spark_core.sweep import quarantine
from spark_core.undo import restore
from spark_core.upkeep import (
    house_keeping_result,
    prune_own_tables,
    purge_quarantine,
    quarantine_still_needed,
)
from tests.support.faults import STORE_KINDS, Faults, FaultyStore
from tests.support.figures import given
from tests.support.killing import Killed
from tests.support.passing_mark import passing_mark
from tests.support.system_calls import refuse_links
from tests.support.written_run import NOW, Written, hashes_of, written_run

GO = {f"data/{name}/{number}": f"{name}{number}..".encode() for name in "st" for number in range(3)}
LIVE = {"data/s/live": b"live", "data/u/live": b"live"}
DAYS = 30


class Case:
    """A namespace with a mark of six objects, made once and restored before each point."""

    def __init__(self, folder):
        (folder / "made").mkdir()
        self.folder = folder / "made"
        self.aside = folder / "aside"
        self.faults = Faults(folder / "faults")
        run = written_run(self.folder, spark=None).run
        self.run = replace(
            run, options=replace(run.options, may_sweep=True, quarantine=True, quarantine_days=DAYS)
        )
        passing_mark(self.run, expired=tuple(GO))
        verdict.conclude(self.run)
        written = (run.cutoff - timedelta(days=1)).timestamp()
        for address, data in {**GO, **LIVE}.items():
            run.store.put(address, data)
            os.utime(self.folder / "repo" / address, (written, written))

    def moved(self):
        """Move the objects to quarantine, as in the report of a sweep."""
        assert {
            told.outcome for told in quarantine.move(self.run.store, self.run.key, list(GO))
        } == {"deleted"}
        Written(self.run).journal(dict.fromkeys(GO, 4))
        rows = [
            {
                "address": key,
                "size_bytes": 4,
                "outcome": "deleted",
                "error": None,
                "reason": "in no commit, and not staged",
                "attempts": 1,
                "deleted_at": NOW,
            }
            for key in GO
        ]
        facts = quarantine.figures(self.run).facts()
        content = pa.Table.from_pylist(rows, schema=schemas.DELETION_REPORT)
        self.run.keep(
            Draft(
                tables.DELETION_REPORT,
                content,
                self.run.now(),
                (),
                figures=given(tables.DELETION_REPORT, len(GO), **facts),
            )
        )
        return self

    def objects(self):
        """Read every object below data/."""
        root = self.folder / "repo"
        return {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in (root / "data").rglob("*")
            if path.is_file() and not path.name.startswith(".lakegc-")
        }

    def in_quarantine(self):
        """Read every object in quarantine, by its address."""
        root = self.folder / "repo" / lakegc_keys.in_quarantine(self.run.key)
        return {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file() and not path.name.startswith(".lakegc-")
        }

    def require_whole(self):
        """Require each object whole at its address or in quarantine, and all others intact."""
        there, aside = self.objects(), self.in_quarantine()
        assert {address: there.get(address) for address in LIVE} == LIVE
        assert there.items() <= {**GO, **LIVE}.items(), "changed, or made"
        for address, data in GO.items():
            assert data in (there.get(address), aside.get(address)), f"LOST {address}"

    def try_all(self, command, require, finished, *, every, step):
        """Fail each call of a command, or each so many, in every way or in one way in turn; return
        the number of points, and of those that ended by an error.
        """
        shutil.copytree(self.folder, self.aside)
        self.faults.arm(0, "")
        command(self.opened())
        finished()
        calls = self.faults.calls()
        points = refused = 0
        for call in calls[::step]:
            kinds = STORE_KINDS[call.what]
            for kind in kinds if every else [kinds[call.number // step % len(kinds)]]:
                shutil.rmtree(self.folder)
                shutil.copytree(self.aside, self.folder)
                self.faults.arm(call.number, kind)
                try:
                    command(self.opened())
                except (LakegcError, Killed):
                    refused += 1
                fired = self.faults.fired
                if fired is None:
                    continue  # Another outcome of the threads' race makes fewer calls.
                points += 1
                self.faults.arm(0, "")
                try:
                    require()
                    command(self.opened(later=timedelta(hours=1)))
                    finished()
                except (AssertionError, LakegcError) as problem:
                    raise AssertionError(f"{fired}: {problem}") from problem
        return points, refused

    def opened(self, *, later=timedelta(0)):
        """Open the run as another process would."""
        store = FaultyStore(self.run.namespace, self.run.store.options).failing(self.faults)
        self.run.environment.clock.instant = NOW + later
        return replace(self.run, store=store)


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


# The default tests fail one of seven calls, the slow ones each once, the deep ones each in every
# possible way.
_SOME_EACH_EVERY = pytest.mark.parametrize(
    ("every", "step"),
    [
        pytest.param(False, 7, id="some"),
        pytest.param(False, 1, id="once", marks=pytest.mark.slow),
        pytest.param(True, 1, id="every way", marks=pytest.mark.deep),
    ],
)


@pytest.fixture
def tell(record_property, step):
    """Report the number of points, and require enough of them."""
    began = time.monotonic()

    def told(what, points, refused, least=30):
        assert points > least // step
        assert refused > points // 4
        record_property(
            "figures",
            f"faults {what}: {points} points, {refused} refused, {time.monotonic() - began:.0f} s",
        )

    return told


@pytest.fixture(params=[True, False], ids=["links", "copies"])
def links(request, monkeypatch):
    """Whether the system makes links, so that nothing is copied."""
    if not request.param:
        refuse_links(monkeypatch, errno.EXDEV)
    return request.param


@_SOME_EACH_EVERY
def test_moving_into_quarantine_at_any_fault_leaves_each_object_whole(
    case, tell, every, step, links
):
    def move(run):
        told = quarantine.move(run.store, run.key, sorted(GO))
        assert [outcome.key for outcome in told] == sorted(GO)
        there = case.objects()
        for outcome in told:
            gone = outcome.outcome in ("deleted", "already_gone")
            assert outcome.outcome == "failed" or gone == (outcome.key not in there), outcome
        if any(outcome.outcome not in ("deleted", "already_gone") for outcome in told):
            raise DeletionFailedError("some are left")

    def moved():
        assert case.objects() == LIVE
        assert case.in_quarantine() == GO

    tell(
        f"while objects go into quarantine, {'by links' if links else 'as copies'}",
        *case.try_all(move, case.require_whole, moved, every=every, step=step),
        least=6 if links else 30,
    )


@pytest.mark.slow
@_SOME_EACH_EVERY
def test_bringing_back_at_any_fault_leaves_each_object_whole(case, tell, every, step):
    def bring_back(run):
        if not restore.restore(run).complete:
            raise DeletionFailedError("some are not back")

    def back():
        assert case.objects() == {**GO, **LIVE}

    tell(
        "while objects are brought back",
        *case.moved().try_all(bring_back, case.require_whole, back, every=every, step=step),
    )


@pytest.mark.slow
@_SOME_EACH_EVERY
def test_purging_at_any_fault_takes_nothing_but_what_is_over(case, tell, every, step, monkeypatch):
    """The quarantine has objects whose days are over and objects of a later run. Tables of some old
    runs are kept.
    """
    case.moved()
    run = case.run
    for days in (40, 50):
        older = run.at(RunKey.at(NOW - timedelta(days=days)))
        passing_mark(older)
        verdict.conclude(older)
        run.store.put(lakegc_keys.report_keys(older.key, swept=False)["json"], b"{}")
    run.store.put(lakegc_keys.report_keys(run.key, swept=True)["json"], b"{}")
    for path in (case.folder / "repo" / lakegc_keys.ROOT).rglob("*"):
        old = (NOW - timedelta(days=39)).timestamp()
        os.utime(path, (old, old))
    when = NOW + timedelta(days=DAYS + 1)
    run.store.put(
        f"{lakegc_keys.in_quarantine(RunKey.at(when - timedelta(days=1)))}data/s/0", b"later"
    )
    opened = case.opened

    def opened_then(*, later=timedelta(0)):
        made = opened(later=when - NOW + later)
        return replace(made, key=RunKey.at(when), options=replace(made.options, keep_runs=1))

    case.opened = opened_then
    # Spark finds the needed objects; its calls fail in the tests of a mark and a sweep.
    monkeypatch.setattr(
        purge_quarantine,
        "needed_finder",
        lambda run: lambda *_: quarantine_still_needed.Needed(run.now(), hashes_of()),
    )
    passing_mark(replace(opened_then(), store=run.store))

    def take_away(asked):
        done = house_keeping_result.Pruned()
        prune_own_tables.prune(asked, done)
        if done.not_purged is not None:
            raise DeletionFailedError(done.not_purged)
        if (
            done.left
            or done.not_now
            or (done.purged is not None and (done.purged.left or done.purged.unknown))
        ):
            raise DeletionFailedError("some is left")

    def untouched():
        assert case.objects() == LIVE
        root = case.folder / "repo" / lakegc_keys.ROOT
        for spec in tables.MARK_TABLES:
            assert len(list((root / spec.folder).rglob("_manifest.json"))) == 4
        assert len(list((root / tables.EXPIRED_ADDRESSES.folder).rglob("_verdict.json"))) == 3

    def over():
        untouched()
        assert case.in_quarantine() == {}
        root = case.folder / "repo" / lakegc_keys.ROOT
        slices = (root / tables.NAMESPACE_SLICES.folder).rglob("*.parquet")
        assert not [path for path in slices if path.parent.name != f"run_id={RunKey.at(when)}"]

    tell(
        "while quarantine and old tables are purged",
        *case.try_all(take_away, untouched, over, every=every, step=step),
    )
