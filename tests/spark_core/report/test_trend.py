"""What earlier runs came to: from their stored reports, bounded, and never in the page's way."""

from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core import lakegc_keys
from spark_core.errors import TransientError
from spark_core.fates import Fate
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.report import Group, stored, trend
from spark_core.report.trend import Point
from tests.support.passing_mark import passing_mark
from tests.support.stored_formats import REPORT
from tests.support.written_run import NOW, with_index, written_run


@pytest.fixture
def store(tmp_path):
    return written_run(tmp_path, None).run.store


def of(days, **changes):
    """Make the report of a run some days before the last one; its bytes tell its days."""
    kept = (
        Group(Fate.COMMITTED.sentence, 1, 20),
        Group(Fate.STAGED.sentence, 1, 3),
        Group("young", 1, 7),
    )
    made = replace(
        REPORT,
        run=str(RunKey.at(NOW - timedelta(days=days))),
        listed=Group("listed", 4, 1_000 + days),
        expired=Group("may go", 1, 500),
        kept=kept,
    )
    return replace(made, **changes)


def put(store, report):
    key = RunKey.parse(report.run)
    store.put(lakegc_keys.report_keys(key, swept=report.swept)["json"], report.to_json())
    store.put(
        lakegc_keys.report_keys(key, swept=False)["json"], replace(report, sweep=None).to_json()
    )


def test_runs_are_told_oldest_first_with_what_was_listed_live_garbage_and_reclaimed(store):
    put(store, of(1))
    deleted = (Group("deleted", 1, 400), Group("already_gone", 1, 100))
    put(store, of(2, sweep="s", outcomes=deleted))
    assert trend.trend(store, of(0)) == [
        Point(of(2).run, 1_002, 23, 500, 400),
        Point(of(1).run, 1_001, 23, 500, 0),
        Point(of(0).run, 1_000, 23, 500, 0),
    ]


def test_of_a_base_that_was_looked_at_the_report_is_believed_and_nothing_is_listed(
    store, monkeypatch
):
    deleted = (Group("deleted", 1, 400),)
    put(store, of(2, sweep="s", outcomes=deleted))
    past = trend.runs_to_keep(trend.trend(store, replace(of(1), past=())))
    put(store, of(1, sweep="s", outcomes=deleted, past=past))
    wanted = trend.trend(store, of(0))
    assert [point.reclaimed for point in wanted] == [400, 400, 0]
    keys = [RunKey.parse(of(days).run) for days in (1, 2)]
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "children", lambda *_: pytest.fail("something was listed"))
        assert trend.trend(store, of(0), marked=keys, swept={keys[0]: True}) == wanted
    # What the report does not tell is asked for.
    put(store, of(1, sweep="s", outcomes=deleted))
    assert trend.trend(store, of(0), marked=keys, swept={keys[0]: True}) == wanted


def test_no_more_than_thirty_runs_are_read_and_none_that_is_newer(store, monkeypatch):
    for days in range(-1, 40):
        put(store, of(days))
    read, reads = type(store).read, []
    monkeypatch.setattr(type(store), "read", lambda at, key: reads.append(key) or read(at, key))
    found = trend.trend(store, of(0))
    assert [point.listed for point in found] == [1_000 + days for days in range(29, -1, -1)]
    assert len(reads) == 29


def test_a_report_tells_what_came_before_it_so_that_only_the_newest_is_read(store, monkeypatch):
    deleted = (Group("deleted", 1, 400), Group("already_gone", 1, 100))
    put(store, of(5, sweep="s", outcomes=deleted))
    put(store, of(4, sweep="s", outcomes=(*deleted, Group("failed", 1, 1))))
    put(store, of(3))
    put(store, of(2))
    put(store, replace(of(1), past=trend.runs_to_keep(trend.trend(store, of(1)))))
    # Swept since, and there is no telling what became of the one that did not end.
    put(store, of(3, sweep="s", outcomes=deleted))
    read, reads = type(store).read, []
    monkeypatch.setattr(type(store), "read", lambda at, key: reads.append(key) or read(at, key))
    found = trend.trend(store, of(0))
    assert [point.reclaimed for point in found] == [400, 400, 400, 0, 0, 0]
    assert [point.listed for point in found] == [1_000 + days for days in range(5, -1, -1)]
    runs = {of(days).run: days for days in range(6)}
    assert [runs[key.partition("run_id=")[2].partition("/")[0]] for key in reads] == [1, 3, 4]


def test_what_cannot_be_read_or_is_of_another_repository_costs_its_own_point(store):
    put(store, of(1, repository="other"))
    put(store, of(2))
    damaged, unfinished = (RunKey.at(NOW - timedelta(days=days)) for days in (3, 4))
    store.put(lakegc_keys.report_keys(damaged, swept=False)["json"], b"{")
    put(store, of(4))
    store.put(f"{lakegc_keys.of_run(lakegc_keys.REPORTS, unfinished)}part", b"")
    store.put(
        f"{lakegc_keys.of_run(lakegc_keys.ADDRESSES, RunKey.at(NOW - timedelta(days=5)))}part", b""
    )
    assert [point.listed for point in trend.trend(store, of(0))] == [1_004, 1_002, 1_000]


def test_a_store_that_does_not_answer_leaves_the_trend_short_and_the_page_whole(store, monkeypatch):
    put(store, of(1))

    def unsure(key):
        raise TransientError("the store did not answer")

    monkeypatch.setattr(store, "read", unsure)
    assert trend.trend(store, of(0)) == [Point.of(of(0))]


def test_whether_the_run_before_was_swept_is_known_where_the_mark_read_it(tmp_path):
    run, before = written_run(tmp_path, None).run, RunKey.at(NOW - timedelta(days=1))
    passing_mark(run, namespace_slices=with_index(before)["of_listing"])
    run.first.update(tables.manifest_key(spec, run.key) for spec in tables.MARK_TABLES)
    assert stored._swept_before(run) is None
    where = tables.manifest_key(tables.DELETION_REPORT, before)
    for report, swept in ((None, False), ("a report", True)):
        run.documents[where] = report
        assert stored._swept_before(run) == {before: swept}
