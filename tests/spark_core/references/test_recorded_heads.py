"""The heads that the last run recorded: those of the newest other run of the same instance."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.writing import Draft
from spark_core.references import recorded_heads
from spark_core.references.heads import Head, Heads
from spark_core.upkeep import own_files
from tests.support.figures import given
from tests.support.passing_mark import passing_mark
from tests.support.written_run import written_run

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


def ago(days):
    return NOW - timedelta(days=days)


@pytest.fixture
def stored(tmp_path):
    """A run, and the means to store what earlier and later ones noted."""
    run = written_run(tmp_path, spark=None).run
    noted = {}

    def keep(days, commit):
        of = run.at(RunKey.at(ago(days)))
        noted[days] = Heads(ago(days), {"main": Head(commit, ago(45))})
        passing_mark(of, retained_commits={"branch_heads": noted[days].figures.facts()})
        return of

    return SimpleNamespace(run=run, keep=keep, noted=noted)


def test_the_newest_other_run_counts(stored):
    stored.keep(3, "old")
    stored.keep(2, "new")
    assert recorded_heads.last_stored(stored.run) == stored.noted[2]


def test_without_another_run_nothing_is_known(stored):
    stored.keep(0, "own")
    assert recorded_heads.last_stored(stored.run) is None


def test_a_run_of_another_instance_or_an_earlier_version_is_passed_over(stored):
    stored.keep(5, "old")
    other = stored.keep(3, "new")
    table = tables.RETAINED_COMMITS
    other.store.delete([tables.manifest_key(table, other.key)])
    replaced = replace(other, repository=replace(other.repository, creation_date=ago(1)))
    empty = pa.Table.from_pylist([], schema=table.schema)
    replaced.keep(Draft(table, empty, NOW, (), figures=given(table)))
    assert recorded_heads.last_stored(stored.run) == stored.noted[5]


def test_figures_that_cannot_be_read_may_have_told_of_a_reset(stored):
    damaged = stored.keep(2, "new")
    damaged.store.put(tables.manifest_key(tables.RETAINED_COMMITS, damaged.key), b"{}")
    found = recorded_heads.last_stored(stored.run)
    assert found is not None
    assert found.is_damaged


def test_what_is_noted_survives_the_pruning_of_a_run():
    name = tables.manifest_key(tables.RETAINED_COMMITS, RunKey.at(NOW))
    assert not own_files.PARTS.fullmatch(name)
