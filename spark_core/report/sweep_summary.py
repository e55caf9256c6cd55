"""Sums over the stored deletion report of a run: what its sweep did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.mark.group_sums import GroupSums
from spark_core.records import tables
from spark_core.records.figures import DeletionFigures
from spark_core.report.cautions import busy_store
from spark_core.report.how_to_undo import undo_words
from spark_core.report.report import Report
from spark_core.report.values import NAMED, FailedObject, Group, most_bytes_first
from spark_core.run import Run
from spark_core.spark.exchange import Batches

_OUTCOMES = ["address", "outcome", "error", "size_bytes"]
_NOT_DONE = ("refused", "failed")


def of_sweep(run: Run, mark: Report, *, just_swept: bool = False) -> Report:
    """Add to the report of a mark what its sweep did.

    Args:
        run: The run; its deletion report must be stored.
        mark: The report of the same mark.
        just_swept: The sweep ended a moment ago, as for `undo_words`.

    Raises:
        ChainError: If there was no sweep.
    """
    stored = run.load(tables.DELETION_REPORT)
    figures = DeletionFigures.of(stored.manifest)
    swept = replace(
        mark,
        sweep=stored.manifest.sha256,
        cautions=(*mark.cautions, *busy_store(figures)),
        undo=undo_words(run, stored.manifest, just_swept=just_swept),
    )
    # Outcomes that need no cause.
    gone = [
        Group("deleted", figures.deleted_objects or 0, figures.deleted_bytes),
        Group("already_gone", figures.already_gone_objects, figures.already_gone_bytes),
    ]
    if sum(group.objects for group in gone) == stored.manifest.rows:
        return replace(swept, outcomes=most_bytes_first(group for group in gone if group.objects))
    # The other outcomes are reported with their causes.
    outcomes, named = GroupSums(), list[FailedObject]()
    for sums, some in stored.source(_OUTCOMES).each(lambda: run.spark, _told):
        outcomes.merge(sums)
        named += some
    return replace(
        swept,
        outcomes=most_bytes_first(Group(*each) for each in outcomes.groups),
        failures=_first(named, *_NOT_DONE),
        spared=_first(named, "kept"),
    )


def _told(batches: Batches) -> tuple[GroupSums, list[FailedObject]]:
    """Sum up outcomes, and name the first objects that were not deleted.

    The outcome of a kept object has the reason up to the first colon.
    """
    sums, named = GroupSums(), list[FailedObject]()
    for batch in batches:
        outcome, error = batch.column("outcome"), pc.fill_null(batch.column("error"), "")
        why = pc.replace_substring_regex(error, "(?s):.*", "")
        kept = pc.binary_join_element_wise("kept", why, ": ")
        name = pc.if_else(pc.equal(outcome, "kept"), kept, outcome)
        sums.merge(GroupSums.of(name, batch.column("size_bytes")))
        rows = pa.table([batch.column("address"), outcome, error], _OUTCOMES[:3])
        left = rows.filter(pc.is_in(outcome, value_set=pa.array([*_NOT_DONE, "kept"])))
        named += [FailedObject(**row) for row in left.to_pylist()]
        named = [*_first(named, *_NOT_DONE), *_first(named, "kept")]
    return sums, named


def _first(rows: Iterable[FailedObject], *outcomes: str) -> tuple[FailedObject, ...]:
    own = (row for row in rows if row.outcome in outcomes)
    return tuple(sorted(own, key=lambda row: row.address)[:NAMED])
