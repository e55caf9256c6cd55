"""Reports as they are stored beside their runs, and made anew."""

from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core import lakegc_keys, report
from spark_core.errors import ChainError, CorruptTableError
from spark_core.fates import Fate
from spark_core.records import tables
from spark_core.records.tables import EXPIRED_ADDRESSES
from spark_core.report import Report
from spark_core.run.cutoff import before
from tests.support.stored_rows import rows_of
from tests.support.written_run import NOW, OLD

pytestmark = pytest.mark.spark

YOUNG = NOW - timedelta(hours=3)
WHY = "in no commit, and not staged"


def _by_name(groups):
    return {group.name: (group.objects, group.size_bytes) for group in groups}


def test_a_report_is_stored_beside_the_parquet_under_names_that_parquet_readers_skip(written):
    written.mark({"data/a/x": (5, OLD)}, expired={"data/a/x": WHY})
    written.conclude()
    found = report.load(written.run)
    where = lakegc_keys.report_keys(written.run.key, swept=False)
    assert set(where.values()) == {
        f"_lakefs/retention/gc/addresses/run_id={written.run.key}/_report.{ending}"
        for ending in ("json", "html")
    }
    assert written.run.store.read(where["html"]).startswith(b"<!doctype html>")
    assert Report.from_json(written.run.store.read(where["json"]), name="r") == found
    assert tables.runs(written.run.store) == [written.run.key]
    assert len(rows_of(written.run.load(EXPIRED_ADDRESSES))) == 1


def test_a_page_that_was_made_later_took_its_cutoff_from_the_settings_of_now(written):
    """`only objects written before 2026-11-18` stood over objects of the 19th."""
    flat = "0123456789abcdef" * 2
    listed = {"data/a/young": (16, YOUNG), "data/a/old": (8, OLD), flat: (4, OLD)}
    written.mark(listed, expired={"data/a/old": WHY})
    written.conclude()
    run = written.run
    later = replace(
        run,
        cutoff=before(run.key, timedelta(days=30)),
        options=replace(run.options, min_age=timedelta(days=30), flat=True),
    )
    found = report.load(later)
    assert found.cutoff == run.cutoff
    assert f"only objects written before {run.cutoff.isoformat()}" in report.page(found)
    assert _by_name(found.kept) == {
        Fate.YOUNG.sentence: (1, 16),
        Fate.UNSAFE_NAME.sentence: (1, 4),
    }
    assert found == report.of_mark(run)


def test_a_stored_report_is_shown_again_without_reading_the_tables(written):
    written.mark({"data/a/x": (5, OLD)}, expired={"data/a/x": WHY})
    written.conclude()
    first = report.load(written.run)
    parts = written.run.load(EXPIRED_ADDRESSES).manifest.parts
    written.run.store.delete([part.key for part in parts])
    assert report.load(written.run) == first


def test_a_report_without_a_verdict_is_made_again_when_there_is_one(written):
    written.mark({"data/a/x": (5, OLD)}, expired={"data/a/x": WHY})
    assert report.load(written.run).passed is None
    written.conclude()
    assert report.load(written.run).passed is True


def test_a_second_sweep_of_a_run_makes_its_report_again(written):
    written.mark({"data/a/x": (5, OLD)}, expired={"data/a/x": WHY})
    written.conclude()
    written.sweep({"data/a/x": (5, "failed", "SlowDown")})
    assert _by_name(report.load(written.run).outcomes) == {"failed": (1, 5)}
    written.sweep({"data/a/x": (5, "deleted", None)})
    assert _by_name(report.load(written.run).outcomes) == {"deleted": (1, 5)}


def test_a_run_that_was_never_marked_has_no_report(written):
    with pytest.raises(ChainError, match=r"has no namespace_slices"):
        report.load(written.run)


def test_a_damaged_stored_report_is_named(written):
    written.mark({})
    written.run.store.put(lakegc_keys.report_keys(written.run.key, swept=False)["json"], b"{")
    with pytest.raises(CorruptTableError, match=r"_report\.json: not a report of lakegc"):
        report.load(written.run)
