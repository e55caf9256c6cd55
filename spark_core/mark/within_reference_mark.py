"""A mark of lakeFS's own job that a run must stay within: what it names, and what came of that."""

from __future__ import annotations

import pyarrow as pa

from spark_core.addresses.address_hashes import hashed
from spark_core.errors import ChainError
from spark_core.fates import Fate
from spark_core.mark.compared import NAMED
from spark_core.mark.fate_rows import Decided
from spark_core.records.figures import ListedFigures, ReferenceFigures
from spark_core.records.reading import StoredTable
from spark_core.reference_job import marks
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches


def reference_addresses(run: Run, slices: StoredTable) -> marks.Addresses | None:
    """Read the mark of lakeFS's own job that the run must stay within; None if there is none.

    Raises:
        ChainError: If the run was begun to stay within another mark, or within none.
    """
    begun_with = ListedFigures.of(slices.manifest).reference_mark
    if begun_with != run.reference_mark:
        raise ChainError(
            f"run {run.key} of {run.repository.id} was begun to verify {_mark_words(begun_with)}, "
            f"now it is to verify {_mark_words(run.reference_mark)}",
            "Use a new run key.",
        )
    if run.reference_mark is None:
        return None
    mark = marks.load(run.store, run.reference_mark)
    tasks = run.reading_tasks(len(mark.parts))
    return marks.addresses(lambda: run.spark, run.store, mark, tasks=tasks)


def _mark_words(mark_id: object) -> str:
    return (
        "no mark of the reference job"
        if mark_id is None
        else f"mark {mark_id} of the reference job"
    )


def named_objects(named: marks.Addresses) -> AnySource:
    """Return what a mark of lakeFS's own job names: columns of `compared.NAMED`."""
    return named.source.through(NAMED, _by_mark)


def _by_mark(batches: Batches) -> Batches:
    for batch in batches:
        address = batch.column("address").drop_null()
        columns = [hashed(address), address, pa.nulls(len(address), pa.string())]
        yield pa.record_batch(columns, schema=NAMED)


def reference_figures(named: marks.Addresses, decided: Decided) -> ReferenceFigures:
    """Say what a mark of lakeFS's own job names, and what lakegc would let go without it."""
    eligible = (Fate.UNREFERENCED, Fate.NOT_NAMED)
    return ReferenceFigures(
        mark_id=named.mark.mark_id,
        cutoff_time=named.mark.summary.cutoff_time,
        num_deleted_objects=named.mark.summary.num_deleted_objects,
        parts={part.key: part.sha256 for part in named.parts},
        eligible_objects=sum(decided.objects[fate] for fate in eligible),
        eligible_bytes=sum(decided.size_bytes[fate] for fate in eligible),
    )
