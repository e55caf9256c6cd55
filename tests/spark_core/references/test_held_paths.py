"""Holds by path: where not every commit can be read, what they keep is unknown."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_core.errors import IncompleteReadError
from spark_core.holds import Hold, Holds
from spark_core.records.tables import RETAINED_COMMITS as _COMMITS
from spark_core.references import held_paths
from tests.support.written_run import NOW, written_run

HELD = Holds((Hold("models", "path", "models/**", None, "ann", NOW, ""),))


def test_commits_that_were_only_walked_refuse_where_a_path_is_held(tmp_path):
    run = written_run(tmp_path, spark=None).run
    walked = SimpleNamespace(holds=HELD, dump=None)
    with pytest.raises(IncompleteReadError, match=r"hold models: .* could only be walked"):
        held_paths.of_now(run, "_lakefs", walked, held_paths.NOTHING)
    walked.holds = Holds(())
    assert held_paths.of_now(run, "_lakefs", walked, held_paths.NOTHING) is held_paths.NOTHING


def test_a_hold_that_was_made_while_a_mark_read_some_of_the_expired_commits_refuses(tmp_path):
    written = written_run(tmp_path, spark=None)
    written.mark({})
    with pytest.raises(IncompleteReadError, match="Mark again under a new run key"):
        held_paths.of_mark(written.run, written.run.load(_COMMITS), HELD)


def test_the_ranges_are_read_that_may_have_such_a_path():
    keys = [(b"a", b"c"), (b"models/a", b"models/z"), (b"m", b"n"), (b"models0", b"z")]
    least, most = zip(*keys, strict=True)
    ranges = pa.record_batch([pa.array(least), pa.array(most)], ["min_key", "max_key"])
    assert held_paths.may_have(ranges, [b"models/"]).to_pylist() == [False, True, True, False]
    assert held_paths.may_have(ranges, [b"b", b"x"]).to_pylist() == [True, False, False, True]
    assert held_paths.may_have(ranges, [b""]).to_pylist() == [True] * 4
    assert held_paths.may_have(ranges, []).to_pylist() == [False] * 4
