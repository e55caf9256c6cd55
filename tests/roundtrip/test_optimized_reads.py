"""What an optimized mark reads of its base: each small file once, and no rows that say nothing."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakegc_dagster.sandbox import gc
from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.mark.committed import RangesWritten, Targets, write_all
from spark_core.mark.since_base import committed as since_base
from spark_core.mark_and_sweep import mark_and_conclude
from spark_core.optimized import base, candidates
from spark_core.records import reading, tables, writing
from spark_core.records.figures import CommittedFigures, ListedFigures
from spark_core.records.manifest import Part
from spark_core.records.writing import Receipt
from spark_core.references.ranges import TableReader
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.storage.local import LocalStore
from tests.support.hidden_entries import HidingPlace
from tests.support.pipeline import sweep_only

pytestmark = pytest.mark.spark

# Of a mark of a few objects, without the command line. Nothing here grows with the objects.
MOST_REQUESTS = 43


@pytest.fixture
def place(sandbox: Any, spark: Any) -> HidingPlace:
    place = HidingPlace(sandbox, spark)
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(10, {}))
    return place


@pytest.fixture
def read_keys(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Keys that were read of stores in this process."""
    found: Counter[str] = Counter()
    read = LocalStore.read

    def noted(self: LocalStore, key: str) -> bytes:
        found[key] += 1
        return read(self, key)

    monkeypatch.setattr(LocalStore, "read", noted)
    return found


def test_a_base_is_read_once_and_its_report_only_where_something_was_left(
    place: HidingPlace, read_keys: Counter[str]
) -> None:
    place.committed(50, "p", b"first")
    place.committed(40, "p", b"second")
    place.committed(30, "p", b"third")
    before, marked = place.mark(15, optimized=True)
    assert marked.addresses(before)
    assert set(sweep_only(before).values()) == {"deleted"}
    place.committed(12, "q", b"new")
    read_keys.clear()
    run, marked = place.mark(5, optimized=True)
    begun = ListedFigures.of(marked.tables.slices.manifest).base
    assert begun is not None
    assert begun.run == str(before.key)
    change = CommittedFigures.of(marked.tables.committed.manifest).change
    assert change is not None
    assert change.carried == 0
    of_base = {key: times for key, times in read_keys.items() if f"run_id={before.key}/" in key}
    names = {key.rpartition("gc/")[2].replace(f"run_id={before.key}/", "") for key in of_base}
    # Small sketches lie in what it saved.
    assert names == {
        "addresses/_verdict.json",
        "uncommitted/_saved.json",
        "reports/_manifest.json",
    }
    assert set(of_base.values()) == {1}
    assert not marked.addresses(run)


def test_an_optimized_mark_asks_the_store_seldom_and_for_nothing_twice(
    place: HidingPlace, read_keys: Counter[str]
) -> None:
    place.committed(50, "p", b"first")
    place.committed(40, "p", b"second")
    place.committed(30, "p", b"third")
    base, _ = place.mark(15, optimized=True)
    sweep_only(base)
    place.committed(12, "q", b"new")
    read_keys.clear()
    run = place.run(5, optimized=True, max_expired_share=1, max_missing_share=1)
    assert mark_and_conclude(run, lambda _: None).passed
    assert ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).base is not None
    assert run.store.requests.total() <= MOST_REQUESTS
    assert set(read_keys.values()) == {1}


def test_what_a_sweep_left_is_a_candidate_of_the_next_mark(place: HidingPlace) -> None:
    place.committed(50, "p", b"first")
    place.committed(40, "p", b"second")
    place.committed(30, "p", b"third")
    before, marked = place.mark(15, optimized=True)
    left = marked.addresses(before)
    assert left
    run, marked = place.mark(5, optimized=True)
    change = CommittedFigures.of(marked.tables.committed.manifest).change
    assert change is not None
    assert change.carried == len(left)
    assert set(marked.addresses(run)) >= set(left)


def test_the_driver_finds_what_spark_finds_that_is_not_staged_any_more(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.committed(50, "p", b"first")
    dropped = [place.upload(20, f"dropped/{number}", b"%d" % number) for number in range(5)]
    stays = place.upload(20, "stays", b"stays")
    place.mark(15, optimized=True)
    for number in range(5):
        place.upload(10, f"dropped/{number}", b"over it")
    run, marked = place.mark(5, optimized=True)
    assert set(dropped) <= set(marked.addresses(run))
    begun_from = base.of(run)
    assert begun_from is not None
    now = run.load(tables.UNCOMMITTED_ADDRESSES)
    asked = np.unique(hashed(pa.array([*dropped, stays])).to_numpy())
    here = candidates._unstaged(run, begun_from, now, asked)
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    there = candidates._unstaged(run, begun_from, now, asked)
    found = [one.left["address"].to_pylist() for one in (here, there)]
    assert sorted(found[0]) == sorted(found[1]) == sorted(dropped)
    staged = hashed(pa.array([stays])).to_pylist()
    assert here.staged.tolist() == there.staged.tolist() == staged


def test_sketches_lie_in_manifests_until_these_would_grow(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(since_base, "_MOST_HELD_SKETCHES", 1)
    place.committed(60, "p")
    place.mark(15, optimized=True)
    held = []
    for days in (9, 6):
        place.committed(days + 1, f"q{days}", b"new" * days)
        run, marked = place.mark(days, optimized=True)
        assert ListedFigures.of(marked.tables.slices.manifest).base is not None
        held.append([bool(part.content) for part in _sketches(run)])
    # Those of the base stay held, and what comes is stored.
    assert held == [[True, False], [True, False, False]]


def _sketches(run: Run) -> Sequence[Part]:
    parts = run.load(tables.RETAINED_RANGES).manifest.beside
    return sorted(parts, key=lambda part: not part.content)


@pytest.mark.parametrize("most", [0, 1_500, 2**22])
def test_an_optimized_mark_writes_what_the_driver_held_as_one_file(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    for number in range(6):
        place.committed(60 - number, f"p{number}", b"x" * (number + 1))
    place.mark(15, optimized=True)
    for number in range(5):
        place.committed(12 - number, f"q{number}", b"new" * (number + 1))
    monkeypatch.setattr(since_base, "write_all", _write_each_by_itself)
    monkeypatch.setattr(since_base, "_HELD_BYTES", most)
    stored, read = since_base._Reading._stored, list[list[dict[str, object]]]()

    def compared(self: since_base._Reading) -> list[Receipt]:
        found = stored(self)
        for parts in (self._parts(), writing.parts_of(found)):
            schema = schemas.COMMITTED_ADDRESSES
            rows = [row for part in parts for row in _rows(self.run, part, schema)]
            read.append(sorted(rows, key=str))
        return found

    monkeypatch.setattr(since_base._Reading, "_stored", compared)
    run, marked = place.mark(5, optimized=True)
    committed = marked.tables.committed.manifest
    assert read[0] == read[1]
    assert len(read[0]) == committed.rows == committed.facts["addresses"]
    folder = tables.folder(tables.COMMITTED_ADDRESSES, run.key)
    lying = {key for batch in run.store.list(folder) for key in batch.column("key").to_pylist()}
    assert {part.key for part in committed.parts} <= lying
    assert not any(part.content for part in committed.parts)
    assert (len(committed.parts) == 1) is (most == 2**22)


def _write_each_by_itself(
    run: Run, reader: TableReader, targets: Targets, some: pa.Table
) -> Sequence[RangesWritten]:
    """Make a file of each range, as of those that are read one after the other."""
    ranges = [some.slice(number, 1) for number in range(some.num_rows)]
    return [each for one in ranges for each in write_all(run, reader, targets, one)]


def _rows(run: Run, part: Part, schema: pa.Schema) -> list[dict[str, object]]:
    found = reading.read_part(run.store, schema, part)
    return [row for batch in found for row in batch.to_pylist()]
