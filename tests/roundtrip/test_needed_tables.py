"""A table of the server that cannot be read is named with those who need it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lakegc_dagster.sandbox import gc, refs
from spark_core import graveler, sweep
from spark_core.errors import CorruptTableError, NotFoundError
from tests.support.hidden_entries import HidingPlace
from tests.support.pipeline import mark_only

pytestmark = pytest.mark.spark


@pytest.fixture
def place(sandbox: Any, spark: Any) -> HidingPlace:
    place = HidingPlace(sandbox, spark)
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(10, {}))
    return place


def head_of(place: HidingPlace, branch: str = "main") -> str:
    with place.core.lock:
        return str(place.core.branch(place.core.repository(place.name), branch).commit_id)


def range_of(place: HidingPlace, commit: str, at: int = 0) -> str:
    """Return the key of one of a commit's ranges."""
    key = place.metarange(commit)
    found = graveler.read_metarange(place.file(key).read_bytes(), name=key)
    return f"_lakefs/{found.column('range_id')[at].as_py()}"


def test_a_missing_metarange_names_its_commit_its_branches_and_the_way_out(
    place: HidingPlace,
) -> None:
    place.committed(30, "p", b"old")
    place.committed(8, "q", b"new")
    for name in ("a", "b", "c"):
        place.branch(7, name)
    commit = head_of(place)
    place.lose(place.metarange(commit))
    with pytest.raises(NotFoundError) as refusal:
        mark_only(place.run())
    said = str(refusal.value)
    assert place.metarange(commit) in said
    assert (
        f"It is the metarange of 1 retained commit: {commit[:12]} (head of a, b, c and 1 more, "
        "made 2026-11-12)"
    ) in said
    assert f"`lakectl show commit lakefs://repo/{commit}`" in said
    assert "Bring back a version of the file in the store" in said
    assert "as long as this commit is kept (head of a, b, c and 1 more)" in said
    assert "retained until" not in said


def test_a_missing_range_names_the_first_commits_how_many_need_it_and_until_when(
    place: HidingPlace,
) -> None:
    for number in range(5):
        place.committed(8 - number, "p", f"{number}".encode())
    place.branch(3.9, "dev")
    place.committed(3, "p", b"0", branch="dev")
    first = range_of(place, head_of(place))
    place.committed(2, "p", b"last")
    place.lose(first)
    with pytest.raises(NotFoundError) as refusal:
        mark_only(place.run())
    said = str(refusal.value)
    assert first in said
    assert "It is a range of 1 retained commit" in said
    assert (
        "By the rules as they are, the last of these commits is retained until 2026-11-28" in said
    )


def test_of_many_commits_the_first_are_named_and_the_others_counted(place: HidingPlace) -> None:
    place.committed(8, "p", b"old")
    for days in (7, 6, 5, 4):
        place.commit(days, allow_empty=True)
    with place.ago(3):
        refs.create_tag(place.core, place.name, "v1", f"{head_of(place)}~2")
    place.lose(range_of(place, head_of(place)))
    with pytest.raises(NotFoundError) as refusal:
        mark_only(place.run())
    assert re.search(
        r"It is a range of 5 retained commits: \w+ \(head of main, made 2026-11-16\), "
        r"\w+ \(tag v1, made 2026-11-14\), \w+ \(main: within 10 days, made 2026-11-\d+\) and 2 "
        r"more\. The oldest was made 2026-11-12\. Bring back",
        str(refusal.value),
    )


def test_a_damaged_range_is_named_so_too(place: HidingPlace) -> None:
    place.committed(8, "p", b"old")
    key = range_of(place, head_of(place))
    place.file(key).write_bytes(b"no range")
    with pytest.raises(CorruptTableError, match="It is a range of 1 retained commit") as refusal:
        mark_only(place.run())
    assert refusal.value.name == key


def test_a_sweep_says_so_too(place: HidingPlace) -> None:
    place.upload(20, "p", b"dropped")
    place.upload(20, "p", b"again")
    place.commit(20)
    run, _ = place.mark(10)
    place.committed(9, "q", b"came since")
    place.lose(place.metarange(head_of(place)))
    with pytest.raises(NotFoundError, match=r"It is the metarange of 1 retained commit: .*main"):
        sweep.sweep(run)
