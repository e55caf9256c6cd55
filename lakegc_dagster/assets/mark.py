"""The five tables of the mark, in the order that makes them safe, and its verdict; nothing here deletes."""

from typing import Any

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.assets.declared import table_asset
from lakegc_dagster.metadata import figures_metadata
from lakegc_dagster.partitions import REPOSITORY_RUN
from lakegc_dagster.resources import Runs
from spark_core import layout
from spark_core.records import tables
from spark_core.records.tables import Draft, StoredTable

VERDICT = "verdict"


@table_asset(tables.NAMESPACE_SLICES, "mark")
def namespace_slices(context: dg.AssetExecutionContext, runs: Runs) -> Draft:
    """Every object found under `data/` of the storage namespace, with its size and age, slice by slice."""
    with runs.making(context.partition_key, tables.NAMESPACE_SLICES) as run:
        return engine.mark.namespace_slices(run)


@table_asset(tables.UNCOMMITTED_ADDRESSES, "mark", "lakefs")
def uncommitted_addresses(context: dg.AssetExecutionContext, runs: Runs, namespace_slices: StoredTable) -> Draft:
    """Every staged object, read completely before any commit is looked at: references only move from staged to committed."""
    with runs.making(context.partition_key, tables.UNCOMMITTED_ADDRESSES) as run:
        return engine.mark.uncommitted_addresses(run, namespace_slices)


@table_asset(tables.RETAINED_COMMITS, "mark", "lakefs")
def retained_commits(context: dg.AssetExecutionContext, runs: Runs, uncommitted_addresses: StoredTable) -> Draft:
    """Every commit that keeps its objects and why: the union of the server's list and lakegc's own reading of the rules."""
    with runs.making(context.partition_key, tables.RETAINED_COMMITS) as run:
        return engine.mark.retained_commits(run, uncommitted_addresses)


@table_asset(tables.COMMITTED_ADDRESSES, "mark", "lakefs")
def committed_addresses(context: dg.AssetExecutionContext, runs: Runs, retained_commits: StoredTable) -> Draft:
    """Every address that a retained commit reaches, read from lakeFS's own tables, each range once."""
    with runs.making(context.partition_key, tables.COMMITTED_ADDRESSES) as run:
        return engine.mark.committed_addresses(run, retained_commits)


@table_asset(tables.EXPIRED_ADDRESSES, "mark")
def expired_addresses(  # noqa: PLR0917 - an input per table; Dagster finds positional ones only
    context: dg.AssetExecutionContext,
    runs: Runs,
    namespace_slices: StoredTable,
    uncommitted_addresses: StoredTable,
    retained_commits: StoredTable,
    committed_addresses: StoredTable,
) -> Draft:
    """The objects that may go and why: the listing, old enough, minus everything that is committed or staged."""
    marked = engine.mark.Mark(namespace_slices, uncommitted_addresses, retained_commits, committed_addresses)
    with runs.making(context.partition_key, tables.EXPIRED_ADDRESSES) as run:
        return engine.mark.expired_addresses(run, marked)


@dg.asset(
    name=VERDICT,
    group_name="mark",
    kinds={"json"},
    partitions_def=REPOSITORY_RUN,
    deps=[expired_addresses],
    metadata={
        "file": dg.MetadataValue.text(f"{layout.ROOT}{tables.EXPIRED_ADDRESSES.folder}/run_id=<run>/_verdict.json")
    },
)
def verdict(context: dg.AssetExecutionContext, runs: Runs) -> dg.MaterializeResult[Any]:
    """The stored proof that a mark passed its checks, or did not; written once, it closes the run. The sweep asks for nothing else."""
    with runs.opened(context.partition_key, VERDICT) as run:
        return dg.MaterializeResult(metadata=figures_metadata(engine.collect.conclude(run).facts))
