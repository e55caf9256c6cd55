"""Stored tables: what a later attempt leaves of an earlier one."""

from tests.support.passing_mark import keep_slices
from tests.support.written_run import OLD, written_run


def _stored(run):
    return {key for batch in run.store.list("_lakefs/") for key in batch.column("key").to_pylist()}


def test_what_an_earlier_attempt_of_a_sweep_deleted_stays_on_record(tmp_path):
    written = written_run(tmp_path, spark=None)
    first = written.sweep({"data/s/x": (4, "deleted", None), "data/s/y": (4, "failed", "SlowDown")})
    written.sweep({"data/s/x": (4, "already_gone", None), "data/s/y": (4, "deleted", None)})
    assert {part.key for part in first.parts} <= _stored(written.run)


def test_a_table_of_a_mark_that_is_made_again_leaves_nothing_of_the_earlier_attempt(tmp_path):
    written = written_run(tmp_path, spark=None)
    written.mark({"data/s/x": (4, OLD)})
    before = _stored(written.run)
    again = keep_slices(written.run)
    left = {key for key in before & _stored(written.run) if "/slices/" in key and key.endswith(".parquet")}
    assert left <= {part.key for part in again.parts}
