"""Every run of a repository with its state, from what runs left in the store."""

import json
from datetime import timedelta

import pyarrow as pa
import pytest

from spark_core import lakegc_keys, schemas
from spark_core.errors import NotFoundError
from spark_core.model import RunKey
from spark_core.records.confirmation import Confirmation
from spark_core.records.verdict_document import Verdict
from spark_core.report.past_runs import past_runs, refusals, require_known
from spark_core.report.status_of_runs import status_of
from tests.support.written_run import NOW, OLD, Written, with_index, written_run

DAY = timedelta(days=1)
LISTED = {"data/s/a": (10, OLD), "data/s/b": (20, OLD), "data/s/c": (40, OLD)}
EXPIRED = {"data/s/a": "never committed", "data/s/b": "never committed"}
GONE = {address: (LISTED[address][0], "deleted", None) for address in EXPIRED}


@pytest.fixture
def written(tmp_path):
    return written_run(tmp_path, None)


def at(written, ago):
    """The same repository at a run that was so long ago."""
    run = written.run
    run.environment.clock.instant = NOW - ago
    return Written(run.at(RunKey.at(NOW - ago)))


def marked(written, ago=timedelta(0), **refused):
    other = at(written, ago)
    other.mark(LISTED, committed=["data/s/c"], expired=EXPIRED)
    other.conclude(**refused)
    return other


def only(written):
    (found,) = past_runs(written.run.store, NOW)
    return found


def test_a_mark_without_a_verdict_is_unfinished(written):
    at(written, timedelta(0)).mark(LISTED, expired=EXPIRED)
    assert only(written).state == "unfinished"
    assert not only(written).passed


def test_a_marked_run_has_its_figures_and_may_be_swept(written):
    marked(written)
    found = only(written)
    assert (found.state, found.passed, found.swept) == ("marked", True, False)
    assert (found.expired_objects, found.expired_bytes) == (0, 30)
    assert found.fates == {"committed": (1, 40), "expired": (2, 30)}
    assert json.loads(json.dumps(found.to_json()))["run"] == str(written.run.key)


def test_a_run_says_what_it_read_and_its_fates_add_up_to_the_namespace(written):
    first = at(written, timedelta(days=1))
    first.mark({"data/s/a": (1, OLD)}, of_listing={"why_full": "no mark has passed yet"})
    first.conclude()
    written.mark(
        {"data/s/b": (4, OLD)},
        committed=["data/s/b"],
        of_expired={"vanished": {"objects": 9, "bytes": 96}},
        **with_index(first.run.key, objects=9, size_bytes=96),
    )
    written.conclude()
    written.run.environment.clock.instant = NOW
    optimized, clean = past_runs(written.run.store, NOW)
    assert (optimized.kind, optimized.index, optimized.why_full) == (
        "optimized",
        str(first.run.key),
        "",
    )
    assert optimized.fates == {"committed": (1, 4), "vanished": (9, 96)}
    assert (clean.kind, clean.index, clean.why_full) == ("clean", "", "no mark has passed yet")
    assert "vanished" not in clean.fates
    found = status_of("repo", [optimized, clean], NOW, pause=DAY, may_sweep=True)
    assert found.last_mark_kind == "optimized"
    found = status_of("repo", [clean], NOW, pause=DAY, may_sweep=False)
    assert found.to_json()["last_mark_why_full"] == "no mark has passed yet"


def test_a_refused_run_names_its_checks_and_a_confirmed_one_may_be_swept(written):
    run = marked(written, expired_share_is_plausible="too much would go").run
    found = only(written)
    assert (found.state, found.passed) == ("refused", False)
    assert found.refused == {"expired_share_is_plausible": "too much would go"}
    assert found.confirmable == ("expired_share_is_plausible",)
    assert refusals([found]) == {"expired_share_is_plausible": 1}
    key = lakegc_keys.verdict_key(run.key)
    verdict = Verdict.from_json(run.store.read(key), name=key)
    said = Confirmation(
        "repo", str(run.key), "expired_share_is_plausible", verdict.digest, "x", "me", NOW
    )
    run.store.put(lakegc_keys.confirmation_key(run.key, said.check), said.to_json())
    assert (only(written).state, only(written).passed) == ("marked", True)


def test_a_swept_run_has_its_outcomes_and_what_it_reclaimed(written):
    marked(written).sweep(GONE)
    found = only(written)
    assert (found.state, found.outcomes, found.reclaimed) == (
        "swept",
        {"deleted": (2, 30)},
        (2, 30),
    )


def test_a_sweep_that_the_store_did_not_finish_is_swept_in_part(written):
    marked(written).sweep({**GONE, "data/s/b": (20, "failed", "busy")})
    assert only(written).state == "swept in part"
    assert only(written).reclaimed == (1, 10)


def test_a_sweep_that_was_killed_has_a_journal_and_no_report(written):
    run = marked(written).run
    run.store.put(f"{lakegc_keys.of_run(lakegc_keys.JOURNAL, run.key)}intent", b"")
    assert only(written).state == "sweep unfinished"


def test_what_did_not_end_is_superseded_once_a_later_run_of_its_kind_was_swept(written):
    mark_ended = at(written, 3 * DAY)
    mark_ended.mark(LISTED, expired=EXPIRED)
    sweep_ended = marked(written, 2 * DAY).run
    sweep_ended.store.put(f"{lakegc_keys.of_run(lakegc_keys.JOURNAL, sweep_ended.key)}intent", b"")
    later = marked(written, DAY)

    def states():
        return [one.state for one in past_runs(written.run.store, NOW)]

    assert states() == ["marked", "sweep unfinished", "unfinished"]
    later.sweep({**GONE, "data/s/b": (20, "failed", "busy")})
    assert states() == ["swept in part", "sweep unfinished", "unfinished"], "its objects are left"
    later.sweep(GONE)
    assert states() == ["swept", "superseded", "superseded"]
    restore(later.run)
    assert states() == ["restored", "superseded", "superseded"]
    at(written, timedelta(0)).mark(LISTED, expired=EXPIRED)
    assert states() == ["unfinished", "restored", "superseded", "superseded"], "the newest works"


def restore(run):
    """Write what a restore leaves that brought one object back, and failed with another."""
    rows = [
        {"address": address, "size_bytes": size, "outcome": outcome, "error": None,
         "restored_at": NOW}
        for address, size, outcome in [("data/s/a", 10, "restored"), ("data/s/b", 20, "failed")]
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, schema=schemas.RESTORATIONS)
    where = lakegc_keys.record(lakegc_keys.RESTORES, run.key, NOW)
    run.store.write_parquet(f"{where}part-1.parquet", [batch], schemas.RESTORATIONS)


def test_what_was_restored_is_not_reclaimed(written):
    run = marked(written)
    run.sweep(GONE)
    restore(run.run)
    found = only(written)
    assert (found.state, found.restored, found.reclaimed) == ("restored", (1, 10), (1, 20))


def test_a_damaged_verdict_is_a_line_of_the_list_and_hides_no_other_run(written):
    marked(written, 2 * DAY)
    run = marked(written, DAY).run
    run.store.put(lakegc_keys.verdict_key(run.key), b"{")
    found = past_runs(run.store, NOW)
    assert [each.state for each in found] == ["unreadable", "marked"]
    assert "_verdict.json" in found[0].problem
    assert past_runs(run.store, NOW, newest=1) == found[:1]


def test_an_unknown_run_names_the_runs_there_are(written):
    store, unknown = written.run.store, RunKey.at(NOW + DAY)
    with pytest.raises(NotFoundError, match=r"it has no runs yet.*lakegc mark repo"):
        require_known(store, "repo", unknown)
    run = marked(written, DAY).run
    with pytest.raises(NotFoundError, match=f"its runs are {run.key}\\. `lakegc runs repo`"):
        require_known(store, "repo", unknown)
    require_known(store, "repo", run.key)


def test_of_many_runs_an_unknown_key_names_the_ten_newest(written):
    for number in range(12):
        written.run.store.put(lakegc_keys.verdict_key(RunKey.at(NOW - number * DAY)), b"{}")
    with pytest.raises(NotFoundError, match="and 2 older ones") as raised:
        require_known(written.run.store, "repo", RunKey.at(NOW + DAY))
    assert str(RunKey.at(NOW - 9 * DAY)) in str(raised.value)
    assert str(RunKey.at(NOW - 10 * DAY)) not in str(raised.value)


def test_quarantine_is_what_lies_there_once_a_purge_may_have_taken_a_part(written):
    run = marked(written).run
    written.sweep(GONE)
    held = lakegc_keys.in_quarantine(run.key)
    run.store.put(f"{held}data/s/a", b"1")
    (found,) = past_runs(run.store, NOW)
    assert found.in_quarantine == (1, 1)
    written.sweep(GONE, quarantine_days=7)
    (found,) = past_runs(run.store, NOW)
    assert found.in_quarantine == found.outcomes["deleted"] == (2, 30)
    (found,) = past_runs(run.store, found.quarantine_until)
    assert found.in_quarantine == (1, 1)
