"""A first sweep that nobody could undo asks; every other one goes on as it is set."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from spark_core.errors import UnsafePlanError
from spark_core.records import tables
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.sweep import first_sweep
from tests.support.written_run import written_run


@pytest.fixture
def remote(tmp_path):
    """Make a run on a store that says what it keeps of deleted objects."""

    def make(*, keeps, kind="s3", **options):
        run = written_run(tmp_path, spark=None).run
        asked = []

        def after_deletion():
            asked.append(1)
            return AfterDeletion(keeps, "the bucket keeps no versions.")

        store = SimpleNamespace(
            exists=run.store.exists, children=run.store.children, after_deletion=after_deletion
        )
        namespace = SimpleNamespace(kind=kind)
        return SimpleNamespace(
            store=store,
            namespace=namespace,
            options=replace(run.options, **options),
            repository=run.repository,
            key=run.key,
            real=run.store,
            asked=asked,
        )

    return make


@pytest.mark.parametrize("keeps", [False, None])
def test_it_is_refused_where_nothing_comes_back_or_nobody_knows(remote, keeps):
    run = remote(keeps=keeps)
    with pytest.raises(UnsafePlanError) as refused:
        first_sweep.require_answered(run)
    said = str(refused.value)
    assert "the first sweep of repo, and what it deletes could not come back: the bucket" in said
    assert "Set `quarantine = true`" in said
    assert "six requests an object" in said
    assert "`quarantine = false` (`--yes` of `lakegc` for one command)" in said


@pytest.mark.parametrize("quarantine", [True, False])
def test_the_settings_answer_without_a_request(remote, quarantine):
    run = remote(keeps=False, quarantine=quarantine)
    first_sweep.require_answered(run)
    assert run.asked == []


def test_a_store_that_keeps_what_is_deleted_and_a_disk_need_no_answer(remote):
    first_sweep.require_answered(remote(keeps=True))
    disk = remote(keeps=False, kind="local")
    first_sweep.require_answered(disk)
    assert disk.asked == []


def test_later_sweeps_do_not_ask(remote):
    run = remote(keeps=False)
    run.real.put(tables.manifest_key(tables.DELETION_REPORT, run.key), b"{}")
    first_sweep.require_answered(run)
    assert run.asked == []
