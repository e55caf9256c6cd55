"""Whole runs through Dagster's own API: jobs, assets, checks and IO manager on the sandbox."""

import re
from datetime import timedelta

import dagster as dg
import pytest

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.partitions import add_partition, partition_key
from lakegc_dagster.resources import Wiring
from spark_core import checks as guards
from spark_core import lakegc_keys, sweep
from spark_core.errors import DeletionFailedError
from spark_core.phases import NOTHING_BY_THIS_SWEEP
from spark_core.records import reading, tables
from spark_core.records.reading import StoredTable
from spark_core.settings import Settings
from tests.lakegc_dagster.conftest import answers, failure, new_key, ran

pytestmark = pytest.mark.spark

MARK_STEPS = [
    *[step for spec in tables.MARK_TABLES[:-1] for step in (spec.name, f"check_{spec.name}")],
    "policy_expirations",
    "expired_addresses",
    "verdict",
    "check_verdict",
]
AFTER_THE_MARK = ("deletion_report", "house_keeping")
IN_ORDER = [*MARK_STEPS, "deletion_report", "check_deletion_report", "house_keeping"]


def test_mark_and_sweep_deletes_the_garbage_and_dagster_shows_every_step(ground):
    key = new_key()
    result = ground.job("mark_and_sweep", key)
    assert result.success, failure(result)
    assert ran(result) == IN_ORDER
    assert ground.objects() == ground.alive
    assert answers(result) == dict.fromkeys(
        [*(name for name, _, _ in guards.CHECKS), "every_object_was_deleted"], True
    )

    for spec in tables.ALL_TABLES:
        (event,) = result.asset_materializations_for_node(spec.name)
        assert event.partition == partition_key(ground.repository_id, key)
        shown = {name: value.value for name, value in event.metadata.items()}
        stored = reading.load_table(ground.store, spec, key).manifest
        assert shown["dagster/row_count"] == stored.rows
        assert shown["size_bytes"] == stored.size_bytes > 0
        assert shown["parts"] == len(stored.parts)
        assert shown["seconds"] >= 0
        assert (
            shown["path"]
            == f"local://{ground.repository_id}/_lakefs/retention/gc/{spec.folder}/run_id={key}/"
        )
        assert ground.sandbox.secret_access_key not in repr(event.metadata)
    report = result.asset_materializations_for_node("deletion_report")[0].metadata
    assert report["deleted_objects"].value == len(ground.garbage)
    worked = _who_worked(result)
    assert list(worked) == [step for step in IN_ORDER if not step.startswith("check_")]
    of_mark = {who for name, who in worked.items() if name not in AFTER_THE_MARK}
    assert of_mark == {"this process"}

    code_location = build_defs(ground.settings)
    loaded = code_location.load_asset_value(
        "expired_addresses",
        partition_key=partition_key(ground.repository_id, key),
        instance=ground.instance,
        python_type=StoredTable,
    )
    assert loaded.manifest.rows == len(ground.garbage)


def _who_worked(result):
    """What each asset of a run says in Dagster of who worked, in the order of the run."""
    return {
        event.asset_key.to_user_string(): event.step_materialization_data.materialization.metadata[
            "who_worked"
        ].value
        for event in result.all_events
        if event.is_step_materialization and len(event.asset_key.path) == 1
    }


@pytest.mark.slow
def test_with_always_each_table_that_is_read_by_tasks_says_that_spark_worked(ground):
    document = ground.settings.model_dump(exclude_unset=True)
    document["spark"]["always"] = True
    settings = Settings.model_validate(document)
    settings._env = ground.settings._env
    result = ground.job("mark_and_sweep", new_key(), wiring=Wiring(settings))
    assert result.success, failure(result)
    assert ground.objects() == ground.alive
    worked = _who_worked(result)
    tables_by_tasks = ("namespace_slices", "uncommitted_addresses", "committed_addresses")
    for name in (*tables_by_tasks, "expired_addresses", "deletion_report"):
        assert re.fullmatch(r"Spark: \d+ tasks? on local\[2\]", worked[name]), worked
    # It asks the server alone.
    assert worked["retained_commits"] == "this process"


@pytest.mark.deep
def test_a_repository_whose_mode_is_mark_is_not_swept_until_its_mode_says_so(ground):
    key = new_key()
    marked = ground.with_settings(mode="mark").job("mark_and_sweep", key)
    assert not marked.success
    assert ran(marked) == [*MARK_STEPS, "deletion_report"]
    assert failure(marked).startswith("UnsafePlanError: deleting is switched off for ")
    assert ground.has_verdict(key)
    assert ground.objects() == ground.alive | ground.garbage
    swept = ground.job("sweep", key)
    assert swept.success, failure(swept)
    assert ground.objects() == ground.alive


def test_a_failing_check_stops_the_deletion_and_so_does_its_verdict_ever_after(ground):
    strict = ground.with_settings(max_expired_share=0.0, share_from_objects=0)
    key = new_key()
    result = strict.job("mark_and_sweep", key)
    assert not result.success
    assert "deletion_report" not in ran(result)
    failed = [check for check in result.get_asset_check_evaluations() if not check.passed]
    assert [check.check_name for check in failed] == ["expired_share_is_plausible"]
    assert "above the limit of 0.0%" in failed[0].description
    # It may be executed again after a sweep, so it does not say what was deleted.
    assert "deleted" not in failed[0].description
    assert failed[0].metadata["expired_objects"].value == len(ground.garbage)
    assert failure(result).startswith(f"VerdictError: the mark of run {key} of ")
    assert "expired_share_is_plausible: " in failure(result)
    assert failure(result).endswith(" Nothing was deleted.")
    assert ground.has_verdict(key)
    assert ground.objects() == ground.alive | ground.garbage

    alone = ground.only(key, "deletion_report")
    assert not alone.success
    assert failure(alone).startswith("VerdictError: the mark of run ")
    assert "did not pass its checks: expired_share_is_plausible" in failure(alone)
    assert failure(alone).endswith(f" {NOTHING_BY_THIS_SWEEP}")
    assert ground.objects() == ground.alive | ground.garbage


@pytest.mark.slow
def test_an_early_failing_check_stops_everything_after_it(ground, monkeypatch):
    name, table, check = guards.CHECKS[0]

    def failing(run, manifests):
        return guards.CheckResult(
            name, table, passed=False, summary="found a nested repository", figures={}
        )

    broken = ((name, table, failing), *guards.CHECKS[1:])
    monkeypatch.setattr("spark_core.checks.every_check.CHECKS", broken)
    key = new_key()
    result = ground.job("mark_and_sweep", key)
    assert not result.success
    assert ran(result) == ["namespace_slices", "check_namespace_slices"]
    assert not ground.has_verdict(key)
    assert check is not failing


def test_deletion_report_selected_alone_refuses_without_a_mark(ground):
    result = ground.only(new_key(), "deletion_report")
    assert not result.success
    assert failure(result).startswith("VerdictError: run ")
    assert "has no verdict" in failure(result)
    assert ground.objects() == ground.alive | ground.garbage


def test_a_table_selected_alone_refuses_without_those_it_is_made_from(ground):
    result = ground.only(new_key(), "expired_addresses")
    assert failure(result).startswith("ChainError: run ")
    assert "Materialize the run from its beginning" in failure(result)


@pytest.mark.slow
def test_tables_without_their_checks_have_no_verdict_and_are_not_swept(ground):
    key = new_key()
    unchecked = dg.define_asset_job(
        "unchecked",
        selection=dg.AssetSelection.assets(
            *[spec.name for spec in tables.MARK_TABLES]
        ).without_checks(),
    )
    code_location = build_defs(ground.settings)
    merged = dg.Definitions.merge(code_location, dg.Definitions(jobs=[unchecked]))
    add_partition(ground.instance, ground.repository_id, key)
    result = merged.resolve_job_def("unchecked").execute_in_process(
        instance=ground.instance, partition_key=partition_key(ground.repository_id, key)
    )
    assert result.success
    assert not ground.has_verdict(key)

    swept = ground.only(key, "deletion_report")
    assert "has no verdict" in failure(swept)

    # The staged entries are read again after the commits: what moved from one to the other in
    # between is in neither.
    again = ground.only(key, "namespace_slices", "uncommitted_addresses")
    assert again.success, failure(again)
    expired = ground.only(key, "expired_addresses")
    assert not expired.success
    assert failure(expired).startswith("ChainError: ")
    assert failure(expired).endswith(" Nothing was deleted.")
    assert failure(expired).count("Nothing was") == 1
    assert not ground.has_verdict(key)
    assert ground.objects() == ground.alive | ground.garbage


@pytest.mark.slow
def test_a_run_key_in_the_future_is_refused(ground):
    result = ground.job("mark_and_sweep", new_key(ago=timedelta(hours=-1)))
    assert failure(result).startswith("UnsafePlanError: run key ")
    assert "lies in the future" in failure(result)


@pytest.mark.slow
def test_a_repository_that_the_settings_do_not_name_is_refused(ground):
    stranger = ground.with_settings()
    stranger.repository_id = "stranger"
    result = stranger.job("mark", new_key())
    assert failure(result).startswith("SettingsError: repository 'stranger' is not in the settings")


def test_without_settings_a_run_says_what_to_write(ground):
    result = ground.job("mark", new_key(), wiring=Wiring(None))
    assert failure(result).startswith("SettingsError: no settings: there is no lakegc.toml")


@pytest.mark.slow
def test_wrong_keys_are_refused_by_name_and_never_shown(ground):
    wrong = ground.with_settings()
    wrong.settings._env = {
        "LAKEGC_ACCESS_KEY_ID": "AKIAWRONG",
        "LAKEGC_SECRET_ACCESS_KEY": "hush-hush",
    }
    result = wrong.job("mark", new_key())
    assert failure(result).startswith("PermissionDeniedError: ")
    assert "hush" not in failure(result)


@pytest.mark.slow
def test_a_repository_that_does_not_exist_is_refused(ground):
    document = ground.settings.model_dump(exclude_unset=True)
    document["repositories"]["absent"] = {"mode": "mark"}
    absent = ground.with_settings()
    absent.settings = type(ground.settings).model_validate(document)
    absent.settings._env = ground.settings._env
    absent.repository_id = "absent"
    result = absent.job("mark", new_key())
    assert failure(result).startswith("NotFoundError: ")


def page(ground, key, *, swept):
    """The report's page of a run, as it lies in the store; None if nobody made it."""
    where = lakegc_keys.report_keys(key, swept=swept)["html"]
    return ground.store.read(where).decode() if ground.store.exists(where) else None


@pytest.mark.slow
def test_only_the_command_line_made_pages_so_a_mark_in_the_ui_left_none_nor_did_a_refused_one(
    ground,
):
    refused, key = new_key(ago=timedelta(minutes=1)), new_key()
    assert (
        not ground.with_settings(max_expired_share=0.0, share_from_objects=0)
        .job("mark", refused)
        .success
    )
    assert "<b>expired_share_is_plausible</b>" in page(ground, refused, swept=False)
    result = ground.job("mark_and_sweep", key)
    assert result.success, failure(result)
    assert "Every check passed" in page(ground, key, swept=False)
    assert "that the mark let go were deleted" in page(ground, key, swept=True)
    for step, swept in (("verdict", False), ("deletion_report", True)):
        (event,) = result.asset_materializations_for_node(step)
        # A path, since the store is on this machine, so that a person can open it.
        lies = ground.sandbox.blockstore / ground.repository_id
        page_key = lakegc_keys.report_keys(key, swept=swept)["html"]
        assert event.metadata["page"].value == f"{lies}/{page_key}"


@pytest.mark.deep
def test_a_sweep_that_leaves_objects_has_its_page_too(ground, monkeypatch):
    def incomplete(report):
        raise DeletionFailedError("1 of 2 objects were not deleted")

    monkeypatch.setattr(sweep, "require_complete", incomplete)
    key = new_key()
    result = ground.job("mark_and_sweep", key)
    assert not result.success
    assert answers(result)["every_object_was_deleted"] is False
    assert "that the mark let go were deleted" in page(ground, key, swept=True)


@pytest.mark.slow
def test_a_sweep_that_is_refused_leaves_the_page_of_its_mark(ground):
    key = new_key()
    marked = ground.with_settings(mode="mark")
    assert marked.job("mark", key).success
    for name in lakegc_keys.report_keys(key, swept=False).values():
        ground.store.delete([name])
    assert not marked.job("sweep", key).success
    assert "Every check passed, so this mark may be swept" in page(ground, key, swept=False)
