"""A mark that lakeFS's own job made, verified and swept on a copy of the repository that it was
made of.
"""

import json
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_core import mark, report
from spark_core.checks import verdict
from spark_core.errors import ChainError, ObjectExistsError
from spark_core.fates import Fate
from spark_core.handover import reference_mark
from spark_core.records import tables
from spark_core.report import reference_job_mark as standings
from tests.support import official_mark
from tests.support.pipeline import mark_and_conclude, mark_only, sweep_only
from tests.support.stored_rows import rows_of

pytestmark = pytest.mark.spark


def _stored(run):
    return {key for batch in run.store.list("data/") for key in batch.column("key").to_pylist()}


def _standing(found):
    return {group.name: group.objects for group in found.reference.standings}


@pytest.fixture
def official(tmp_path):
    with official_mark.server(tmp_path) as recorded:
        yield recorded


@pytest.mark.deep
def test_without_tags_protecting_exactly_what_the_job_named_goes(official, spark):
    run = official_mark.open_official_run(
        official, spark, reference_mark=official_mark.MARK_ID, tags_protect=False
    )
    marked, verdict, _ = mark_and_conclude(run)
    assert verdict.passed, verdict.checks
    assert set(marked.addresses(run)) == official_mark.lines("expected-candidates.txt")
    found = report.load(run)
    assert _standing(found) == {standings.MAY_GO: 86}
    assert found.reference.kept == ()
    assert set(sweep_only(run).values()) == {"deleted"}
    assert _stored(run) == official_mark.lines("expected-live.txt")


@pytest.mark.slow
def test_what_a_tag_keeps_and_what_is_referenced_again_is_kept_and_named(official, spark):
    """The job has no regard for tags; and somebody links one of its candidates to a branch before
    the sweep.
    """
    back, tagged = (
        min(official_mark.addresses_of("staged-deleted")),
        official_mark.addresses_of("tagged-c1"),
    )
    official_mark.stage(official, "main", "back/again.txt", back)
    run = official_mark.open_official_run(official, spark, reference_mark=official_mark.MARK_ID)
    mark_and_conclude(run)
    found = report.load(run)
    assert _standing(found) == {standings.MAY_GO: 77, standings.COMMITTED: 8, standings.STAGED: 1}
    assert {row.address: row.standing for row in found.reference.kept} == {
        back: standings.STAGED,
        **dict.fromkeys(tagged, standings.COMMITTED),
    }
    assert back in report.page(found)
    assert sweep_only(run).keys() == official_mark.lines("expected-candidates.txt") - tagged - {
        back
    }
    assert _stored(run) == official_mark.lines("expected-live.txt") | tagged | {back}
    assert len(rows_of(run.load(tables.REFERENCE_ADDRESSES))) == 86


@pytest.mark.deep
def test_of_strange_addresses_none_goes_and_each_has_its_reason(official, spark):
    """The job reported a file at the root and one that it made up.

    Both, and odd ones, are only talked about.
    """
    mark_id = official_mark.put_mark("stray", official.namespace_root)
    (official.namespace_root / "README-of-a-human.txt").write_text("keep me")
    (official.namespace_root / "data/stray-file").write_text("keep me")
    folder = official.namespace_root / f"_lakefs/retention/gc/unified/{mark_id}"
    odd = {
        None: standings.NO_ADDRESS,
        "": standings.UNNAMEABLE,
        "data/../_lakefs/dummy": standings.UNNAMEABLE,
        "data/a\nb": standings.UNNAMEABLE,
        "/data/x": standings.UNNAMEABLE,
        "s3://lakefs-peer/peersmall/data/x": standings.ABSOLUTE,
        "_lakefs/dummy": standings.OUTSIDE,
        "data/inner/_lakefs/dummy": standings.PROTECTED,
    }
    pq.write_table(
        pa.table({"address": pa.array(odd, pa.string())}), folder / "deleted/part-00099-odd.parquet"
    )
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(
        json.dumps({**summary, "num_deleted_objects": 90 + len(odd)})
    )
    run = official_mark.open_official_run(
        official, spark, reference_mark=mark_id, tags_protect=False
    )
    marked, _, _ = mark_and_conclude(run)
    assert set(marked.addresses(run)) == official_mark.lines("expected-candidates.txt")
    report.load(run)
    rows = [row for row in rows_of(run.load(tables.REFERENCE_ADDRESSES)) if not row.may_go]
    assert {row.address: row.standing for row in rows} == odd | {
        "README-of-a-human.txt": standings.OUTSIDE,
        "data/stray-file/stray-file": standings.GONE,
        "data/a b+c%20/odd name,é.txt": standings.GONE,
        "data/zz:colon/x": standings.GONE,
    }
    sweep_only(run)
    assert (official.namespace_root / "README-of-a-human.txt").exists()
    assert (official.namespace_root / "data/stray-file").exists()


@pytest.mark.deep
def test_what_is_younger_than_the_cutoff_of_today_is_kept(official, spark):
    run = official_mark.open_official_run(
        official,
        spark,
        reference_mark=official_mark.MARK_ID,
        min_age=timedelta(hours=24),
        tags_protect=False,
    )
    marked, _, _ = mark_and_conclude(run)
    assert marked.addresses(run) == []
    assert _standing(report.load(run)) == {standings.why_it_stays(Fate.YOUNG): 86}


@pytest.mark.deep
def test_an_empty_mark_lets_nothing_go(official, spark):
    mark_id = official_mark.put_mark("empty", official.namespace_root)
    run = official_mark.open_official_run(
        official, spark, reference_mark=mark_id, write_reference_mark=True
    )
    marked, found, _ = mark_and_conclude(run)
    assert marked.addresses(run) == []
    shown = report.load(run)
    assert _standing(shown) == {}
    assert {group.name: group.objects for group in shown.kept}[Fate.NOT_NAMED.sentence] == 78
    assert sweep_only(run) == {}
    # The server's scan has the id of the job's own mark here, which stays as it is.
    with pytest.raises(
        ObjectExistsError,
        match="holds another mark of the reference job, which is never overwritten",
    ):
        reference_mark.write_if_asked(run, found)


@pytest.mark.slow
def test_our_mark_is_written_as_the_job_reads_it_and_only_after_its_verdict(official, spark):
    official_mark.rename_scan(official, "ft6s0e1ksdufuaulm350")
    run = official_mark.open_official_run(
        official, spark, write_reference_mark=True, tags_protect=False
    )
    _, found, _ = mark_and_conclude(run)
    assert reference_mark.write_if_asked(run, found) == "ft6s0e1ksdufuaulm350"
    folder = official.namespace_root / "_lakefs/retention/gc/unified/ft6s0e1ksdufuaulm350"
    theirs = official.namespace_root / f"_lakefs/retention/gc/unified/{official_mark.MARK_ID}"
    summary = json.loads((folder / "summary.json").read_text())
    assert list(summary) == list(json.loads((theirs / "summary.json").read_text()))
    assert summary["success"] is True
    assert summary["num_deleted_objects"] == 86
    # Spark's own reader, the way the job reads the list of addresses that it deletes.
    read = spark.read.parquet(str(folder / "deleted"))
    assert read.schema == spark.read.parquet(str(theirs / "deleted")).schema
    wanted = official_mark.lines("expected-candidates.txt")
    assert sorted(row.address for row in read.collect()) == sorted(wanted)
    assert sorted(
        row.value for row in spark.read.text(str(folder / "deleted.text")).collect()
    ) == sorted(wanted)
    assert (
        (folder / "deleted/_SUCCESS").read_bytes()
        == (folder / "deleted.text/_SUCCESS").read_bytes()
        == b""
    )
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert reference_mark.write(run) == "ft6s0e1ksdufuaulm350"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before

    # What broke off before its summary is made again; what another wrote there is not touched.
    (folder / "summary.json").unlink()
    reference_mark.write(run)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    (folder / "summary.json").unlink()
    (folder / "deleted/part-00000-other.snappy.parquet").write_bytes(b"another's")
    with pytest.raises(ObjectExistsError, match="never overwritten"):
        reference_mark.write(run)
    assert not (folder / "summary.json").exists()


@pytest.mark.deep
def test_a_mark_whose_checks_failed_is_not_written(official, spark):
    official_mark.rename_scan(official, "ft6s0e1ksdufuaulm350")
    run = official_mark.open_official_run(
        official, spark, write_reference_mark=True, max_expired_share=0.01, share_from_objects=0
    )
    _, found, _ = mark_and_conclude(run)
    assert not found.passed
    assert reference_mark.write_if_asked(run, found) is None
    with pytest.raises(verdict.VerdictError, match="did not pass its checks"):
        reference_mark.write(run)
    assert not (
        official.namespace_root / "_lakefs/retention/gc/unified/ft6s0e1ksdufuaulm350"
    ).exists()


@pytest.mark.deep
def test_a_run_that_was_begun_to_verify_a_mark_does_not_go_on_without_it(official, spark):
    """Made again by hand without the mark, the last table would name everything that lakegc finds
    expired.
    """
    run = official_mark.open_official_run(official, spark, reference_mark=official_mark.MARK_ID)
    marked = mark_only(run)
    for other, words in (
        (None, "no mark of the reference job"),
        ("other", "mark other of the reference job"),
    ):
        with pytest.raises(
            ChainError,
            match=f"was begun to verify mark {official_mark.MARK_ID} .* to verify {words}",
        ):
            mark.expired_addresses(replace(run, reference_mark=other), marked.tables)
