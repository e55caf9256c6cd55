"""A wrong request gets no run and no partition; one that got a run turns nothing red."""

from datetime import timedelta

import dagster as dg
import pytest

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.names import Names
from lakegc_dagster.partitions import partition_key
from lakegc_dagster.resources import SparkResource, Wiring, build_resources
from lakegc_dagster.runs import request_checks
from lakegc_dagster.schedules.start_run import NAME, RequestConfig, checked
from spark_core import lakegc_keys, mark_and_sweep
from spark_core.errors import (
    ClosedPartitionError,
    LeaseHeldError,
    LeaseLostError,
    NotFoundError,
    SameWorkError,
    SettingsError,
    UnsafePlanError,
)
from spark_core.model import RunKey
from spark_core.phases import NOTHING_BY_THIS_SWEEP, NOTHING_DELETED, NOTHING_STARTED, add_state
from spark_core.run import open_run
from spark_core.settings import Settings
from tests.lakegc_dagster.conftest import failure, ground_on, new_key

FUTURE = timedelta(hours=-1)


@pytest.fixture(scope="module")
def bare(served):
    """A repository that is never marked, for requests that no run can do."""
    with ground_on(served, "bare") as made:
        yield made


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    monkeypatch.setattr(SparkResource, "start_ahead", lambda _spark: None)


def started(ground, **asked):
    """Run the job by which a person asks for a run."""
    job = build_defs(ground.settings).resolve_job_def(NAME)
    config = {"ops": {"check_request": {"config": {"repository": "bare", **asked}}}}
    return job.execute_in_process(instance=ground.instance, raise_on_error=False, run_config=config)


def test_a_mark_that_is_done_is_no_request_any_more(bare):
    key = new_key(ago=timedelta(minutes=5))
    bare.store.put(lakegc_keys.verdict_key(key), b"{}")
    wrong = build_resources(Wiring(bare.settings))["runs"].wrong_request("mark", "bare", key)
    assert isinstance(wrong, ClosedPartitionError)
    bare.store.delete([lakegc_keys.verdict_key(key)])


@pytest.mark.slow
def test_a_wrong_request_of_a_person_is_canceled_and_says_why_and_a_scheduled_one_fails(bare):
    key = new_key(ago=FUTURE)
    for tags, status in (
        ({}, dg.DagsterRunStatus.CANCELED),
        ({"dagster/sensor_name": "requested_runs"}, dg.DagsterRunStatus.CANCELED),
        ({"dagster/schedule_name": "nightly_mark"}, dg.DagsterRunStatus.FAILURE),
    ):
        result = bare.job("mark", key, tags=tags)
        assert "lies in the future" in failure(result)
        assert bare.instance.get_run_by_id(result.run_id).status is status


def test_the_sweep_of_an_unknown_run_in_the_ui_is_canceled(bare):
    result = bare.job("sweep", new_key())
    assert "has no verdict" in failure(result)
    assert bare.instance.get_run_by_id(result.run_id).status is dg.DagsterRunStatus.CANCELED


def test_what_is_wrong_with_the_repository_fails_and_is_not_canceled(bare, monkeypatch):
    wrong = bare.with_settings()
    wrong.settings._env = {"LAKEGC_ACCESS_KEY_ID": "wrong", "LAKEGC_SECRET_ACCESS_KEY": "wrong"}
    result = wrong.job("mark", new_key())
    assert failure(result).startswith("PermissionDeniedError")
    assert bare.instance.get_run_by_id(result.run_id).status is dg.DagsterRunStatus.FAILURE


def raises(error):
    def broken(*_words, **_more):
        raise error

    return broken


@pytest.fixture
def swept_meanwhile(monkeypatch):
    """Another process ends the same sweep before this one's request is looked at again."""
    monkeypatch.setattr(mark_and_sweep, "require_known", lambda *_: None)
    monkeypatch.setattr(mark_and_sweep, "require_unfinished", raises(ClosedPartitionError("swept")))


@pytest.mark.usefixtures("swept_meanwhile")
def test_a_sweep_that_another_one_overtook_fails_and_is_not_canceled(bare, monkeypatch):
    tries = iter(
        [SameWorkError("at work"), add_state(LeaseLostError("it ran out"), "Some are gone.")]
    )
    monkeypatch.setattr(mark_and_sweep, "sweep_or_report", lambda *_, **__: raises(next(tries))())
    result = bare.job("sweep", new_key())
    assert failure(result) == "LeaseLostError: it ran out. Some are gone."
    assert bare.instance.get_run_by_id(result.run_id).status is dg.DagsterRunStatus.FAILURE
    canceling = dg.DagsterEventType.RUN_CANCELING
    assert not bare.instance.all_logs(result.run_id, of_type=canceling)


@pytest.mark.usefixtures("swept_meanwhile")
@pytest.mark.parametrize(
    ("error", "state", "wrong"),
    [
        (ClosedPartitionError("swept"), NOTHING_BY_THIS_SWEEP, True),
        (ClosedPartitionError("swept"), "Deletions had begun.", False),
        (UnsafePlanError("another matter"), NOTHING_BY_THIS_SWEEP, False),
        (LeaseHeldError("busy"), NOTHING_BY_THIS_SWEEP, False),
        (SameWorkError("busy"), NOTHING_BY_THIS_SWEEP, False),
    ],
)
def test_a_request_was_wrong_if_its_run_says_the_same_and_deleted_nothing(
    bare, error, state, wrong
):
    key = new_key()
    run = open_run(
        build_resources(Wiring(bare.settings))["runs"].environment,
        "bare",
        key,
        bare.settings.run_options("bare"),
    )
    asked = (bare.settings, partition_key("bare", key), run)
    found = request_checks.was_wrong(add_state(error, state), *asked, job="sweep", now=run.now())
    assert found is wrong


@pytest.mark.usefixtures("swept_meanwhile")
def test_the_request_to_sweep_a_swept_run_does_not_say_that_nothing_was_deleted(bare):
    runs = build_resources(Wiring(bare.settings))["runs"]
    wrong = runs.wrong_request("sweep", "bare", new_key())
    assert isinstance(wrong, ClosedPartitionError)
    assert str(wrong) == f"swept. {NOTHING_BY_THIS_SWEEP}"


def test_a_request_without_a_repository_is_told_which_there_are(bare):
    document = bare.settings.model_dump(exclude_unset=True)
    document["repositories"]["other"] = {}
    two = type(bare.settings).model_validate(document)
    with pytest.raises(SettingsError, match="The settings have bare, other"):
        checked(two, RequestConfig())


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({"run": "yesterday"}, SettingsError),
        ({"run": "2999-01-01T00-00-00Z"}, UnsafePlanError),
        ({"job": "sweep"}, SettingsError),
        ({"job": "sweep", "run": "2020-01-01T00-00-00Z"}, NotFoundError),
    ],
)
def test_a_wrong_request_of_a_person_makes_no_partition(bare, asked, kind):
    before = bare.instance.get_dynamic_partitions("repository_run")
    result = started(bare, **asked)
    assert failure(result).startswith(kind.__name__)
    assert failure(result).endswith((NOTHING_STARTED, NOTHING_DELETED, NOTHING_BY_THIS_SWEEP))
    assert bare.instance.get_dynamic_partitions("repository_run") == before


def test_the_launchpad_offers_the_repositories_of_the_settings_and_takes_no_other(
    bare, monkeypatch
):
    with pytest.raises(dg.DagsterInvalidConfigError, match=r"Literal\['', 'bare'\] got another"):
        started(bare, repository="another")
    document = bare.settings.model_dump(exclude_unset=True)
    document["repositories"]["team-*"] = {}
    monkeypatch.setattr(bare, "settings", type(bare.settings).model_validate(document))
    # Where a pattern may match any name, the request itself is looked at.
    assert failure(started(bare, repository="another")).startswith(SettingsError.__name__)


def test_each_collector_of_a_project_takes_its_own_repositories_whatever_their_names():
    # "mro" can be no member of an enumeration of Python's.
    for prefix, own, other in (("one", "mro", "bare"), ("two", "bare", "mro")):
        settings = Settings.model_validate(
            {"server": {"endpoint": "http://server"}, "repositories": {own: {}, f"{own}-2": {}}}
        )
        job = build_defs(settings, names=Names(prefix)).resolve_job_def(f"{prefix}_{NAME}")

        def asked(repository, job=job, op=f"{prefix}_check_request"):
            config = {"ops": {op: {"config": {"repository": repository}}}}
            return dg.validate_run_config(job, config)["ops"][op]["config"]["repository"]

        assert asked(own) == own
        with pytest.raises(dg.DagsterInvalidConfigError, match=f"{own}-2.* got {other}"):
            asked(other)


def test_a_good_request_becomes_the_run_of_the_present_second(bare, tmp_path):
    document = bare.settings.model_dump(exclude_unset=True)
    document["dagster"] = {"home": str(tmp_path / "home")}
    settings = type(bare.settings).model_validate(document)
    settings._env = bare.settings._env
    bare.settings = settings
    # The only repository of the settings needs no name.
    result = started(bare, repository="")
    assert result.success, failure(result)
    sensor = build_defs(settings).resolve_sensor_def("requested_runs")
    run = bare.instance.get_run_by_id(result.run_id)
    ends = dg.DagsterEventType.RUN_SUCCESS
    (success,) = [event for event in result.all_events if event.event_type is ends]
    context = dg.build_run_status_sensor_context(
        sensor_name=sensor.name,
        dagster_event=success,
        dagster_instance=bare.instance,
        dagster_run=run,
    )
    request = sensor(context)
    key = run.tags["lakegc/run"]
    assert request.job_name == "mark"
    assert request.partition_key == partition_key("bare", RunKey.parse(key))
    assert request.tags == {"lakegc/repository": "bare", "lakegc/run": key}
    assert request.partition_key in bare.instance.get_dynamic_partitions("repository_run")
    assert not request.run_config
    for work, config in (
        ("mark", {"ops": {"namespace_slices": {"config": {"full": True}}}}),
        ("sweep", {}),
    ):
        bare.instance.add_run_tags(run.run_id, {"lakegc/full": "true", "lakegc/job": work})
        asked = dg.build_run_status_sensor_context(
            sensor_name=sensor.name,
            dagster_event=success,
            dagster_instance=bare.instance,
            dagster_run=bare.instance.get_run_by_id(result.run_id),
        )
        assert (sensor(asked).run_config or {}) == config
