"""List the objects whose quarantine days are over: those are due to be purged.

Executors list the quarantine and compare it with the journal; the driver holds the names of slices.
The driver itself lists few objects, with the same code.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from spark_core.errors import LakegcError
from spark_core.model import RunKey
from spark_core.records import journal, reading, tables, writing
from spark_core.records.manifest import Part
from spark_core.records.swept import quarantine_ends_at, quarantined_runs
from spark_core.records.writing import Receipt, Target
from spark_core.run import Run
from spark_core.sweep.quarantined import COPIES, quarantined
from spark_core.upkeep.own_files import has_quarantined

# The objects whose quarantine days are over.
OVER = COPIES


def runs_due(run: Run) -> tuple[tuple[RunKey, ...], LakegcError | None]:
    """Return the runs with objects that may have been in quarantine for longer than their days.

    What cannot be read of a run keeps its own quarantine, and no other; it is returned, too.

    A sweep that left no report may still be resumed, so its quarantine is not looked at before
    somebody has ended its journal (`dead_sweeps`). The days that a report or such an end promises
    hold, even if the options say fewer days by now.

    Args:
        run: Any run of the repository; its options say how long.

    Raises:
        LakegcError: If the folder cannot be listed.
    """
    found, problem = list[RunKey](), None
    for key in quarantined_runs(run.store):
        try:
            due = _due_from(run, key)
            if due is not None and run.now() >= due and has_quarantined(run.store, key):
                found.append(key)
        except LakegcError as unreadable:
            problem = unreadable
    return tuple(found), problem


def _due_from(run: Run, key: RunKey) -> datetime | None:
    """Return when the first object of a run may go; None if nobody knows."""
    if run.store.exists(tables.manifest_key(tables.DELETION_REPORT, key)):
        report = reading.load_table(run.store, tables.DELETION_REPORT, key).manifest
        by_options = report.reading_ended + timedelta(days=run.options.quarantine_days)
        return max(by_options, quarantine_ends_at(report) or by_options)
    end = journal.ended(run.store, key)
    # What a listing did not show then may be there: its own days decide.
    return None if end is None else end.first_until or end.ended_at


def list_due(run: Run, planned: str) -> tuple[tuple[Part, ...], int, LakegcError | None]:
    """List the objects whose days are over, and write them down: gone ones cannot be listed again.

    Args:
        run: The run.
        planned: Folder for what is written. Few objects that the driver lists lie in no file, but
            in their part itself.

    Returns:
        Parts with columns of `OVER`; how many keys in the folders no sweep put there; and why a run
        was passed over.
    """
    receipts, strangers = list[Receipt](), 0
    due, problem = runs_due(run)
    for key in due:
        target = Target(run.store, planned, writing.new_attempt(), OVER, holds=writing.HELD_BYTES)
        list_run = partial(quarantined, run, key, target, _before(run, key))
        try:
            (counted, _), written = writing.removed_on_failure(target, list_run)
        except LakegcError as unreadable:
            problem = unreadable
            continue
        receipts += written
        strangers += counted["strangers"]
    return writing.parts_of(receipts), strangers, problem


def _before(run: Run, key: RunKey) -> datetime:
    """Return when the days of an object must have begun that are over now."""
    end = journal.ended(run.store, key)
    promised = timedelta(seconds=0 if end is None else end.kept_seconds)
    return run.now() - max(timedelta(days=run.options.quarantine_days), promised)
