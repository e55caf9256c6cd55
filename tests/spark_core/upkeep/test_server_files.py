"""Lists and scans of the server go by the ids in the records of old runs, and no others."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core import lakegc_keys
from spark_core.errors import LeaseLostError, TransientError
from spark_core.lock import lease
from spark_core.lock.held_lease import Lease
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.storage import DeleteOutcome
from spark_core.upkeep import house_keeping_result, prune_own_tables
from tests.support.passing_mark import passing_mark
from tests.support.written_run import NOW, Written, written_run

ROOT = lakegc_keys.ROOT
OLD_LIST, OLD_SCAN, OTHERS = "gp0n1l7d77pn0cke6ja0", "gp0n1l7d77pn0cke6jb0", "gp0n1l7d77pn0cke6jc0"
LOOK = {
    "began": NOW.isoformat(),
    "oldest_began": NOW.isoformat(),
    "seconds": 1.0,
    "calls": 1,
    "staged": [],
    "commits": 1,
    "branches": 1,
    "tags": 0,
    "retained_commits": 1,
    "holds": 0,
    "twins": None,
    "new_metaranges": 0,
    "metaranges_read": 0,
    "ranges_read": 0,
    "entries_read": 0,
}


@pytest.fixture
def run(tmp_path):
    run = written_run(tmp_path, spark=None).run
    # What is stored now, by the machine's clock, is long past.
    run.environment.clock.instant = run.environment.clock.instant + timedelta(days=365)
    return replace(run, options=replace(run.options, keep_runs=2, may_sweep=True))


def _list(id_):
    return f"{ROOT}commits/run_id={id_}/commits.csv"


def _scan(id_, number=0):
    return f"{ROOT}uncommitted/{id_}/uncommitted/gp0n1l7d77pn0cke6j{number:02}"


def _mark(run, day, *, lists=(), scans=(), looks=None):
    """Store an earlier run that asked the server for lists and scans, and each of their files."""
    then = run.at(RunKey.at(NOW - timedelta(days=day)))
    passing_mark(
        then,
        retained_commits={"server_lists": list(lists)},
        uncommitted_addresses={"server_runs": list(scans)},
    )
    written = Written(then)
    written.conclude()
    for id_ in lists:
        run.store.put(_list(id_), b"12345")
    for id_ in scans:
        run.store.put(_scan(id_), b"123")
    if looks is not None:
        written.sweep(
            {"data/s/x": (4, "deleted", None)}, second_look={**LOOK, "server_runs": list(looks)}
        )
    then.store.put(lakegc_keys.report_keys(then.key, swept=looks is not None)["json"], b"{}")
    return then


def _marks(run):
    """Three runs of which the oldest may go; it asked for one list and one scan."""
    for day in (0, 1):
        _mark(run, day)
    return _mark(run, 2, lists=[OLD_LIST], scans=[OLD_SCAN])


def _prune(run):
    done = house_keeping_result.Pruned()
    prune_own_tables.prune(run, done)
    return done


def _there(run):
    return {key for batch in run.store.list("") for key in batch.column("key").to_pylist()}


def _records(run, step):
    return sorted(key for key in _there(run) if key.endswith(f".{step}.json"))


def test_lists_and_scans_go_with_the_run_that_asked_for_them(run):
    _marks(run)
    done = _prune(run)
    assert (done.server_objects, done.server_bytes) == (2, 8)
    assert not {_list(OLD_LIST), _scan(OLD_SCAN)} & _there(run)
    assert "lists and scans of old runs pruned (2 files, 8 bytes)" in (
        house_keeping_result.House(done, None).words
    )


def test_what_no_record_names_stays(run):
    _marks(run)
    strangers = {
        _list(OTHERS),
        _scan(OTHERS),
        f"{ROOT}commits/run_id={OLD_LIST}/commits.csv.bak",
        f"{ROOT}commits/run_id={OLD_LIST}/deeper/commits.csv",
        f"{ROOT}uncommitted/{OLD_SCAN}/uncommitted/notes.parquet",
        f"{ROOT}uncommitted/{OLD_SCAN}/gp0n1l7d77pn0cke6j00",
        f"{ROOT}unified/{OLD_SCAN}/summary.json",
        f"{ROOT}addresses/mark_id={OLD_SCAN}/part",
        f"_lakefs/commits/run_id={OLD_LIST}/commits.csv",
        f"data/{OLD_SCAN}/uncommitted/gp0n1l7d77pn0cke6j00",
        "_lakefs/" + "0" * 64,
    }
    for key in strangers:
        run.store.put(key, b"1")
    assert _prune(run).server_objects == 2
    assert strangers <= _there(run)


def test_what_a_run_that_stays_names_stays(run):
    _mark(run, 0)
    _mark(run, 1, lists=[OLD_LIST])
    _mark(run, 2, lists=[OLD_LIST], scans=[OLD_SCAN])
    assert _prune(run).server_objects == 1
    assert _list(OLD_LIST) in _there(run)


def test_what_the_looks_of_a_sweep_asked_for_goes_with_its_run(run):
    for day in (0, 1):
        _mark(run, day)
    _mark(run, 2, looks=[OLD_LIST, OLD_SCAN])
    for key in (_list(OLD_LIST), _scan(OLD_SCAN), _scan(OLD_SCAN, 1)):
        run.store.put(key, b"1")
    assert _prune(run).server_objects == 3


@pytest.mark.parametrize(
    "forged", ["../../../data", f"{OLD_LIST}/../{OTHERS}", "", ".", OLD_LIST.upper(), "*"]
)
def test_an_id_that_the_server_does_not_give_names_nothing(run, forged):
    for day in (0, 1):
        _mark(run, day)
    _mark(run, 2, looks=[forged])
    for key in (_list(OLD_LIST), _scan(OTHERS), "data/s/x"):
        run.store.put(key, b"1")
    assert _prune(run).server_objects == 0
    assert {_list(OLD_LIST), _scan(OTHERS), "data/s/x"} <= _there(run)


@pytest.mark.parametrize("table", [tables.UNCOMMITTED_ADDRESSES, tables.RETAINED_COMMITS])
def test_where_the_record_of_a_run_that_stays_cannot_be_read_nothing_goes(run, table):
    _marks(run)
    run.store.put(tables.manifest_key(table, RunKey.at(NOW - timedelta(days=1))), b"{")
    done = _prune(run)
    assert "which of them are needed is not known" in done.server_kept
    assert {_list(OLD_LIST), _scan(OLD_SCAN)} <= _there(run)
    assert "no lists and scans pruned" in house_keeping_result.House(done, None).words


def test_where_the_record_of_the_old_run_cannot_be_read_its_own_stay(run):
    old = _marks(run)
    run.store.put(tables.manifest_key(tables.RETAINED_COMMITS, old.key), b"{")
    assert _prune(run).server_objects == 0
    assert {_list(OLD_LIST), _scan(OLD_SCAN)} <= _there(run)


@pytest.mark.parametrize("table", [tables.UNCOMMITTED_ADDRESSES, tables.RETAINED_COMMITS])
def test_where_the_record_of_a_run_that_stays_is_gone_nothing_goes(run, table):
    """One id stands in two runs, and the record of the younger one is gone."""
    _mark(run, 0)
    younger = _mark(run, 1, lists=[OLD_LIST], scans=[OLD_SCAN])
    _mark(run, 2, lists=[OLD_LIST], scans=[OLD_SCAN])
    run.store.delete([tables.manifest_key(table, younger.key)])
    done = _prune(run)
    assert f"run {younger.key} has no {table.name} (" in done.server_kept
    assert {_list(OLD_LIST), _scan(OLD_SCAN)} <= _there(run)


def test_where_the_record_of_a_sweep_that_stays_is_gone_nothing_goes(run):
    _mark(run, 0)
    younger = _mark(run, 1, looks=[OLD_LIST])
    _mark(run, 2, lists=[OLD_LIST], scans=[OLD_SCAN])
    run.store.delete([tables.manifest_key(tables.DELETION_REPORT, younger.key)])
    assert "has no deletion_report (" in _prune(run).server_kept
    assert {_list(OLD_LIST), _scan(OLD_SCAN)} <= _there(run)


@pytest.mark.parametrize("written", [b"{", None])
def test_what_an_old_run_names_of_which_another_record_is_in_doubt_stays(run, written):
    _marks(run)
    doubtful = _mark(run, 3, lists=[OLD_LIST])
    record = tables.manifest_key(tables.UNCOMMITTED_ADDRESSES, doubtful.key)
    if written is None:
        run.store.delete([record])
    else:
        run.store.put(record, written)
    assert _prune(run).server_objects == 1
    assert _list(OLD_LIST) in _there(run)
    assert _scan(OLD_SCAN) not in _there(run)


def test_a_mark_that_was_killed_before_its_records_keeps_nothing(run):
    _marks(run)
    killed = RunKey.at(NOW + timedelta(hours=1))
    run.store.put(
        lakegc_keys.of_run(lakegc_keys.SLICES, killed)
        + lakegc_keys.part("part", 0, 0, f"{'0' * 32}-{'0' * 8}"),
        b"rows",
    )
    assert _prune(run).server_objects == 2


def test_records_that_changed_places_let_nothing_go(run):
    kept, old = (_mark(run, day, lists=[id_]) for day, id_ in ((1, OTHERS), (2, OLD_LIST)))
    _mark(run, 0)
    names = [tables.manifest_key(tables.RETAINED_COMMITS, one.key) for one in (kept, old)]
    records = [run.store.read(name) for name in names]
    for name, record in zip(names, reversed(records), strict=True):
        run.store.put(name, record)
    assert _prune(run).server_kept is not None
    assert {_list(OTHERS), _list(OLD_LIST)} <= _there(run)


def test_a_mark_at_work_whose_record_is_half_written_keeps_all_of_them(run):
    _marks(run)
    at_work = RunKey.at(NOW + timedelta(hours=1))
    run.store.put(tables.manifest_key(tables.RETAINED_COMMITS, at_work), b"")
    assert _prune(run).server_kept is not None
    assert {_list(OLD_LIST), _scan(OLD_SCAN)} <= _there(run)


def test_a_run_that_is_kept_for_another_reason_keeps_its_lists_and_scans(run):
    old = _marks(run)
    run.store.put(f"{lakegc_keys.in_quarantine(old.key)}data/s/x", b"1234")
    assert _prune(run).server_objects == 0
    assert {_list(OLD_LIST), _scan(OLD_SCAN)} <= _there(run)


def test_a_run_that_was_written_lately_keeps_its_lists_and_scans(run):
    _marks(run)
    run.environment.clock.instant -= timedelta(days=365)
    assert _prune(run).server_objects == 0


def test_a_run_whose_report_cannot_be_made_keeps_its_lists_and_scans(run, monkeypatch):
    _marks(run)

    def fail(*_):
        raise TransientError("no report")

    monkeypatch.setattr(prune_own_tables, "_keep_report", fail)
    assert _prune(run).server_objects == 0
    assert {_list(OLD_LIST), _scan(OLD_SCAN)} <= _there(run)


def test_what_is_to_go_is_written_down_before_and_its_outcome_after(run, monkeypatch):
    _marks(run)
    real, seen = run.store.delete, []

    def watch(keys):
        if _list(OLD_LIST) in keys:
            seen.extend(_records(run, "planned"))
            assert not _records(run, "done")
        return real(keys)

    monkeypatch.setattr(run.store, "delete", watch)
    _prune(run)
    (planned,) = seen
    files = {_list(OLD_LIST): 5, _scan(OLD_SCAN): 3}
    assert json.loads(run.store.read(planned))["files"] == files
    (done,) = _records(run, "done")
    assert json.loads(run.store.read(done))["files"] == dict.fromkeys(files, "deleted")


def test_after_a_kill_or_a_refusal_the_next_time_does_the_rest(run, monkeypatch):
    _marks(run)
    real = run.store.delete

    def deny(keys):
        return [
            DeleteOutcome(key, "refused", "HTTP 403") if key == _scan(OLD_SCAN) else real([key])[0]
            for key in keys
        ]

    with monkeypatch.context() as denying:
        denying.setattr(run.store, "delete", deny)
        done = _prune(run)
    assert (done.server_objects, done.left) == (1, 1)
    assert not _records(run, "done")
    assert _prune(run).server_objects == 1
    assert len(_records(run, "done")) == 1


def test_a_second_time_finds_nothing_to_do_and_takes_no_lease(run):
    _marks(run)
    _prune(run)
    epochs = len(list(run.store.list(f"{ROOT}lease/")))
    assert _prune(run) == house_keeping_result.Pruned()
    assert len(list(run.store.list(f"{ROOT}lease/"))) == epochs


def test_a_file_that_comes_again_under_a_known_id_stays(run):
    """An id that was done is not looked at again: somebody put the file back."""
    _marks(run)
    _prune(run)
    run.store.put(_list(OLD_LIST), b"1")
    assert _prune(run).server_objects == 0
    assert _list(OLD_LIST) in _there(run)


def test_nothing_goes_without_the_lease(run, monkeypatch):
    _marks(run)
    with lease.acquire(run.at(RunKey.at(NOW - timedelta(days=9)))):
        assert "sweep of run" in _prune(run).not_now
    assert {_list(OLD_LIST), _scan(OLD_SCAN)} <= _there(run)

    def lost(_):
        raise LeaseLostError("the lease is lost")

    monkeypatch.setattr(Lease, "beat", lost)
    with pytest.raises(LeaseLostError):
        _prune(run)
    assert {_list(OLD_LIST), _scan(OLD_SCAN)} <= _there(run)
