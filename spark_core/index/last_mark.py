"""Find the last mark that passed, what it saved, and what audits found since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from spark_core import lakegc_keys
from spark_core.errors import LakegcError, NotFoundError, VerdictError
from spark_core.index import saved as saved_documents
from spark_core.index.saved import Saved
from spark_core.model import RunKey
from spark_core.records import confirmation, reading, tables
from spark_core.records.figures import ListedFigures
from spark_core.records.verdict_document import Verdict
from spark_core.run import Run

# The check of a clean run that compares the optimized ones before it with what it finds.
AUDIT = "optimized_runs_were_right"


@dataclass(frozen=True)
class Last:
    """The last mark that passed, if any.

    Attributes:
        key: Its key.
        verdict: Its verdict.
        why: Why nothing may be taken from it; empty for nothing.
        blocked_by: Newer clean runs whose audit found something that nobody has confirmed.
    """

    key: RunKey | None = None
    verdict: Verdict | None = field(default=None, repr=False)
    why: str = ""
    blocked_by: tuple[str, ...] = ()


def last_passed(run: Run, keys: Sequence[RunKey]) -> Last:
    """Find the last mark that passed, newest first.

    An optimized mark that did not end or did not pass, for whatever reason, makes the next one
    clean. So what stops one of them does not stop the next night's.
    """
    blocked: list[str] = []
    why = ""
    for key in keys:
        try:
            verdict = _verdict(run, key)
        except NotFoundError:
            if _was_optimized(run, key):
                why = why or f"run {key}, an optimized one, did not end"
            continue
        except LakegcError as damaged:
            return Last(None, None, why or damaged.found, tuple(blocked))
        if verdict.instance != run.instance:
            why = why or f"run {key} is of another instance of the repository"
            return Last(None, None, why, tuple(blocked))
        audited = any(check["name"] == AUDIT for check in verdict.failed)
        if audited and not _is_confirmed(run, str(key)):
            blocked.append(str(key))
        if verdict.passed:
            return Last(key, verdict, why, tuple(blocked))
        if _was_optimized(run, key):
            why = why or f"run {key}, an optimized one, did not pass its checks"
    return Last(None, None, why or "no mark of this repository has passed yet", tuple(blocked))


def still_blocked(run: Run, key: RunKey | None) -> set[str]:
    """Return the audits that the last mark that passed knew of, and that nobody has confirmed."""
    if key is None:
        return set()
    try:
        known = saved_by(run, key).blocked_by
    except LakegcError:
        # What it saved is lost; its first table names them, too.
        slices = reading.load_table(run.store, tables.NAMESPACE_SLICES, key).manifest
        known = ListedFigures.of(slices).blocked_by or ()
    return {name for name in known if not _is_confirmed(run, name)}


def as_stored(run: Run, key: RunKey, verdict: Verdict) -> Saved:
    """Read what a run saved, and compare it with the verdict.

    Raises:
        LakegcError: If it cannot be read, or if the verdict names something else, or nothing.
    """
    named = verdict.tables[tables.EXPIRED_ADDRESSES.name].get("saved", "")
    if named is None:
        raise VerdictError("it saved nothing")
    saved = saved_by(run, key)
    if saved.digest != named:
        raise VerdictError("what it saved is not what its verdict names")
    return saved


def saved_by(run: Run, key: RunKey) -> Saved:
    """Read what a run saved; a process reads it once, and the caller compares it."""
    where = lakegc_keys.saved_key(key)
    if where not in run.documents:
        run.documents[where] = saved_documents.load(run.store, key)
    found: Saved = run.documents[where]
    return found


def _verdict(run: Run, key: RunKey) -> Verdict:
    """Read a verdict; a process reads it once."""
    where = lakegc_keys.verdict_key(key)
    if where not in run.documents:
        run.documents[where] = Verdict.from_json(run.store.read(where), name=where)
    found: Verdict = run.documents[where]
    return found


def _was_optimized(run: Run, key: RunKey) -> bool:
    try:
        slices = reading.load_table(run.store, tables.NAMESPACE_SLICES, key).manifest
        return ListedFigures.of(slices).is_optimized
    except LakegcError:
        return False  # it did not come so far


def _is_confirmed(run: Run, name: str) -> bool:
    return confirmation.load(run.store, RunKey.parse(name), AUDIT) is not None
