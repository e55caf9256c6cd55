"""Losses that an audit finds: a clean run compares what others deleted with all references."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakegc_dagster.sandbox import gc, merge, objects, refs
from spark_core import holds, lakegc_keys
from spark_core.addresses.address_hashes import hashed
from spark_core.checks import CheckResult, confirming, sweepable
from spark_core.errors import VerdictError
from spark_core.index.choosing import AUDIT
from spark_core.mark.brought_back import only_in_expired_commits
from spark_core.records import tables
from spark_core.records.figures import AuditFigures, CommitsFigures, ExpiredFigures
from spark_core.run import Run
from spark_core.spark import placement
from tests.support.clean_beside import why_clean
from tests.support.hidden_entries import NOW, HidingPlace
from tests.support.pipeline import mark_and_conclude, mark_only, sweep_only

pytestmark = pytest.mark.spark

OPTIMIZED: dict[str, Any] = {"optimized": True}


@pytest.fixture
def place(sandbox: Any, spark: Any) -> HidingPlace:
    place = HidingPlace(sandbox, spark)
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(10, {}))
    return place


def first(place: HidingPlace, **options: Any) -> Run:
    """Make the first run, which saves the index."""
    run, marked = place.mark(20, **OPTIMIZED, **options)
    assert why_clean(marked)
    return run


def test_53_an_optimized_run_deleted_what_a_full_one_finds_alive(place: HidingPlace) -> None:
    place.committed(50, "p")
    wrong = place.upload(30, "r", b"dropped")
    first(place)
    with place.ago(19):
        objects.reset(place.core, place.name, "main", kind="reset")
    run, marked = place.mark(10, **OPTIMIZED)
    assert not why_clean(marked)
    assert sweep_only(run) == {wrong: "deleted"}
    # Somebody brings its entry back, as an error of the optimized run would have left it.
    place.stage(9, "r", wrong, size=7, checksum="said")
    full = replace(place.run(8, max_missing_share=1, **OPTIMIZED), full=True)
    audited, found, _ = mark_and_conclude(full)
    figures = ExpiredFigures.of(audited.expired.manifest).audit
    assert figures is not None
    assert (figures.deleted_objects, figures.alive_named) == (1, (wrong,))
    assert [check["name"] for check in found.failed] == [AUDIT]
    with pytest.raises(VerdictError, match=AUDIT):
        sweepable.require_sweepable(full)
    _, marked = place.mark(7, **OPTIMIZED)
    assert "found an object alive that an optimized run had deleted" in why_clean(marked)
    # A clean run that somebody asks for does not make it forgotten.
    mark_and_conclude(replace(place.run(6.9, max_missing_share=1, **OPTIMIZED), full=True))
    last, marked = place.mark(6.8, **OPTIMIZED)
    assert "found an object alive that an optimized run had deleted" in why_clean(marked)
    # Nor does the loss of what a run saved.
    last.store.delete([lakegc_keys.saved_key(last.key)])
    place.mark(6.7, **OPTIMIZED)
    _, marked = place.mark(6.6, **OPTIMIZED)
    assert "found an object alive that an optimized run had deleted" in why_clean(marked)
    confirming.confirm(full, AUDIT, who="me")
    run, marked = place.mark(6, **OPTIMIZED)
    assert not why_clean(marked)


@pytest.mark.parametrize(
    "ended", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["to its end", "and killed"]
)
def test_53_an_optimized_run_was_swept_after_the_next_clean_one(
    place: HidingPlace, *, ended: bool
) -> None:
    place.committed(50, "p")
    wrong = place.upload(30, "r", b"dropped")
    first(place)
    with place.ago(19):
        objects.reset(place.core, place.name, "main", kind="reset")
    place.mark(10, **OPTIMIZED)
    place.mark(9.9, full=True, **OPTIMIZED)
    opened = NOW - timedelta(days=9.8)
    late = place.run(10, opened=opened, max_expired_share=1, max_missing_share=1, **OPTIMIZED)
    assert sweep_only(late) == {wrong: "deleted"}
    if not ended:
        # As if it had been killed after its last outcome.
        place.file(tables.manifest_key(tables.DELETION_REPORT, late.key)).unlink()
    place.stage(9, "r", wrong, size=7, checksum="said")
    assert the_audit_fails(audited(place), wrong)


def collected_with_its_commit(place: HidingPlace, **options: Any) -> tuple[str, str, Run]:
    """Let an optimized run delete an object with its expired commit.

    Returns:
        The commit, the object, and the run.
    """
    gone = place.committed(50, "p", b"first")
    commit = head_of(place)
    place.committed(24, "p", b"second")
    first(place, **options)
    run, marked = place.mark(10, **OPTIMIZED, **options)
    assert not why_clean(marked)
    assert sweep_only(run) == {gone: "deleted"}
    return commit, gone, run


def audited(place: HidingPlace) -> tuple[AuditFigures, CheckResult]:
    """Make a clean mark on day 8; return what it finds of the optimized runs, and what it says.

    No other check may fail.
    """
    full = replace(place.run(8, max_missing_share=1, **OPTIMIZED), full=True)
    marked, _, results = mark_and_conclude(full)
    figures = ExpiredFigures.of(marked.expired.manifest).audit
    assert figures is not None
    assert [one.name for one in results if not one.passed] in ([], [AUDIT])
    (said,) = [one for one in results if one.name == AUDIT]
    return figures, said


def the_audit_fails(found: tuple[AuditFigures, CheckResult], *alive: str) -> bool:
    figures, said = found
    return figures.alive_named == alive and not said.passed


@pytest.mark.slow
def test_53_a_branch_on_an_expired_commit_brings_back_what_went_rightly(
    place: HidingPlace,
) -> None:
    commit, gone, run = collected_with_its_commit(place)
    # It finds nothing to delete, and nobody sweeps it.
    place.mark(9.5, **OPTIMIZED)
    place.branch(9, "rescue", commit)
    figures, said = audited(place)
    assert said.passed
    assert (figures.alive_objects, figures.alive_named) == (0, ())
    assert figures.brought_back_objects == 1
    assert figures.brought_back_named == (gone,)
    assert figures.runs == (str(run.key),)
    assert said.summary.startswith(
        "nothing that 1 optimized run deleted is referenced (1 object), but for 1 brought back "
        f"from expired commits since, {gone} among them: "
    )
    _, marked = place.mark(7, **OPTIMIZED)
    assert not why_clean(marked)


def head_of(place: HidingPlace, branch: str = "main") -> str:
    with place.core.lock:
        return str(place.core.branch(place.core.repository(place.name), branch).commit_id)


@pytest.mark.slow
def test_53_commits_on_an_expired_one_and_its_merge_have_the_object_from_there(
    place: HidingPlace,
) -> None:
    place.committed(50, "a", b"a")
    place.branch(26, "side")
    gone = place.committed(25, "p", b"of a side line", branch="side")
    commit = head_of(place, "side")
    place.drop_branch(24, "side")
    first(place)
    run, _ = place.mark(10, **OPTIMIZED)
    assert sweep_only(run) == {gone: "deleted"}
    place.committed(9.5, "b", b"b")
    place.branch(9, "rescue", commit)
    place.committed(9, "pq", b"in the same range", branch="rescue")
    with place.ago(8.9):
        merge.merge(place.core, place.name, "rescue", "main")
    place.drop_branch(8.8, "rescue")
    place.committed(8.7, "c", b"c")
    figures, said = audited(place)
    assert said.passed
    assert figures.brought_back_named == (gone,)


def test_53_an_entry_that_no_parent_has_may_have_been_staged_then(place: HidingPlace) -> None:
    commit, gone, _ = collected_with_its_commit(place)
    place.branch(9.5, "picking", "main")
    with place.ago(9):
        merge.revert(place.core, place.name, "picking", head_of(place), parent_number=1)
    assert head_of(place, "picking") != commit
    assert the_audit_fails(audited(place), gone)


def test_53_what_is_staged_now_is_no_work_of_an_expired_commit(place: HidingPlace) -> None:
    commit, gone, _ = collected_with_its_commit(place)
    place.branch(9, "rescue", commit)
    place.stage(9, "r", gone, size=5, checksum="said", branch="rescue")
    assert the_audit_fails(audited(place), gone)


@pytest.mark.slow
def test_53_what_a_hold_kept_by_address_is_no_work_of_an_expired_commit(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.committed(60, "k", b"beside it")
    holds.add(place.run(59), "kept", "prefix", "data/", who="me", why="a test")
    with monkeypatch.context() as patch:
        # As if the run had not looked.
        patch.setattr(holds.Holds, "of_addresses", ())
        patch.setattr(holds.Holds, "reasons", lambda _, names: pa.nulls(len(names), pa.string()))
        commit, gone, _ = collected_with_its_commit(place)
    place.branch(9, "rescue", commit)
    assert the_audit_fails(audited(place), gone)


@pytest.mark.parametrize(
    "pruned",
    [
        "the dump",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("the server's list", "the rules")
        ),
    ],
)
def test_53_a_pruned_run_shows_no_expired_commit(place: HidingPlace, pruned: str) -> None:
    commit, gone, run = collected_with_its_commit(place)
    stored = tables.manifest_key(tables.RETAINED_COMMITS, run.key)
    figures = CommitsFigures.of(run.load(tables.RETAINED_COMMITS).manifest)
    assert figures.dump is not None
    run.store.delete(
        {
            "the dump": [f"_lakefs/{figures.dump['branches_metarange_id']}"],
            "the server's list": [
                f"_lakefs/retention/gc/commits/run_id={figures.server_run}/commits.csv"
            ],
            "the rules": [stored],
        }[pruned]
    )
    place.branch(9, "rescue", commit)
    assert the_audit_fails(audited(place), gone)


@pytest.mark.slow
@pytest.mark.parametrize(
    "of_driver",
    [pytest.param(3_000_000, id="driver"), pytest.param(0, id="executors", marks=pytest.mark.deep)],
)
def test_53_only_what_no_commit_retained_and_nobody_staged_at_that_instant_is_brought_back(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch, of_driver: int
) -> None:
    """As if the run had deleted all of it."""
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", of_driver)
    held = place.committed(50, "k", b"of a hold")
    holds.add(place.run(50), "kept", "commit", head_of(place), who="me", why="a test")
    tagged = place.committed(49, "k", b"of a tag")
    with place.ago(49):
        refs.create_tag(place.core, place.name, "v1", "main")
    gone = place.committed(48, "p", b"of nobody")
    commit = head_of(place)
    place.upload(47, "p", b"other")
    retained = place.committed(47, "k", b"retained until the day 7")
    place.committed(17, "k", b"of the head")
    staged = place.upload(16, "s", b"staged")
    run = place.run(10)
    mark_only(run)
    holds.remove(place.run(9.7), "kept")
    with place.ago(9.6):
        objects.reset(place.core, place.name, "main", kind="reset")
    place.branch(9, "rescue", commit)
    full = place.run(6)
    mark_only(full)

    def left_of(*names: str) -> list[int]:
        hashes = np.sort(hashed(pa.array(names)).to_numpy())
        commits = full.load(tables.RETAINED_COMMITS)
        return list(only_in_expired_commits(full, commits, run.key, hashes))

    assert left_of(gone) == hashed(pa.array([gone])).to_pylist()
    for name in (held, tagged, retained, staged):
        assert left_of(gone, name) == left_of(gone)
    # The server's list of that run counts as well.
    server_run = CommitsFigures.of(run.load(tables.RETAINED_COMMITS).manifest).server_run
    listed = f"_lakefs/retention/gc/commits/run_id={server_run}/commits.csv"
    metarange = place.metarange(commit).rpartition("/")[2]
    row = f"{commit},false,{metarange}\n".encode()
    run.store.put(listed, run.store.read(listed) + row)
    assert left_of(gone) == []


@pytest.mark.parametrize(
    "happened",
    [
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("killed", "broken off", "damaged")
        ),
        "switched off",
    ],
)
def test_53_the_audit_was_silent(place: HidingPlace, happened: str) -> None:
    place.committed(50, "p")
    wrong = place.upload(30, "r", b"dropped")
    place.mark(20, **OPTIMIZED)
    with place.ago(19):
        objects.reset(place.core, place.name, "main", kind="reset")
    run, marked = place.mark(10, **OPTIMIZED)
    assert not why_clean(marked)
    assert sweep_only(run) == {wrong: "deleted"}
    place.stage(9, "r", wrong, size=7, checksum="said")
    wanted: dict[str, Any] = {"max_missing_share": 1, **OPTIMIZED}
    if happened == "killed":
        # Before its verdict: its tables are there.
        mark_only(replace(place.run(8.5, **wanted), full=True))
    elif happened == "damaged":
        run.store.put(lakegc_keys.saved_key(run.key), b"{}")
    elif happened == "switched off":
        wanted["optimized"] = False
    else:
        run.store.delete([tables.manifest_key(tables.DELETION_REPORT, run.key)])
    full = replace(place.run(8, **wanted), full=True)
    _, found, _ = mark_and_conclude(full)
    assert [check["name"] for check in found.failed] == [AUDIT]
    # What was compared once, and shown, is not compared again.
    _, found, _ = mark_and_conclude(replace(place.run(7, **wanted), full=True))
    assert found.passed
