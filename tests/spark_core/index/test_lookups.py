"""Single objects are found in the store as a listing shows them: each once, by few pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from spark_core.index.lookups import look_up
from spark_core.run import Run
from tests.support.paged_store import PagedStore
from tests.support.written_run import written_run

SLICE = "data/gqv3epl4fd2o8m3men70"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return written_run(tmp_path, spark=None).run


def found(run: Run, store: PagedStore, *wanted: str) -> list[str]:
    names: list[str] = look_up(replace(run, store=store), wanted)["key"].to_pylist()
    return names


def test_the_last_name_of_a_page_is_found_once_though_the_next_begins_alike(run: Run) -> None:
    """As names do that a server gives in one second: the last letter of them is 0 or g."""
    store = PagedStore([f"{SLICE}/{name}" for name in ("a0", "ag", "b0", "bg", "c0")], size=3)
    wanted = [f"{SLICE}/a0", f"{SLICE}/b0", f"{SLICE}/bg"]
    assert found(run, store, *wanted) == wanted
    assert store.requests["list"] == 2


def test_pages_without_a_wanted_name_are_passed_over(run: Run) -> None:
    names = [f"{SLICE}/{number:03}" for number in range(100)]
    store = PagedStore(names, size=10)
    wanted = [names[0], names[1], names[75]]
    assert found(run, store, *wanted, f"{SLICE}/0755", "data/gqv3epl4fd2o8m3men7g/a") == wanted
    assert store.requests["list"] == 3


@pytest.mark.parametrize("honours", [True, False], ids=["", "a store that begins anew"])
def test_whatever_the_pages_each_object_is_found_once(run: Run, *, honours: bool) -> None:
    chance = Random(7)
    for _ in range(25):
        names = {"".join(chance.choices("0gv", k=chance.randint(1, 4))) for _ in range(25)}
        there = sorted(f"{SLICE}/{name}" for name in names)
        store = PagedStore(there, size=chance.randint(1, 5))
        if not honours:
            store.pages = lambda prefix, after="", pages=store.pages: pages(prefix)  # type: ignore[method-assign]
        wanted = chance.sample(there, chance.randint(1, len(there)))
        pages = -(-len(there) // store.size)
        assert found(run, store, *wanted, f"{SLICE}/gone") == sorted(wanted)
        assert not honours or store.requests["list"] <= pages + 1
