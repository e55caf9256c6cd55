"""The audit's check fails for what is lost alone; what else a clean run found it says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_core.checks.audit import optimized_runs_were_right
from spark_core.records.figures import (
    AuditFigures,
    ComparedFigures,
    ExpiredFigures,
    IndexFigures,
    ListedFigures,
)
from tests.support.figures import manifest_of

RUN: Any = SimpleNamespace(repository=SimpleNamespace(id="repo"), key="2026-11-20T02-00-00Z")


def found(listed: dict[str, Any] | None = None, **expired: Any) -> Any:
    facts = {name: one.facts() for name, one in expired.items()}
    return optimized_runs_were_right(
        RUN,
        {
            "namespace_slices": manifest_of(ListedFigures, **(listed or {})),
            "expired_addresses": manifest_of(ExpiredFigures, **facts),
        },
    )


def test_without_optimized_runs_there_is_nothing_to_compare() -> None:
    check = found()
    assert check.passed
    assert check.summary == "no optimized run was made since the last clean one"


def test_an_optimized_run_leaves_it_to_the_next_clean_one() -> None:
    index = IndexFigures(
        run="an earlier", saved="", listed_since=0, open_slices=(), slices=1, objects=1, bytes=1
    )
    check = found({"index": index.facts()})
    assert check.passed
    assert "with the index of run an earlier: the next clean one compares" in check.summary


def test_what_is_lost_fails_it() -> None:
    audit = AuditFigures(runs=("one",), deleted_objects=2, alive_objects=1, alive_named=("data/x",))
    check = found(audit=audit, compared=ComparedFigures(run="one", objects=3))
    assert not check.passed
    assert "lakegc explain repo data/x" in check.summary
    assert "until then every run is clean" in check.summary


@pytest.mark.parametrize(
    ("differing", "words"),
    [
        ({}, "3 objects, as they are listed"),
        ({"lacking_objects": 2}, "3 objects, and there are 2 that it lacked"),
        (
            {"extra_objects": 1, "other_objects": 4},
            (
                "3 objects, and there are 1 that it had and that are not there, 4 that it had with "
                "another size, date or checksum"
            ),
        ),
    ],
)
def test_where_the_index_differed_is_said_and_fails_nothing(
    differing: dict[str, int], words: str
) -> None:
    audit = AuditFigures(runs=("one",), deleted_objects=2, missed_objects=7)
    check = found(audit=audit, compared=ComparedFigures(run="the last", objects=3, **differing))
    assert check.passed
    assert check.summary.startswith(
        "nothing that 1 optimized run deleted is referenced (2 objects)"
    )
    assert "; 7 objects may go that the last of them did not name" in check.summary
    assert check.summary.endswith(f"; of closed slices the index of run the last had {words}")


def test_what_could_not_be_compared_is_not_said_to_be_nothing() -> None:
    check = found(audit=AuditFigures(runs=("one",), deleted_objects=2))
    assert check.passed
    assert check.summary.endswith(
        "whether the last of them named all that may go is not known: not all can be read"
    )
