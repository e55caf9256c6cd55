"""How all assets are declared: once as functions, and made for the names of each collector."""

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import dagster as dg

from lakegc_dagster.metadata import table_metadata
from lakegc_dagster.names import Names
from lakegc_dagster.partitions import repository_run
from spark_core.records.tables import TableSpec

Deletes = Literal["nothing", "objects", "old_tables"]


@dataclass(frozen=True)
class Asset:
    """An asset that is made for each collector of a project.

    Attributes:
        name: What lakegc calls it; the last part of its key.
        make: Makes it for the names of a collector.
    """

    name: str
    make: Callable[[Names], dg.AssetsDefinition]


def declared(
    name: str,
    group: str,
    *kinds: str,
    deletes: Deletes = "nothing",
    after: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Asset]:
    """Declare an asset of one partition by its function, which takes `runs` beside its context.

    Args:
        name: Its name.
        group: Group in the asset graph.
        kinds: Shown as icons.
        deletes: What it may delete, as the tag `lakegc/deletes`; the tag finds the assets that
            delete.
        after: Names of assets that it comes after without reading any table through Dagster.
        metadata: What is known of it before it is made.
    """
    return lambda function: Asset(
        name,
        lambda names: dg.asset(
            **_common(names, name, group, deletes, kinds),
            deps=[names.key(other) for other in after],
            metadata={**(metadata or {}), **code_of(function)},
        )(with_runs(names, function)),
    )


def table_asset(
    spec: TableSpec,
    group: str,
    *kinds: str,
    deletes: Deletes = "nothing",
    reads: bool = True,
    after: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], Asset]:
    """Declare the asset of a table; the rest is as for `declared`.

    Args:
        spec: The table.
        group: Group in the asset graph.
        kinds: Shown as icons, beside Spark and Parquet.
        deletes: What making it may delete.
        reads: Whether the tables that the spec names as parents are its inputs. The asset of the
            sweep reads its parent itself.
        after: Names of further assets that it comes after.
    """
    parents = spec.parents if reads else ()
    return lambda function: Asset(
        spec.name,
        lambda names: dg.asset(
            **_common(names, spec.name, group, deletes, ("spark", "parquet", *kinds)),
            io_manager_key=names.named("tables"),
            metadata={**table_metadata(spec), **code_of(function)},
            ins={parent: dg.AssetIn(names.key(parent)) for parent in parents},
            deps=[names.key(other) for other in after],
        )(with_runs(names, function)),
    )


def _common(
    names: Names, name: str, group: str, deletes: Deletes, kinds: Sequence[str]
) -> dict[str, Any]:
    return {
        "key": names.key(name),
        "group_name": names.named(group),
        "kinds": set(kinds),
        "partitions_def": repository_run(names),
        "pool": names.pool,
        "owners": list(names.owners),
        "tags": {"lakegc/deletes": deletes},
        "required_resource_keys": {names.named("runs")},
    }


def code_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the metadata that leads from an asset to the code that makes it."""
    with warnings.catch_warnings():
        # A beta of Dagster's; what it shows is only a link.
        warnings.simplefilter("ignore", dg.BetaWarning)
        place = dg.LocalFileCodeReference(
            file_path=function.__code__.co_filename, line_number=function.__code__.co_firstlineno
        )
        found = dg.CodeReferencesMetadataValue(code_references=[place])
    return {"dagster/code_references": found}


def with_runs(names: Names, function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function its `runs` from the resource of a collector.

    Dagster itself finds a resource only by the name of a parameter, and that is the same for all
    collectors.

    Args:
        names: The names of the collector.
        function: Takes a context first, and `runs`.
    """
    shown = inspect.signature(function)

    @functools.wraps(function)
    def made(context: Any, *args: Any, **inputs: Any) -> Any:
        runs = getattr(context.resources, names.named("runs"))
        return function(context, *args, runs=runs, **inputs)

    others = [each for name, each in shown.parameters.items() if name != "runs"]
    # Dagster takes what a function returns for its output, unless the function itself yields.
    yields = inspect.isgeneratorfunction(function)
    returns = inspect.Signature.empty if yields else shown.return_annotation
    made.__signature__ = shown.replace(  # type: ignore[attr-defined]
        parameters=others, return_annotation=returns
    )
    # Older versions of Dagster look at the annotations alone.
    hidden = {"runs", "return"} if yields else {"runs"}
    given = inspect.get_annotations(function).items()
    made.__annotations__ = {name: hint for name, hint in given if name not in hidden}
    return made
