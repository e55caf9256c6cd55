"""Events about assets as Dagster keeps them, told a second time or in the place of another.

There is no public way to report an event of a run from outside of its steps. An upgrade may break
this: `tests/lakegc_dagster/in_dagster/test_healing.py` says so, and then red cells stay red.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dagster as dg

# What a result of a check says, but for what it is about.
_OF_A_CHECK = (
    "asset_key", "check_name", "passed", "metadata", "severity", "description", "blocking",
    "partition",
)  # fmt: skip


@dataclass(frozen=True)
class Told:
    """An event about an asset, as Dagster keeps it.

    Attributes:
        run_id: The run of it.
        timestamp: When it happened, in seconds since 1970.
        event: The event.
    """

    run_id: str
    timestamp: float
    event: dg.DagsterEvent

    @property
    def asset(self) -> dg.AssetKey:
        """The asset, also of an event about a check."""
        data: Any = self.event.event_specific_data
        key: dg.AssetKey = self.event.asset_key or data.asset_key
        return key


def tell_again(instance: dg.DagsterInstance, told: Told) -> None:
    """Keep an event a second time, so that it is the newest of its kind; its time stays."""
    instance.report_dagster_event(told.event, told.run_id, timestamp=told.timestamp)


def tell_of_a_check(
    instance: dg.DagsterInstance, told: Told, result: dg.AssetCheckEvaluation
) -> None:
    """Keep a result of a check in the place of a plan or a result, for what its asset is now."""
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(result.asset_key, asset_partitions=[str(result.partition)]), limit=1
    ).records
    target = result.target_materialization_data
    if target is not None and records:
        newest = records[0]
        target = type(target)(
            storage_id=newest.storage_id, run_id=newest.run_id, timestamp=newest.timestamp
        )
    values = {name: getattr(result, name) for name in _OF_A_CHECK}
    event = told.event._replace(
        event_type_value=dg.DagsterEventType.ASSET_CHECK_EVALUATION.value,
        event_specific_data=dg.AssetCheckEvaluation(**values, target_materialization_data=target),
    )
    instance.report_dagster_event(event, told.run_id, timestamp=told.timestamp)
