"""A whole run in which checks fire.

What they say, where all of it is named, and what a person may lift.
"""

from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import objects, refs, repositories
from spark_core.checks import confirming
from spark_core.errors import VerdictError
from spark_core.mark.missing import NAMED_MISSING
from spark_core.records import tables
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.stored_rows import rows_of

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
SHARE, LISTED = "expired_share_is_plausible", "live_objects_are_listed"


@pytest.fixture
def lost(sandbox):
    """A repository that lost more objects of its head than the figures name, and that is mostly
    garbage.
    """
    core = sandbox.core
    with core.lock, sandbox.clock.at(NOW - timedelta(days=40)):
        repositories.create(core, "repo", "local://repo")
        addresses = [
            objects.upload(core, "repo", "main", f"{number:02}", b"%d" % number).address
            for number in range(NAMED_MISSING + 5)
        ]
        kept = objects.upload(core, "repo", "main", "kept", b"kept").address
        refs.commit(core, "repo", "main", message="all")
        for number in range(5):
            objects.upload(core, "repo", "main", "never", b"never committed %d" % number)
        objects.delete(core, "repo", "main", ["never"])
    sandbox.clock.set(NOW)
    for address in addresses:
        (sandbox.blockstore / "repo" / address).unlink()
    return sorted(addresses), kept


def test_what_is_lost_is_named_in_full_and_a_confirmed_share_opens_nothing_else(
    lost, sandbox, spark
):
    missing, kept = lost
    run = open_sandbox_run(sandbox, "repo", spark, NOW, share_from_objects=1)
    marked, _, results = mark_and_conclude(run)
    failed = {result.name: result for result in results if not result.passed}
    assert set(failed) == {SHARE, LISTED}

    listed = failed[LISTED]
    assert listed.figures["missing_named"] == missing[:NAMED_MISSING]
    assert (
        listed.figures["missing_table"]
        == f"local://repo/_lakefs/retention/gc/missing/run_id={run.key}/"
    )
    assert listed.figures["missing_table"] in listed.summary
    table = run.load(tables.MISSING_ADDRESSES)
    assert sorted(row.address for row in rows_of(table)) == missing
    assert marked.expired.manifest.facts["missing_manifest"] == table.manifest.sha256

    assert "5 of 6 objects (83.3%)" in failed[SHARE].summary
    confirming.confirm(run, SHARE, who="ann@desk")
    with pytest.raises(VerdictError, match=f"did not pass its checks: {LISTED}: 25 of 26 objects"):
        sweep_only(run)
    stored = {key for batch in run.store.list("data/") for key in batch.column("key").to_pylist()}
    assert stored == {kept, *marked.addresses(run)}


@pytest.mark.deep
def test_mostly_garbage_and_lost_is_swept_once_the_limit_is_raised_and_the_share_confirmed(
    lost, sandbox, spark
):
    _, kept = lost
    run = open_sandbox_run(sandbox, "repo", spark, NOW, share_from_objects=1, max_missing_share=1.0)
    _, found, _ = mark_and_conclude(run)
    assert [check["name"] for check in found.failed] == [SHARE]
    with pytest.raises(VerdictError, match=f"lakegc confirm repo {SHARE}"):
        sweep_only(run)
    confirming.confirm(run, SHARE, who="ann@desk")
    assert set(sweep_only(run).values()) == {"deleted"}
    assert {
        key for batch in run.store.list("data/") for key in batch.column("key").to_pylist()
    } == {kept}
