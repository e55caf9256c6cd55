"""What the assets of the six tables say of themselves alike."""

from collections.abc import Callable, Sequence

import dagster as dg

from lakegc_dagster.metadata import table_metadata
from lakegc_dagster.partitions import REPOSITORY_RUN
from spark_core.records.tables import Draft, TableSpec


def table_asset(
    spec: TableSpec, group: str, *kinds: str, deps: Sequence[dg.AssetsDefinition] = ()
) -> Callable[[Callable[..., Draft]], dg.AssetsDefinition]:
    """Declare the asset of a table.

    Args:
        spec: The table.
        group: Group in the asset graph.
        kinds: Shown as icons, beside Spark and Parquet.
        deps: Assets that it comes after without reading them through Dagster.
    """
    return dg.asset(
        name=spec.name,
        group_name=group,
        kinds={"spark", "parquet", *kinds},
        partitions_def=REPOSITORY_RUN,
        io_manager_key="tables",
        metadata=table_metadata(spec),
        deps=deps,
    )
