"""What a report says about getting back what its sweep deleted, as the sweep itself found it."""

from __future__ import annotations

from spark_core import quarantine
from spark_core.run import Run
from spark_core.tables import Manifest


def undo_words(run: Run, swept: Manifest) -> str:
    """Say until when, and how, the objects of a sweep come back.

    Args:
        run: The run.
        swept: Manifest of its deletion report.

    Returns:
        Sentences; empty where nothing was deleted or nothing keeps it.
    """
    if not swept.facts.get("deleted_objects"):
        return ""
    command = f"`lakegc restore {run.repository.id} {run.key}` brings them back."
    until = quarantine.ends_at(swept)
    if until is not None:
        return (
            f"What was deleted lies in quarantine, under {run.store.root}{quarantine.folder(run.key)}, until "
            f"{until:%Y-%m-%d %H:%M} UTC; the first house-keeping after that deletes it for good, and until then it takes up its "
            f"space. {command}"
        )
    hint = swept.facts.get("undelete_hint")
    return f"{hint} As long as that holds, {command}" if hint else ""
