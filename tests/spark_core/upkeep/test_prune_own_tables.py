"""House-keeping: old tables go, by exact names only.

Verdicts, manifests and reports stay, and so does what may be needed.
"""

import os
from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core import lakegc_keys, report
from spark_core.errors import PermissionDeniedError
from spark_core.lock import lease
from spark_core.records import tables
from spark_core.storage import DeleteOutcome
from spark_core.upkeep import (
    house_keeping,
    house_keeping_result,
    own_files,
    prune_own_tables,
    server_files,
)
from tests.support.old_runs import INDEX_FILES, INTENT, at_day, key_of_day, keys_of_day, mark, prune
from tests.support.paged_store import PagedStore
from tests.support.written_run import Written, written_run


def _touch(folder, key, *, seconds):
    """Let a file have been written so much later."""
    file = folder / "repo" / key
    status = file.stat()
    os.utime(file, (status.st_atime, status.st_mtime + seconds))


def _parts(run, day):
    return {
        key for key in keys_of_day(run, day) if key.endswith(".parquet") and "/reports/" not in key
    }


def test_the_tables_of_runs_beyond_the_newest_go_and_the_others_stay(run):
    for day in (0, 1, 2, 3):
        mark(run, day)
    before = {day: keys_of_day(run, day) for day in (0, 1)}
    done = prune(run)
    assert done.runs == [key_of_day(2), key_of_day(3)]
    assert done.objects == 4
    assert done.left == 0
    assert {day: keys_of_day(run, day) for day in (0, 1)} == before
    assert _parts(run, 2) == _parts(run, 3) == set()


def test_verdicts_manifests_and_reports_stay(run):
    for day in (0, 1):
        mark(run, day)
    old = mark(run, 2, swept=True)
    prune(run)
    left = keys_of_day(run, 2)
    assert {tables.manifest_key(spec, old.key) for spec in tables.ALL_TABLES} <= left
    assert {
        lakegc_keys.verdict_key(old.key),
        lakegc_keys.report_keys(old.key, swept=True)["json"],
    } <= left
    assert f"{lakegc_keys.ROOT}journal/run_id={old.key}/_plan.json" in left
    assert not any("/intent-" in key or "/outcome-" in key for key in left)
    assert sum("/reports/" in key and key.endswith(".parquet") for key in left) == 1, (
        "the record of what is gone"
    )


def test_a_second_prune_finds_nothing_to_do_and_takes_no_lease(run):
    for day in (0, 1, 2):
        mark(run, day)
    assert prune(run).runs == [key_of_day(2)]
    epochs = len(list(run.store.list(f"{lakegc_keys.ROOT}lease/")))
    assert prune(run) == house_keeping_result.Pruned()
    assert len(list(run.store.list(f"{lakegc_keys.ROOT}lease/"))) == epochs


def test_what_was_written_lately_stays_whatever_the_run_is_called(run):
    for day in (0, 1, 2):
        mark(run, day)
    run.environment.clock.instant -= timedelta(days=365)
    done = prune(run)
    assert done.runs == []
    assert "written less than 7 days" in done.kept[str(key_of_day(2))]


def test_what_was_made_anew_for_readers_postpones_nothing(run, tmp_path):
    for day in (0, 1, 2):
        mark(run, day)
    lately = 365 * 86_400
    for_readers = [
        lakegc_keys.what_if_key(key_of_day(2)),
        *lakegc_keys.report_keys(key_of_day(2), swept=False).values(),
        *lakegc_keys.report_keys(key_of_day(2), swept=True).values(),
    ]
    for key in for_readers:
        run.store.put(key, b"{}")
        _touch(tmp_path, key, seconds=lately)
    assert prune(run).runs == [key_of_day(2)]
    assert set(for_readers) <= keys_of_day(run, 2)


def test_a_verdict_that_was_stored_lately_keeps_its_run(run, tmp_path):
    for day in (0, 1, 2):
        mark(run, day)
    _touch(tmp_path, lakegc_keys.verdict_key(key_of_day(2)), seconds=365 * 86_400)
    assert "written less than 7 days" in prune(run).kept[str(key_of_day(2))]


def test_this_run_stays_however_old_its_key(run):
    for day in (0, 1, 2):
        mark(run, day)
    done = prune(at_day(run, 2))
    assert done.runs == []
    assert done.kept == {str(key_of_day(2)): "it is this run"}


def test_a_run_whose_sweep_did_not_end_stays(run):
    for day in (0, 1, 2):
        mark(run, day)
    run.store.put(f"{lakegc_keys.ROOT}journal/run_id={key_of_day(2)}/{INTENT}", b"1")
    done = prune(run)
    assert done.kept == {str(key_of_day(2)): "its sweep did not end"}
    assert "_plan.json" in done.not_purged, "nobody knows what it moved"
    assert len(_parts(run, 2)) == 3


def test_a_run_whose_later_sweep_was_killed_keeps_its_journal(run, tmp_path):
    for day in (0, 1):
        mark(run, day)
    then = mark(run, 2)
    # The report names failures; another sweep took them up, and was killed before its report.
    Written(then).journal({"data/s/y": 4}, "failed")
    Written(then).sweep({"data/s/y": (4, "failed", None)})
    run.store.put(lakegc_keys.report_keys(then.key, swept=True)["json"], b"{}")
    Written(then).journal({"data/s/y": 4}, outcome=None)
    (later,) = (key for key in keys_of_day(run, 2) if "/intent-ab12.0.0.0.1-" in key)
    _touch(tmp_path, later, seconds=+10)
    done = prune(run)
    assert done.kept == {str(key_of_day(2)): "its sweep did not end"}
    assert [end.run for end in done.ended] == [str(key_of_day(2))]
    assert prune(run).runs == [key_of_day(2)], "its journal is ended"


def _file(run, day, kind, name):
    """Write a file of lakegc's in a folder of a run."""
    key = lakegc_keys.of_run(kind, key_of_day(day)) + lakegc_keys.part(
        name, 0, 0, f"{'0' * 32}-{'0' * 8}"
    )
    run.store.put(key, b"rows")
    return key


def test_files_beside_the_tables_of_a_run_go_with_them(run):
    for day in (0, 1, 2):
        mark(run, day)
    beside = {
        _file(run, 2, lakegc_keys.RANGES, "part"),
        _file(run, 2, lakegc_keys.ADDRESSES, "_waiting"),
        _file(run, 2, lakegc_keys.COMMITTED, "_expired"),
        _file(run, 2, lakegc_keys.COMMITTED, "_aside"),
    }
    assert beside < _parts(run, 2)
    prune(run)
    assert _parts(run, 2) == set()


def test_a_run_that_never_got_a_verdict_has_no_report_to_wait_for(run):
    for day in (0, 1):
        mark(run, day)
    mark(run, 2, concluded=False, reported=False)
    assert prune(run).runs == [key_of_day(2)]


@pytest.mark.spark
def test_a_report_that_nobody_asked_for_is_made_before_its_tables_go(tmp_path, spark):
    run = written_run(tmp_path, spark=spark).run
    run.environment.clock.instant += timedelta(days=365)
    run = replace(run, options=replace(run.options, keep_runs=1))
    mark(run, 0)
    mark(run, 1, reported=False)
    assert prune(run).runs == [key_of_day(1)]
    again = report.load(at_day(run, 1))
    assert [group.objects for group in again.by_reason] == [1]
    assert lakegc_keys.report_keys(key_of_day(1), swept=False)["html"] in keys_of_day(run, 1)


def test_a_run_whose_report_cannot_be_made_stays(run):
    for day in (0, 1):
        mark(run, day)
    mark(run, 2, reported=False)
    run.store.put(tables.manifest_key(tables.NAMESPACE_SLICES, key_of_day(2)), b"{")
    done = prune(run)
    assert done.runs == []
    assert "its report cannot be made" in done.kept[str(key_of_day(2))]
    assert len(_parts(run, 2)) == 2


def test_rows_of_diffs_that_a_killed_mark_left_go_with_its_tables(run):
    for day in (0, 1, 2):
        mark(run, day)
    left = [
        f"{lakegc_keys.ROOT}uncommitted/run_id={key_of_day(day)}/_diffs-{'0' * 32}-00000.parquet"
        for day in (1, 2)
    ]
    for key in left:
        run.store.put(key, b"rows")
    done = prune(run)
    assert (done.runs, done.objects) == ([key_of_day(2)], 3)
    assert left[1] not in keys_of_day(run, 2)
    assert left[0] in keys_of_day(run, 1)


STRANGERS = [
    "slices/run_id={run}/_manifest.json.bak",
    "slices/run_id={run}/part-00000.parquet",
    "slices/run_id={run}/deeper/part-00000-000-{hex32}-{hex8}.parquet",
    "slices/run_id={run}/part-00000-000-{hex32}-{hex8}.parquet.bak",
    "slices/run_id=x/part-00000-000-{hex32}-{hex8}.parquet",
    "commits/run_id=gp0n1l7d77pn0cke6jjg/commits.csv",
    "uncommitted/gp0n1l7d77pn0cke6jjg/uncommitted/gp0n1l7d77pn0cke6jj0",
    "reports/run_id={run}/part-00000-000-{hex32}-{hex8}.parquet",
    "journal/run_id={run}/notes.parquet",
    "addresses/run_id=gp0n1l7d77pn0cke6jjg/part-00000-{hex32}.parquet",
    "rules/config.json",
    "uncommitted/run_id={run}/_diffs-{hex32}.parquet",
    "slices/run_id={run}/_diffs-{hex32}-00000.parquet",
]


def test_what_lakegc_did_not_write_stays_wherever_it_lies(run):
    for day in (0, 1, 2):
        mark(run, day, swept=day == 2)
    names = {"run": key_of_day(2), "hex32": "0" * 32, "hex8": "0" * 8}
    strangers = {lakegc_keys.ROOT + name.format(**names) for name in STRANGERS} | {
        "_lakefs/" + "0" * 64,
        "data/s/x",
        "dummy",
    }
    hold = f"{lakegc_keys.HOLDS}audit.json"
    for key in (*strangers, hold):
        run.store.put(key, b"1")
    assert prune(run).runs == [key_of_day(2)]
    left = {key for batch in run.store.list("") for key in batch.column("key").to_pylist()}
    assert strangers | {hold} <= left


def test_while_somebody_collects_nothing_is_pruned(run):
    for day in (0, 1, 2):
        mark(run, day)
    with lease.acquire(at_day(run, 9)):
        done = prune(run)
    assert done.runs == []
    assert "sweep of run" in done.not_now
    assert prune(run).runs == [key_of_day(2)]


def test_a_file_that_the_store_keeps_is_tried_again_the_next_time(run, monkeypatch):
    for day in (0, 1, 2):
        mark(run, day)
    real = run.store.delete

    def deny(keys):
        return [
            DeleteOutcome(key, "refused", "HTTP 403") if "/addresses/" in key else real([key])[0]
            for key in keys
        ]

    with monkeypatch.context() as denying:
        denying.setattr(run.store, "delete", deny)
        done = prune(run)
    assert (done.objects, done.left) == (1, 1)
    assert prune(run).objects == 1


def test_what_the_server_left_is_counted_and_stays(run):
    mark(run, 0)
    for name in STRANGERS:
        if "gp0n1l7d77pn0cke6jjg" in name:
            run.store.put(lakegc_keys.ROOT + name.format(hex32="0" * 32), b"12345")
    run.store.put("_lakefs/retention/gc/rules/config.json", b"123")
    left = server_files.left_by_server(run.store, "_lakefs")
    assert left == server_files.Left(lists=1, list_bytes=5, scans=1, scan_bytes=5)
    assert (
        house_keeping.keep_house(run).words
        == "the server keeps files of every collection: 2 files, 10 bytes"
    )
    assert server_files.left_by_server(run.store, "_lakefs") == left


def test_files_of_all_runs_are_one_listing_where_the_store_lists_in_order():
    runs = [key_of_day(day) for day in range(20)]
    names = [tables.manifest_key(spec, key) for key in runs for spec in tables.ALL_TABLES]
    server = [
        lakegc_keys.ROOT + name.format(hex32="0" * 32)
        for name in STRANGERS
        if "gp0n1l7d77pn0cke6jjg" in name
    ]
    copies = [f"{lakegc_keys.in_quarantine(runs[0])}data/s/{number}" for number in range(5_000)]
    of_index = [
        lakegc_keys.INDEX + lakegc_keys.part(name, 0, 0, f"{'0' * 32}-{'0' * 8}")
        for name in INDEX_FILES
    ]
    store = PagedStore([*names, *of_index, *server, *copies], 1_000)
    found, index, server = own_files.by_run(store)
    assert sorted(index.sizes) == sorted(of_index)
    assert sorted(key for files in found.values() for key in files.sizes) == sorted(names)
    assert store.requests.pop("list") == 2, "one up to quarantine, one behind it"
    assert server_files.left_by_server(store, "_lakefs").objects == 2
    assert store.requests["list"] == 2


def test_trouble_with_house_keeping_fails_no_run(run, monkeypatch):
    mark(run, 0)
    monkeypatch.setattr(prune_own_tables, "prune", _denied)
    house = house_keeping.keep_house(run)
    assert house.problem == "listing was refused. House-keeping deleted nothing."
    assert "not finished: listing was refused" in house.words
    assert house.facts["left_by_server_objects"] == 0


def _denied(_run, *_):
    raise PermissionDeniedError("listing was refused")


def test_pruning_says_what_it_did(run):
    for day in (0, 1, 2):
        mark(run, day)
    house = house_keeping.keep_house(run)
    assert "tables of 1 old runs pruned (2 files" in house.words
    assert house.facts["pruned_runs"] == [str(key_of_day(2))]
