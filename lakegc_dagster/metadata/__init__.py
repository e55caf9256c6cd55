"""The metadata of a table in Dagster: its columns, and its manifest's figures in plottable form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
import pyarrow as pa

from lakegc_dagster.metadata.columns import COLUMNS
from spark_core.lakegc_keys import ROOT
from spark_core.records.manifest import ENCLOSED, Manifest
from spark_core.records.tables import TableSpec
from spark_core.spark.placement import Work

# Longer lists are evidence to look up in the manifest, not to read in a table cell.
_LONGEST_LIST = 20
_COUNT = "/count"
# Other names of an inner table are data: addresses, sentences, branches.
_NAME = re.compile(r"\w+")

Metadata = dict[str, dg.MetadataValue[Any]]


def table_schema(schema: pa.Schema, columns: Mapping[str, str]) -> dg.TableSchema:
    """Translate a table's columns to the schema that Dagster shows.

    Args:
        schema: The columns.
        columns: What each of them means.
    """
    return dg.TableSchema(
        [
            dg.TableColumn(
                field.name,
                str(field.type),
                columns[field.name],
                constraints=dg.TableColumnConstraints(nullable=bool(field.nullable)),
            )
            for field in schema
        ]
    )


def table_metadata(spec: TableSpec) -> Metadata:
    """Describe a table before it is made: columns, and where its Parquet will lie."""
    return {
        "dagster/column_schema": dg.MetadataValue.table_schema(
            table_schema(spec.schema, COLUMNS[spec.name])
        ),
        "dagster/table_name": dg.MetadataValue.text(f"lakegc.{spec.name}"),
        "folder": dg.MetadataValue.text(f"{ROOT}{spec.folder}/run_id=<run>/"),
    }


def manifest_metadata(manifest: Manifest, place: str) -> Metadata:
    """Describe a stored table; manifests carry no secrets, so everything in them may be shown.

    Args:
        manifest: Its manifest.
        place: Absolute URI of its folder.
    """
    seconds = (manifest.reading_ended - manifest.reading_began).total_seconds()
    return {
        "dagster/row_count": dg.MetadataValue.int(manifest.rows),
        "size_bytes": dg.MetadataValue.int(manifest.size_bytes),
        "seconds": dg.MetadataValue.float(round(seconds, 3)),
        "parts": dg.MetadataValue.int(len(manifest.parts)),
        "path": dg.MetadataValue.path(place),
        "dagster/uri": dg.MetadataValue.text(place),
        "manifest_sha256": dg.MetadataValue.text(manifest.sha256),
        **counters_metadata({**manifest.facts, ENCLOSED: ""}),
    }


def above(asked: Metadata, counters: Metadata) -> Metadata:
    """Put what a person asks above the engine's counters; a counter of the same name gives way."""
    # A list that gives way takes its count with it.
    return {
        **asked,
        **{
            name: value
            for name, value in counters.items()
            if name.removesuffix(_COUNT) not in asked
        },
    }


def page_metadata(facts: Mapping[str, str]) -> Metadata:
    """Show where a person opens a report's page, or why there is none.

    Args:
        facts: As `local_path.page_to_open` gives them; empty where no report is made.
    """
    shown: Metadata = {name: dg.MetadataValue.text(words) for name, words in facts.items()}
    if "page" in facts:
        page = facts["page"]
        is_link = page.startswith(("http://", "https://"))
        shown["page"] = dg.MetadataValue.url(page) if is_link else dg.MetadataValue.path(page)
    return shown


def work_metadata(work: Work | str) -> Metadata:
    """Say who did the work of an asset: its own process, or Spark, and how much of it."""
    return {"who_worked": dg.MetadataValue.text(str(work))}


def counters_metadata(figures: Mapping[str, Any]) -> Metadata:
    """Turn the engine's counters into entries; what counted nothing is left out."""
    return {
        name: value
        for name, value in figures_metadata(figures).items()
        if value.value not in (0, "") or isinstance(value.value, bool)
    }


def figures_metadata(figures: Mapping[str, Any]) -> Metadata:
    """Turn facts and figures into entries; entries of an inner table are named `outer/inner`.

    Where the names of an inner table are data, or all it has is lists, it is one entry: a key for
    each would hide the other entries, and widen the column of the keys at the cost of the values.
    """
    return dict(_entries(figures, ""))


def _entries(figures: Mapping[str, Any], above: str) -> Iterator[tuple[str, dg.MetadataValue[Any]]]:
    for name, value in figures.items():
        title = f"{above}{name}"
        if isinstance(value, Mapping) and _is_data(value):
            yield from _entries({name: value.items()}, above)
        elif isinstance(value, Mapping):
            yield from _entries(value, f"{title}/")
        elif isinstance(value, bool):
            yield title, dg.MetadataValue.bool(value)
        elif isinstance(value, int):
            yield title, dg.MetadataValue.int(value)
        elif isinstance(value, float):
            yield title, dg.MetadataValue.float(value)
        elif isinstance(value, str):
            yield title, dg.MetadataValue.text(value)
        elif value is not None:
            listed = list(value)
            yield f"{title}{_COUNT}", dg.MetadataValue.int(len(listed))
            if listed:
                yield title, dg.MetadataValue.json(listed[:_LONGEST_LIST])


def _is_data(table: Mapping[str, Any]) -> bool:
    return not all(map(_NAME.fullmatch, table)) or (
        bool(table) and all(isinstance(value, list | tuple) for value in table.values())
    )
