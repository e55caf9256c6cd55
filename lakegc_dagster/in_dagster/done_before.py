"""What a Dagster run has met that was done before: it begins no sweep, and keeps no house."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg

from lakegc_dagster.in_dagster.private_doors import is_of_a_backfill
from lakegc_dagster.metadata import Metadata
from lakegc_dagster.names import asset_name

if TYPE_CHECKING:
    from dagster import AssetCheckExecutionContext, AssetExecutionContext

# The entry that a materialization of what was stored before has in its metadata.
REPEATED = "repeated"


def repeated_metadata(words: str | None) -> Metadata:
    """Mark a materialization as one of what was there before; None if it was made now."""
    return {} if words is None else {REPEATED: dg.MetadataValue.text(words)}


def repeated_assets(
    context: AssetExecutionContext | AssetCheckExecutionContext,
) -> dict[str, str]:
    """Return the assets that this Dagster run has met as done before, with the words of each."""
    return {
        asset_name(each.asset_key): str(each.metadata[REPEATED].value)
        for each in _materialized(context)
        if REPEATED in each.metadata
    }


def made_assets(context: AssetExecutionContext) -> list[str]:
    """Return the names of the assets that this Dagster run has made by itself."""
    return sorted(made_metadata(context))


def made_metadata(context: AssetExecutionContext) -> dict[str, Metadata]:
    """Return what this Dagster run has said of each asset that it has made by itself."""
    return {
        asset_name(each.asset_key): dict(each.metadata)
        for each in _materialized(context)
        if REPEATED not in each.metadata
    }


def is_at_rest(context: AssetExecutionContext) -> bool:
    """Say whether a Dagster run changes nothing: it begins no sweep, and keeps no house.

    That is a backfill, or a run that was to make what it met as done before.
    """
    return is_of_a_backfill(context.run.tags) or bool(repeated_assets(context))


def _materialized(
    context: AssetExecutionContext | AssetCheckExecutionContext,
) -> Iterator[dg.AssetMaterialization]:
    """Yield what a Dagster run has materialized; by its events, as steps may be processes."""
    records = context.instance.all_logs(
        context.run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION
    )
    for record in records:
        if record.dagster_event is not None:
            yield record.dagster_event.step_materialization_data.materialization
