"""The first sweep of a repository, where nothing that is deleted can come back.

A person who deletes for the first time should know whether the deletion can be undone. On a disk it
always can, as long as the settings do not say otherwise: a quarantine is a move there. On another
store a copy costs requests and space, so nobody decides that for the operator: without a word in
the settings, and without versions or soft delete, the first sweep is refused and says what to
choose.
"""

from __future__ import annotations

from spark_core.errors import UnsafePlanError
from spark_core.records import tables
from spark_core.run import Run


def unanswered(run: Run) -> str | None:
    """Say what a first sweep would delete for ever; None if it may go on as it is set.

    At most two requests, to the store, and none where the settings say `quarantine`.

    Args:
        run: The run that sweeps, or would.
    """
    if run.options.quarantine is not None or run.namespace.kind == "local":
        return None
    if any(
        run.store.exists(tables.manifest_key(tables.DELETION_REPORT, key))
        for key in tables.runs(run.store, tables.DELETION_REPORT.folder)
    ):
        return None
    after = run.store.after_deletion()
    return None if after.keeps else after.words.rstrip(".")


def require_answered(run: Run) -> None:
    """Refuse a first sweep that nobody could undo, unless the settings say that it may be.

    Raises:
        UnsafePlanError: If it would be the first one, and `quarantine` is not set.
    """
    words = unanswered(run)
    if words is not None:
        raise UnsafePlanError(
            f"this is the first sweep of {run.repository.id}, and what it deletes could not come "
            f"back: {words}",
            f"Set `quarantine = true`: objects are moved aside for {run.options.quarantine_days:g} "
            "days, which costs six requests an object and their space, and `lakegc restore` brings "
            "them back. Or set `quarantine = false` (`--yes` of `lakegc` for one command): they "
            "are deleted at once. Later sweeps do not ask.",
        )
