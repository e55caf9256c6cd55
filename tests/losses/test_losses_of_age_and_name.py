"""Losses of objects that looked too old, of files that lakeFS never named, and of marks that were
too old.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox, gc, objects, repositories
from lakegc_dagster.sandbox.xids import encode_xid
from spark_core import report
from spark_core.checks import sweepable, verdict
from spark_core.errors import VerdictError
from spark_core.fates import Fate
from tests.support.passing_mark import passing_mark
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.written_run import written_run

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
MANY_YEARS = NOW - timedelta(days=1_000)
SLICE = "gqv3epl4fd2o8m3men70"


class Place:
    """A sixty-day-old repository with one live file, and the files that a test adds."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.folder = Path(sandbox.blockstore) / "repo"
        with sandbox.core.lock, sandbox.clock.at(NOW - timedelta(days=60)):
            repositories.create(sandbox.core, "repo", "local://repo")
            gc.set_rules(sandbox.core, "repo", gc.Rules(7, {}))
            self.live = objects.upload(sandbox.core, "repo", "main", "live", b"live").address
        self.dead = self.put(
            f"data/{SLICE}/{_xid(NOW - timedelta(days=50))}", NOW - timedelta(days=50)
        )

    def put(self, address: str, modified: datetime) -> str:
        """Put a file without the server, and set its date."""
        file = self.folder / address
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(address.encode())
        os.utime(file, (modified.timestamp(), modified.timestamp()))
        return address

    def swept(
        self, spark: Any, at: datetime = NOW, **options: Any
    ) -> tuple[set[str], dict[str, int]]:
        """Mark and sweep; return the deleted objects, and the number of objects that each setting
        keeps by the report.
        """
        self.sandbox.clock.set(at)
        run = open_sandbox_run(self.sandbox, "repo", spark, at, **options)
        marked, found, results = mark_and_conclude(run)
        assert found.passed, [result for result in results if not result.passed]
        figures = marked.expired.manifest.facts["by_fate"]
        made = report.load(run)
        said = {group.name: (group.objects, group.size_bytes) for group in made.kept_by_setting}
        by_settings = (Fate.STRANGER, Fate.INHERITED, Fate.UPLOADING)
        assert said == {
            fate.sentence: tuple(figures[fate]) for fate in by_settings if fate in figures
        }
        assert len(made.cautions) == len(said)
        gone = {address for address, outcome in sweep_only(run).items() if outcome == "deleted"}
        assert self.live not in gone
        kept = zip(("strangers", "inherited", "longest_upload_days"), by_settings, strict=True)
        return gone, {setting: figures.get(fate, (0, 0))[0] for setting, fate in kept}


def _xid(instant: datetime, number: int = 0) -> str:
    return encode_xid(int(instant.timestamp()), number.to_bytes(8, "big"))


@pytest.fixture
def place(sandbox: Sandbox) -> Place:
    return Place(sandbox)


@pytest.mark.spark
def test_6_what_was_written_after_the_cutoff_was_old_when_the_mark_was_made(
    place: Place, spark: Any
) -> None:
    """A process goes on with a run two days after its key: what was listed then was young."""
    written = NOW - timedelta(hours=2)
    young = place.put(f"data/{SLICE}/{_xid(written)}", written)
    late = NOW + timedelta(days=2)
    place.sandbox.clock.set(late)
    run = open_sandbox_run(place.sandbox, "repo", spark, NOW, opened=late)
    marked, found, results = mark_and_conclude(run)
    assert found.passed, [result for result in results if not result.passed]
    assert set(marked.addresses(run)) == {place.dead}
    assert (place.folder / young).exists()


@pytest.mark.spark
def test_36_the_parts_of_an_upload_that_went_on_for_days_were_taken_for_garbage(
    place: Place, spark: Any
) -> None:
    begun = NOW - timedelta(days=6)
    upload = f"data/{SLICE}/{_xid(begun)}"
    left = [
        place.put(f"{upload}.multipart", begun),
        place.put(f"{upload}.part_00001", begun + timedelta(hours=1)),
    ]
    long_ago = place.put(
        f"data/{SLICE}/{_xid(NOW - timedelta(days=9))}.part_00001", NOW - timedelta(days=8)
    )
    gone, kept = place.swept(spark)
    assert gone == {place.dead, long_ago}
    assert kept == {"strangers": 0, "inherited": 0, "longest_upload_days": len(left)}


@pytest.mark.spark
@pytest.mark.parametrize(
    "seconds", [0, 1, *(pytest.param(each, marks=pytest.mark.deep) for each in (-1, 298))]
)
def test_37_a_link_was_taken_at_the_end_of_its_24_hours_by_a_server_whose_clock_was_behind(
    place: Place, spark: Any, seconds: int
) -> None:
    """This machine is 4 minutes ahead, so an object of 24 hours and 2 seconds here can still be
    linked there for minutes.
    """
    ahead = timedelta(minutes=4)
    given_out = NOW - timedelta(hours=24, minutes=5) + timedelta(seconds=seconds)
    core = place.sandbox.core
    with core.lock, place.sandbox.clock.at(given_out):
        address = objects.signed_address(core, "repo", "main", "linked")
        core.blockstore.write("local://repo", address, b"linked")
    place.sandbox.clock.set(NOW - ahead)
    run = open_sandbox_run(place.sandbox, "repo", spark, NOW)
    marked, found, results = mark_and_conclude(run)
    assert found.passed, [result for result in results if not result.passed]
    assert (address in marked.addresses(run)) is (seconds < 0)
    sweep_only(run)
    place.sandbox.clock.set(NOW - ahead + timedelta(minutes=3))
    if seconds == 298:
        # 24 hours and 2 seconds before the run key: the server still takes it, and main reads it.
        answer = _link(place, address)
        assert answer == b"linked"


def _link(place: Place, address: str) -> bytes:
    core = place.sandbox.core
    with core.lock:
        objects.stage(
            core,
            "repo",
            "main",
            "linked",
            physical_address=core.blockstore.location("local://repo", address),
            checksum="c",
            size_bytes=6,
            link=True,
        )
    return (place.folder / address).read_bytes()


def test_38_a_mark_was_concluded_long_after_it_was_read_and_counted_as_fresh(
    tmp_path: Path,
) -> None:
    run = written_run(tmp_path, spark=None).run
    passing_mark(run)
    run.environment.clock.sleep(timedelta(days=40).total_seconds())
    found, _ = verdict.conclude(run)
    assert [check["name"] for check in found.failed] == ["mark_is_recent"]
    lenient = replace(run, options=replace(run.options, max_mark_age=timedelta(days=41)))
    assert [check.name for check in verdict.conclude(lenient)[1] if not check.passed] == []


def test_38_a_mark_read_long_before_its_verdict_was_swept(tmp_path: Path) -> None:
    run = written_run(tmp_path, spark=None).run
    passing_mark(run)
    run.environment.clock.sleep(timedelta(days=6).total_seconds())
    assert verdict.conclude(run)[0].passed
    run.environment.clock.sleep(timedelta(days=6).total_seconds())
    with pytest.raises(VerdictError, match=r"is 12 days old, the limit \(max_mark_age_days\)"):
        sweepable.require_sweepable(run)


@pytest.mark.spark
def test_39_files_that_lakefs_never_named_were_deleted(place: Place, spark: Any) -> None:
    """The namespace was an old bucket; others keep files in it by hand."""
    strangers = {
        place.put("data/year=2023/part-00000.parquet", MANY_YEARS),
        place.put("data/backup/file.csv", NOW - timedelta(days=40)),
        place.put(f"data/{_xid(NOW - timedelta(days=40))}", NOW - timedelta(days=40)),
    }
    gone, kept = place.swept(spark)
    assert gone == {place.dead}
    assert kept == {"strangers": len(strangers), "inherited": 0, "longest_upload_days": 0}
    later, kept = place.swept(
        spark, NOW + timedelta(hours=1), strangers="collect", inherited="collect"
    )
    assert later == strangers
    assert set(kept.values()) == {0}


@pytest.mark.spark
def test_39_objects_of_refs_that_were_not_restored_yet_were_deleted(
    place: Place, spark: Any
) -> None:
    """The repository was made anew over its old namespace: objects are older, by their names or by
    their dates.
    """
    born = NOW - timedelta(days=60) - timedelta(minutes=5)
    second = timedelta(seconds=1)
    inherited = {
        place.put(f"data/{SLICE}/{_xid(MANY_YEARS)}", MANY_YEARS),
        # A bucket copied after its repository was made: the names tell.
        place.put(f"data/{SLICE}/{_xid(MANY_YEARS, 1)}", NOW - timedelta(days=10)),
        place.put(f"data/{SLICE}/{_xid(born - second)}", born),
        place.put(f"data/{SLICE}/{_xid(born, 1)}", born - second),
        # A name of an early lakeFS, which tells no time.
        place.put(f"data/main:12345678-1234-1234-1234-123456789abc/{'A' * 21}", born - second),
    }
    own = place.put(f"data/{SLICE}/{_xid(born)}", born)
    gone, kept = place.swept(spark)
    assert gone == {place.dead, own}
    assert kept == {"strangers": 0, "inherited": len(inherited), "longest_upload_days": 0}
    later, kept = place.swept(spark, NOW + timedelta(hours=1), inherited="collect")
    assert later == inherited
    assert set(kept.values()) == {0}
