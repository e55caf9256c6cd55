"""All that Dagster shows of what a run stored, whoever made the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakegc_dagster.headlines.of_runs import of_verdict
from lakegc_dagster.headlines.of_tables import of_stored
from lakegc_dagster.metadata import Metadata, above, counters_metadata, manifest_metadata
from spark_core.records import tables
from spark_core.records.reading import StoredTable
from spark_core.run.local_path import page_after, page_to_open

if TYPE_CHECKING:
    from spark_core.mark_and_sweep import Concluded
    from spark_core.run import Run


def of_table_of_run(run: Run, stored: StoredTable, page: Mapping[str, str]) -> Metadata:
    """Say of a table of a run what a person asks, with the counters of its manifest below.

    Args:
        run: The run.
        stored: The table.
        page: As `mark_and_sweep.keep` gives it.
    """
    manifest = stored.manifest
    shown = page_to_open(run, page_after(run, manifest.table, page))
    where = f"{run.store.root}{tables.folder(tables.BY_NAME[manifest.table], run.key)}"
    return above(of_stored(manifest, run.options.price, shown), manifest_metadata(manifest, where))


def of_concluded(run: Run, concluded: Concluded) -> Metadata:
    """Say of a mark that ended what a person asks, with the facts of its verdict below."""
    page = page_to_open(run, concluded.page)
    headline = of_verdict(concluded.report, run.options.price, page)
    return above(headline, counters_metadata(concluded.facts))
