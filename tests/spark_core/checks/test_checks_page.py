"""The page about the checks names every one of them, in their order, with what lifts it."""

import re
from pathlib import Path

import pytest

from spark_core import checks as guards
from tests.support.passing_mark import passing_mark
from tests.support.written_run import written_run

PAGE = Path(__file__).resolve().parents[3] / "docs" / "checks.md"
ROWS = {
    row[0]: row[1:]
    for row in re.findall(
        r"^\| `(\w+)` \| (.*) \| (.*) \| (.*) \|$", PAGE.read_text(), re.MULTILINE
    )
}


def test_every_check_has_its_row_in_the_order_in_which_they_run():
    assert list(ROWS) == [name for name, _, _ in guards.CHECKS]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_says_the_same_as_the_check(name, tmp_path):
    run = written_run(tmp_path, spark=None).run
    (result,) = [found for found in guards.check_mark(run, passing_mark(run)) if found.name == name]
    _, limit, lifts = ROWS[name]
    assert ("`lakegc confirm`" in lifts) == (name in guards.CONFIRMABLE)
    assert lifts.startswith("nothing") == (result.lifted_by == guards.NOTHING_LIFTS_IT)
    for setting in re.findall(r"max_\w+|min_age_hours", result.lifted_by):
        assert f"`{setting}`" in limit
