"""A process that was the first to store every table of a mark does not read its manifests again."""

from collections import Counter
from dataclasses import replace

import pytest

from spark_core.checks import sweepable, verdict
from spark_core.errors import VerdictError
from spark_core.records import tables
from spark_core.records.writing import Draft
from spark_core.storage.local import LocalStore
from tests.support.figures import Given
from tests.support.passing_mark import passing_mark
from tests.support.written_run import written_run


@pytest.fixture
def run(tmp_path):
    """A run whose tables this process stored, one after the other."""
    found = written_run(tmp_path, spark=None).run
    for spec in tables.MARK_TABLES:
        found.begin(spec)
    passing_mark(found)
    return found


@pytest.fixture
def manifests(monkeypatch):
    """Names of manifests that were read."""
    read_before, found = LocalStore.read, Counter()

    def read(store, key):
        if key.endswith("_manifest.json"):
            found[key.rpartition("gc/")[2].partition("/")[0]] += 1
        return read_before(store, key)

    monkeypatch.setattr(LocalStore, "read", read)
    return found


def _as_another_process(run):
    return replace(run, known={}, unused={}, first=set())


def _store_again(run):
    stored = run.load(tables.RETAINED_COMMITS).manifest
    run.keep(
        Draft(
            tables.RETAINED_COMMITS,
            tables.RETAINED_COMMITS.schema.empty_table(),
            stored.reading_began,
            parents=(),
            figures=lambda _, __: Given(stored.facts),
        )
    )


def test_the_verdict_of_own_tables_reads_no_manifest_and_that_of_others_reads_each(run, manifests):
    verdict.conclude(run)
    assert not manifests
    run.store.delete([f"{tables.folder(tables.EXPIRED_ADDRESSES, run.key)}_verdict.json"])
    verdict.conclude(_as_another_process(run))
    assert manifests == {spec.folder: 1 for spec in tables.MARK_TABLES}


def test_a_table_that_another_process_replaced_before_the_verdict_is_never_swept(run):
    _store_again(_as_another_process(run))
    verdict.conclude(run)
    with pytest.raises(VerdictError, match=r"retained_commits .* is not the one that the verdict"):
        sweepable.require_sweepable(run)


def test_a_table_that_was_made_again_is_read_for_the_verdict(run, manifests):
    run.begin(tables.RETAINED_COMMITS)
    _store_again(run)
    manifests.clear()
    verdict.conclude(run)
    assert manifests == {spec.folder: 1 for spec in tables.MARK_TABLES}
