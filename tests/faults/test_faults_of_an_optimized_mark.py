"""When a call of an optimized mark fails, or what its base saved is damaged, nothing alive goes."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core import lakegc_keys
from spark_core.errors import LakegcError
from spark_core.model import RunKey
from spark_core.records import tables, writing
from spark_core.records.figures import ListedFigures
from spark_core.run import Run
from tests.support.damage import damages
from tests.support.fault_world import (
    FRESH,
    NOW,
    FaultWorld,
    mark_command,
    points,
    rotated,
    sweep_command,
    try_all,
)

pytestmark = pytest.mark.spark

BASE = RunKey.at(NOW - timedelta(seconds=1))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(0, id="large"),
        pytest.param(writing.HELD_BYTES, id="small", marks=pytest.mark.deep),
    ],
)
def world(request, spark, tmp_path_factory):
    """Build it once; a base was marked before the state that every point begins with.

    As in a large repository each file is stored, so that it can be damaged, and writing it fail; or
    small ones lie in manifests.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "HELD_BYTES", request.param)
        with Sandbox(tmp_path_factory.mktemp("failing")) as sandbox:
            yield FaultWorld(sandbox, spark, tmp_path_factory.mktemp("aside"), has_base=True)


def _base_of(run: Run) -> str | None:
    base = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).base
    return None if base is None else base.run


def test_an_optimized_mark_that_fails_at_some_call_is_finished_by_another(world, record_property):
    world.put_back(FRESH)
    world.faults.arm(0, "")
    mark_command(world.open())
    assert _base_of(world.open()) == str(BASE)
    try_all(world, FRESH, mark_command, rotated(world.mark_calls, 4), record_property)


@pytest.mark.deep
@pytest.mark.timeout(2 * 3_600)
def test_an_optimized_mark_that_fails_at_any_call_is_finished_by_another(world, record_property):
    try_all(world, FRESH, mark_command, points(world.mark_calls), record_property)


def test_damage_of_what_a_base_saved_ends_in_a_full_mark_or_a_refusal(world, record_property):
    chosen = [name for name in _saved_files(world) if "_saved.json" in name or "_sketches" in name]
    assert len(chosen) >= (1 if writing.HELD_BYTES else 2)
    _damage(world, chosen, 1, record_property)


@pytest.mark.deep
@pytest.mark.timeout(3_600)
def test_any_damage_of_what_a_base_saved_ends_in_a_full_mark_or_a_refusal(world, record_property):
    files = _saved_files(world)
    assert len(files) >= (4 if writing.HELD_BYTES else 6)
    _damage(world, files, 40, record_property)


def _damage(world, files, number, record_property):
    """Damage each file in so many ways, and take it away; nothing alive may go then."""
    results: Counter[str] = Counter()
    for name in files:
        content = (world.folder / FRESH / name).read_bytes()
        chosen = damages(content, number, seed=random.Random(name).randrange(10**6))
        for damaged in [*chosen, None]:
            world.put_back(FRESH)
            world.opened = world._built_until
            world.faults.arm(0, "")
            file = world.root / name
            if damaged is None:
                file.unlink()
            else:
                file.write_bytes(damaged.data)
            results[_outcome(world, name)] += 1
    assert results["full"]
    record_property("figures", f"damage of what a base saved: {dict(results)}")


def _outcome(world: FaultWorld, name: str) -> str:
    """Mark and sweep after damage, and say how it ended."""
    try:
        mark_command(world.open())
    except LakegcError:
        return "refused"
    kind = "full" if _base_of(world.open()) is None else "not needed"
    sweep_command(world.open())
    found = world.repository.objects()
    assert all(found.get(address) == data for address, data in world.end.items()), name
    return kind


def _saved_files(world: FaultWorld) -> list[str]:
    """Return the files of the base that an optimized mark reads: keys in the namespace."""
    folders = (
        lakegc_keys.of_run(kind, BASE)
        for kind in (
            lakegc_keys.UNCOMMITTED,
            lakegc_keys.COMMITS,
            lakegc_keys.RANGES,
            lakegc_keys.ADDRESSES,
        )
    )
    found = []
    for folder in folders:
        where = world.folder / FRESH / folder
        if where.is_dir():
            found += [f"{folder}{path.name}" for path in where.iterdir() if path.is_file()]
    return sorted(name for name in found if "_report." not in name)
