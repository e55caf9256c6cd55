"""The checks of a mark, as functions of its manifests."""

import pytest

from spark_core.checks.committed_tables import ranges_were_read_whole
from tests.support.passing_mark import passing_mark
from tests.support.written_run import written_run


@pytest.mark.parametrize("what", ["metaranges", "ranges", "entries"])
def test_a_table_that_was_not_read_fails_the_check(tmp_path, what):
    run = written_run(tmp_path, spark=None).run
    manifests = passing_mark(run, committed_addresses={f"{what}_read": 1})
    result = ranges_were_read_whole(run, manifests)
    assert not result.passed
    assert "of which only" in result.summary
    assert result.figures[f"{what}_read"] == 1


def test_more_than_there_is_fails_it_too(tmp_path):
    """Receipts are of the last try of each task: nothing is counted twice."""
    run = written_run(tmp_path, spark=None).run
    manifests = passing_mark(
        run, committed_addresses={"metaranges_read": 4, "metarange_rows_read": 6, "ranges_read": 6}
    )
    assert not ranges_were_read_whole(run, manifests).passed
