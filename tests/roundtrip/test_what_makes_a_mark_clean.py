"""Whatever is in doubt about the index makes the next mark a clean one, which says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox, gc, objects
from spark_core import lakegc_keys
from spark_core.index.choosing import Clean, Index, choose
from spark_core.lakefs import NoSuchCallError
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.references.policies import versions
from spark_core.references.policies.document import Policy
from spark_core.run import Run
from spark_core.spark import placement
from tests.support import index_files
from tests.support.hidden_entries import NOW, HidingPlace
from tests.support.pipeline import mark_and_conclude
from tests.support.told_repository import rule

pytestmark = pytest.mark.spark

OPTIMIZED: dict[str, Any] = {"optimized": True}
# Days ago that the index was saved, and that the next mark stands for.
SAVED, NEXT = 20, 10


def place_on(sandbox: Sandbox, spark: Any) -> HidingPlace:
    place = HidingPlace(sandbox, spark)
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(10, {}))
    place.committed(50, "p", b"first")
    place.committed(40, "p", b"second")
    place.upload(30, "staged", b"staged")
    return place


@pytest.fixture(scope="module")
def read_only(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HidingPlace]:
    """A repository with an index, of which tests only ask what the next run would do."""
    with Sandbox(tmp_path_factory.mktemp("clean")) as sandbox:
        place = place_on(sandbox, spark)
        place.mark(SAVED, **OPTIMIZED)
        yield place


@pytest.fixture
def place(sandbox: Sandbox, spark: Any) -> HidingPlace:
    return place_on(sandbox, spark)


def chosen_by(run: Run) -> Index | Clean:
    run.begin(tables.NAMESPACE_SLICES)
    return choose(run)


def why_clean(run: Run) -> str:
    chosen = chosen_by(run)
    assert isinstance(chosen, Clean)
    return chosen.why


# What is no reason


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="nothing", marks=pytest.mark.slow),
        pytest.param({"policies": "mark"}, id="policies"),
        pytest.param({"flat": True}, id="flat"),
        pytest.param({"keep_runs": 1}, id="keep_runs", marks=pytest.mark.slow),
        pytest.param({"max_expired_share": 0.5}, id="max_expired_share", marks=pytest.mark.slow),
    ],
)
def test_where_nothing_is_in_doubt_a_mark_takes_from_the_index(
    sandbox: Sandbox, spark: Any, options: dict[str, Any]
) -> None:
    place = place_on(sandbox, spark)
    place.mark(SAVED, **OPTIMIZED, **options)
    place.mark_as_a_clean_one(NEXT, **options)


def test_the_index_is_that_of_the_last_mark_that_passed(read_only: HidingPlace) -> None:
    chosen = chosen_by(read_only.run(NEXT, **OPTIMIZED))
    assert isinstance(chosen, Index)
    assert chosen.saved.run == str(RunKey.at(NOW - timedelta(days=SAVED)))


@pytest.mark.slow
def test_refs_that_can_only_be_walked_make_no_difference(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_dump(*_: object) -> None:
        raise NoSuchCallError("no such call")

    monkeypatch.setattr("spark_core.lakefs.LakeFSServer.dump_refs", no_dump)
    place.mark(SAVED, **OPTIMIZED)
    place.mark_as_a_clean_one(NEXT)


@pytest.mark.slow
def test_executors_find_with_the_index_what_the_driver_finds(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.mark(SAVED, **OPTIMIZED)
    place.committed(15, "new", b"newer")
    dead = place.upload(14, "dropped", b"dropped")
    with place.ago(13):
        objects.reset(place.core, place.name, "main", kind="reset")
    run, marked = place.mark_as_a_clean_one(NEXT)
    here = marked.addresses(run)
    assert dead in here
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    run, marked = place.mark_as_a_clean_one(NEXT - 1)
    assert marked.addresses(run) == here


@pytest.mark.slow
@pytest.mark.parametrize(
    "action",
    [
        "all",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("noncurrent", "uncommitted")),
    ],
)
def test_what_a_policy_names_with_the_index_is_what_a_clean_run_names(
    sandbox: Sandbox, spark: Any, action: str
) -> None:
    place = HidingPlace(sandbox, spark)
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(40, {}))
    place.committed(50, "logs/a", b"first")
    place.committed(45, "logs/a", b"second")
    place.upload(44, "logs/b", b"staged")
    versions.store_version(
        place.run(42), Policy((rule("main/logs/", 3, action),), ("main",)), who="test"
    )
    place.mark(SAVED, policies="mark", **OPTIMIZED)
    place.mark_as_a_clean_one(SAVED - 2, policies="mark")
    place.committed(15, "logs/c", b"third")
    place.mark_as_a_clean_one(NEXT, policies="mark")


# What is


def test_a_clean_run_may_be_asked_for(read_only: HidingPlace) -> None:
    asked = replace(read_only.run(NEXT, **OPTIMIZED), full=True)
    assert "was asked for" in why_clean(asked)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"min_age": timedelta(days=2)}, "other options decided: min_age"),
        ({"tags_protect": False}, "other options decided: tags_protect was True"),
        ({"full_every": 1}, "each of 1 marks reads everything (full_every)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options_may_need_everything_to_be_read(
    read_only: HidingPlace, options: dict[str, Any], why: str
) -> None:
    assert why in why_clean(read_only.run(NEXT, **{**OPTIMIZED, **options}))


@pytest.mark.slow
def test_each_so_many_marks_one_is_clean(place: HidingPlace) -> None:
    chosen = {"full_every": 3, **OPTIMIZED}
    for days in (20, 19, 18):
        place.mark(days, **chosen)
    assert why_clean(place.run(17, **chosen)) == "each of 3 marks reads everything (full_every)"
    place.mark(17, **chosen)
    assert isinstance(chosen_by(place.run(16, **chosen)), Index)


def _forget(run: Run) -> None:
    run.store.delete([lakegc_keys.saved_key(run.key)])


def _damage_verdict(run: Run) -> None:
    run.store.put(lakegc_keys.verdict_key(run.key), b"{}")


def _lose(kind: str) -> Callable[[Run], None]:
    def lose(run: Run) -> None:
        run.store.delete([part.key for part in index_files.parts_of(run, kind)])

    return lose


def _cut(kind: str) -> Callable[[Run], None]:
    def cut(run: Run) -> None:
        for part in index_files.parts_of(run, kind):
            run.store.put(part.key, run.store.read(part.key)[:-1])

    return cut


@pytest.mark.slow
@pytest.mark.parametrize(
    ("happens", "why"),
    [
        pytest.param(_forget, "_saved.json", id="what it saved"),
        pytest.param(_damage_verdict, "_verdict.json", id="its verdict"),
        *(
            pytest.param(happens(kind), f"{kind}-", id=f"{happens.__name__} {kind}")
            for happens in (_lose, _cut)
            for kind in index_files.KINDS
        ),
    ],
)
@pytest.mark.usefixtures("nothing_is_held")
def test_an_index_that_is_not_whole_is_a_miss(
    place: HidingPlace, happens: Callable[[Run], None], why: str
) -> None:
    run, _ = place.mark(SAVED, **OPTIMIZED)
    happens(run)
    assert why in why_clean(place.run(NEXT, **OPTIMIZED))


@pytest.mark.slow
def test_tables_of_the_last_run_are_not_needed(place: HidingPlace) -> None:
    run, _ = place.mark(SAVED, **OPTIMIZED)
    for spec in (*tables.MARK_TABLES, *tables.OPTIONAL_TABLES):
        folder = tables.folder(spec, run.key)
        keys = [key for batch in run.store.list(folder) for key in batch["key"].to_pylist()]
        run.store.delete([key for key in keys if key.endswith(".parquet")])
    place.mark_as_a_clean_one(NEXT)


def test_a_mark_that_did_not_pass_saved_nothing_for_others(place: HidingPlace) -> None:
    place.mark(SAVED, **OPTIMIZED)
    refused = place.run(15, max_expired_share=0.1, share_from_objects=1, **OPTIMIZED)
    assert not mark_and_conclude(replace(refused, full=True))[1].passed
    chosen = chosen_by(place.run(NEXT, **OPTIMIZED))
    assert isinstance(chosen, Index)
    assert chosen.saved.run == str(RunKey.at(NOW - timedelta(days=SAVED)))
