"""The five tables of the mark and its verdict; deletes nothing.

The order comes from the table specs; `spark_core.mark_and_sweep` uses the same.
"""

from typing import Any, TypeAlias

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.assets.declaration import declared, table_asset
from lakegc_dagster.headlines import of_concluded
from lakegc_dagster.in_dagster.done_before import repeated_metadata
from lakegc_dagster.metadata import work_metadata
from lakegc_dagster.resources import Runs
from lakegc_dagster.runs.run_config import VERDICT, ListingConfig, MarkConfig
from spark_core import lakegc_keys
from spark_core.records import tables
from spark_core.records.reading import StoredTable

# A `Draft`, or the `StoredTable` of a closed run; Dagster takes no union.
Made: TypeAlias = Any


@table_asset(tables.NAMESPACE_SLICES, "mark")
def namespace_slices(context: dg.AssetExecutionContext, config: ListingConfig, runs: Runs) -> Made:
    """Every object under `data/` of the storage namespace, with size and age, slice by slice.

    An optimized run takes the objects of closed slices from the index.
    """
    with runs.making(context.partition_key, tables.NAMESPACE_SLICES, config) as run:
        return engine.closed_runs.make_or_stored(run, tables.NAMESPACE_SLICES, {})


@table_asset(tables.UNCOMMITTED_ADDRESSES, "mark", "lakefs")
def uncommitted_addresses(
    context: dg.AssetExecutionContext, runs: Runs, **parents: StoredTable
) -> Made:
    """Every staged object, read completely before any commit is looked at.

    References only move from staged to committed, so an entry that is committed meanwhile is found
    there.
    """
    with runs.making(context.partition_key, tables.UNCOMMITTED_ADDRESSES) as run:
        return engine.closed_runs.make_or_stored(run, tables.UNCOMMITTED_ADDRESSES, parents)


@table_asset(tables.RETAINED_COMMITS, "mark", "lakefs")
def retained_commits(context: dg.AssetExecutionContext, runs: Runs, **parents: StoredTable) -> Made:
    """Every commit that keeps its objects, and why.

    It is the union of the server's list and lakegc's own reading of the rules.
    """
    with runs.making(context.partition_key, tables.RETAINED_COMMITS) as run:
        return engine.closed_runs.make_or_stored(run, tables.RETAINED_COMMITS, parents)


@table_asset(tables.COMMITTED_ADDRESSES, "mark", "lakefs")
def committed_addresses(
    context: dg.AssetExecutionContext, runs: Runs, **parents: StoredTable
) -> Made:
    """Every address that a retained commit reaches.

    The addresses are read from lakeFS's own tables, each range once.
    """
    with runs.making(context.partition_key, tables.COMMITTED_ADDRESSES) as run:
        return engine.closed_runs.make_or_stored(run, tables.COMMITTED_ADDRESSES, parents)


@table_asset(tables.EXPIRED_ADDRESSES, "mark", after=[tables.POLICY_EXPIRATIONS.name])
def expired_addresses(
    context: dg.AssetExecutionContext, config: MarkConfig, runs: Runs, **parents: StoredTable
) -> Made:
    """The objects that may go and why.

    They are the listed objects that are old enough and neither committed, staged nor held, and what
    the repository's retention policy lets go.
    """
    with runs.making(context.partition_key, tables.EXPIRED_ADDRESSES, config) as run:
        return engine.closed_runs.make_or_stored(run, tables.EXPIRED_ADDRESSES, parents)


@declared(
    VERDICT,
    "mark",
    "json",
    after=[tables.EXPIRED_ADDRESSES.name],
    metadata={
        "file": dg.MetadataValue.text(
            f"{lakegc_keys.ROOT}{tables.EXPIRED_ADDRESSES.folder}/run_id=<run>/_verdict.json"
        )
    },
)
def verdict(context: dg.AssetExecutionContext, runs: Runs) -> dg.MaterializeResult[Any]:
    """The stored result of the mark's checks, passed or not. It is written once and closes the run.

    Dagster needs only this asset before a sweep; the sweep itself checks again.
    """
    with runs.opened(context.partition_key, VERDICT) as run:
        concluded, repeated = engine.closed_runs.conclude_or_stored(
            run, again=context.retry_number > 0
        )
        told = of_concluded(run, concluded)
    worked = work_metadata(runs.work_of(context.partition_key, VERDICT))
    return dg.MaterializeResult(metadata={**repeated_metadata(repeated), **told, **worked})
