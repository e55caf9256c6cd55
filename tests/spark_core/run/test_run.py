"""One run, and the run of another key."""

from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.run.cutoff import cutoff_of
from tests.support.passing_mark import passing_mark
from tests.support.written_run import NOW, written_run

OTHER = RunKey.at(NOW - timedelta(days=3))


@pytest.fixture
def run(tmp_path):
    return written_run(tmp_path, spark=None).run


def test_the_run_of_another_key_has_its_own_cutoff_under_the_same_options(run):
    run = replace(run, options=replace(run.options, min_age=timedelta(days=30)), take_over="it")
    other = run.at(OTHER)
    assert other.key == OTHER
    assert other.cutoff == cutoff_of(run.options, OTHER)
    assert (other.options, other.take_over) == (run.options, "it")


def test_what_a_process_knows_of_a_run_is_not_known_of_another(run):
    passing_mark(run)
    run.begin(tables.NAMESPACE_SLICES)
    run.documents["a"], run.metaranges_by_id["a"] = "b", True
    run.marked.append(run.key)
    run.restores.append(NOW)
    other = run.at(OTHER)
    assert run.earlier
    for name in ("known", "documents", "unused", "first", "earlier", "restores", "marked"):
        assert not getattr(other, name), name
    assert not other.metaranges_by_id


def test_the_run_of_its_own_key_is_itself(run):
    assert run.at(run.key) is run
