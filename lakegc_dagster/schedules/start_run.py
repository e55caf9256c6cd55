"""The job by which a person starts a run in the UI, and the sensor that makes the run.

Dagster makes a partition of any text that a person types as a run key, and a run for a wrong one
can only fail. This job checks the request first; launched as it is, it starts a run now.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Literal

import dagster as dg
from pydantic import Field, create_model

from lakegc_dagster.in_dagster.failures import raising_failures
from lakegc_dagster.names import OWN, Names
from lakegc_dagster.partitions import add_partition
from lakegc_dagster.resources import Wiring, build_resources
from lakegc_dagster.runs.run_config import REQUESTED_RUNS, ops_config
from lakegc_dagster.schedules.nightly import WantedRun
from spark_core.errors import SettingsError
from spark_core.model import RunKey
from spark_core.phases import NOTHING_STARTED, phase
from spark_core.records.tables import NAMESPACE_SLICES
from spark_core.run_keys import new_run_key
from spark_core.settings import Settings

NAME = "start_run"
NOW = "now"
_JOB_TAG, _FULL_TAG, _ASKED_TAG = "lakegc/job", "lakegc/full", "lakegc/asked"
# The sensor that makes what a run asked for; a project may have several collectors.
_BY_TAG = "lakegc/asked_of"


class Startable(Enum):
    """What a person may start."""

    mark = "mark"
    mark_and_sweep = "mark_and_sweep"
    sweep = "sweep"


class RequestConfig(dg.Config):
    """What to start."""

    repository: str = Field(
        default="",
        description="Name of the repository, as the settings have it; may be left out if the "
        "settings name only one.",
    )
    job: Startable = Field(
        default=Startable.mark,
        description="`mark` deletes nothing; `sweep` deletes what an earlier run marked, and needs "
        "its run key.",
    )
    run: str = Field(
        default=NOW,
        description="Run key: `now`, or an instant like 2026-11-20T02-00-00Z. For a sweep: the run "
        "key of its mark.",
    )
    full: bool = Field(
        default=False,
        description="Let the mark read everything, although the settings allow an optimized run.",
    )


def _offering(settings: Settings) -> type[RequestConfig]:
    """Let the launchpad offer the repositories of the settings; patterns match any name."""
    if settings.repository_patterns or not settings.repository_ids:
        return RequestConfig
    # A list of words, whose type is named by them: Dagster takes two types of one name for one.
    offered: Any = Literal[("", *settings.repository_ids)]
    told = RequestConfig.model_fields["repository"].description
    asked: Any = (offered, Field(default="", description=told))
    return create_model("RequestConfig", __base__=RequestConfig, repository=asked)


def build_start_run(
    settings: Settings | None,
    jobs: Mapping[str, Any],
    names: Names = OWN,
    *,
    step: str | None = None,
) -> tuple[Sequence[dg.JobDefinition], Sequence[dg.SensorDefinition]]:
    """Make the job and its sensor; neither while there are no settings.

    Args:
        settings: The settings.
        jobs: The jobs that do what is asked, by their names without a prefix.
        names: Those of the collector.
        step: The step that makes all assets of a run; None where each has its own.
    """
    if settings is None:
        return [], []

    asked: Any = _offering(settings)

    @dg.op(
        name=names.named("check_request"),
        description="Checks a request: form and time of the run key, mode of the repository, "
        "whether the mark is there, whether the work was done.",
    )
    def check_request(context: dg.OpExecutionContext, config: asked) -> None:
        ask(context, settings, config, names)

    @dg.job(
        name=names.named(NAME),
        description="Start a run by hand. The request is checked first, so a wrong one makes "
        "neither a run nor a partition. The run itself follows within seconds.",
        executor_def=dg.in_process_executor,
    )
    def start_run() -> None:
        check_request()

    return [start_run], [_requested_runs(jobs, names, step)]


def _requested_runs(jobs: Mapping[str, Any], names: Names, step: str | None) -> dg.SensorDefinition:
    """Make the sensor that makes what was asked for."""

    @dg.run_status_sensor(
        run_status=dg.DagsterRunStatus.SUCCESS,
        name=names.named(REQUESTED_RUNS),
        request_jobs=[jobs[work.value] for work in Startable],
        minimum_interval_seconds=5,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Makes the run that a person asked for with the job {names.named(NAME)}.",
    )
    def requested_runs(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
        tags = context.dagster_run.tags
        # The request is a run of the job, or of the asset of a repository whose condition holds.
        if tags.get(_BY_TAG) != names.named(REQUESTED_RUNS):
            return dg.SkipReason("the run asked for none")
        repository_id, key = tags["lakegc/repository"], RunKey.parse(tags["lakegc/run"])
        return dg.RunRequest(
            run_key=context.dagster_run.run_id,
            job_name=names.named(tags[_JOB_TAG]),
            partition_key=add_partition(context.instance, repository_id, key, names),
            run_config={"ops": ops} if (ops := _asked(tags, names, step)) else None,
            tags=WantedRun(repository_id, key).tags,
        )

    return requested_runs


def ask(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    settings: Settings,
    config: RequestConfig,
    names: Names,
) -> WantedRun:
    """Check a request, and let the sensor make its run once the step's run has ended well.

    Args:
        context: The step that asks.
        settings: The settings.
        config: The request.
        names: Those of the collector that is asked.

    Raises:
        Failure: If the request is wrong.
    """
    with raising_failures(lambda _error: None), phase(NOTHING_STARTED):
        run = checked(settings, config)
    full = {_FULL_TAG: "true"} if config.full else {}
    sensor = names.named(REQUESTED_RUNS)
    asked = {_JOB_TAG: config.job.value, _ASKED_TAG: config.run, _BY_TAG: sensor, **full}
    context.instance.add_run_tags(context.run_id, {**run.tags, **asked})
    context.log.info("%s of %s starts under run key %s", config.job.value, *run.name.split("|"))
    return run


def _asked(tags: Mapping[str, str], names: Names, step: str | None) -> dict[str, Any]:
    """Return the asset config of the requested run.

    It is empty for a sweep, which makes no table of the mark.
    """
    if step is not None:
        return {names.named(step): {"config": {"full": True}}} if _FULL_TAG in tags else {}
    assets = () if tags[_JOB_TAG] == Startable.sweep.value else (NAMESPACE_SLICES.name,)
    return ops_config(assets, {"full": _FULL_TAG in tags}, names)


def checked(settings: Settings, config: RequestConfig) -> WantedRun:
    """Return the run that a person requests.

    Args:
        settings: The settings.
        config: The request.

    Raises:
        LakegcError: If the request is wrong; the text says why.
    """
    repository_id = _named(settings, config.repository.strip())
    is_now = config.run.strip().lower() == NOW and config.job is not Startable.sweep
    key = new_run_key(settings.dagster_home) if is_now else RunKey.parse(config.run.strip())
    runs = build_resources(Wiring(settings))["runs"]
    wrong = runs.wrong_request(config.job.value, repository_id, key)
    if wrong is not None:
        raise wrong
    return WantedRun(repository_id, key)


def _named(settings: Settings, asked: str) -> str:
    known = settings.repository_ids
    if not asked and len(known) != 1:
        raise SettingsError(
            "no repository was named",
            f"The settings have {', '.join(known)}: name the one to start."
            if known
            else "The settings have only patterns: name the repository.",
        )
    repository_id = asked or known[0]
    settings.repository(repository_id)
    return repository_id
