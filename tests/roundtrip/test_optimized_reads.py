"""What a mark with the index reads: what changed, each file once, and few requests."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from lakegc_dagster.sandbox import gc
from spark_core import lakegc_keys
from spark_core.mark_and_sweep import mark_and_conclude
from spark_core.records import tables
from spark_core.records.figures import CommittedFigures, ListedFigures
from spark_core.storage.local import LocalStore, listing
from tests.support.clean_beside import why_clean
from tests.support.hidden_entries import HidingPlace
from tests.support.pipeline import sweep_only

pytestmark = pytest.mark.spark

# Of a mark of a few objects, without the command line. Nothing here grows with the objects.
MOST_REQUESTS = 48


@pytest.fixture
def place(sandbox: Any, spark: Any) -> HidingPlace:
    place = HidingPlace(sandbox, spark)
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(10, {}))
    place.committed(50, "p", b"first")
    place.committed(40, "p", b"second")
    place.committed(30, "p", b"third")
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


def test_of_the_run_before_only_what_it_concluded_and_saved_is_read(
    place: HidingPlace, read_keys: Counter[str]
) -> None:
    before, marked = place.mark(15, optimized=True)
    assert marked.addresses(before)
    assert set(sweep_only(before).values()) == {"deleted"}
    place.committed(12, "q", b"new")
    read_keys.clear()
    run, marked = place.mark(5, optimized=True)
    assert not why_clean(marked)
    assert not marked.addresses(run)
    of_it = {key: times for key, times in read_keys.items() if f"run_id={before.key}/" in key}
    names = {key.rpartition("gc/")[2].replace(f"run_id={before.key}/", "") for key in of_it}
    assert {name.partition("-")[0] for name in names} == {
        "addresses/_verdict.json",
        "uncommitted/_saved.json",
        # What was deleted, and which commits were there.
        "reports/_manifest.json",
        "reports/part",
        "commits/_manifest.json",
    }
    assert set(of_it.values()) == {1}


@pytest.mark.slow
def test_a_mark_with_the_index_asks_the_store_seldom_and_for_nothing_twice(
    place: HidingPlace, read_keys: Counter[str]
) -> None:
    before, _ = place.mark(15, optimized=True)
    sweep_only(before)
    place.committed(12, "q", b"new")
    read_keys.clear()
    run = place.run(5, optimized=True, max_expired_share=1, max_missing_share=1)
    assert mark_and_conclude(run, lambda _: None).verdict.passed
    assert ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).index is not None
    assert run.store.requests.total() <= MOST_REQUESTS
    assert set(read_keys.values()) == {1}


@pytest.mark.slow
def test_only_new_ranges_are_read_and_only_open_slices_are_listed(
    place: HidingPlace, read_keys: Counter[str]
) -> None:
    place.mark(15, optimized=True)
    place.committed(12, "q", b"new")
    read_keys.clear()
    _, marked = place.mark_as_a_clean_one(5)
    listed = ListedFigures.of(marked.tables.slices.manifest)
    assert listed.index is not None
    assert (listed.objects, listed.index.objects) == (4, 3)
    assert listed.index.slices == 3
    read = CommittedFigures.of(marked.tables.committed.manifest)
    assert (read.taken.ranges, read.taken.head_ranges) == (1, 1)
    assert (read.ranges, read.ranges_read) == (2, 1)
    # Its own files have what it read; the others are the index's.
    own = [part for part in marked.tables.slices.manifest.parts if _is_own(part.key)]
    assert sum(part.rows for part in own) == 1
    assert sum(part.rows for part in marked.tables.slices.manifest.parts) == 4


def test_what_is_taken_from_the_index_has_the_class_that_it_was_listed_with(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = listing._batch

    def in_class(name: str) -> None:
        def classed(*columns: Any) -> pa.RecordBatch:
            rows = batch(*columns)
            names = pa.array([name] * rows.num_rows, pa.string())
            return pa.record_batch([*rows.columns[:-1], names], schema=rows.schema)

        monkeypatch.setattr(listing, "_batch", classed)

    in_class("COLD")
    place.mark(15, optimized=True)
    in_class("WARM")
    place.committed(12, "q", b"new")
    _, marked = place.mark(5, optimized=True)
    listed = ListedFigures.of(marked.tables.slices.manifest)
    assert listed.index is not None
    assert listed.by_class == {
        "COLD": listed.index.bytes,
        "WARM": listed.object_bytes - listed.index.bytes,
    }


def _is_own(key: str) -> bool:
    return not key.startswith(lakegc_keys.INDEX)
