"""What an optimized mark reads of its base: each small file once, and no rows that say nothing."""

from collections import Counter
from typing import Any

import pytest

from lakegc_dagster.sandbox import gc
from spark_core.mark_and_sweep import mark_and_conclude
from spark_core.records import tables
from spark_core.records.figures import CommittedFigures, ListedFigures
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
    base, marked = place.mark(15, optimized=True)
    assert marked.addresses(base)
    assert set(sweep_only(base).values()) == {"deleted"}
    place.committed(12, "q", b"new")
    read_keys.clear()
    run, marked = place.mark(5, optimized=True)
    begun = ListedFigures.of(marked.tables.slices.manifest).base
    assert begun is not None
    assert begun.run == str(base.key)
    change = CommittedFigures.of(marked.tables.committed.manifest).change
    assert change is not None
    assert change.carried == 0
    of_base = {key: times for key, times in read_keys.items() if f"run_id={base.key}/" in key}
    names = {key.rpartition("gc/")[2].replace(f"run_id={base.key}/", "") for key in of_base}
    assert {name for name in names if "/_sketches-" not in name} == {
        "addresses/_verdict.json",
        "uncommitted/_saved.json",
        "reports/_manifest.json",
    }
    assert len(names) == 4
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
    base, marked = place.mark(15, optimized=True)
    left = marked.addresses(base)
    assert left
    run, marked = place.mark(5, optimized=True)
    change = CommittedFigures.of(marked.tables.committed.manifest).change
    assert change is not None
    assert change.carried == len(left)
    assert set(marked.addresses(run)) >= set(left)
