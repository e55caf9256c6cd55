"""The lock of the sweep: what opens it, and what must not."""

import re
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from spark_core import checks as guards
from spark_core import lakegc_keys
from spark_core.checks import sweepable, verdict
from spark_core.errors import CorruptTableError, VerdictError
from spark_core.records import documents, tables
from tests.support.passing_mark import passing_mark
from tests.support.written_run import NOW, written_run


@pytest.fixture
def run(tmp_path):
    return written_run(tmp_path, spark=None).run


def _marked(run, **facts):
    passing_mark(run, **facts)
    return verdict.conclude(run)[0]


def _edit(run, **changes):
    """Write the stored verdict again with other values and the digest for them, as somebody who
    knows it would.
    """
    key = lakegc_keys.verdict_key(run.key)
    document = verdict.load(run).document()
    run.store.put(key, documents.seal({**document, **changes}))


def _under(run, **options):
    return replace(run, options=replace(run.options, **options))


PASSING = {"live_objects": 0, "missing_objects": 0, "missing_named": []}
LOST = {
    "expired_addresses": {
        "live_objects": 5_000,
        "missing_objects": 4_000,
        "missing_named": ["data/s/lost"],
    }
}


def test_a_check_that_only_says_something_leaves_the_lock_open(run):
    waiting = {
        "candidates": 10,
        "unchecked_objects": 9,
        "unchecked_bytes": 9,
        "twin_calls": 1,
        "planned_calls": 5,
    }
    stored = _marked(run, expired_addresses={**PASSING, "twins": waiting})
    (said,) = [check for check in stored.checks if not check["passed"]]
    assert said["name"] == "hidden_entries_were_asked"
    assert stored.passed
    assert stored.failed == []
    sweepable.require_sweepable(run)


def test_a_mark_that_passed_opens_the_lock(run):
    stored = _marked(run)
    assert stored.passed
    found, expired = sweepable.require_sweepable(run)
    assert found == stored
    assert expired.manifest.rows == 1


def test_a_failed_verdict_does_not_pass_by_editing_its_text(run):
    assert not _marked(run, **LOST).passed
    _edit(run, passed=True, checks=[])
    with pytest.raises(
        VerdictError,
        match=rf"holds 0 checks, a mark has {len(guards.CHECKS)} \(they differ in clocks_agree",
    ):
        sweepable.require_sweepable(run)


def test_a_failed_check_does_not_pass_by_editing_its_result(run):
    stored = _marked(run, **LOST)
    _edit(run, passed=True, checks=[{**check, "passed": True} for check in stored.checks])
    with pytest.raises(
        VerdictError, match=r"checks fail now: live_objects_are_listed: 4000 of 5000.*Mark again"
    ):
        sweepable.require_sweepable(run)


@pytest.mark.parametrize("passed", [1, "true", None])
def test_a_check_that_passed_is_literally_true(run, passed):
    checks = [*_marked(run).checks]
    _edit(run, checks=[{**checks[0], "passed": passed}, *checks[1:]])
    with pytest.raises(
        VerdictError, match="did not pass its checks: listing_lies_in_one_repository"
    ):
        sweepable.require_sweepable(run)


def test_a_verdict_that_lacks_a_check_or_has_one_twice_is_refused(run):
    checks = [*_marked(run).checks]
    _edit(run, checks=checks[1:])
    with pytest.raises(VerdictError, match="differ in listing_lies_in_one_repository"):
        sweepable.require_sweepable(run)
    _edit(run, checks=[*checks, checks[0]])
    with pytest.raises(VerdictError, match="one of them twice"):
        sweepable.require_sweepable(run)


def test_a_limit_that_became_stricter_since_the_mark_is_applied(run):
    _marked(
        run,
        expired_addresses={
            "live_objects": 5_000,
            "missing_objects": 10,
            "missing_named": ["data/s/lost"],
        },
    )
    sweepable.require_sweepable(run)
    with pytest.raises(VerdictError, match="checks fail now: live_objects_are_listed"):
        sweepable.require_sweepable(_under(run, max_missing_share=0.001))


@pytest.mark.parametrize(
    ("marked", "swept", "text"),
    [
        ({"tags_protect": False}, {"tags_protect": True}, "tags_protect was False, now it is True"),
        ({"flat": True}, {"flat": False}, "flat was True, now it is False"),
        (
            {"clock_margin": timedelta(0)},
            {"clock_margin": timedelta(hours=1)},
            "clock_margin_seconds was 0.0, now it is 3600.0",
        ),
        (
            {"min_age": timedelta(hours=24)},
            {"min_age": timedelta(hours=25)},
            "min_age_seconds was 86400.0, now it is 90000.0",
        ),
        (
            {"allow_unsafe_min_age": True},
            {"allow_unsafe_min_age": False},
            "allow_unsafe_min_age was True",
        ),
    ],
)
def test_a_mark_is_not_swept_under_other_options(run, marked, swept, text):
    _marked(_under(run, **marked))
    sweepable.require_sweepable(_under(run, **marked))
    with pytest.raises(VerdictError, match=f"{text}.*Mark again under a new run key"):
        sweepable.require_sweepable(_under(run, **swept))


def test_a_verdict_without_its_options_is_refused(run):
    _marked(run)
    _edit(run, options=None)
    with pytest.raises(VerdictError, match="flat was not kept, now it is False"):
        sweepable.require_sweepable(run)


def test_a_mark_that_ends_under_other_options_than_it_began_with_does_not_pass(run):
    passing_mark(_under(run, tags_protect=False))
    found, _ = verdict.conclude(run)
    assert not found.passed
    with pytest.raises(VerdictError, match=r"tables_were_made_in_order: .*tags_protect was False"):
        sweepable.require_sweepable(run)


def test_a_sweep_with_another_cutoff_than_the_verdicts_is_refused(run):
    _marked(run)
    with pytest.raises(VerdictError, match="was marked with cutoff 2026-11-19T01:55:00"):
        sweepable.require_sweepable(replace(run, cutoff=run.key.instant))


def test_a_sweep_that_is_to_stay_within_a_mark_of_the_reference_job_takes_no_mark_made_without_it(
    run,
):
    _marked(run)
    with pytest.raises(
        VerdictError,
        match=r"made to stay within no mark of .*, the sweep is to stay within mark 'other'",
    ):
        sweepable.require_sweepable(replace(run, reference_mark="other"))


@pytest.mark.parametrize("swept", ["sweep", "only"])
@pytest.mark.parametrize("is_policy_only", [None, True])
def test_where_the_settings_say_only_no_mark_is_swept_that_lets_more_go(run, swept, is_policy_only):
    _marked(run, expired_addresses={"policy_only": is_policy_only})
    now = _under(run, policies=swept)
    if swept == "sweep" or is_policy_only:
        sweepable.require_sweepable(now)
        return
    with pytest.raises(VerdictError, match=r'what nothing reaches, .* `policies = "only"`'):
        sweepable.require_sweepable(now)


def test_a_verdict_from_the_future_is_refused(run):
    _marked(run)
    _edit(run, concluded_at=(NOW + timedelta(minutes=5)).isoformat())
    sweepable.require_sweepable(run)
    _edit(run, concluded_at=(NOW + timedelta(minutes=6)).isoformat())
    with pytest.raises(VerdictError, match=r"ahead of this machine's clock.*Set the clocks"):
        sweepable.require_sweepable(run)


def _begun(run):
    """Make a mark; return what stands for its run so long after its first reading began."""
    began = min(manifest.reading_began for manifest in passing_mark(run).values())

    def later(**days):
        clock = SimpleNamespace(now=lambda: began + timedelta(**days))
        return replace(run, environment=replace(run.environment, clock=clock))

    return later


@pytest.mark.parametrize(
    ("later", "passes"),
    [({"days": 7}, True), ({"days": 7, "microseconds": 1}, False), ({"days": 40}, False)],
)
def test_a_mark_that_is_concluded_long_after_it_was_begun_does_not_pass(run, later, passes):
    late = _begun(run)(**later)
    found, results = verdict.conclude(late)
    assert found.passed is passes
    if passes:
        sweepable.require_sweepable(late)
        return
    (failed,) = [result for result in results if not result.passed]
    assert failed.name == "mark_is_recent"
    assert failed.summary.startswith("the mark was begun at 2026-11-20T02:00:00.001000+00:00, ")
    assert "days before this check (at most 7 days is accepted)" in failed.summary
    with pytest.raises(VerdictError, match="did not pass its checks: mark_is_recent"):
        sweepable.require_sweepable(late)


@pytest.mark.parametrize(
    ("later", "passes"),
    [({"days": 7}, True), ({"days": 7, "microseconds": 1}, False), ({"days": 9}, False)],
)
def test_the_age_of_a_mark_counts_from_its_first_reading_and_not_from_its_verdict(
    run, later, passes
):
    at = _begun(run)
    verdict.conclude(at(days=6))
    late = at(**later)
    if passes:
        sweepable.require_sweepable(late)
        return
    with pytest.raises(
        VerdictError,
        match=r"the mark of run .* is .* old, the limit \(max_mark_age_days\) is 7 days",
    ):
        sweepable.require_sweepable(late)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"passed": "yes"}, "wanted true or false"),
        ({"checks": [1]}, "not the result of a check"),
        ({"concluded_at": "2026-11-20T02:00:00"}, "wanted a time with its zone"),
    ],
)
def test_a_verdict_of_another_shape_is_damaged(run, changes, text):
    _marked(run)
    _edit(run, **changes)
    with pytest.raises(CorruptTableError, match=text):
        sweepable.require_sweepable(run)


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_verdict_that_was_cut_off_refuses_by_name(run, cut):
    _marked(run)
    key = lakegc_keys.verdict_key(run.key)
    run.store.put(key, run.store.read(key)[:cut])
    with pytest.raises(CorruptTableError, match=re.escape(key)):
        sweepable.require_sweepable(run)


def test_a_verdict_that_somebody_edited_refuses_even_where_it_says_the_same(run):
    stored = _marked(run, **LOST)
    key = lakegc_keys.verdict_key(run.key)
    text = run.store.read(key).decode()
    for edited in (
        text.replace('"passed": false', '"passed": true'),
        text.replace("\n ", "\n  "),
        text + "\n",
    ):
        assert edited != text
        run.store.put(key, edited.encode())
        with pytest.raises(
            CorruptTableError, match=r"its bytes are not those that were written.*edited or damaged"
        ):
            sweepable.require_sweepable(run)
    assert not stored.passed


def test_a_verdict_of_another_format_is_refused_with_the_way_on(run):
    _marked(run)
    key = lakegc_keys.verdict_key(run.key)
    run.store.put(key, b'{"format": 2, "passed": true, "checks": []}')
    with pytest.raises(
        VerdictError,
        match=r"in format 2 by another version of lakegc, .* writes format 1.*Mark again under",
    ):
        sweepable.require_sweepable(run)


def test_a_table_that_another_process_replaced_after_the_verdict_keeps_the_lock_shut(run):
    _marked(run)
    key = tables.manifest_key(tables.RETAINED_COMMITS, run.key)
    run.store.put(
        key, replace(run.load(tables.RETAINED_COMMITS).manifest, attempt="another").to_json()
    )
    with pytest.raises(VerdictError, match="not the one that the verdict speaks of"):
        sweepable.require_sweepable(run)
