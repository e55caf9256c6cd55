"""Keep house after a run that has done its work, and only then; no error of it fails the run."""

from __future__ import annotations

from dataclasses import replace

from spark_core import sweep
from spark_core.checks import confirming, sweepable, verdict
from spark_core.errors import LakegcError
from spark_core.phases import keeping_house, phase
from spark_core.records import tables
from spark_core.records.figures import CommitsFigures, ListedFigures
from spark_core.records.tables import DELETION_REPORT, NAMESPACE_SLICES, RETAINED_COMMITS
from spark_core.records.verdict_document import Verdict
from spark_core.run import Run
from spark_core.upkeep import prune_own_tables
from spark_core.upkeep.house_keeping_result import House, Pruned
from spark_core.upkeep.server_files import left_by_server


def after_run(run: Run) -> House:
    """Keep house if this run has done its work; else do nothing, and say why.

    The caller may have chosen only this step, for any run. A run whose mark did not pass knows
    nothing that may be acted on. A run that is still to be swept has not ended.

    Args:
        run: The run.
    """
    try:
        why = _why_not_yet(run, verdict.stored_here(run))
        if why is None and verdict.is_concluded(run):
            # To do nothing, what this process stored is enough. What deletes asks the store.
            run.forget()
            why = _why_not_yet(run, verdict.load(run))
    except LakegcError as unknown:
        why = unknown.found
    return keep_house(run) if why is None else House(Pruned(not_now=why), None)


def _why_not_yet(run: Run, found: Verdict) -> str | None:
    confirmed = confirming.confirmed_checks(run, found)
    if failed := [str(check["name"]) for check in found.failed if check["name"] not in confirmed]:
        return f"the mark of run {run.key} did not pass ({', '.join(failed)})"
    sweepable.require_recent(run, found)
    if not run.options.may_sweep:
        return None
    # A sweep by this process forgets that it stored the verdict.
    if verdict.is_concluded(run) or not run.store.exists(
        tables.manifest_key(DELETION_REPORT, run.key)
    ):
        return f"run {run.key} is not swept yet"
    sweep.require_complete(run.load(DELETION_REPORT))
    return None


def keep_house(run: Run) -> House:
    """Prune, and count what the server left, after a run has done its work; no error fails the run.

    Args:
        run: The run that has ended well.
    """
    left, pruned = None, Pruned()
    try:
        with phase(lambda: keeping_house(pruned.gone)):
            dumped = CommitsFigures.of(run.load(RETAINED_COMMITS).manifest)
            prefix = ListedFigures.of(run.load(NAMESPACE_SLICES).manifest).table_prefix
            of_dump = {"dump_files": dumped.dump_files, "dump_bytes": dumped.dump_bytes}
            left = replace(left_by_server(run.store, prefix), **of_dump)
            prune_own_tables.prune(run, pruned)
            if pruned.server_objects:
                left = replace(left_by_server(run.store, prefix), **of_dump)
    except LakegcError as problem:
        return House(pruned, left, str(problem))
    return House(pruned, left)
