"""Failed runs are no partitions any more once a later run has done its work."""

from datetime import timedelta

import dagster as dg
import pytest
from dagster._core.storage.asset_check_state import AssetCheckState, bulk_update_asset_check_state

from lakegc_dagster.assets import MARK_ASSETS, SWEEP_ASSETS, UPKEEP_ASSETS
from lakegc_dagster.definitions import build_defs
from lakegc_dagster.names import OWN
from lakegc_dagster.partitions import partition_key, repository_run
from spark_core.errors import RepositoryStateError
from tests.lakegc_dagster.conftest import failure, ground_on, new_key, settings_of

pytestmark = pytest.mark.spark

ASSETS = [asset.name for asset in (*MARK_ASSETS, *SWEEP_ASSETS, *UPKEEP_ASSETS)]


def red(ground):
    """Every failed cell of an asset, as the graph shows it."""
    keys = ground.instance.get_dynamic_partitions("repository_run")
    found = set()
    for name in ASSETS:
        shown = ground.instance.get_status_by_partition(
            dg.AssetKey(name), keys, repository_run(OWN)
        )
        found |= {(name, str(key)) for key, status in (shown or {}).items() if is_red(status)}
    return found


def is_red(status):
    return status is not None and status.name == "FAILED"


def red_checks(ground):
    """Every check that the graph or a list shows as failed."""
    keys = [key for each in build_defs(ground.settings).asset_checks for key in each.check_keys]
    with dg.partition_loading_context(dynamic_partitions_store=ground.instance):
        shown = bulk_update_asset_check_state(
            ground.instance,
            [(key, repository_run(OWN)) for key in keys],
            {key: AssetCheckState.empty() for key in keys},
        )
        return {
            (key.name, status.name)
            for key, state in shown.items()
            for status, subset in state.subsets.items()
            if "FAILED" in status.name and not subset.is_empty
        }


def newest_of_checks(ground):
    """The partition of the newest result of each check, which stands first in a list."""
    keys = [key for each in build_defs(ground.settings).asset_checks for key in each.check_keys]
    storage = ground.instance.event_log_storage
    found = storage.get_latest_asset_check_execution_by_key(keys)
    return {key.name: (record.partition, record.status.name) for key, record in found.items()}


def at(minutes):
    return new_key(ago=timedelta(minutes=minutes))


def refusing(monkeypatch, found="the namespace is shared"):
    """Let the first table be refused."""

    def refuse(*_args, **_more):
        raise RepositoryStateError(found, "Look at it.")

    monkeypatch.setattr("spark_core.mark.listing.preflight", refuse)


@pytest.mark.slow
def test_what_failed_is_over_once_a_later_run_has_done_its_work(ground, monkeypatch):
    refused, broken, good = at(3), at(2), at(1)
    strict = ground.with_settings(max_expired_share=0.0, share_from_objects=0)
    first = strict.job("mark_and_sweep", refused)
    with monkeypatch.context() as patched:
        refusing(patched)
        second = ground.job("mark_and_sweep", broken)
    assert not first.success
    assert not second.success
    assert {name for name, _ in red(ground)} == set(ASSETS)
    assert {status for _, status in red_checks(ground)} == {"FAILED", "EXECUTION_FAILED"}
    later = ground.job("mark_and_sweep", good)
    assert later.success, failure(later)
    assert red(ground) == set()
    assert red_checks(ground) == set()
    of_good = partition_key(ground.repository_id, good)
    assert set(newest_of_checks(ground).values()) == {(of_good, "SUCCEEDED")}
    assert ground.instance.get_dynamic_partitions("repository_run") == [of_good]
    # What it stored is stored, and Dagster's runs stay.
    assert ground.has_verdict(refused)
    for failed in (first, second):
        assert ground.instance.get_run_by_id(failed.run_id).is_failure


def test_a_run_that_fails_as_well_ends_nothing(ground, monkeypatch):
    refusing(monkeypatch)
    assert not ground.job("mark", at(2)).success
    before = red(ground)
    assert not ground.job("mark", at(1)).success
    assert before < red(ground)


@pytest.mark.slow
def test_an_earlier_run_and_the_run_of_another_repository_end_nothing(ground, monkeypatch):
    failed = at(2)
    with monkeypatch.context() as patched:
        refusing(patched)
        assert not ground.job("mark", failed).success
    before = red(ground)
    assert ground.job("mark", at(3)).success
    with ground_on(ground.sandbox, f"{ground.repository_id}-other") as other:
        both = [ground.repository_id, other.repository_id]
        other.instance, other.settings = ground.instance, settings_of(ground.sandbox, both)
        assert other.job("mark", at(1)).success
    assert red(ground) == before != set()


@pytest.mark.slow
def test_a_sweep_that_did_not_end_stays_red_until_it_does(ground, monkeypatch):
    killed, good = at(2), at(1)

    def kill(*_args, **_more):
        raise RepositoryStateError("changed", "Look at it.")

    with monkeypatch.context() as patched:
        patched.setattr("spark_core.sweep.delete_in_rounds", kill)
        assert not ground.job("mark_and_sweep", killed).success
    before = red(ground)
    assert ("deletion_report", partition_key(ground.repository_id, killed)) in before
    assert ground.job("mark_and_sweep", good).success
    assert red(ground) == before
    assert ground.job("sweep", killed).success
    assert red(ground) == set()


@pytest.mark.slow
def test_what_is_repeated_ends_nothing(ground, monkeypatch):
    good = at(1)
    assert ground.job("mark", good).success
    with monkeypatch.context() as patched:
        refusing(patched)
        assert not ground.job("mark", at(2)).success
    before = red(ground)
    assert ground.job("mark", good).success
    assert red(ground) == before != set()


@pytest.mark.slow
def test_a_run_that_failed_and_then_did_its_work_stays_a_partition(ground, monkeypatch):
    tried_twice, good = at(2), at(1)
    with monkeypatch.context() as patched:
        refusing(patched)
        assert not ground.job("mark", tried_twice).success
    assert ground.job("mark", tried_twice).success
    assert ground.job("mark", good).success
    both = {partition_key(ground.repository_id, key) for key in (tried_twice, good)}
    assert set(ground.instance.get_dynamic_partitions("repository_run")) == both


@pytest.mark.slow
def test_what_failed_is_over_however_many_runs_of_others_failed_since(ground, monkeypatch):
    failed, good = at(2), at(1)
    with monkeypatch.context() as patched:
        refusing(patched)
        assert not ground.job("mark", failed).success
    for number in range(201):
        ground.instance.add_run(
            dg.DagsterRun(
                "mark",
                status=dg.DagsterRunStatus.FAILURE,
                tags={"dagster/partition": partition_key(f"other-{number}", failed)},
            )
        )
    assert ground.job("mark", good).success
    there = ground.instance.get_dynamic_partitions("repository_run")
    assert there == [partition_key(ground.repository_id, good)]
