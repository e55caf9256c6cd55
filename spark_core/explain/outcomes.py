"""What the sweep of a run did with objects, and whether one takes what its mark let go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_core import lakegc_keys
from spark_core.checks import confirming, verdict
from spark_core.errors import VerdictError
from spark_core.explain.explanation import Reason, State
from spark_core.explain.stored_rows import rows_of
from spark_core.records import tables
from spark_core.records.journal import Journal
from spark_core.report.undo import undo_words
from spark_core.run import Run


@dataclass(frozen=True)
class Outcome:
    """What a sweep did with an object.

    Attributes:
        state: Of the object since then.
        why: Why the mark let it go, in few words.
        reasons: What was done, and the way back.
    """

    state: State
    why: str
    reasons: tuple[Reason, ...]


def outcomes_of(run: Run, addresses: Sequence[str]) -> dict[str, Outcome]:
    """Say what a run's sweep did with objects, by address; nothing if it did nothing."""
    if not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        return {}
    rows = rows_of(run, tables.DELETION_REPORT, addresses)
    back = undo_words(run, run.load(tables.DELETION_REPORT).manifest) or (
        "Only what the store itself keeps (versions, soft delete) can bring it back: `lakegc "
        f"restore {run.repository.id} {run.key} --dry-run` shows whether it can."
    )
    return {address: _outcome(run, address, row, back) for address, row in rows.items()}


def _outcome(run: Run, address: str, row: Mapping[str, Any], back: str) -> Outcome:
    why = row["reason"]
    if row["outcome"] not in ("deleted", "already_gone"):
        text = f"the sweep of run {run.key} left it: {row['outcome']}, {row['error']}"
        return Outcome("kept", why, (Reason("sweep", text),))
    gone = (
        f"run {run.key} found it gone already"
        if row["deleted_at"] is None
        else f"run {run.key} deleted it at {row['deleted_at']:%Y-%m-%d %H:%M:%S} UTC"
    )
    if run.store.exists(address):
        text = f"{gone}, and it is in the store again: it was restored"
        return Outcome("kept", why, (Reason("sweep", text),))
    proof = f"The checks before it are in {run.store.root}{lakegc_keys.verdict_key(run.key)}."
    texts = (gone, proof, back)
    return Outcome("deleted", why, tuple(Reason("sweep", text) for text in texts))


def whether_a_sweep_takes_it(run: Run) -> list[Reason]:
    """Say whether the checks let the mark be swept."""
    try:
        found = verdict.load(run)
    except VerdictError:
        return [Reason("sweep", "the mark was not checked yet, so no sweep takes it")]
    confirmed = confirming.confirmed_checks(run, found)
    names = ", ".join(check["name"] for check in found.failed if check["name"] not in confirmed)
    begun = Journal(run.store, str(run.key), run.load(tables.EXPIRED_ADDRESSES).manifest.sha256)
    if names:
        return [Reason("sweep", f"the mark is refused by {names}, so no sweep takes it")]
    if begun.parts() and not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        return [Reason("sweep", "a sweep of the mark was begun and has not ended")]
    words = (
        "every check of the mark passed" if found.passed else "what the checks found is confirmed"
    )
    return [Reason("sweep", words)]
