"""Checks are what people run to look.

Executing them, on whatever run, writes and deletes nothing.
"""

import os
import time
from datetime import timedelta

import dagster as dg
import pytest

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.partitions import partition_key
from spark_core import checks as guards
from spark_core import lakegc_keys
from spark_core.records import tables
from spark_core.storage.local import LocalStore
from tests.lakegc_dagster.conftest import answers, failure, new_key

pytestmark = pytest.mark.spark

WRITES = ("put", "put_if_absent", "delete", "write_parquet", "copy", "transfer")
MONTH = timedelta(days=31).total_seconds()


def execute_every_check(ground, key):
    """Execute the checks alone, as the button in the UI does."""
    selection = dg.define_asset_job("every_check", selection=dg.AssetSelection.all_asset_checks())
    code_location = dg.Definitions.merge(
        build_defs(ground.settings), dg.Definitions(jobs=[selection])
    )
    return code_location.resolve_job_def("every_check").execute_in_process(
        instance=ground.instance,
        # A job of checks alone has no partitions of its own to choose from; the UI's button says it
        # by tags, too.
        tags={"dagster/partition": partition_key(ground.repository_id, key)},
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )


def files(ground):
    """Every file of the namespace with its bytes."""
    root = ground.sandbox.blockstore / ground.repository_id
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def age(ground, key):
    """Let all that a run wrote be a month old."""
    root, then = ground.sandbox.blockstore / ground.repository_id, time.time() - MONTH
    for path in (root / lakegc_keys.ROOT).rglob("*"):
        if path.is_file() and f"run_id={key}/" in str(path):
            os.utime(path, (then, then))


@pytest.fixture
def refused_writes(monkeypatch):
    """Refuse whatever would change the store, and tell what was tried."""
    tried = []

    def refuse(what):
        def refused(_store, key, *_more, **_options):
            tried.append((what, key))
            raise PermissionError(f"{what} {key}: this store is only to be read")

        return refused

    def begin():
        for name in WRITES:
            monkeypatch.setattr(LocalStore, name, refuse(name))
        return tried

    return begin


@pytest.mark.slow
def test_looking_at_the_checks_of_an_old_run_pruned_tables(ground, refused_writes):
    older, key = new_key(ago=timedelta(hours=1)), new_key()
    for each in (older, key):
        done = ground.job("mark_and_sweep", each)
        assert done.success, failure(done)
    age(ground, older)
    # Tables of the older run are beyond those that are kept now, and the mark was not written for
    # the reference job.
    ground = ground.with_settings(keep_runs=1, write_reference_mark=True)
    before, tried = files(ground), refused_writes()
    looked = execute_every_check(ground, key)
    assert tried == []
    assert looked.success, failure(looked)
    assert answers(looked) == {name: True for name, _, _ in guards.CHECKS} | {
        "every_object_was_deleted": True
    }
    assert files(ground) == before


@pytest.mark.slow
def test_looking_at_the_checks_of_a_mark_stored_its_verdict_and_closed_the_run(
    ground, refused_writes
):
    key = new_key()
    made = ground.only(key, *[spec.name for spec in tables.MARK_TABLES])
    assert made.success or "verdict" in failure(made), failure(made)
    (ground.sandbox.blockstore / ground.repository_id / lakegc_keys.verdict_key(key)).unlink(
        missing_ok=True
    )
    tried = refused_writes()
    looked = execute_every_check(ground, key)
    assert tried == []
    assert "Materialize the run from its beginning" in failure(
        looked
    ) or "has no verdict" in failure(looked)
    assert not ground.has_verdict(key)
