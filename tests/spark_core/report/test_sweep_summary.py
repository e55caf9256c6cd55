"""What a sweep did, as its report sums it up."""

import pytest

from spark_core import report
from spark_core.records.reading import StoredTable
from spark_core.report import Report, mark_summary, sweep_summary
from tests.support.written_run import OLD

pytestmark = pytest.mark.spark

WHY = "in no commit, and not staged"


def _by_name(groups):
    return {group.name: (group.objects, group.size_bytes) for group in groups}


def test_a_sweep_adds_its_outcomes_and_names_what_was_not_deleted(written):
    sizes = {"data/a/x": 5, "data/a/y": 7, "data/a/z": 9, "data/a/w": 11}
    written.mark(
        {address: (size, OLD) for address, size in sizes.items()}, expired=dict.fromkeys(sizes, WHY)
    )
    written.conclude()
    again, changed = (
        "referenced again: staged: <b>",
        "changed since the mark: it has 12 bytes, the mark saw 11",
    )
    outcomes = {
        "x": ("deleted", None),
        "y": ("failed", "AccessDenied"),
        "z": ("kept", again),
        "w": ("kept", changed),
    }
    written.sweep({address: (size, *outcomes[address[-1]]) for address, size in sizes.items()})
    found = report.load(written.run)
    assert _by_name(found.outcomes) == {
        "deleted": (1, 5),
        "failed": (1, 7),
        "kept: referenced again": (1, 9),
        "kept: changed since the mark": (1, 11),
    }
    assert [(failure.address, failure.error) for failure in found.failures] == [
        ("data/a/y", "AccessDenied")
    ]
    assert [(spared.address, spared.error) for spared in found.spared] == [
        ("data/a/w", changed),
        ("data/a/z", again),
    ]
    page = report.page(found)
    assert "AccessDenied" in page
    assert "the sweep kept" in page
    assert "referenced again: staged: &lt;b&gt;" in page
    assert Report.from_json(found.to_json(), name="r") == found


def test_a_sweep_that_left_nothing_is_told_from_its_figures_and_no_object_is_read_again(
    written, monkeypatch
):
    sizes = {"data/a/x": 5, "data/a/y": 7, "data/a/z": 9}
    written.mark(
        {address: (size, OLD) for address, size in sizes.items()}, expired=dict.fromkeys(sizes, WHY)
    )
    written.conclude()
    written.sweep(
        {
            name: (size, "already_gone" if size == 9 else "deleted", None)
            for name, size in sizes.items()
        }
    )
    mark = mark_summary.of_mark(written.run)
    monkeypatch.setattr(StoredTable, "source", None)
    found = sweep_summary.of_sweep(written.run, mark)
    assert _by_name(found.outcomes) == {"deleted": (2, 12), "already_gone": (1, 9)}
    assert (found.failures, found.spared) == ((), ())
