"""Store a draft in the repository's own store and read it back, with its figures as metadata."""

from typing import TYPE_CHECKING

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.headlines import of_not_swept, of_table_of_run
from lakegc_dagster.in_dagster.done_before import repeated_metadata
from lakegc_dagster.metadata import work_metadata
from lakegc_dagster.names import Names, asset_name
from lakegc_dagster.resources import Runs
from spark_core.records import tables
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft

if TYPE_CHECKING:
    from spark_core.closed_runs import NotSwept


class TableIOManager(dg.IOManager):
    """Keeps each table as Parquet under `_lakefs/retention/gc/` of its repository.

    Args:
        runs: Opens the run of a partition.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def handle_output(
        self, context: dg.OutputContext, obj: "Draft | StoredTable | NotSwept"
    ) -> None:
        """Store a table; a source is read now, and a stored table is left as it is."""
        closed_runs = engine.closed_runs
        if isinstance(obj, closed_runs.NotSwept):
            context.add_output_metadata({**repeated_metadata(obj.why), **of_not_swept(obj.why)})
            return
        spec = tables.BY_NAME[obj.manifest.table] if isinstance(obj, StoredTable) else obj.spec
        with self._runs.opened(context.partition_key, spec.name) as run:
            stored, page = engine.collect.keep(run, obj)
            shown = of_table_of_run(run, stored, page)
            calls = dg.MetadataValue.int(run.server.requests.total())
        worked = work_metadata(self._runs.work_of(context.partition_key, spec.name))
        again = repeated_metadata(closed_runs.words_of(obj))
        context.add_output_metadata({**again, **shown, "server_calls_so_far": calls, **worked})

    def load_input(self, context: dg.InputContext) -> StoredTable:
        """Read a table's manifest; its rows are read when they are asked for."""
        spec = tables.BY_NAME[asset_name(context.asset_key)]
        with self._runs.opened(context.partition_key, spec.name) as run:
            return run.load(spec)


def build_table_io_manager(names: Names) -> dg.IOManagerDefinition:
    """Make the IO manager on the open runs that the assets use."""

    @dg.io_manager(
        required_resource_keys={names.named("runs")},
        description="Parquet and manifest under _lakefs/retention/gc/ of the repository.",
    )
    def table_io_manager(context: dg.InitResourceContext) -> TableIOManager:
        return TableIOManager(getattr(context.resources, names.named("runs")))

    return table_io_manager
