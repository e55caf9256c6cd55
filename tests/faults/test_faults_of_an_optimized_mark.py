"""When a call of a mark with the index fails, or a file of the index is damaged, nothing alive goes
and nothing else is found than a clean mark finds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core import lakegc_keys
from spark_core.errors import LakegcError
from spark_core.model import RunKey
from spark_core.records import writing
from tests.support import index_files
from tests.support.clean_beside import Found, require_alike, was_clean, why_clean
from tests.support.damage import Damaged, damages
from tests.support.fault_world import (
    FRESH,
    INDEXED,
    NOW,
    FaultWorld,
    mark_command,
    points,
    rotated,
    try_all,
)
from tests.support.pipeline import mark_and_conclude

pytestmark = pytest.mark.spark

LAST = RunKey.at(INDEXED[-1])
KINDS = (*index_files.KINDS, "gone")


@pytest.fixture(scope="module")
def world(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultWorld]:
    """Build it once: two marks saved something before the state that every point begins with.

    As in a large repository each file is stored, so that it can be damaged, and writing it fail.
    """
    with pytest.MonkeyPatch.context() as patch, Sandbox(tmp_path_factory.mktemp("s")) as sandbox:
        patch.setattr(writing, "HELD_BYTES", 0)
        yield FaultWorld(sandbox, spark, tmp_path_factory.mktemp("aside"), has_index=True)


@pytest.fixture(scope="module")
def clean(world: FaultWorld) -> Found:
    """What a clean mark finds in that state; the mark with the index finds the same."""
    begin_anew(world)
    run = world.open()
    with_index = mark_and_conclude(run)
    assert not why_clean(with_index[0])
    found = Found.of(run, with_index)
    begin_anew(world)
    (world.root / lakegc_keys.saved_key(LAST)).unlink()
    run = world.open()
    clean = mark_and_conclude(run)
    assert was_clean(clean[0])
    require_alike(found, Found.of(run, clean))
    return found


def begin_anew(world: FaultWorld) -> None:
    world.put_back(FRESH)
    world.opened = world.built_until
    world.faults.arm(0, "")


@pytest.mark.slow
@pytest.mark.usefixtures("clean")
def test_a_mark_that_fails_at_some_call_is_finished_by_another(
    world: FaultWorld, record_property: Any
) -> None:
    try_all(world, FRESH, mark_command, rotated(world.mark_calls, 4), record_property)


@pytest.mark.deep
@pytest.mark.timeout(2 * 3_600)
def test_a_mark_that_fails_at_any_call_is_finished_by_another(
    world: FaultWorld, record_property: Any
) -> None:
    try_all(world, FRESH, mark_command, points(world.mark_calls), record_property)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "saved",
        "entries",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "entries"),
    ],
)
def test_damage_of_the_index_is_a_miss_or_a_refusal_by_name(
    world: FaultWorld, clean: Found, kind: str, record_property: Any
) -> None:
    _damage(world, clean, _files(world, kind)[-1:], 1, record_property)


@pytest.mark.deep
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", ["saved", *KINDS])
def test_any_damage_of_the_index_is_a_miss_or_a_refusal_by_name(
    world: FaultWorld, clean: Found, kind: str, record_property: Any
) -> None:
    _damage(world, clean, _files(world, kind), 40, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("kind", index_files.KINDS)
def test_files_of_the_index_in_each_other_s_place_are_a_miss_or_a_refusal_by_name(
    world: FaultWorld, clean: Found, kind: str
) -> None:
    begin_anew(world)
    names = _files(world, kind)
    assert len(names) > 1
    one, other = (world.root / name for name in names[:2])
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    assert _outcome(world, clean, names[:2]) in {"clean", "refused"}


def _files(world: FaultWorld, kind: str) -> list[str]:
    """Return the files of a kind that the mark takes from: keys in the namespace."""
    if kind == "saved":
        return [lakegc_keys.saved_key(LAST)]
    begin_anew(world)
    found = index_files.parts_of(world.open(INDEXED[-1]), kind)
    assert found, kind
    return [part.key for part in found]


def _damage(
    world: FaultWorld, clean: Found, files: list[str], number: int, record_property: Any
) -> None:
    """Damage each file in so many ways, cut it short, and take it away."""
    results: Counter[str] = Counter()
    for name in files:
        content = (world.folder / FRESH / name).read_bytes()
        seed = random.Random(name).randrange(10**6)
        cut = Damaged("cut", content[:-1])
        for damaged in [*damages(content, number, seed=seed), cut, None]:
            begin_anew(world)
            file: Path = world.root / name
            if damaged is None:
                file.unlink()
            else:
                file.write_bytes(damaged.data)
            results[_outcome(world, clean, [name])] += 1
    assert results["clean"]
    record_property("figures", f"damage of the index: {dict(results)}")


def _outcome(world: FaultWorld, clean: Found, names: list[str]) -> str:
    """Mark after damage, compare with a clean mark, and say how it ended."""
    run = world.open()
    try:
        concluded = mark_and_conclude(run)
    except LakegcError as refused:
        words = str(refused)
        assert any(name.rpartition("/")[2] in words for name in names), words
        again = world.open(NOW.replace(second=1))
        assert was_clean(mark_and_conclude(again)[0])
        return "refused"
    require_alike(Found.of(run, concluded), clean)
    return "clean" if was_clean(concluded[0]) else "not needed"
