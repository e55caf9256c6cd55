"""A mark that lakeFS's own job made, verified and swept on a copy of the repository that it was made of."""

import pytest

from spark_core import report, tables
from spark_core.report import reference as standings
from tests.support import official_mark
from tests.support.pipeline import mark_and_conclude, sweep_only

pytestmark = pytest.mark.spark


def _stored(run):
    return {key for batch in run.store.list("data/") for key in batch.column("key").to_pylist()}


def _standing(found):
    return {group.name: group.objects for group in found.reference.standings}


@pytest.fixture
def official(tmp_path):
    with official_mark.server(tmp_path) as recorded:
        yield recorded


def test_without_tags_protecting_exactly_what_the_job_named_goes(official, spark):
    run = official_mark.open_official_run(official, spark, reference_mark=official_mark.MARK_ID, tags_protect=False)
    marked, verdict, _ = mark_and_conclude(run)
    assert verdict.passed, verdict.checks
    assert set(marked.addresses(run)) == official_mark.lines("expected-candidates.txt")
    found = report.load(run)
    assert _standing(found) == {standings.MAY_GO: 86}
    assert found.reference.kept == ()
    assert set(sweep_only(run).values()) == {"deleted"}
    assert _stored(run) == official_mark.lines("expected-live.txt")


def test_what_a_tag_keeps_is_kept_and_named_though_the_job_calls_it_dead(official, spark):
    tagged = official_mark.addresses_of("tagged-c1")
    run = official_mark.open_official_run(official, spark, reference_mark=official_mark.MARK_ID)
    mark_and_conclude(run)
    found = report.load(run)
    assert _standing(found) == {standings.MAY_GO: 78, standings.COMMITTED: 8}
    assert {(row.address, row.standing) for row in found.reference.kept} == {
        (address, standings.COMMITTED) for address in tagged
    }
    assert sweep_only(run).keys() == official_mark.lines("expected-candidates.txt") - tagged
    assert _stored(run) == official_mark.lines("expected-live.txt") | tagged
    rows = run.load(tables.REFERENCE_ADDRESSES).frame(spark).collect()
    assert len(rows) == 86
