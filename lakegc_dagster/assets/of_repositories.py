"""An asset for each repository: its runs report to it, and its freshness and alerts are its own.

It is materialized by every run that did its work, never by a backfill or a repeat. Nobody can
materialize it by hand; to observe it starts nothing, unless its automation condition does so.
"""

import warnings
from collections.abc import Sequence

import dagster as dg

from lakegc_dagster.headlines import of_a_run, of_not_swept
from lakegc_dagster.in_dagster.done_before import made_assets, made_metadata, repeated_metadata
from lakegc_dagster.in_dagster.private_doors import is_asked_by_a_condition
from lakegc_dagster.metadata import Metadata
from lakegc_dagster.names import Names
from lakegc_dagster.partitions import parse_partition_key
from lakegc_dagster.runs.run_config import VERDICT
from lakegc_dagster.schedules.freshness import freshness_policy
from lakegc_dagster.schedules.start_run import RequestConfig, Startable, ask
from spark_core.model import RunKey
from spark_core.records.tables import DELETION_REPORT
from spark_core.settings import Settings

# When the next mark of a repository is due: a run that failed is tried once more, at the end.
DUE = (
    dg.AutomationCondition.freshness_warned().newly_true()
    | dg.AutomationCondition.freshness_failed().newly_true()
).with_label("the next mark of the repository is due")


def build_assets_of_repositories(
    settings: Settings | None, repository_ids: Sequence[str], names: Names
) -> tuple[Sequence[dg.AssetsDefinition], Sequence[dg.SensorDefinition]]:
    """Make the assets, and the sensor that watches their conditions, which is off at first.

    Args:
        settings: The settings; None when there are none yet, then there are no assets.
        repository_ids: The repositories that are known while Dagster loads.
        names: Those of the collector.
    """
    if settings is None or not repository_ids:
        return [], []
    assets = [_asset(settings, repository_id, names) for repository_id in repository_ids]
    keys = [names.of_repository(repository_id) for repository_id in repository_ids]
    sensor = dg.AutomationConditionSensorDefinition(
        names.named("due_repositories"),
        target=dg.AssetSelection.assets(*keys),
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Starts the next run of a repository when its asset is too old, beside the "
        "nightly schedules or in their place.",
    )
    return assets, [sensor]


def _asset(settings: Settings, repository_id: str, names: Names) -> dg.AssetsDefinition:
    spec = dg.AssetSpec(
        names.of_repository(repository_id),
        group_name=names.named("repositories"),
        kinds={"lakefs"},
        owners=list(names.owners),
        tags={"lakegc/deletes": "nothing"},
        deps=[names.key(VERDICT)],
        freshness_policy=freshness_policy(settings.schedule),
        automation_condition=DUE,
        metadata={"dagster/uri": f"lakefs://{repository_id}"},
        description=f"The newest run of repository {repository_id} that did its work.",
    )

    def ask_for_a_run(context: dg.AssetExecutionContext) -> dg.ObserveResult:
        if not is_asked_by_a_condition(context.run.tags):
            words = "only a condition asks here: the job `start_run` starts a run by hand"
            return dg.ObserveResult(asset_key=spec.key, metadata={"asked": words})
        swept = settings.repository(repository_id).mode == "sweep"
        job = Startable.mark_and_sweep if swept else Startable.mark
        run = ask(context, settings, RequestConfig(repository=repository_id, job=job), names)
        return dg.ObserveResult(asset_key=spec.key, metadata={"asked": f"run {run.key}"})

    with warnings.catch_warnings():
        # A beta of Dagster's. An asset that can be materialized would be in each "materialize all".
        warnings.simplefilter("ignore", dg.BetaWarning)
        made: dg.AssetsDefinition = dg.multi_observable_source_asset(
            specs=[spec], name=f"ask_for_{spec.key.to_python_identifier()}"
        )(ask_for_a_run)
    return made


def report_run(context: dg.AssetExecutionContext, names: Names, *, may_sweep: bool) -> None:
    """Materialize the asset of a repository by a run that did its work.

    Args:
        context: The last step of the run; one that made neither a verdict nor a sweep is no run
            that counts.
        names: Those of the collector.
        may_sweep: Whether the settings let the repository be swept.
    """
    if not {VERDICT, DELETION_REPORT.name} & {*made_assets(context)}:
        return
    repository_id, key = parse_partition_key(context.partition_key)
    made = made_metadata(context)
    verdict, report = made.get(VERDICT, {}), made.get(DELETION_REPORT.name, {})
    context.log_event(of_repository(names, repository_id, key, verdict, report))
    if not report and not may_sweep:
        key_of_sweep = names.key(DELETION_REPORT.name)
        shown = not_swept_metadata(repository_id)
        context.log_event(
            dg.AssetMaterialization(key_of_sweep, partition=context.partition_key, metadata=shown)
        )


def not_swept_metadata(repository_id: str) -> Metadata:
    """Say of the sweep of a run that there is none, because its repository is marked only.

    Without it such partitions were missing for ever, and nobody saw one that is really missing.
    """
    why = f"not swept: the settings let {repository_id} be marked only"
    return {**repeated_metadata(why), **of_not_swept(why)}


def of_repository(
    names: Names, repository_id: str, key: RunKey, verdict: Metadata, report: Metadata
) -> dg.AssetMaterialization:
    """Return the materialization of the asset of a repository by a run that did its work.

    Args:
        names: Those of the collector.
        repository_id: Repository name.
        key: Run key.
        verdict: What its verdict says; empty if it made none.
        report: What its sweep says; empty if it swept nothing.
    """
    return dg.AssetMaterialization(
        names.of_repository(repository_id),
        description=f"run {key}",
        metadata=of_a_run(key, verdict, report),
    )
