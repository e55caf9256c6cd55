"""Failed runs that a later run of their repository has taken the place of: Dagster forgets them."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

import dagster as dg

from lakegc_dagster.in_dagster.done_before import made_assets
from lakegc_dagster.in_dagster.telling import PARTITION, newest
from lakegc_dagster.names import Names
from lakegc_dagster.partitions import forget_runs, parse_partition_key
from lakegc_dagster.runs.run_config import HOUSE_KEEPING, VERDICT
from spark_core.errors import SettingsError
from spark_core.model import RunKey
from spark_core.records.tables import DELETION_REPORT, NAMESPACE_SLICES

if TYPE_CHECKING:
    from dagster import AssetExecutionContext


def failed_before(instance: dg.DagsterInstance, names: Names, partition: str) -> set[RunKey]:
    """Return the earlier runs of a repository that failed.

    That are those whose newest run in Dagster failed, and those that Dagster was told of and that
    did not do their work.

    Args:
        instance: Dagster's instance.
        names: Those of the collector.
        partition: The run of the repository that they are earlier than.
    """
    repository_id, key = parse_partition_key(partition)
    there = instance.get_dynamic_partitions(names.named("repository_run"))
    own = [each for each in there if each.startswith(f"{repository_id}|")]
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], tags={PARTITION: own})
    in_dagster = {run.tags[PARTITION] for run in instance.get_runs(failed)}
    did_its_work = instance.get_materialized_partitions(names.key(HOUSE_KEEPING))
    found = set[RunKey]()
    for each in own:
        with suppress(SettingsError):  # somebody's own key: nothing of lakegc's is under it
            _, earlier = parse_partition_key(each)
            if earlier < key and (
                (each in in_dagster and _newest_failed(instance, each))
                or (each not in did_its_work and _is_told(instance, names, each))
            ):
                found.add(earlier)
    return found


def _is_told(instance: dg.DagsterInstance, names: Names, partition: str) -> bool:
    """Say whether no run of Dagster's made the first table of a partition."""
    made = newest(instance, names.key(NAMESPACE_SLICES.name), partition)
    return made is not None and not made.run_id


def _newest_failed(instance: dg.DagsterInstance, partition: str) -> bool:
    of_it = dg.RunsFilter(tags={PARTITION: partition})
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
