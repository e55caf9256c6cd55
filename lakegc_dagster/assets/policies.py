"""What the retention policy of a repository names, by its mark's tables; deletes nothing."""

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.assets.declaration import declared
from lakegc_dagster.headlines import of_policy
from lakegc_dagster.in_dagster.done_before import repeated_metadata
from lakegc_dagster.metadata import table_metadata, work_metadata
from lakegc_dagster.resources import Runs
from spark_core.checks.policies import check_policy
from spark_core.records import tables

_NAME = tables.POLICY_EXPIRATIONS.name


@declared(
    _NAME,
    "mark",
    "spark",
    "parquet",
    "lakefs",
    after=tables.POLICY_EXPIRATIONS.parents,
    metadata=table_metadata(tables.POLICY_EXPIRATIONS),
)
def policy_expirations(context: dg.AssetExecutionContext, runs: Runs) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """The objects that the repository's retention policy names, by rule, branch and path.

    Where the settings say `policies = "sweep"`, `expired_addresses` has those that do not wait;
    `policies = "only"` lets nothing else go, `policies = "mark"` only shows them, and `policies =
    "off"` does not look at the policy. What waits is shown as a warning of the run and in the
    metadata.
    """
    with runs.opened(context.partition_key, _NAME) as run:
        facts, repeated = engine.closed_runs.policy_facts(run)
        found = check_policy(run, facts)
    for result in found:
        if not result.passed:
            context.log.warning(result.summary)
    worked = work_metadata(runs.work_of(context.partition_key, _NAME))
    shown = {**repeated_metadata(repeated), **of_policy(found, facts), **worked}
    return dg.MaterializeResult(metadata=shown)
