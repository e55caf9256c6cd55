"""What Dagster shows of a run key that is asked for again: what is stored, and no change."""

from datetime import timedelta

import dagster as dg
import pytest

from lakegc_dagster.in_dagster.done_before import REPEATED
from spark_core.records import tables
from tests.lakegc_dagster.conftest import answers, failure, new_key

pytestmark = pytest.mark.spark

BACKFILL = {"dagster/backfill": "all"}
TABLES = [spec.name for spec in tables.MARK_TABLES]


def stored(ground):
    """Every file of lakegc's in the store, with its bytes and when it was written."""
    folder = ground.sandbox.blockstore / ground.repository_id / "_lakefs" / "retention" / "gc"
    return {
        file: (file.stat().st_mtime_ns, file.read_bytes())
        for file in folder.rglob("*")
        if file.is_file()
    }


def repeated(result):
    """What each asset of a run says of it, where it was done before."""
    return {
        event.asset_key.path[-1]: metadata[REPEATED].value
        for event in result.get_asset_materialization_events()
        if REPEATED in (metadata := event.step_materialization_data.materialization.metadata)
    }


@pytest.mark.slow
@pytest.mark.parametrize("tags", [{}, BACKFILL])
def test_a_run_that_was_marked_and_swept_is_green_again_and_nothing_changes(ground, tags):
    key = new_key()
    assert ground.job("mark_and_sweep", key).success
    before = stored(ground)
    again = ground.job("mark_and_sweep", key, tags=tags)
    assert again.success, failure(again)
    assert stored(ground) == before
    said = repeated(again)
    for name in (*TABLES, "verdict"):
        assert said[name] == "already marked: this shows what is stored, and nothing was changed"
    assert said["deletion_report"].startswith("already swept: ")
    assert said["house_keeping"].startswith("nothing was done: ")
    assert all(answers(again).values())
    (event,) = again.asset_materializations_for_node("deletion_report")
    assert event.metadata["deleted_objects"].value == len(ground.garbage)


@pytest.mark.slow
@pytest.mark.parametrize("tags", [{}, BACKFILL])
def test_a_mark_that_was_not_swept_is_not_swept_when_it_is_made_again(ground, tags):
    key = new_key()
    assert ground.job("mark", key).success
    before = stored(ground)
    again = ground.job("mark_and_sweep", key, tags=tags)
    assert again.success, failure(again)
    assert stored(ground) == before
    assert repeated(again)["deletion_report"].startswith(
        f"not swept: no sweep was begun under run key {key}"
    )
    assert ground.objects() == ground.alive | ground.garbage
    assert ground.job("sweep", key).success, "the job that asks for it begins it"
    assert ground.objects() == ground.alive


def test_a_backfill_marks_and_begins_no_sweep_of_what_it_marked(ground):
    result = ground.job("mark_and_sweep", new_key(), tags=BACKFILL)
    assert result.success, failure(result)
    assert set(repeated(result)) == {"deletion_report", "house_keeping"}
    assert ground.objects() == ground.alive | ground.garbage


@pytest.mark.slow
def test_a_mark_past_its_days_says_so_in_a_backfill(ground):
    key = new_key(ago=timedelta(days=3))
    assert ground.job("mark", key).success
    old = ground.with_settings(max_mark_age_days=1e-9)
    again = old.job("mark_and_sweep", key, tags=BACKFILL)
    assert again.success, failure(again)
    assert repeated(again)["deletion_report"].startswith("mark expired: the mark of run ")
    assert ground.objects() == ground.alive | ground.garbage


@pytest.mark.slow
def test_a_refused_mark_shows_its_finding_again_and_stops_nothing(ground):
    strict = ground.with_settings(max_expired_share=0.0, share_from_objects=0)
    key = new_key()
    assert not strict.job("mark_and_sweep", key).success
    before = stored(ground)
    again = strict.job("mark_and_sweep", key, tags=BACKFILL)
    assert again.success, failure(again)
    assert stored(ground) == before
    (finding,) = [check for check in again.get_asset_check_evaluations() if not check.passed]
    assert finding.check_name == "expired_share_is_plausible"
    assert finding.severity is dg.AssetCheckSeverity.WARN
    assert ground.objects() == ground.alive | ground.garbage


@pytest.mark.slow
def test_a_closed_run_is_judged_by_its_verdict_and_not_by_limits_of_today(ground):
    key = new_key()
    assert ground.job("mark", key).success
    strict = ground.with_settings(max_expired_share=0.0, share_from_objects=0)
    again = strict.job("mark", key)
    assert again.success, failure(again)
    assert all(answers(again).values())


@pytest.mark.slow
def test_a_sweep_that_was_begun_goes_on_in_a_backfill(ground, monkeypatch):
    key = new_key()

    def killed(*_args, **_more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("spark_core.sweep.delete_in_rounds", killed)
        assert not ground.job("mark_and_sweep", key).success
    assert ground.objects() == ground.alive | ground.garbage
    again = ground.job("mark_and_sweep", key, tags=BACKFILL)
    assert again.success, failure(again)
    assert "deletion_report" not in repeated(again)
    assert ground.objects() == ground.alive


@pytest.mark.slow
def test_what_other_rules_would_free_is_not_asked_by_a_backfill(ground):
    key = new_key()
    assert ground.job("mark", key).success
    before = stored(ground)
    asked = ground.job("ask_what_if", key, tags=BACKFILL)
    assert asked.success, failure(asked)
    assert stored(ground) == before
