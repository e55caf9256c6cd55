"""The arguments that all assets are declared with."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypedDict

import dagster as dg

from lakegc_dagster.metadata import table_metadata
from lakegc_dagster.partitions import REPOSITORY_RUN
from spark_core.records.tables import TableSpec
from spark_core.records.writing import Draft

# The pool that each asset and each of its checks waits in: every run brings a Spark session of its
# own.
POOL = "lakegc"

Deletes = Literal["nothing", "objects", "old_tables"]


class Declared(TypedDict):
    """Arguments of `dg.asset`."""

    group_name: str
    partitions_def: dg.PartitionsDefinition
    pool: str
    owners: Sequence[str]
    tags: Mapping[str, str]


def declared(group: str, deletes: Deletes = "nothing") -> Declared:
    """Return the arguments that every asset is declared with.

    Args:
        group: Group in the asset graph.
        deletes: What it may delete, as the tag `lakegc/deletes`; the tag finds the assets that
            delete.
    """
    return {
        "group_name": group,
        "partitions_def": REPOSITORY_RUN,
        "pool": POOL,
        "owners": ["team:lakegc"],
        "tags": {"lakegc/deletes": deletes},
    }


def table_asset(
    spec: TableSpec,
    group: str,
    *kinds: str,
    deletes: Deletes = "nothing",
    deps: Sequence[dg.AssetsDefinition] = (),
    after: Sequence[str] = (),
) -> Callable[[Callable[..., Draft]], dg.AssetsDefinition]:
    """Declare the asset of a table.

    The tables that the spec names as parents are its inputs. The asset of the sweep reads its
    parent itself.

    Args:
        spec: The table.
        group: Group in the asset graph.
        kinds: Shown as icons, beside Spark and Parquet.
        deletes: What making it may delete.
        deps: Assets that it comes after without reading any table through Dagster.
        after: Names of further assets that it comes after.
    """
    return dg.asset(
        name=spec.name,
        kinds={"spark", "parquet", *kinds},
        io_manager_key="tables",
        metadata=table_metadata(spec),
        ins={} if deps else {name: dg.AssetIn(name) for name in spec.parents},
        deps=[*deps, *after],
        **declared(group, deletes),
    )
