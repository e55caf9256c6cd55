"""Confirming a finding by name: what it opens, for which mark alone, and what it never opens."""

from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core import lakegc_keys
from spark_core import report as reports
from spark_core.checks import confirming, sweepable, verdict
from spark_core.errors import CorruptTableError, VerdictError
from spark_core.model import RunKey
from spark_core.records import confirmation, documents, tables
from spark_core.report import Group, Report
from tests.support.passing_mark import passing_mark
from tests.support.written_run import NOW, written_run

SHARE = "expired_share_is_plausible"
MOST = {"expired_addresses": {"expired_objects": 9_000}}
LOST = {
    "expired_addresses": {
        "live_objects": 5_000,
        "missing_objects": 4_000,
        "missing_named": ["data/s/lost"],
    }
}
NONE = Group("", 0, 0)
REPORT = Report("repo", "", "local://repo/", NOW, "", NONE, NONE, (), (), (), (), {}, (), None, {})


@pytest.fixture
def run(tmp_path):
    return written_run(tmp_path, spark=None).run


def _marked(run, **facts):
    passing_mark(run, **facts)
    return verdict.conclude(run)[0]


def test_a_first_run_that_takes_most_is_swept_once_it_is_confirmed_by_name(run):
    stored = _marked(run, **MOST)
    assert not stored.passed
    with pytest.raises(
        VerdictError,
        match=rf"did not pass its checks: {SHARE}: 9000 of 10000 .*lakegc confirm repo {SHARE}",
    ):
        sweepable.require_sweepable(run)
    said = confirming.confirm(run, SHARE, who="ann@desk")
    assert (said.run, said.check, said.verdict, said.who) == (
        str(run.key),
        SHARE,
        stored.digest,
        "ann@desk",
    )
    assert "9000 of 10000 objects" in said.found
    found, _ = sweepable.require_sweepable(run)
    assert found == stored, "the verdict itself never changes"


def test_said_twice_the_first_one_stands(run):
    _marked(run, **MOST)
    first = confirming.confirm(run, SHARE, who="ann@desk")
    assert confirming.confirm(run, SHARE, who="ben@desk") == first
    assert confirmation.load(run.store, run.key, SHARE) == first


def test_it_holds_for_its_own_mark_alone(run):
    _marked(run, **MOST)
    confirming.confirm(run, SHARE, who="ann@desk")
    other = run.at(RunKey.at(NOW - timedelta(hours=1)))
    _marked(other, **MOST)
    run.store.put(
        lakegc_keys.confirmation_key(other.key, SHARE),
        run.store.read(lakegc_keys.confirmation_key(run.key, SHARE)),
    )
    with pytest.raises(VerdictError, match=f"did not pass its checks: {SHARE}"):
        sweepable.require_sweepable(other)
    with pytest.raises(
        VerdictError, match=r"confirms another verdict than the one of run 2026-11-20T01-00-00Z"
    ):
        confirming.confirm(other, SHARE, who="ann@desk")


def test_nothing_else_can_be_confirmed(run):
    _marked(run, **LOST)
    with pytest.raises(
        VerdictError,
        match=r"is not a check that can be confirmed .*What lifts it: setting max_missing_share",
    ):
        confirming.confirm(run, "live_objects_are_listed", who="ann@desk")
    with pytest.raises(
        VerdictError,
        match=r"there is no check no_such_check\. Those that can be confirmed are expired_share",
    ):
        confirming.confirm(run, "no_such_check", who="ann@desk")


def test_a_confirmation_that_somebody_made_for_another_check_opens_nothing(run):
    stored = _marked(run, **LOST)
    check = "live_objects_are_listed"
    forged = confirmation.Confirmation(
        "repo", str(run.key), check, stored.digest, "", "somebody", NOW
    )
    run.store.put(lakegc_keys.confirmation_key(run.key, check), forged.to_json())
    with pytest.raises(VerdictError, match=f"did not pass its checks: {check}"):
        sweepable.require_sweepable(run)


def test_what_passed_needs_no_confirmation(run):
    _marked(run)
    with pytest.raises(
        VerdictError, match=rf"{SHARE} passed in the mark of run .*there is nothing to confirm"
    ):
        confirming.confirm(run, SHARE, who="ann@desk")


def test_a_run_without_a_verdict_cannot_be_confirmed(run):
    with pytest.raises(VerdictError, match="has no verdict"):
        confirming.confirm(run, SHARE, who="ann@desk")


def test_it_lifts_one_check_and_not_its_neighbour(run):
    _marked(run, expired_addresses={**MOST["expired_addresses"], **LOST["expired_addresses"]})
    confirming.confirm(run, SHARE, who="ann@desk")
    with pytest.raises(
        VerdictError, match="did not pass its checks: live_objects_are_listed"
    ) as refusal:
        sweepable.require_sweepable(run)
    assert SHARE not in str(refusal.value)


def test_a_check_that_fails_only_now_is_not_lifted_by_a_note_on_another(run):
    _marked(run, **MOST)
    confirming.confirm(run, SHARE, who="ann@desk")
    # The object that was listed as live is lost by the limit of now.
    stricter = replace(run, options=replace(run.options, max_missing_share=0, share_from_objects=0))
    sweepable.require_sweepable(stricter)
    manifest = run.load(tables.EXPIRED_ADDRESSES).manifest
    run.store.put(
        tables.manifest_key(tables.EXPIRED_ADDRESSES, run.key),
        replace(
            manifest, facts={**manifest.facts, "live_objects": 1, "missing_objects": 1}
        ).to_json(),
    )
    with pytest.raises(VerdictError, match="is not the one that the verdict speaks of"):
        sweepable.require_sweepable(stricter)


def test_a_confirmation_that_was_edited_refuses_by_name(run):
    _marked(run, **MOST)
    confirming.confirm(run, SHARE, who="ann@desk")
    key = lakegc_keys.confirmation_key(run.key, SHARE)
    run.store.put(key, run.store.read(key).replace(b"ann@", b"ben@"))
    with pytest.raises(
        CorruptTableError,
        match=r"_confirmed\.expired_share_is_plausible\.json: its bytes are not those",
    ):
        sweepable.require_sweepable(run)


def test_a_confirmation_of_another_shape_is_damaged(run):
    _marked(run, **MOST)
    key = lakegc_keys.confirmation_key(run.key, SHARE)
    run.store.put(key, documents.seal({"format": confirmation.Confirmation.FORMAT, "check": SHARE}))
    with pytest.raises(CorruptTableError, match="not a confirmation of lakegc"):
        sweepable.require_sweepable(run)


def test_a_report_of_a_refused_mark_tells_what_was_confirmed_since(run):
    _marked(run, **MOST)
    stored = replace(
        REPORT,
        mark=run.load(tables.EXPIRED_ADDRESSES).manifest.sha256,
        run=str(run.key),
        passed=False,
        refused={SHARE: "most"},
    )
    reports.save(run, stored)
    assert reports.load(run) == stored
    confirming.confirm(run, SHARE, who="ann@desk")
    found = reports.load(run)
    assert (found.passed, found.refused) == (True, {})
    assert [
        check.name
        for check in found.checks
        if check.confirmed == "ann@desk at 2026-11-20 02:00 UTC"
    ] == [SHARE]
    assert (
        "confirmed by ann@desk"
        in run.store.read(lakegc_keys.report_keys(run.key, swept=False)["html"]).decode()
    )
