"""The age of the newest mark and sweep from which Dagster shows that the collector has stopped."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from lakegc_dagster.assets import ASKED_ASSETS, MARK_ASSETS, SWEEP_ASSETS, UPKEEP_ASSETS
from lakegc_dagster.names import OWN, Names, asset_name
from lakegc_dagster.schedules import longest_pause
from spark_core.records.tables import DELETION_REPORT, EXPIRED_ADDRESSES
from spark_core.settings import Settings
from spark_core.settings.sections import ScheduleSettings


def freshness_policy(schedule: ScheduleSettings) -> dg.FreshnessPolicy:
    """Return the policy of what each night makes.

    It warns after half a night too many, and fails after a whole one.
    """
    pause = longest_pause(schedule)
    return dg.FreshnessPolicy.time_window(fail_window=2 * pause, warn_window=1.5 * pause)


def assets_with_freshness(
    settings: Settings | None, names: Names = OWN
) -> Sequence[dg.AssetsDefinition]:
    """Return all assets; the mark's last table and the report of a due sweep get a policy.

    Args:
        settings: The schedule, and whether any repository is swept; None when there are none yet.
        names: Those of the collector.
    """
    policy = freshness_policy(ScheduleSettings() if settings is None else settings.schedule)
    due = {EXPIRED_ADDRESSES.name}
    if settings and any(table.mode == "sweep" for table in settings.repository_tables):
        due.add(DELETION_REPORT.name)

    def with_policy(spec: dg.AssetSpec) -> dg.AssetSpec:
        return (
            spec.replace_attributes(freshness_policy=policy)
            if asset_name(spec.key) in due
            else spec
        )

    return [
        asset.make(names).map_asset_specs(with_policy)
        for asset in [*MARK_ASSETS, *SWEEP_ASSETS, *UPKEEP_ASSETS, *ASKED_ASSETS]
    ]
