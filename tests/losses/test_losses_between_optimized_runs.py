"""Losses of optimized runs in what they had not read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lakegc_dagster.sandbox import gc, objects
from spark_core import explain, graveler, lakegc_keys, recorded_work
from spark_core.errors import ChainError
from spark_core.optimized import saved
from spark_core.policies import document
from spark_core.policies import what_if as policies
from spark_core.records import tables, writing
from spark_core.records.figures import ExpiredFigures, ListedFigures
from spark_core.run import Run
from spark_core.sweep import quarantine
from spark_core.undo import restore as undo
from spark_core.undo.restore import restore
from spark_core.upkeep import prune_own_tables
from tests.support.hidden_entries import HidingPlace
from tests.support.pipeline import Marked, mark_and_conclude, mark_only, sweep_only
from tests.support.telling_store import TellingStore

pytestmark = pytest.mark.spark

OPTIMIZED: dict[str, Any] = {"optimized": True}
# Of a day.
MINUTES = 24 * 60


@pytest.fixture
def place(sandbox: Any, spark: Any) -> HidingPlace:
    place = HidingPlace(sandbox, spark)
    keep_for(place, 10)
    return place


def keep_for(place: HidingPlace, days: int) -> None:
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(days, {}))


def is_optimized(marked: Marked) -> bool:
    return ListedFigures.of(marked.tables.slices.manifest).base is not None


def test_54_a_purge_asked_a_mark_that_had_not_read_every_range(place: HidingPlace) -> None:
    aside: dict[str, Any] = {"quarantine": True, "quarantine_days": 5, **OPTIMIZED}
    old = place.committed(50, "p", b"first")
    place.committed(40, "p", b"second")
    first, _ = place.mark(20, **aside)
    assert sweep_only(first) == {old: "deleted"}
    # Longer rules bring the commit back; its object is still in quarantine.
    keep_for(place, 100)
    place.mark(15, **aside)
    run, marked = place.mark(10, **aside)
    assert is_optimized(marked)
    house = prune_own_tables.keep_house(run)
    assert "the next full run purges them" in house.words
    assert run.store.exists(quarantine.key_of(first.key, old))
    # The next full run sees that it is needed, and lets it lie.
    run, marked = place.mark(9, **{**aside, "optimized": False})
    assert not is_optimized(marked)
    assert "1 objects stay in quarantine" in prune_own_tables.keep_house(run).words
    assert run.store.exists(quarantine.key_of(first.key, old))


def test_47_a_checksum_that_a_client_said_was_believed(place: HidingPlace) -> None:
    said = place.write(50, b"the content", signed=False)
    place.stage(50, "a", said, size=11, checksum="c" * 32)
    place.commit(50)
    for path in ("q", "r"):
        place.committed(49, path, b"as long, " + path.encode() * 2)
    assert mark_telling(place, 20)[1].expired.manifest.rows == 0
    hidden = place.copy(16, "a", "a")
    run, marked = mark_telling(place, 10)
    assert is_optimized(marked)
    assert hidden not in marked.addresses(run)
    assert sweep_only(run) == {}
    assert place.reads("a") == hidden


def mark_telling(place: HidingPlace, days: float) -> tuple[Run, Marked]:
    run = place.run(days, max_expired_share=1, **OPTIMIZED)
    run = replace(run, store=TellingStore(run.store.namespace, run.store.options))
    marked, verdict, _ = mark_and_conclude(run)
    assert verdict.passed
    return run, marked


def test_47_an_old_object_got_an_entry_with_another_size(place: HidingPlace) -> None:
    old = place.committed(50, "z", b"five.")
    place.mark(20, **OPTIMIZED)
    place.stage(18, "a", old, size=9, checksum="said")
    place.commit(18)
    hidden = place.copy(16, "a", "a")
    run, marked = place.mark(10, **OPTIMIZED)
    assert is_optimized(marked)
    assert hidden not in marked.addresses(run)
    assert place.reads("a") == hidden


def test_47_an_object_that_came_back_was_listed_and_looked_up_and_counted_twice(
    place: HidingPlace,
) -> None:
    place.committed(51, "q", b"beside it")
    # Of a sharded name, whose slices are always listed.
    usual = place.write(50, b"same", signed=False)
    sharded = usual.replace("data/", "data/!ab/c1/")
    content = place.file(usual).read_bytes()
    place.lose(usual)
    place.stage(50, "p", sharded, size=4, checksum="said")
    place.commit(50)
    place.mark(20, **OPTIMIZED)
    place.committed(15, "new", b"newer")
    place.file(sharded).parent.mkdir(parents=True)
    place.file(sharded).write_bytes(content)
    place.date(sharded, 50)
    _, marked = place.mark(10, **OPTIMIZED)
    assert is_optimized(marked)
    assert ExpiredFigures.of(marked.expired.manifest).by_fate == {"committed": (2, 9)}


def test_54_what_an_older_run_sketched_was_pruned(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Sketches in manifests are never pruned.
    monkeypatch.setattr(writing, "HELD_BYTES", 0)
    few: dict[str, Any] = {"keep_runs": 1, **OPTIMIZED}
    kept = place.committed(50, "p")
    place.mark(20, **few)
    place.committed(18, "q", b"more")
    place.mark(15, **few)
    place.committed(14, "r", b"even more")
    run, _ = place.mark(12, **few)
    for batch in run.store.list("_lakefs/retention/"):
        for key in batch.column("key").to_pylist():
            place.date(key, 20)
    sweep_only(run)
    assert prune_own_tables.keep_house(run).problem is None
    run, marked = place.mark(10, **few)
    assert is_optimized(marked)
    assert kept not in marked.addresses(run)


def test_54_sketches_of_an_older_run_are_gone(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is not small is not in a manifest.
    monkeypatch.setattr(writing, "HELD_BYTES", 0)
    place.committed(50, "p")
    first, _ = place.mark(20, **OPTIMIZED)
    place.committed(18, "q", b"more")
    place.mark(15, **OPTIMIZED)
    ranges = tables.folder(tables.RETAINED_RANGES, first.key)
    first.store.delete(
        [key for batch in first.store.list(ranges) for key in batch.column("key").to_pylist()]
    )
    _, marked = place.mark(10, **OPTIMIZED)
    why = ListedFigures.of(marked.tables.slices.manifest).why_full
    assert "its tables were pruned" in str(why)


@pytest.mark.parametrize("what", ["metarange", "range"])
def test_54_a_table_of_an_expired_commit_was_lost(place: HidingPlace, what: str) -> None:
    place.committed(50, "p")
    before = place.commit(49, allow_empty=True)
    gone = place.metarange(before)
    place.committed(24, "p", b"other")
    place.mark(20, **OPTIMIZED)
    if what == "metarange":
        place.lose(gone)
    else:
        name = next(iter(metarange_ranges(place, gone)))
        place.lose(f"_lakefs/{name}")
    with pytest.raises(ChainError) as refusal:
        mark_only(place.run(10, **OPTIMIZED))
    assert "--full" in str(refusal.value)
    mark_and_conclude(replace(place.run(9, **OPTIMIZED), full=True))


def metarange_ranges(place: HidingPlace, key: str) -> list[str]:
    found = graveler.read_metarange(
        place.file(key).read_bytes(), name=key, expected_id=key.removeprefix("_lakefs/")
    )
    return found.column("range_id").to_pylist()


@pytest.mark.parametrize("happened", ["killed", "damaged", "switched off", "broken off"])
def test_53_the_audit_was_silent(place: HidingPlace, happened: str) -> None:
    place.committed(50, "p")
    wrong = place.upload(30, "r", b"dropped")
    place.mark(20, **OPTIMIZED)
    with place.ago(19):
        objects.reset(place.core, place.name, "main", kind="reset")
    run, marked = place.mark(10, **OPTIMIZED)
    assert is_optimized(marked)
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
    assert [check["name"] for check in found.failed] == ["optimized_runs_were_right"]
    # What was compared once, and shown, is not compared again.
    _, found, _ = mark_and_conclude(replace(place.run(7, **wanted), full=True))
    assert found.passed


def test_54_what_if_summed_up_a_listing_that_was_not_whole(place: HidingPlace) -> None:
    place.committed(50, "p")
    place.mark(20, **OPTIMIZED)
    run, marked = place.mark(10, **OPTIMIZED)
    assert is_optimized(marked)
    with pytest.raises(ChainError, match="is an optimized one"):
        explain.what_if(run)
    with pytest.raises(ChainError, match="did not read every entry"):
        policies.what_if(run, document.Policy(rules=()))


@pytest.mark.parametrize("spec", [tables.RETAINED_RANGES, tables.EXPIRED_ADDRESSES])
def test_54_a_file_that_the_base_saved_is_damaged(
    place: HidingPlace, spec: tables.TableSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.committed(50, "p")
    place.upload(40, "r", b"replaced")
    place.committed(30, "r", b"other")
    # What is not small is neither in the one file nor in a manifest.
    monkeypatch.setattr(saved, "MOST", 0)
    monkeypatch.setattr(writing, "HELD_BYTES", 0)
    first, _ = place.mark(20, **OPTIMIZED)
    for part in (*(found := first.load(spec).manifest).parts, *found.beside):
        if spec is tables.EXPIRED_ADDRESSES or "_sketches" in part.key:
            first.store.put(part.key, b"damaged")
    with pytest.raises(ChainError) as refusal:
        mark_only(place.run(10, **OPTIMIZED))
    assert "--full" in str(refusal.value)
    mark_and_conclude(replace(place.run(9, **OPTIMIZED), full=True))


def test_55_objects_came_back_and_the_limit_of_what_may_go_was_not_asked(
    place: HidingPlace,
) -> None:
    aside: dict[str, Any] = {"quarantine": True, "share_from_objects": 10, **OPTIMIZED}
    place.committed(50, "p", b"kept")
    staged = [place.upload(49, f"s/{number}", f"s{number}".encode()) for number in range(4)]
    dead = [place.upload(48, "r", f"r{number}".encode()) for number in range(9)]
    first, _ = place.mark(20, **aside)
    swept = sweep_only(first)
    assert set(swept) == set(dead[:-1])
    # A sweep that should not have been: 14 objects again, of which 5 are dropped now.
    assert restore(first).complete
    for address in swept:
        place.date(address, 19)
    with place.ago(18):
        objects.reset(place.core, place.name, "main", kind="reset")
    run = place.run(10, max_expired_share=0.1, **aside)
    marked, found, _ = mark_and_conclude(run)
    figures = ListedFigures.of(marked.tables.slices.manifest)
    assert figures.all_objects == 14
    assert "expired_share_is_plausible" in {check["name"] for check in found.failed}
    assert set(staged) < set(marked.addresses(run))
    assert "deleted objects were brought back since run" in str(figures.why_full)
    # The next one knows them.
    place.mark(9, **OPTIMIZED)
    assert is_optimized(place.mark(8, **OPTIMIZED)[1])


def _swept(place: HidingPlace, **more: Any) -> Run:
    """Let a sweep move one object aside, and return its run."""
    place.committed(50, "p", b"kept")
    dead = place.upload(48, "r", b"first")
    place.upload(48, "r", b"second")
    first, _ = place.mark(20, quarantine=True, **more, **OPTIMIZED)
    assert sweep_only(first) == {dead: "deleted"}
    return first


def test_55_a_restore_that_was_killed_is_told_to_the_next_mark(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _swept(place)

    with monkeypatch.context() as patch:

        def killed(*_: Any, **__: Any) -> None:
            # A process that is gone writes nothing any more.
            patch.setattr(type(first.store), "put", lambda *_: None)
            raise KeyboardInterrupt

        patch.setattr("spark_core.recorded_work.work_on", killed)
        with pytest.raises(KeyboardInterrupt):
            restore(first)
    assert restore(first, dry_run=True).objects["restorable"] == 1
    _, marked = place.mark(10, **OPTIMIZED)
    assert not is_optimized(marked)


def test_55_a_restore_that_lasted_is_told_to_the_mark_after_its_end(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _swept(place, lease_ttl=timedelta(hours=1))

    def while_it_lasts(*words: Any, **more: Any) -> Any:
        place.mark(20 - 20 / MINUTES, **OPTIMIZED)
        # It goes on for ten minutes.
        now, later = Run.now, place.run(20 - 30 / MINUTES)
        monkeypatch.setattr(Run, "now", lambda run: now(later if run.key == first.key else run))
        return recorded_work.work_on(*words, **more)

    monkeypatch.setattr(undo, "recorded_work", SimpleNamespace(**vars(recorded_work)))
    monkeypatch.setattr(undo.recorded_work, "work_on", while_it_lasts)
    assert restore(first).complete
    _, marked = place.mark(10, **OPTIMIZED)
    assert not is_optimized(marked)


def test_an_optimized_mark_that_did_not_pass_makes_the_next_one_full(place: HidingPlace) -> None:
    place.committed(50, "p", b"kept")
    place.upload(30, "r", b"dropped")
    place.mark(20, **OPTIMIZED)
    with place.ago(19):
        objects.reset(place.core, place.name, "main", kind="reset")
    run = place.run(10, max_expired_share=0.1, share_from_objects=1, **OPTIMIZED)
    marked, found, _ = mark_and_conclude(run)
    assert is_optimized(marked)
    assert not found.passed
    _, marked = place.mark(9, **OPTIMIZED)
    why = ListedFigures.of(marked.tables.slices.manifest).why_full
    assert f"run {run.key}, an optimized one, did not pass its checks" in str(why)
