"""Losses of collectors that read only what changed: what they took over was not true any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakegc_dagster.sandbox import gc, merge, objects, refs
from spark_core import holds, lakegc_keys
from spark_core.addresses.address_hashes import hashed
from spark_core.checks import CheckResult, verdict
from spark_core.errors import ChainError, VerdictError
from spark_core.mark.committed import keep_ranges
from spark_core.mark.since_base.brought_back import only_in_expired_commits
from spark_core.optimized import base as base_of
from spark_core.optimized import saved as saved_information
from spark_core.records import tables
from spark_core.records.figures import (
    AuditFigures,
    CommitsFigures,
    CommittedFigures,
    ExpiredFigures,
    ListedFigures,
)
from spark_core.records.reading import StoredTable
from spark_core.references.range_entries import read_ranges
from spark_core.run import Run
from spark_core.spark import placement
from tests.support.hidden_entries import NOW, HidingPlace
from tests.support.pipeline import Marked, mark_and_conclude, mark_only, sweep_only
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

OPTIMIZED: dict[str, Any] = {"optimized": True}


@pytest.fixture
def place(sandbox: Any, spark: Any) -> HidingPlace:
    place = HidingPlace(sandbox, spark)
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(10, {}))
    return place


def why_full(marked: Marked) -> str | None:
    figures = ListedFigures.of(marked.tables.slices.manifest)
    assert (figures.base is None) == (figures.why_full is not None)
    return figures.why_full


def begun_from_it(marked: Marked) -> CommittedFigures:
    assert why_full(marked) is None
    return CommittedFigures.of(marked.tables.committed.manifest)


def base(place: HidingPlace, days: float = 20, **options: Any) -> Run:
    run, marked = place.mark(days, **OPTIMIZED, **options)
    assert why_full(marked) == "no mark of this repository has passed yet"
    return run


def test_46_an_object_of_a_commit_that_left_was_in_another_that_stayed(place: HidingPlace) -> None:
    shared = place.upload(50, "p", b"shared")
    place.committed(50, "q", b"beside it")
    place.branch(49, "dev")
    # A range of its own, which has the shared object, too.
    place.committed(48, "q", b"more", branch="dev")
    # The commit with the first content is kept until the day 14.
    place.committed(24, "p", b"other")
    base(place)
    place.committed(15, "new", b"newer")
    run, marked = place.mark(10, **OPTIMIZED)
    found = begun_from_it(marked).change
    assert found is not None
    assert found.left_ranges == 1
    assert found.matched_ranges == 1
    assert marked.addresses(run) == []
    assert sweep_only(run) == {}
    assert place.reads("p", "dev") == shared


def test_46_a_range_that_stayed_had_no_sketch_and_nobody_asked_it(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.committed(50, "p", b"kept")

    def losing_one(*read: Any, sketched: list[Any] | None, **more: Any) -> Iterator[Any]:
        made = list[Any]()
        yield from read_ranges(*read, sketched=made, **more)
        assert sketched is not None
        assert made.pop()

    with monkeypatch.context() as patch:
        patch.setattr("spark_core.mark.committed.read_ranges", losing_one)
        base(place)
    place.committed(15, "new", b"newer")
    with pytest.raises(ChainError, match="saved no sketch of 1 of its ranges"):
        place.mark(10, **OPTIMIZED)


def test_46_a_range_was_saved_otherwise_than_it_is(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.committed(50, "p", b"first")
    place.committed(24, "p", b"second")

    def wrongly(run: Run, commits: StoredTable, ranges: pa.Table, *rest: Any) -> str | None:
        at = ranges.schema.get_field_index("count")
        more = pc.add(ranges["count"], 1).cast(ranges.schema.field("count").type)
        return keep_ranges(run, commits, ranges.set_column(at, "count", more), *rest)

    with monkeypatch.context() as patch:
        patch.setattr("spark_core.mark.committed.keep_ranges", wrongly)
        base(place)
    # By then the first commit has left.
    with pytest.raises(ChainError, match="and not as it saved the range"):
        mark_only(place.run(10, **OPTIMIZED))


def test_46_a_range_left_one_commit_and_stayed_in_another(place: HidingPlace) -> None:
    kept = place.committed(50, "p", b"in two commits")
    place.branch(49, "dev")
    place.branch(49, "short")
    place.committed(48, "q", b"more", branch="short")
    base(place)
    # The range of both stays on main, while a commit that has it leaves.
    place.drop_branch(19, "short")
    place.committed(18, "r", b"newer")
    _, marked = place.mark(7, **OPTIMIZED)
    found = begun_from_it(marked).change
    assert found is not None
    assert found.left_metaranges == 1
    run, marked = place.mark(6, **OPTIMIZED)
    assert kept not in marked.addresses(run)
    assert kept not in sweep_only(run)


def test_46_what_was_staged_then_and_is_not_now_was_in_an_older_commit(place: HidingPlace) -> None:
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(30, {}))
    shared = place.committed(50, "p", b"shared")
    checksum = place.checksum("p")
    # No head has it any more, but a commit that is kept.
    place.committed(31, "p", b"other")
    place.branch(30, "dev")
    dropped = place.upload(30, "r", b"dropped", branch="dev")
    place.stage(30, "s", shared, size=6, checksum=checksum, branch="dev")
    base(place)
    with place.ago(15):
        objects.reset(place.core, place.name, "dev", kind="reset")
    run, marked = place.mark(10, **OPTIMIZED)
    begun_from_it(marked)
    assert shared not in marked.addresses(run)
    assert sweep_only(run) == {dropped: "deleted"}


def test_47_a_twin_hid_behind_an_entry_that_nobody_read_again(place: HidingPlace) -> None:
    place.committed(50, "p", b"the content")
    garbage = place.upload(49, "scratch", b"dead")
    place.upload(49, "scratch", b"other")
    base(place)
    twin = place.upload(16, "p", b"the content")
    run, marked = place.mark(10, **OPTIMIZED)
    found = begun_from_it(marked).change
    assert found is not None
    assert found.hiding_ranges == 1
    assert twin not in marked.addresses(run)
    assert sweep_only(run) == {garbage: "deleted"}
    assert place.reads("p") == twin


def test_47_an_object_that_was_missing_came_back_and_nobody_knew_who_needs_it(
    place: HidingPlace,
) -> None:
    lost = place.committed(50, "p", b"was lost")
    place.committed(50, "q", b"is there")
    content = place.file(lost).read_bytes()
    place.lose(lost)
    base(place)
    place.file(lost).write_bytes(content)
    place.date(lost, 50)
    place.committed(15, "new", b"newer")
    run, marked = place.mark(10, **OPTIMIZED)
    begun_from_it(marked)
    assert marked.addresses(run) == []
    assert place.reads("p") == lost


def test_47_an_entry_whose_object_was_missing_hid_its_repair(place: HidingPlace) -> None:
    lost = place.committed(50, "p", b"same")
    checksum = place.checksum("p")
    place.committed(50, "q", b"is there")
    place.lose(lost)
    base(place)
    # Staged by hand in the place of the lost one, with the size that its entry had.
    other = place.upload(16, "scratch", b"of other size")
    dead = place.upload(16, "scratch", b"overwritten again")
    place.upload(15, "scratch", b"stays")
    place.stage(15, "p", other, size=4, checksum=checksum)
    run, marked = place.mark(10, **OPTIMIZED)
    begun_from_it(marked)
    assert marked.addresses(run) == [dead]
    assert place.reads("p") == other


def test_49_the_state_outlived_the_options_that_decided(place: HidingPlace) -> None:
    place.committed(50, "p")
    base(place, tags_protect=False)
    _, marked = place.mark(10, **OPTIMIZED)
    assert "other options decided: tags_protect was False, now it is True" in str(why_full(marked))


def test_49_longer_rules_bring_commits_back_and_shorter_ones_let_go(place: HidingPlace) -> None:
    old = place.committed(50, "p", b"first")
    place.committed(24, "p", b"second")
    middle = place.committed(23, "p", b"third")
    base(place)
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(100, {}))
    run, marked = place.mark(10, **OPTIMIZED)
    begun_from_it(marked)
    assert marked.addresses(run) == []
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(1, {}))
    run, marked = place.mark(9, **OPTIMIZED)
    begun_from_it(marked)
    assert old in marked.addresses(run)
    assert middle not in marked.addresses(run)


def test_50_the_base_was_made_out_of_order(place: HidingPlace) -> None:
    place.committed(50, "p")
    base(place, 10)
    _, marked = place.mark(11, **OPTIMIZED)
    assert "is newer than this one" in str(why_full(marked))


def test_50_what_the_base_saved_was_written_again(place: HidingPlace) -> None:
    place.committed(50, "p")
    run = base(place)
    saved = saved_information.load(run.store, run.key)
    run.store.put(
        lakegc_keys.saved_key(run.key),
        replace(saved, live_objects=saved.live_objects + 1).to_json(),
    )
    _, marked = place.mark(10, **OPTIMIZED)
    assert "what it saved is not what its verdict names" in str(why_full(marked))


def test_51_refs_were_restored_from_before_the_base(place: HidingPlace) -> None:
    place.committed(50, "p")
    place.branch(30, "gone")
    place.committed(29, "q", b"on gone", branch="gone")
    run = base(place)
    seen = place.core.repository(place.name)
    with place.core.lock:
        head = place.core.branch(seen, "gone").commit_id
        place.drop_branch(15, "gone")
        place.core.state._write(
            "DELETE FROM commits WHERE repository = ? AND id = ?", seen.number, head
        )
    with pytest.raises(ChainError, match=r"1 commits that run .* saw are gone") as refusal:
        mark_only(place.run(10, **OPTIMIZED))
    assert "--full" in str(refusal.value)
    assert verdict.load(run).passed
    # The next one reads everything by itself.
    _, marked = place.mark(9, **OPTIMIZED)
    assert "an optimized one, did not end" in str(why_full(marked))


def test_52_a_clock_was_set_back(place: HidingPlace) -> None:
    place.committed(50, "p")
    base(place)
    run = place.run(10, **OPTIMIZED)
    mark_and_conclude(
        replace(run, environment=replace(run.environment, clock=_at(NOW - timedelta(days=5))))
    )
    place.sandbox.clock.set(NOW - timedelta(days=9))
    back = open_sandbox_run(
        place.sandbox, place.name, place.spark, NOW - timedelta(days=9), **OPTIMIZED
    )
    assert "a clock was set back" in str(why_full(mark_only(back)))


def _at(moment: Any) -> Any:
    from tests.support.clock import FakeClock

    return FakeClock(moment)


def test_53_an_optimized_run_deleted_what_a_full_one_finds_alive(place: HidingPlace) -> None:
    place.committed(50, "p")
    wrong = place.upload(30, "r", b"dropped")
    base(place)
    with place.ago(19):
        objects.reset(place.core, place.name, "main", kind="reset")
    run, marked = place.mark(10, **OPTIMIZED)
    begun_from_it(marked)
    assert sweep_only(run) == {wrong: "deleted"}
    # Somebody brings its entry back, as an error of the optimized run would have left it.
    place.stage(9, "r", wrong, size=7, checksum="said")
    full = replace(place.run(8, max_missing_share=1, **OPTIMIZED), full=True)
    audited, found, _ = mark_and_conclude(full)
    figures = ExpiredFigures.of(audited.expired.manifest).audit
    assert figures is not None
    assert (figures.deleted_objects, figures.alive_named) == (1, (wrong,))
    assert [check["name"] for check in found.failed] == ["optimized_runs_were_right"]
    with pytest.raises(VerdictError, match="optimized_runs_were_right"):
        verdict.require_sweepable(full)
    _, marked = place.mark(7, **OPTIMIZED)
    assert "found an object alive that an optimized run had deleted" in str(why_full(marked))
    # A full run that somebody asks for does not make it forgotten.
    mark_and_conclude(replace(place.run(6.9, max_missing_share=1, **OPTIMIZED), full=True))
    last, marked = place.mark(6.8, **OPTIMIZED)
    assert "found an object alive that an optimized run had deleted" in str(why_full(marked))
    # Nor does the loss of what a run saved.
    last.store.delete([lakegc_keys.saved_key(last.key)])
    place.mark(6.7, **OPTIMIZED)
    _, marked = place.mark(6.6, **OPTIMIZED)
    assert "found an object alive that an optimized run had deleted" in str(why_full(marked))
    verdict.confirm(full, "optimized_runs_were_right", who="me")
    run, marked = place.mark(6, **OPTIMIZED)
    begun_from_it(marked)


def collected_with_its_commit(place: HidingPlace, **options: Any) -> tuple[str, str, Run]:
    """Let an optimized run delete an object with its expired commit.

    Returns:
        The commit, the object, and the run.
    """
    gone = place.committed(50, "p", b"first")
    commit = head_of(place)
    place.committed(24, "p", b"second")
    base(place, **options)
    run, marked = place.mark(10, **OPTIMIZED, **options)
    begun_from_it(marked)
    assert sweep_only(run) == {gone: "deleted"}
    return commit, gone, run


def audited(place: HidingPlace) -> tuple[AuditFigures, CheckResult]:
    """Make a full mark on day 8; return what it finds of the optimized runs, and what it says.

    No other check may fail.
    """
    full = replace(place.run(8, max_missing_share=1, **OPTIMIZED), full=True)
    marked, _, results = mark_and_conclude(full)
    figures = ExpiredFigures.of(marked.expired.manifest).audit
    assert figures is not None
    assert [one.name for one in results if not one.passed] in ([], [base_of.AUDIT])
    (said,) = [one for one in results if one.name == base_of.AUDIT]
    return figures, said


def the_audit_fails(found: tuple[AuditFigures, CheckResult], *alive: str) -> bool:
    figures, said = found
    return figures.alive_named == alive and not said.passed


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
    begun_from_it(marked)


def head_of(place: HidingPlace, branch: str = "main") -> str:
    with place.core.lock:
        return str(place.core.branch(place.core.repository(place.name), branch).commit_id)


def test_53_commits_on_an_expired_one_and_its_merge_have_the_object_from_there(
    place: HidingPlace,
) -> None:
    place.committed(50, "a", b"a")
    place.branch(26, "side")
    gone = place.committed(25, "p", b"of a side line", branch="side")
    commit = head_of(place, "side")
    place.drop_branch(24, "side")
    base(place)
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


@pytest.mark.parametrize("pruned", ["the dump", "the server's list", "the rules"])
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


def test_a_range_that_expired_commits_have_too_leaves_with_the_last_that_keeps_it(
    place: HidingPlace,
) -> None:
    """Otherwise nothing of it would be let go before the next full run."""
    dead = place.upload(50, "p", b"dead in the end")
    place.committed(50, "q", b"beside it")
    # The same range, in a commit that the base still keeps; the one before is past its days.
    place.committed(45, "r", b"a range of its own")
    place.committed(24, "p", b"other")
    base(place)
    run, marked = place.mark(10, **OPTIMIZED)
    found = begun_from_it(marked).change
    assert found is not None
    assert found.left_ranges == 1
    assert marked.addresses(run) == [dead]
