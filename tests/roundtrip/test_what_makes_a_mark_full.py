"""Whatever is in doubt about the last mark makes the next one a full one, which says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox, gc, objects, repositories
from spark_core import lakegc_keys, mark
from spark_core.checks import verdict as verdicts
from spark_core.errors import ChainError, UnsafePlanError
from spark_core.lakefs import NoSuchCallError
from spark_core.mark.since_base import committed
from spark_core.model import RunKey
from spark_core.optimized import base as bases
from spark_core.optimized import candidates
from spark_core.optimized import saved as saved_information
from spark_core.optimized.base import Base, Full, choose
from spark_core.records import tables
from spark_core.records.tables import TableSpec
from spark_core.run import Run
from tests.support.hidden_entries import NOW, HidingPlace
from tests.support.pipeline import mark_and_conclude, mark_only

pytestmark = pytest.mark.spark

OPTIMIZED: dict[str, Any] = {"optimized": True}
# Days ago that the base was marked, and that the next mark stands for.
BASE, NEXT = 20, 10


def place_on(sandbox: Sandbox, spark: Any) -> HidingPlace:
    place = HidingPlace(sandbox, spark)
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(10, {}))
    place.committed(50, "p", b"first")
    place.committed(40, "p", b"second")
    return place


@pytest.fixture(scope="module")
def read_only(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HidingPlace]:
    """A repository with a base, of which tests only ask what the next run would do."""
    with Sandbox(tmp_path_factory.mktemp("full")) as sandbox:
        place = place_on(sandbox, spark)
        place.mark(BASE, **OPTIMIZED)
        yield place


@pytest.fixture
def place(sandbox: Sandbox, spark: Any) -> HidingPlace:
    return place_on(sandbox, spark)


def chosen_by(run: Run) -> Base | Full:
    run.begin(tables.NAMESPACE_SLICES)
    return choose(run)


@pytest.fixture
def nothing_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a mark saved is too large for one document."""
    monkeypatch.setattr(saved_information, "MOST", 0)


def why_full(run: Run) -> str:
    chosen = chosen_by(run)
    assert isinstance(chosen, Full)
    return chosen.why


def test_where_nothing_is_in_doubt_a_mark_begins_from_the_one_before(
    read_only: HidingPlace,
) -> None:
    chosen = chosen_by(read_only.run(NEXT, **OPTIMIZED))
    assert isinstance(chosen, Base)
    assert chosen.key == RunKey.at(NOW - timedelta(days=BASE))


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"full": True}, "a full run was asked for"),
        ({"reference_mark": "ft6s0e1ksdufuaulm34g"}, "within a mark of lakeFS's own job"),
        ({"base": RunKey.at(NOW)}, "it is the last mark that passed, and run "),
    ],
)
def test_a_request_may_need_everything_to_be_read(
    read_only: HidingPlace, asked: dict[str, Any], why: str
) -> None:
    assert why in why_full(replace(read_only.run(NEXT, **OPTIMIZED), **asked))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"policies": "mark"}, "a retention policy names objects by their age"),
        ({"collects": "policies"}, "a retention policy names objects by their age"),
        ({"flat": True}, "flat = true: flat names are in no slice"),
        ({"listing": "inventory"}, "an inventory shows no slice whole"),
        ({"min_age": timedelta(days=2)}, "other options decided: min_age"),
        ({"tags_protect": False}, "other options decided: tags_protect was True"),
        ({"full_every": 1}, "each of 1 marks reads everything (full_every)"),
        ({"max_base_age": timedelta(days=9)}, "is 10 days old (max_base_age_days allows 9 days)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options_may_need_everything_to_be_read(
    read_only: HidingPlace, options: dict[str, Any], why: str
) -> None:
    assert why in why_full(read_only.run(NEXT, **{**OPTIMIZED, **options}))


def test_a_base_may_be_as_old_as_the_limit_and_no_older(read_only: HidingPlace) -> None:
    options = {"max_base_age": timedelta(days=10), **OPTIMIZED}
    assert isinstance(chosen_by(read_only.run(NEXT, **options)), Base)
    second = 1 / 86_400
    assert "max_base_age_days" in why_full(read_only.run(NEXT - second, **options))


def test_each_so_many_marks_one_is_full(place: HidingPlace) -> None:
    chosen = {"full_every": 3, **OPTIMIZED}
    for days in (20, 19, 18):
        place.mark(days, **chosen)
    assert why_full(place.run(17, **chosen)) == "each of 3 marks reads everything (full_every)"
    place.mark(17, **chosen)
    # That one is a base as the first was.
    assert isinstance(chosen_by(place.run(16, **chosen)), Base)


def test_refs_that_could_only_be_walked_are_nothing_to_begin_from(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = place.run(BASE, max_expired_share=1, **OPTIMIZED)

    def no_dump(_: object) -> None:
        raise NoSuchCallError("no such call")

    monkeypatch.setattr(run.server, "dump_refs", no_dump)
    assert mark_and_conclude(run)[1].passed
    assert "its refs could only be walked" in why_full(place.run(NEXT, **OPTIMIZED))


def test_another_repository_of_the_same_name_begins_from_nothing(place: HidingPlace) -> None:
    place.mark(BASE, **OPTIMIZED)
    with place.ago(15):
        repositories.delete(place.core, place.name)
        repositories.create(place.core, place.name, f"local://{place.name}", bare=True)
    assert "is of another instance of the repository" in why_full(place.run(NEXT, **OPTIMIZED))


def test_what_a_lakegc_of_another_format_saved_is_nothing_to_begin_from(
    read_only: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_information.Saved, "FORMATS", (99,))
    assert "is nothing to begin from" in why_full(read_only.run(NEXT, **OPTIMIZED))


def test_a_mark_that_did_not_pass_is_nothing_to_begin_from(place: HidingPlace) -> None:
    place.mark(BASE, **OPTIMIZED)
    refused = replace(
        place.run(15, max_expired_share=0.1, share_from_objects=1, **OPTIMIZED), full=True
    )
    assert not mark_and_conclude(refused)[1].passed
    chosen = chosen_by(place.run(NEXT, **OPTIMIZED))
    assert isinstance(chosen, Base)
    assert chosen.key == RunKey.at(NOW - timedelta(days=BASE))


def _forget(run: Run) -> None:
    run.store.delete([lakegc_keys.saved_key(run.key)])


def _damage_verdict(run: Run) -> None:
    run.store.put(lakegc_keys.verdict_key(run.key), b"{}")


def _prune(spec: TableSpec) -> Callable[[Run], None]:
    def prune(run: Run) -> None:
        parts = run.load(spec).manifest
        run.store.delete([part.key for part in (*parts.parts, *parts.beside)])

    return prune


def _take_away(spec: TableSpec) -> Callable[[Run], None]:
    def take_away(run: Run) -> None:
        run.store.delete([tables.manifest_key(spec, run.key)])

    return take_away


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        pytest.param(_forget, "_saved.json", id="what it saved"),
        pytest.param(_damage_verdict, "_verdict.json", id="its verdict"),
        *(
            pytest.param(_prune(spec), "its tables were pruned", id=f"files of {spec.name}")
            for spec in (
                tables.UNCOMMITTED_ADDRESSES,
                tables.RETAINED_COMMITS,
                tables.RETAINED_RANGES,
                tables.EXPIRED_ADDRESSES,
            )
        ),
        *(
            pytest.param(_take_away(spec), why, id=f"manifest of {spec.name}")
            for spec, why in (
                (tables.UNCOMMITTED_ADDRESSES, "uncommitted_addresses"),
                (tables.RETAINED_COMMITS, "retained_commits"),
                # That of the retained ranges lies in it.
                (tables.COMMITTED_ADDRESSES, "retained_ranges"),
            )
        ),
    ],
)
@pytest.mark.usefixtures("nothing_is_packed", "nothing_is_held")
def test_a_base_that_is_not_whole_is_nothing_to_begin_from(
    place: HidingPlace, happens: Callable[[Run], None], why: str
) -> None:
    place.upload(30, "staged", b"staged")
    run, _ = place.mark(BASE, **OPTIMIZED)
    happens(run)
    assert why in why_full(place.run(NEXT, **OPTIMIZED))


@pytest.mark.parametrize("most", [0, 2**24])
@pytest.mark.usefixtures("nothing_is_packed", "nothing_is_held")
def test_files_of_a_base_are_read_beforehand_only_if_they_are_few_bytes(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    place.upload(30, "staged", b"staged")
    place.mark(BASE, **OPTIMIZED)
    monkeypatch.setattr(bases, "LARGEST", 0)
    monkeypatch.setattr(bases, "LARGEST_READ_AGAIN", most)
    run = place.run(NEXT, **OPTIMIZED)
    before = run.store.requests.copy()
    assert not isinstance(chosen_by(run), Full)
    looked_for = (run.store.requests - before)["head"]
    assert looked_for == 0 if most else looked_for > 2


def test_a_base_whose_tables_lie_in_what_it_saved_needs_no_other_file(place: HidingPlace) -> None:
    place.upload(30, "staged", b"staged")
    run, _ = place.mark(BASE, **OPTIMIZED)
    for spec in (tables.UNCOMMITTED_ADDRESSES, tables.RETAINED_COMMITS):
        run.store.delete([part.key for part in run.load(spec).manifest.parts])
        _take_away(spec)(run)
    assert isinstance(chosen_by(place.run(NEXT, **OPTIMIZED)), Base)


@pytest.mark.parametrize("what", ["a table", "files of what may go"])
def test_a_table_that_is_not_the_one_that_the_verdict_names_is_nothing_to_begin_from(
    place: HidingPlace, what: str
) -> None:
    run, _ = place.mark(BASE, **OPTIMIZED)
    saved = saved_information.load(run.store, run.key)
    name = tables.RETAINED_COMMITS.name
    other = (
        replace(saved, tables={**saved.tables, name: "0" * 64})
        if what == "a table"
        else replace(saved, expired=())
    )
    verdict = verdicts.load(run)
    link = {**verdict.tables[tables.EXPIRED_ADDRESSES.name], "saved": other.digest}
    named = {**verdict.tables, tables.EXPIRED_ADDRESSES.name: link}
    run.store.put(lakegc_keys.saved_key(run.key), other.to_json())
    run.store.put(lakegc_keys.verdict_key(run.key), replace(verdict, tables=named).to_json())
    assert "it saved other tables than its verdict names" in why_full(place.run(NEXT, **OPTIMIZED))


@pytest.mark.parametrize(
    ("where", "limit", "why"),
    [
        (candidates, "MOST", "objects may have become garbage since run"),
        (committed, "_MOST_ENTRIES", "entries came since run"),
    ],
)
def test_where_too_much_changed_the_next_mark_reads_everything(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch, where: Any, limit: str, why: str
) -> None:
    place.mark(BASE, **OPTIMIZED)
    place.committed(15, "new", b"newer")
    with monkeypatch.context() as patch:
        patch.setattr(where, limit, 0)
        with pytest.raises(UnsafePlanError, match=why) as refusal:
            mark_only(place.run(NEXT, **OPTIMIZED))
    assert "--full" in str(refusal.value)
    assert "an optimized one, did not end" in why_full(place.run(9, **OPTIMIZED))


def test_where_more_is_not_staged_any_more_than_was_read_nothing_is_left_out(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All of it lies in a slice that is listed again.
    staged = [place.upload(BASE + 0.5, f"s/{number}", b"%d" % number) for number in range(5)]
    place.mark(BASE, **OPTIMIZED)
    with place.ago(15):
        objects.reset(place.core, place.name, "main", kind="reset")
    for address in staged:
        place.lose(address)
    monkeypatch.setattr(candidates, "MOST", 2)
    with pytest.raises(UnsafePlanError, match="more objects may have become garbage since run"):
        mark_only(place.run(NEXT, **OPTIMIZED))


def test_what_a_base_saved_must_not_change_while_a_mark_is_made_from_it(
    place: HidingPlace,
) -> None:
    first, _ = place.mark(BASE, **OPTIMIZED)
    run = place.run(NEXT, **OPTIMIZED)
    run.keep(mark.namespace_slices(run))
    saved = saved_information.load(first.store, first.key)
    changed = replace(saved, live_objects=saved.live_objects + 1)
    first.store.put(lakegc_keys.saved_key(first.key), changed.to_json())
    # Another process goes on with the mark.
    with pytest.raises(ChainError, match="was changed since run"):
        bases.of(place.run(NEXT, **OPTIMIZED))


@pytest.mark.usefixtures("nothing_is_packed")
def test_a_table_of_the_base_must_not_change_while_a_mark_is_made_from_it(
    place: HidingPlace,
) -> None:
    first, _ = place.mark(BASE, **OPTIMIZED)
    run = place.run(NEXT, **OPTIMIZED)
    run.keep(mark.namespace_slices(run))
    manifest = first.load(tables.RETAINED_COMMITS).manifest
    other = replace(manifest, attempt="0" * len(manifest.attempt))
    first.store.put(tables.manifest_key(tables.RETAINED_COMMITS, first.key), other.to_json())
    base = bases.of(place.run(NEXT, **OPTIMIZED))
    assert base is not None
    with pytest.raises(ChainError, match="was made again since"):
        base.table(tables.RETAINED_COMMITS)
