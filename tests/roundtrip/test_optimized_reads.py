"""What an optimized mark reads of its base: each small file once, and no rows that say nothing."""

from collections import Counter
from typing import Any

import pytest

from lakegc_dagster.sandbox import gc
from spark_core.records.figures import CommittedFigures, ListedFigures
from spark_core.storage.local import LocalStore
from tests.support.hidden_entries import HidingPlace
from tests.support.pipeline import sweep_only

pytestmark = pytest.mark.spark


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
