"""What is asked again of a run that was marked or swept: it shows what is stored.

An orchestrator asks for a run key as often as somebody selects it. Nothing here changes what a
closed run left, and no sweep begins that was not begun under the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_core import checks_of_stored_tables, mark, mark_and_sweep, report, sweep
from spark_core.checks import CheckResult, confirming, sweepable, verdict
from spark_core.errors import ClosedPartitionError, VerdictError
from spark_core.lakegc_keys import verdict_key
from spark_core.mark_and_sweep import Concluded
from spark_core.records import journal
from spark_core.records.reading import StoredTable
from spark_core.records.tables import DELETION_REPORT, TableSpec
from spark_core.records.writing import Draft
from spark_core.references.policies import expirations
from spark_core.run import Run
from spark_core.sweep.plan import require_unfinished

# For what acts on a run that has just ended.
AT_REST = "nothing was done: a backfill, or a run that repeats another, changes nothing"
_UNCHANGED = "this shows what is stored, and nothing was changed"


@dataclass(frozen=True)
class NotSwept:
    """A sweep that was not begun under its run key, and was not begun now.

    Attributes:
        why: The reason, as a sentence.
    """

    why: str


ALREADY_MARKED = f"already marked: {_UNCHANGED}"
_ALREADY_SWEPT = f"already swept: {_UNCHANGED}"


def words_of(made: Draft | StoredTable) -> str | None:
    """Return the words for a table that was there already; None for one that was made now."""
    if isinstance(made, Draft):
        return None
    return _ALREADY_SWEPT if made.manifest.table == DELETION_REPORT.name else ALREADY_MARKED


def is_marked(run: Run) -> bool:
    """Say whether a run had its verdict before this process worked on it."""
    return not run.is_of_this_process and run.store.exists(verdict_key(run.key))


def make_or_stored(
    run: Run, spec: TableSpec, parents: Mapping[str, StoredTable]
) -> Draft | StoredTable:
    """Make a table of a mark, as `mark.make` does; that of a closed run is the stored one."""
    try:
        return mark.make(run, spec, parents)
    except ClosedPartitionError:
        return run.load(spec)


def policy_facts(run: Run) -> tuple[Mapping[str, Any], str | None]:
    """Return what `expirations.store_if_asked` does, and the words if it was there already."""
    if run.options.policies == "off" or not is_marked(run):
        return expirations.store_if_asked(run), None
    return expirations.stored_facts(run), ALREADY_MARKED


def conclude_or_stored(run: Run, *, again: bool) -> tuple[Concluded, str | None]:
    """End a mark, as `conclude_and_report` does; with the words if it had ended before.

    Args:
        run: The run.
        again: Whether this is another try of a step that may have stored the verdict.
    """
    if again or not is_marked(run):
        return mark_and_sweep.conclude_and_report(run), None
    return concluded(run), ALREADY_MARKED


def concluded(run: Run) -> Concluded:
    """Return the end of a mark as it is stored, with what was confirmed since; writes nothing.

    Raises:
        VerdictError: If there is no verdict, or it is of another format.
    """
    found, page = report.as_stored(run, swept=False)
    return Concluded(verdict.load(run), confirming.confirmed_results(run), page, found)


def sweep_or_stored(
    run: Run, tell: sweep.OnProgress, *, may_begin: bool
) -> Draft | StoredTable | NotSwept:
    """Sweep a mark, as `sweep_or_report` does; a sweep that is done is the stored report.

    Args:
        run: The run.
        tell: Called with the progress.
        may_begin: Whether a sweep may begin here; one that was begun under the key goes on.
    """
    if not may_begin:
        try:
            require_unfinished(run)
        except ClosedPartitionError:
            return run.load(DELETION_REPORT)
        if not journal.is_begun(run.store, run.key):
            return NotSwept(_why_not_swept(run))
    return mark_and_sweep.sweep_or_report(run, tell)


def results(run: Run, spec: TableSpec, words: str) -> Sequence[CheckResult]:
    """Return what was found of a table of a closed run; it stops nothing that goes on now.

    Args:
        run: The run.
        spec: The table.
        words: What was said of it now; of a sweep that was not begun, the check says the same.
    """
    if spec is not DELETION_REPORT:
        return [result for result in confirming.confirmed_results(run) if result.table == spec.name]
    if words == _ALREADY_SWEPT:
        return checks_of_stored_tables.judge(run, spec)
    return [CheckResult(checks_of_stored_tables.NOTHING_LEFT, spec.name, True, words, {})]


def _why_not_swept(run: Run) -> str:
    found = verdict.load(run)
    try:
        sweepable.require_recent(run, found)
    except VerdictError as expired:
        return f"mark expired: {expired.found}"
    return (
        f"not swept: no sweep was begun under run key {run.key}, and a backfill, or a run that "
        "makes a mark again, begins none. The job `sweep` does."
    )
