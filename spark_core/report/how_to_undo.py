"""The words of a report on how to get back what its sweep deleted."""

from __future__ import annotations

from spark_core import lakegc_keys
from spark_core.errors import LakegcError
from spark_core.records.figures import DeletionFigures
from spark_core.records.manifest import Manifest
from spark_core.records.swept import quarantine_ends_at
from spark_core.run import Run


def undo_words(run: Run, swept: Manifest, *, just_swept: bool = False) -> str:
    """Say until when, and how, the objects of a sweep come back.

    Args:
        run: The run.
        swept: Manifest of its deletion report.
        just_swept: The sweep ended a moment ago, so what the store says now was true of the sweep.
            Later its answer says nothing about objects that were deleted before somebody changed
            its settings.

    Returns:
        Sentences; empty if nothing was deleted or nothing keeps it.
    """
    if not DeletionFigures.of(swept).deleted_objects:
        return ""
    command = f"`lakegc restore {run.repository.id} {run.key}` brings"
    until = quarantine_ends_at(swept)
    if until is not None:
        # It is read later, too, when house-keeping has been there.
        return (
            "What was deleted was moved to quarantine, under "
            f"{run.store.root}{lakegc_keys.in_quarantine(run.key)}. The first house-keeping after "
            f"{until:%Y-%m-%d %H:%M} UTC deletes it for good; until then it takes up its space, "
            f"and {command} it back."
        )
    try:
        hint = run.store.undelete_hint() if just_swept else None
    except LakegcError:
        # A hint takes rights that a sweep does not need, and the report matters more than the hint.
        hint = None
    return f"{hint} As long as that holds, {command} them back." if hint else ""
