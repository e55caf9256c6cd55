"""The check that looks back: with whom a mark is compared, and what is a sudden change."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core import lakegc_keys
from spark_core.checks import confirming, verdict
from spark_core.checks.last_runs_compared import nothing_changed_suddenly
from spark_core.model import RunKey
from spark_core.run.cutoff import cutoff_of
from tests.support.passing_mark import passing_mark
from tests.support.written_run import NOW, written_run

NAME = "nothing_changed_suddenly"


@pytest.fixture
def run(tmp_path):
    return written_run(tmp_path, spark=None).run


def _on(run, days_ago, **options):
    key = RunKey.at(NOW - timedelta(days=days_ago))
    return replace(
        run,
        key=key,
        cutoff=cutoff_of(run.options, key),
        options=replace(run.options, max_missing_share=1, max_expired_share=1, **options),
    )


def _mark(run, days_ago=0, *, listed=10_000, live=5_000, going=100, of_kind=None, **options):
    """Mark and conclude a run of some days ago; return the run, and what the check said."""
    at = _on(run, days_ago, **options)
    passing_mark(
        at,
        expired=[f"data/s/{number}" for number in range(going)],
        namespace_slices={"objects": listed},
        expired_addresses={"live_objects": live, "expired_objects": going, **(of_kind or {})},
    )
    _, results = verdict.conclude(at)
    return at, next(result for result in results if result.name == NAME)


def test_a_first_run_has_nothing_to_compare_with_and_says_so(run):
    _, said = _mark(run)
    assert said.passed
    assert (
        "no earlier run of this repository passed, so there is nothing to compare with"
        in said.summary
    )
    assert said.figures["compared_with"] == "nothing"


def test_a_night_like_the_one_before_passes_and_names_it(run):
    before, _ = _mark(run, 1)
    _, said = _mark(run)
    assert said.passed
    assert said.summary == (
        f"run {before.key} is the baseline: it listed 10000 objects, this run listed 10000"
    )


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        ({"listed": 4_949}, "listed objects dropped from 10000 to 4949, by more than 50%"),
        ({"live": 2_499}, "live objects dropped from 5000 to 2499, by more than 50%"),
        ({"going": 2_601}, r"the share that would go rose from 1\.0% to 26\.0%, by more than 25%"),
    ],
)
def test_a_sudden_change_fires_and_says_how_it_is_confirmed(run, figures, text):
    _mark(run, 1)
    at, said = _mark(run, **figures)
    assert not said.passed
    assert re.search(rf"since run 2026-11-19T02-00-00Z: {text}", said.summary), said.summary
    assert f"`lakegc confirm repo {NAME} --run {at.key}`" in said.summary


@pytest.mark.parametrize("figures", [{"listed": 4_950}, {"live": 2_500}, {"going": 2_600}])
def test_a_change_up_to_the_limit_passes(run, figures):
    _mark(run, 1)
    assert _mark(run, **figures)[1].passed


def test_what_the_earlier_run_swept_is_no_drop(run):
    _mark(run, 1, going=5_000)
    assert _mark(run, listed=5_000, going=0)[1].passed


POLICIES = {"policy_only": True}


def test_61_what_only_policies_named_was_the_measure_of_what_nothing_reaches(run):
    _mark(run, 2, going=0, of_kind=POLICIES)
    first, said = _mark(run, 1, going=6_000)
    assert said.passed, said.summary
    assert "nothing to compare what would go with" in said.summary
    _mark(run, 0.5, going=0, of_kind=POLICIES)
    _, said = _mark(run, going=8_000)
    assert said.passed, said.summary
    assert said.figures["compared_with"] != str(first.key)
    _, said = _mark(run, -1, going=9_000, max_expired_rise=0.05)
    assert "the share that would go rose from 80.0% to 90.0%" in said.summary


def test_a_rise_is_measured_from_the_last_run_of_its_kind_and_names_it(run):
    first, _ = _mark(run, 2)
    _mark(run, 1, going=5_000, of_kind=POLICIES)
    _, said = _mark(run, going=4_000)
    assert not said.passed
    assert f"since run {first.key}: the share that would go rose from 1.0% to 40.0%" in said.summary


def test_what_a_run_of_another_kind_took_is_no_drop_and_what_it_did_not_take_is(run):
    _mark(run, 2, going=0)
    _mark(run, 1, going=6_000, of_kind=POLICIES)
    assert _mark(run, 0.5, listed=4_000, going=0)[1].passed
    other, _ = _mark(run, 0.4, going=0, of_kind=POLICIES)
    _, said = _mark(run, listed=4_000, going=0)
    assert not said.passed
    assert f"since run {other.key}: listed objects dropped from 10000 to 4000" in said.summary


WITHIN = {
    "reference": {
        "mark_id": "ft6s0e1ksdufuaulm34g",
        "num_deleted_objects": 5,
        "parts": {},
        "eligible_objects": 6_000,
        "eligible_bytes": 6_000,
    }
}


def test_what_a_mark_of_the_reference_job_does_not_name_was_not_swept(run):
    _mark(run, 1, going=5, of_kind=WITHIN)
    _, said = _mark(run, listed=2_600, going=5)
    assert "listed objects dropped from 10000 to 2600, by more than 50%" in said.summary


def test_a_mark_within_one_of_the_reference_job_is_measured_by_what_lakegc_would_let_go(run):
    _mark(run, 2, going=100)
    assert not _mark(run, 1, going=5, of_kind=WITHIN)[1].passed
    _mark(run, 0.5, going=5, of_kind={"reference": {**WITHIN["reference"], "eligible_objects": 90}})
    assert not _mark(run, going=6_000)[1].passed


def test_a_small_repository_may_change_as_it_likes(run):
    _mark(run, 1, listed=999, live=900)
    assert _mark(run, listed=10, live=1, going=9)[1].passed


def test_limits_are_settings(run):
    _mark(run, 1)
    assert not _mark(run, listed=9_000, max_sudden_drop=0.05)[1].passed
    assert _mark(run, 0.1, listed=100, live=100, going=0, max_sudden_drop=1.0)[1].passed


def test_retained_commits_that_drop_are_told_from_a_hundred_on(run):
    manifests = passing_mark(_on(run, 1))
    at = _on(run, 1)
    verdict.conclude(at)
    key = lakegc_keys.verdict_key(at.key)
    found = verdict.load(at)
    for commits, passes in ((99, True), (100, False)):
        standing = {**found.standing, "retained_commits": commits}
        run.store.put(key, replace(found, standing=standing).to_json())
        said = nothing_changed_suddenly(_on(run, 0), manifests)
        assert said.passed is passes
    assert "retained commits dropped from 100 to 1, by more than 50%" in said.summary


def test_asking_twice_is_no_way_around(run):
    """The run that was refused is no measure for the next one."""
    first, _ = _mark(run, 2)
    assert not _mark(run, 1, listed=100, going=0)[1].passed
    _, said = _mark(run, listed=100, going=0)
    assert not said.passed
    assert said.figures["compared_with"] == str(first.key)
    assert said.figures["runs_not_passed_since"] == 1


def test_a_run_that_was_confirmed_is_the_next_measure(run):
    _mark(run, 2)
    changed, said = _mark(run, 1, listed=100, live=50, going=0)
    assert not said.passed
    confirming.confirm(changed, NAME, who="a person")
    _, said = _mark(run, listed=100, live=50, going=0)
    assert said.passed
    assert said.figures["compared_with"] == str(changed.key)


def test_only_earlier_runs_of_the_same_instance_count(run):
    _mark(run, 0)
    _mark(run, 5)
    other = replace(run, repository=replace(run.repository, creation_date=NOW - timedelta(days=3)))
    _, said = _mark(other, 1, listed=1_000, live=10, going=0)
    assert said.passed
    assert "1 are of another instance or version" in said.summary


def test_a_verdict_of_another_format_cannot_be_compared_with_and_is_counted(run):
    before, _ = _mark(run, 1)
    run.store.put(lakegc_keys.verdict_key(before.key), b'{"format": 2, "passed": true}')
    _, said = _mark(run, listed=1_000, live=10, going=0)
    assert said.passed
    assert said.figures["runs_not_comparable"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 50, 400, -2])
def test_an_earlier_verdict_with_a_flipped_bit_refuses_by_name(run, at):
    before, _ = _mark(run, 1)
    key = lakegc_keys.verdict_key(before.key)
    data = bytearray(run.store.read(key))
    data[at] ^= 1
    run.store.put(key, bytes(data))
    _, said = _mark(run)
    assert not said.passed
    assert key in said.summary
    assert "Bring that file back" in said.summary
    assert "server's copy" not in said.summary


def test_a_folder_of_somebody_else_beside_the_runs_is_passed_over(run):
    run.store.put(f"{lakegc_keys.ROOT}addresses/mark_id=ft6s0e1ksdufuaulm34g/part-0.parquet", b"")
    assert _mark(run)[1].passed


def test_a_damaged_confirmation_of_an_earlier_run_refuses_by_name(run):
    _mark(run, 2)
    changed, _ = _mark(run, 1, listed=100, live=50, going=0)
    confirming.confirm(changed, NAME, who="a person")
    key = lakegc_keys.confirmation_key(changed.key, NAME)
    run.store.put(key, run.store.read(key).replace(b"a person", b"another1"))
    _, said = _mark(run, listed=100, live=50, going=0)
    assert not said.passed
    assert key in said.summary
