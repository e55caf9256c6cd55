"""Losses of an index of what never changes: where something in it was not as it is."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakegc_dagster.sandbox import gc, objects, repositories
from spark_core import graveler, lakegc_keys, mark, recorded_work, schemas
from spark_core.errors import CorruptTableError, LakegcError
from spark_core.index import saved as documents
from spark_core.index.choosing import Clean, choose
from spark_core.index.entry_numbers import digests
from spark_core.mark import taken_ranges
from spark_core.records import reading, tables, writing
from spark_core.records.figures import CommittedFigures, ExpiredFigures, ListedFigures
from spark_core.run import Run
from spark_core.run.chain import Mark
from spark_core.sweep import quarantine
from spark_core.undo import restore as undo
from spark_core.undo.restore import restore
from spark_core.upkeep import house_keeping, house_keeping_result, prune_own_tables
from tests.support import index_files
from tests.support.clean_beside import why_clean
from tests.support.hidden_entries import NOW, HidingPlace
from tests.support.pipeline import mark_and_conclude, mark_only, sweep_only

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _stored_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each file lie in the store, as those of large repositories do."""
    monkeypatch.setattr(writing, "HELD_BYTES", 0)


OPTIMIZED: dict[str, Any] = {"optimized": True}
# Of a day.
MINUTE = 1 / 24 / 60


@pytest.fixture
def place(sandbox: Any, spark: Any) -> HidingPlace:
    place = HidingPlace(sandbox, spark)
    keep_for(place, 10)
    return place


def keep_for(place: HidingPlace, days: int) -> None:
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(days, {}))


def first(place: HidingPlace, days: float = 20, **options: Any) -> Run:
    """Make the first run, which saves the index."""
    run, marked = place.mark(days, **OPTIMIZED, **options)
    assert why_clean(marked) == "no mark of this repository has passed yet"
    return run


def dropped(place: HidingPlace, days: float, content: bytes = b"dropped") -> str:
    """Upload something that nothing refers to a moment later."""
    address = place.upload(days, "scratch", content)
    place.upload(days, "scratch", b"what came over it")
    return address


def next_is_clean(place: HidingPlace, days: float = 9) -> str:
    """Mark once more; return why the mark read everything."""
    return why_clean(place.mark(days, **OPTIMIZED)[1])


# What the store did without a word


@pytest.mark.parametrize(
    "tells", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["told", "untold"]
)
@pytest.mark.parametrize(
    "is_between",
    [pytest.param(True, marks=pytest.mark.slow), False],
    ids=["with a run between", "at once"],
)
def test_62_a_committed_object_was_lost_and_the_same_was_uploaded_again(
    place: HidingPlace, *, is_between: bool, tells: bool
) -> None:
    lost = place.committed(50, "p", b"the content")
    place.committed(50, "q", b"beside it")
    first(place, tells=tells)
    place.lose(lost)
    if is_between:
        place.mark_as_a_clean_one(18, behind=[lost], tells=tells)
    # It hides: its path has the same content, as far as lakeFS knows.
    repair = place.upload(17, "p", b"the content")
    run, marked = place.mark_as_a_clean_one(10, behind=[lost], tells=tells)
    assert repair not in marked.addresses(run)
    assert repair not in sweep_only(run)
    assert place.reads("p") == repair


@pytest.mark.parametrize(
    "tells", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["told", "untold"]
)
def test_62_a_committed_object_was_lost_and_another_one_of_its_size_was_staged_there(
    place: HidingPlace, *, tells: bool
) -> None:
    """Its checksum differs, which clears nothing as nobody has seen what the entry is about."""
    lost = place.committed(50, "p", b"the content")
    checksum = place.checksum("p")
    for path in "qrst":
        place.committed(50, path, path.encode() * 11)
    first(place, tells=tells)
    place.lose(lost)
    other = dropped(place, 16, b"of its size")
    place.stage(15, "p", other, size=11, checksum=checksum)
    run, marked = place.mark_as_a_clean_one(10, behind=[lost], tells=tells)
    assert other not in marked.addresses(run)
    assert other not in sweep_only(run)
    assert place.reads("p") == other


def test_62_what_may_go_was_written_over_or_lost_and_the_index_had_it_as_it_was(
    place: HidingPlace,
) -> None:
    place.committed(50, "p", b"kept")
    staged = [place.upload(48, f"s/{number}", f"s{number}".encode()) for number in range(4)]
    first(place)
    with place.ago(15):
        objects.reset(place.core, place.name, "main", kind="reset")
    lost, over, resized, dead = staged
    place.lose(lost)
    place.file(over).write_bytes(b"s9")
    place.date(over, 10.5)
    place.file(resized).write_bytes(b"longer than it was")
    place.date(resized, 14)
    run, marked = place.mark_as_a_clean_one(10, behind=staged)
    assert set(marked.addresses(run)) == {resized, dead}
    assert sweep_only(run) == {resized: "deleted", dead: "deleted"}


@pytest.mark.parametrize(
    "tells",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["", "the store tells contents"],
)
@pytest.mark.parametrize(
    "days",
    [16, pytest.param(9.99, marks=pytest.mark.slow)],
    ids=["before the mark", "before the sweep"],
)
def test_62_a_committed_object_was_lost_and_an_old_one_was_staged_in_its_place(
    place: HidingPlace, days: float, *, tells: bool
) -> None:
    """Of an object that was older than the head, time says that it hides nowhere."""
    lost = place.committed(50, "p", b"same")
    checksum = place.checksum("p")
    old = dropped(place, 48, b"same")
    place.committed(40, "q", b"beside it")
    first(place, tells=tells)
    place.lose(lost)
    if days > 10:
        place.stage(days, "p", old, size=4, checksum=checksum)
    run, marked = place.mark_as_a_clean_one(10, behind=[lost], tells=tells)
    assert (old in marked.addresses(run)) == (days < 10)
    if days < 10:
        place.stage(days, "p", old, size=4, checksum=checksum)
    assert sweep_only(run) == ({old: "kept"} if days < 10 else {})
    assert place.reads("p") == old


@pytest.mark.slow
def test_62_what_was_written_over_was_staged_before_the_sweep(place: HidingPlace) -> None:
    """The index has the checksum that it had, which is another than that of the entry."""
    place.committed(50, "q", b"kept")
    over = place.committed(49, "r", b"aaaa")
    with place.ago(48):
        objects.delete(place.core, place.name, "main", ["r"])
    place.commit(48)
    place.committed(40, "p", b"same")
    checksum = place.checksum("p")
    first(place, tells=True)
    place.file(over).write_bytes(b"same")
    place.date(over, 14)
    run, marked = place.mark_as_a_clean_one(10, behind=[over], tells=True)
    assert marked.addresses(run) == [over]
    place.stage(9.99, "p", over, size=4, checksum=checksum)
    assert sweep_only(run) == {over: "kept"}
    assert place.reads("p") == over


# A slice that was closed too early


@pytest.mark.parametrize(
    "before",
    [*(pytest.param(each, marks=pytest.mark.slow) for each in (1, 24 * 60)), 7 * 24 * 60 + 59],
)
def test_62_something_came_to_a_slice_that_a_clock_had_closed(
    place: HidingPlace, before: float
) -> None:
    """The first upload to a slice names it, the last one may follow an hour later."""
    place.committed(60, "p", b"kept")
    late = place.write(20 + before * MINUTE, b"written late", signed=False)
    place.lose(late)
    first(place)
    place.file(late).parent.mkdir(exist_ok=True)
    place.file(late).write_bytes(b"written late")
    place.date(late, 20 - MINUTE)
    run, marked = place.mark_as_a_clean_one(10)
    assert marked.addresses(run) == [late]


def test_62_an_object_of_an_old_slice_was_young(place: HidingPlace) -> None:
    dead = dropped(place, 40)
    place.date(dead, 20.5)
    run = first(place)
    assert index_files.saved(run).open_slices
    # It was written over once more, as nobody knows yet what an open slice will be.
    place.file(dead).write_bytes(b"another one")
    place.date(dead, 19.5)
    run, marked = place.mark_as_a_clean_one(10)
    assert marked.addresses(run) == [dead]


# Rows that are not as they were read


def _lacking_the_last(rows: pa.Table) -> pa.Table:
    return rows.slice(0, rows.num_rows - 1)


@pytest.mark.parametrize("kind", [pytest.param("trees", marks=pytest.mark.slow), "ranges"])
def test_62_a_merge_of_files_lost_rows_and_they_are_read_again(
    place: HidingPlace, kind: str
) -> None:
    for number in range(4):
        place.committed(50 - number, f"p{number}", f"content {number}".encode())
    dead = dropped(place, 48)
    index_files.rewrite(first(place), kind, _lacking_the_last)
    run, marked = place.mark_as_a_clean_one(10)
    assert marked.addresses(run) == [dead]


def test_62_a_merge_of_files_lost_entries(place: HidingPlace) -> None:
    place.committed(50, "p", b"kept")
    index_files.rewrite(first(place), "entries", _lacking_the_last)
    with pytest.raises(LakegcError, match=r"entries-.*are not those that it had"):
        mark_only(place.run(10, **OPTIMIZED))
    assert "did not end" in next_is_clean(place)


@pytest.mark.slow
def test_62_a_merge_of_files_lost_objects_and_a_clean_run_takes_them_in(
    place: HidingPlace,
) -> None:
    place.committed(50, "p", b"kept")
    dead = dropped(place, 48)

    def lacking(rows: pa.Table) -> pa.Table:
        return rows.filter(pc.not_equal(rows["address"].cast(pa.string()), dead))

    index_files.rewrite(first(place), "slices", lacking)
    run, marked = place.mark(10, **OPTIMIZED)
    assert not why_clean(marked)
    # What the index lacks is kept.
    assert marked.addresses(run) == []
    clean, marked = place.mark(9, full=True, **OPTIMIZED)
    assert marked.addresses(clean) == [dead]
    run, marked = place.mark_as_a_clean_one(8)
    assert marked.addresses(run) == [dead]


def test_62_rows_of_objects_were_not_as_the_objects_are(place: HidingPlace) -> None:
    """What may go is seen in the store before it is named."""
    place.committed(50, "p", b"kept")
    dead = dropped(place, 48)

    def older(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index("last_modified")
        return rows.set_column(
            at,
            rows.schema.field(at),
            pc.subtract(rows["last_modified"], pa.scalar(timedelta(days=5))).cast(
                rows.schema.field(at).type
            ),
        )

    index_files.rewrite(first(place), "slices", older)
    run, marked = place.mark_as_a_clean_one(10, behind=[dead])
    assert marked.addresses(run) == [dead]


def test_62_entries_were_not_those_of_their_ranges(place: HidingPlace) -> None:
    for number in range(3):
        place.committed(50 - number, f"p{number}", f"content {number}".encode())

    def exchanged(rows: pa.Table) -> pa.Table:
        assert rows.num_rows > 1
        return rows.take(pa.array([*range(1, rows.num_rows), 0]))

    index_files.rewrite(first(place), "entries", exchanged)
    with pytest.raises(CorruptTableError, match=r"entries-.*are not those that it had"):
        mark_only(place.run(10, **OPTIMIZED))
    assert "did not end" in next_is_clean(place)


@pytest.mark.parametrize(
    "alike",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["of one number", "of other numbers"],
)
def test_62_arrays_lay_under_another_range(place: HidingPlace, *, alike: bool) -> None:
    place.committed(50, "p", b"first")
    for number in range(1 if alike else 2):
        place.upload(23, f"q{number}", b"second")
    with place.ago(23):
        objects.delete(place.core, place.name, "main", ["p"])
    place.commit(23)
    index_files.rewrite(first(place), "ranges", _with_exchanged_names)
    with pytest.raises(CorruptTableError, match="entries"):
        mark_only(place.run(10, **OPTIMIZED))
    assert "did not end" in next_is_clean(place)


@pytest.mark.parametrize("kind", ["ranges", pytest.param("trees", marks=pytest.mark.slow)])
def test_62_arrays_changed_places_and_none_of_them_is_read_again(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What is alive then lies under an expired commit's range, and what is dead under a head's."""
    place.committed(50, "p", b"dead")
    place.upload(23, "q", b"alive")
    with place.ago(23):
        objects.delete(place.core, place.name, "main", ["p"])
    place.commit(23)
    index_files.rewrite(first(place), kind, _with_exchanged_names)
    # As where there are so many that the few that each run reads again are others.
    monkeypatch.setattr(taken_ranges, "RANGES_AGAIN", 0)
    monkeypatch.setattr(taken_ranges, "TREES_AGAIN", 0)
    with pytest.raises(CorruptTableError, match="are not those that it had"):
        mark_only(place.run(10, **OPTIMIZED))
    assert "did not end" in next_is_clean(place)


def _with_exchanged_names(rows: pa.Table) -> pa.Table:
    """Give each row the name, its first column, of another one."""
    assert rows.num_rows > 1
    names = rows.column(0).take(pa.array([*range(1, rows.num_rows), 0]))
    return rows.set_column(0, rows.schema.field(0), names)


@pytest.mark.parametrize("column", ["count", pytest.param("outside", marks=pytest.mark.slow)])
def test_62_the_row_of_a_range_said_something_else(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    """Of a range without entries nobody reads any; one without any outside hides nothing there."""
    place.committed(50, "p", b"kept")

    def other(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index(column)
        numbers = pa.array([0 if column == "count" else 1] * rows.num_rows, pa.int64())
        return rows.set_column(at, rows.schema.field(at), numbers)

    index_files.rewrite(first(place), "ranges", other)
    # As where there are so many that the few that each run reads again are others.
    monkeypatch.setattr(taken_ranges, "RANGES_AGAIN", 0)
    with pytest.raises(CorruptTableError, match="are not those that it had"):
        mark_only(place.run(10, **OPTIMIZED))
    assert "did not end" in next_is_clean(place)


def test_62_a_range_was_read_wrongly_once(place: HidingPlace) -> None:
    """Its digest is that of the wrong entries."""
    place.committed(50, "p", b"kept")
    run = first(place)

    def other(rows: pa.Table) -> pa.Table:
        return rows.set_column(1, rows.schema.field(1), pc.add(rows["size_bytes"], 1))

    index_files.rewrite(run, "entries", other)
    (part,) = index_files.parts_of(run, "entries")
    (entries,) = reading.read_part(run.store, schemas.INDEXED_ENTRIES, part)

    def digested(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index("digest")
        found = pa.array(digests(entries, rows))
        return rows.set_column(at, rows.schema.field(at), found)

    index_files.rewrite(run, "ranges", digested)
    with pytest.raises(CorruptTableError, match="the index has other entries of it"):
        mark_only(place.run(10, **OPTIMIZED))
    assert "did not end" in next_is_clean(place)


# Another index than that of the last run


def test_50_a_newer_run_exists(place: HidingPlace) -> None:
    place.committed(50, "p")
    first(place, 10)
    _, marked = place.mark(11, **OPTIMIZED)
    assert "is newer than this one" in why_clean(marked)


def test_50_what_was_saved_was_written_again(place: HidingPlace) -> None:
    place.committed(50, "p")
    run = first(place)
    other = replace(index_files.saved(run), last_slice="another")
    run.store.put(lakegc_keys.saved_key(run.key), other.to_json())
    assert "what it saved is not what its verdict names" in next_is_clean(place, 10)


@pytest.mark.slow
def test_50_a_mark_that_did_not_pass_saved_nothing_for_others(place: HidingPlace) -> None:
    place.committed(50, "p")
    dropped(place, 30)
    good = first(place)
    refused = place.run(15, max_expired_share=0.1, share_from_objects=1, **OPTIMIZED)
    assert not mark_and_conclude(replace(refused, full=True))[1].passed
    _, marked = place.mark_as_a_clean_one(10)
    index = ListedFigures.of(marked.tables.slices.manifest).index
    assert index is not None
    assert index.run == str(good.key)


def test_50_a_mark_with_the_index_that_did_not_pass_makes_the_next_one_clean(
    place: HidingPlace,
) -> None:
    place.committed(50, "p")
    dropped(place, 30)
    first(place)
    run = place.run(10, max_expired_share=0.1, share_from_objects=1, **OPTIMIZED)
    marked, found, _ = mark_and_conclude(run)
    assert not why_clean(marked)
    assert not found.passed
    why = f"run {run.key}, an optimized one, did not pass its checks"
    assert why in next_is_clean(place)


def test_62_a_repository_was_made_again(place: HidingPlace) -> None:
    place.committed(50, "p")
    first(place)
    with place.ago(15):
        repositories.delete(place.core, place.name)
        repositories.create(place.core, place.name, f"local://{place.name}", bare=True)
    run = place.run(10, **OPTIMIZED)
    run.begin(tables.NAMESPACE_SLICES)
    chosen = choose(run)
    assert isinstance(chosen, Clean)
    assert "is of another instance of the repository" in chosen.why


def test_62_an_index_of_another_version_was_read(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.committed(50, "p")
    first(place)
    monkeypatch.setattr(documents.Saved, "FORMAT", 99)
    assert "_saved.json" in next_is_clean(place, 10)


@pytest.mark.slow
def test_62_a_run_before_the_clean_one_was_swept_after_it(place: HidingPlace) -> None:
    """What it deleted is missing where a branch has it again."""
    old = place.upload(60, "p", b"first")
    then = place.commit(60)
    place.committed(40, "p", b"second")
    place.mark(20.2, **OPTIMIZED)
    place.mark(20.1, full=True, **OPTIMIZED)
    opened = NOW - timedelta(days=20)
    before = place.run(20.2, opened=opened, max_expired_share=1, **OPTIMIZED)
    assert sweep_only(before) == {old: "deleted"}
    place.branch(15, "back", then)
    place.committed(14, "new", b"newer", branch="back")
    _, marked = place.mark_as_a_clean_one(10)
    assert ExpiredFigures.of(marked.expired.manifest).missing_named == (old,)


# What is kept for the next run


@pytest.mark.usefixtures("nothing_is_held")
def test_54_house_keeping_takes_nothing_that_the_next_run_needs(place: HidingPlace) -> None:
    few: dict[str, Any] = {"keep_runs": 1, **OPTIMIZED}
    place.committed(50, "p")
    first(place, keep_runs=1)
    for days in (18, 15, 12):
        place.committed(days, f"q{days}", f"{days} days".encode())
        run, marked = place.mark_as_a_clean_one(days - 1, **few)
        assert CommittedFigures.of(marked.tables.committed.manifest).taken.ranges
        _age(place, days + 10)
        done = house_keeping_result.Pruned()
        prune_own_tables.prune(run, done)
        assert done.runs


def _age(place: HidingPlace, days: float) -> None:
    """Let all that lakegc wrote be so old."""
    for folder, _, names in os.walk(place.file(lakegc_keys.ROOT)):
        for name in names:
            place.date(os.path.relpath(f"{folder}/{name}", place.file("")), days)


def test_54_a_purge_asked_a_mark_that_had_not_read_every_range(place: HidingPlace) -> None:
    aside: dict[str, Any] = {"quarantine": True, "quarantine_days": 5, **OPTIMIZED}
    old = place.committed(50, "p", b"first")
    place.committed(40, "p", b"second")
    run, _ = place.mark(20, **aside)
    assert sweep_only(run) == {old: "deleted"}
    # Longer rules bring the commit back; its object is still in quarantine.
    keep_for(place, 100)
    later, marked = place.mark(10, **aside)
    assert not why_clean(marked)
    assert "1 objects stay in quarantine" in house_keeping.keep_house(later).words
    assert run.store.exists(quarantine.key_of(run.key, old))


@pytest.mark.parametrize("what", ["metarange", pytest.param("range", marks=pytest.mark.slow)])
def test_54_a_table_of_an_expired_commit_was_lost(place: HidingPlace, what: str) -> None:
    place.committed(50, "p")
    gone = place.metarange(place.commit(49, allow_empty=True))
    place.committed(24, "p", b"other")
    run = first(place)
    if what == "metarange":
        place.lose(gone)
    else:
        found = graveler.read_metarange(
            place.file(gone).read_bytes(), name=gone, expected_id=gone.removeprefix("_lakefs/")
        )
        place.lose(f"_lakefs/{found.column('range_id').to_pylist()[0]}")
    run, marked = place.mark(10, **OPTIMIZED)
    clean, found = place.mark(9.9, full=True, **OPTIMIZED)
    assert marked.addresses(run) == found.addresses(clean)


@pytest.mark.usefixtures("nothing_is_held")
@pytest.mark.parametrize(
    "kind",
    [
        kind if kind == "slices" else pytest.param(kind, marks=pytest.mark.slow)
        for kind in index_files.KINDS
    ],
)
def test_62_a_file_vanished_while_a_mark_took_from_it(place: HidingPlace, kind: str) -> None:
    place.committed(50, "p")
    dropped(place, 48)
    before = first(place)
    run = place.run(10, **OPTIMIZED)
    run.keep(mark.namespace_slices(run))
    lost = index_files.parts_of(before, kind)
    before.store.delete([part.key for part in lost])
    # Another process goes on with the mark.
    later = NOW - timedelta(days=10) + timedelta(minutes=1)
    with pytest.raises(LakegcError, match=lost[0].key.rpartition("/")[2]):
        _make_the_other_tables(place.run(10, opened=later, **OPTIMIZED))
    assert "did not end" in next_is_clean(place)


def _make_the_other_tables(run: Run) -> None:
    slices = run.load(tables.NAMESPACE_SLICES)
    staged = run.keep(mark.uncommitted_addresses(run, slices))
    commits = run.keep(mark.retained_commits(run, staged))
    made = {tables.RETAINED_COMMITS.name: commits}
    committed = run.keep(mark.make(run, tables.COMMITTED_ADDRESSES, made))
    run.keep(mark.expired_addresses(run, Mark(slices, staged, commits, committed)))


# What came back


def test_55_objects_came_back_and_the_limit_of_what_may_go_was_not_asked(
    place: HidingPlace,
) -> None:
    aside: dict[str, Any] = {"quarantine": True, "share_from_objects": 10, **OPTIMIZED}
    place.committed(50, "p", b"kept")
    staged = [place.upload(49, f"s/{number}", f"s{number}".encode()) for number in range(4)]
    dead = [place.upload(48, "r", f"r{number}".encode()) for number in range(9)]
    run, _ = place.mark(20, **aside)
    swept = sweep_only(run)
    assert set(swept) == set(dead[:-1])
    # A sweep that should not have been: 14 objects again, of which 5 are dropped now.
    assert restore(run).complete
    for address in swept:
        place.date(address, 19)
    with place.ago(18):
        objects.reset(place.core, place.name, "main", kind="reset")
    run = place.run(10, max_expired_share=0.1, **aside)
    marked, found, _ = mark_and_conclude(run)
    assert ListedFigures.of(marked.tables.slices.manifest).objects == 14
    assert "expired_share_is_plausible" in {check["name"] for check in found.failed}
    assert set(staged) < set(marked.addresses(run))
    assert "deleted objects were brought back since run" in why_clean(marked)
    # The next one knows them.
    place.mark(9, **OPTIMIZED)
    place.mark_as_a_clean_one(8)


def _swept(place: HidingPlace, **more: Any) -> Run:
    """Let a sweep move one object aside, and return its run."""
    place.committed(50, "p", b"kept")
    dead = dropped(place, 48)
    run, _ = place.mark(20, quarantine=True, **more, **OPTIMIZED)
    assert sweep_only(run) == {dead: "deleted"}
    return run


def test_55_a_restore_that_brought_nothing_back_forces_no_clean_mark(place: HidingPlace) -> None:
    run = _swept(place)
    run.store.delete([key for key, _ in _aside(run)])
    assert restore(run).objects == {"not_restorable": 1}
    assert not next_is_clean(place, 10)


@pytest.mark.parametrize("outcome", ["already_there", "failed"])
def test_55_what_may_have_come_back_is_told_to_the_next_mark(
    place: HidingPlace, outcome: str
) -> None:
    run = _swept(place)
    ((key, address),) = _aside(run)
    # As a task leaves it that brings an object back and dies before it tells of it.
    run.store.put(address, run.store.read(key) if outcome == "already_there" else b"another one")
    assert restore(run).objects == {outcome: 1}
    assert "deleted objects were brought back since run" in next_is_clean(place, 10)


def _aside(run: Run) -> list[tuple[str, str]]:
    """Return what lies in a run's quarantine: keys, and the addresses of the objects."""
    where = lakegc_keys.in_quarantine(run.key)
    keys = [key for batch in run.store.list(where) for key in batch.column("key").to_pylist()]
    return [(key, key.removeprefix(where)) for key in keys]


def test_55_a_restore_that_was_killed_is_told_to_the_next_mark(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _swept(place)

    with monkeypatch.context() as patch:

        def killed(*_: Any, **__: Any) -> None:
            # A process that is gone writes nothing any more.
            patch.setattr(type(run.store), "put", lambda *_: None)
            raise KeyboardInterrupt

        patch.setattr("spark_core.recorded_work.work_on", killed)
        with pytest.raises(KeyboardInterrupt):
            restore(run)
    assert restore(run, dry_run=True).objects["restorable"] == 1
    assert next_is_clean(place, 10)


def test_55_a_restore_that_lasted_is_told_to_the_mark_after_its_end(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _swept(place, lease_ttl=timedelta(hours=1))

    def while_it_lasts(*words: Any, **more: Any) -> Any:
        place.mark(20 - 20 * MINUTE, **OPTIMIZED)
        # It goes on for ten minutes.
        now, later = Run.now, place.run(20 - 30 * MINUTE)
        monkeypatch.setattr(Run, "now", lambda one: now(later if one.key == run.key else one))
        return recorded_work.work_on(*words, **more)

    monkeypatch.setattr(undo, "recorded_work", SimpleNamespace(**vars(recorded_work)))
    monkeypatch.setattr(undo.recorded_work, "work_on", while_it_lasts)
    assert restore(run).complete
    assert next_is_clean(place, 10)


def test_55_a_killed_sweep_that_goes_on_leaves_what_was_restored_in_between(
    place: HidingPlace,
) -> None:
    aside: dict[str, Any] = {"quarantine": True, **OPTIMIZED}
    place.committed(50, "p", b"kept")
    dead = [place.upload(48, "r", f"r{number}".encode()) for number in range(3)][:2]
    run, _ = place.mark(20, **aside)
    assert set(sweep_only(run)) == set(dead)
    # As if it had been killed after its last outcome.
    place.file(tables.manifest_key(tables.DELETION_REPORT, run.key)).unlink()
    opened = {"opened": NOW - timedelta(days=20), "max_expired_share": 1}
    assert restore(place.run(20, **opened, **aside), dead[:1]).complete
    assert set(sweep_only(place.run(20, **opened, **aside))) == set(dead)
    assert [place.file(address).exists() for address in dead] == [True, False]
