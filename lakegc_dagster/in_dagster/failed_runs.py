"""Failed runs that a later run of their repository has taken the place of: Dagster forgets them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import dagster as dg

from lakegc_dagster.in_dagster.done_before import made_assets
from lakegc_dagster.names import Names
from lakegc_dagster.partitions import forget_runs, parse_partition_key, partition_key
from lakegc_dagster.runs.run_config import VERDICT
from spark_core.errors import SettingsError
from spark_core.model import RunKey
from spark_core.records.tables import DELETION_REPORT

if TYPE_CHECKING:
    from dagster import AssetExecutionContext

_PARTITION = "dagster/partition"


def failed_before(context: AssetExecutionContext, names: Names) -> set[RunKey]:
    """Return the earlier runs of a step's repository whose newest run in Dagster failed."""
    repository_id, key = parse_partition_key(context.partition_key)
    there = context.instance.get_dynamic_partitions(names.named("repository_run"))
    own = [each for each in there if each.startswith(f"{repository_id}|")]
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], tags={_PARTITION: own})
    found = set[RunKey]()
    for run in context.instance.get_runs(failed):
        try:
            _, earlier = parse_partition_key(run.tags[_PARTITION])
        except SettingsError:
            continue  # somebody's own key, under which nothing of lakegc's can be
        if earlier < key and _newest_failed(context.instance, repository_id, earlier):
            found.add(earlier)
    return found


def _newest_failed(instance: dg.DagsterInstance, repository_id: str, key: RunKey) -> bool:
    of_it = dg.RunsFilter(tags={_PARTITION: partition_key(repository_id, key)})
    return [run.is_failure for run in instance.get_runs(of_it, limit=1)] == [True]


def forget_failed(
    context: AssetExecutionContext,
    names: Names,
    failed: Collection[RunKey],
    *,
    left_open: Collection[RunKey],
) -> None:
    """Take failed runs out of Dagster's partitions, once a later one has done its work.

    Args:
        context: The last step of a run; one that made neither a verdict nor a sweep ends nothing.
        names: Those of the collector whose runs they are.
        failed: What `failed_before` returned.
        left_open: Runs with a sweep that did not end; they stay.
    """
    if {VERDICT, DELETION_REPORT.name} & {*made_assets(context)}:
        repository_id, _ = parse_partition_key(context.partition_key)
        over = [key for key in failed if key not in left_open]
        forget_runs(context.instance, repository_id, over, names)
