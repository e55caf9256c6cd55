"""What the sweep of a run did with objects, and whether one takes what its mark let go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from spark_core import lakegc_keys
from spark_core.checks import confirming, verdict
from spark_core.errors import TABLES_UNREADABLE, CorruptTableError, VerdictError
from spark_core.explain.explanation import Reason, State, instant_in_words
from spark_core.model import RunKey
from spark_core.plain_text import counted
from spark_core.records import journal, tables
from spark_core.records.figures import DeletionFigures
from spark_core.records.journal import Journal
from spark_core.records.swept import left_by_sweep, quarantine_ends_at, rows_about
from spark_core.report.how_to_undo import undo_words
from spark_core.run import Run
from spark_core.storage.outcomes import GONE
from spark_core.sweep import quarantine


@dataclass(frozen=True)
class Outcome:
    """What a sweep did with an object.

    Attributes:
        run: Whose sweep it was.
        state: Of the object since then.
        why: Why the mark let it go, in few words.
        reasons: What was done, and the way back.
    """

    run: RunKey
    state: State
    why: str
    reasons: tuple[Reason, ...]


def outcomes_of(run: Run, addresses: Sequence[str]) -> dict[str, Outcome]:
    """Say what a run's sweep did with objects, by address; nothing if it did nothing."""
    return _outcomes({address: (run, row) for address, row in _told(run, addresses).items()})


def outcomes_of_any(run: Run, addresses: Sequence[str]) -> tuple[dict[str, Outcome], int]:
    """Say what became of objects by the sweep that tells most of each, whichever run's it was.

    An older mark may be swept after a newer one.

    Args:
        run: Its own sweep is asked first, then those of the other runs, newest first.
        addresses: Relative addresses.

    Returns:
        Outcomes by address; and how many runs were passed over because what they wrote cannot be
        read.
    """
    best: dict[str, tuple[Run, dict[str, Any]]] = {}
    left, unread = list(addresses), 0
    folders = (tables.DELETION_REPORT.folder, lakegc_keys.JOURNAL)
    others = {key for folder in folders for key in tables.runs(run.store, folder)} - {run.key}
    for key in (run.key, *sorted(others, reverse=True)):
        if not left:
            break
        one = run.at(key)
        try:
            told = _told(one, left)
        except TABLES_UNREADABLE:
            unread += 1
            continue
        for address, row in told.items():
            if address not in best or _told_less(row) < _told_less(best[address][1]):
                best[address] = (one, row)
        left = [each for each in left if each not in best or _told_less(best[each][1])]
    return _outcomes(best), unread


def gone_from_the_store(run: Run, addresses: Sequence[str]) -> dict[str, Outcome]:
    """Say what became of objects that the store has no more, by address; of each something."""
    if not addresses:
        return {}
    told, unread = outcomes_of_any(run, addresses)
    nobody = f"the store has it no more, and no report says who deleted it{as_far_as_known(unread)}"
    unknown = Outcome(run.key, "gone", "", (Reason("sweep", nobody),))
    return {address: told.get(address, unknown) for address in addresses}


def as_far_as_known(unread: int) -> str:
    """Say that some runs could not be asked."""
    runs = counted(unread, "run")
    return f", as far as is known: what {runs} wrote cannot be read" if unread else ""


def _told_less(row: Mapping[str, Any]) -> int:
    """Return 0 for a row that tells who deleted an object, more for one that tells less."""
    return {"deleted": 0, "intended": 1, "already_gone": 3}.get(row["outcome"], 2)


def _outcomes(rows: Mapping[str, tuple[Run, Mapping[str, Any]]]) -> dict[str, Outcome]:
    told = {address: _outcome(run, row) for address, (run, row) in rows.items()}
    return {address: outcome for address, outcome in told.items() if outcome is not None}


def _told(run: Run, addresses: Sequence[str]) -> dict[str, dict[str, Any]]:
    return rows_about(run.store, run.key, addresses, run.load, run.environment.spark)


def _outcome(run: Run, row: Mapping[str, Any]) -> Outcome | None:
    """Say what a row comes to now; None for an intent whose object the store has."""
    said = row["outcome"]
    if said == "deleted":
        text = f"run {run.key} deleted it at {row['deleted_at']:%Y-%m-%d %H:%M:%S} UTC"
    elif said == "already_gone":
        text = f"run {run.key} found it gone already"
    elif said == "intended":
        text = (
            f"the sweep of run {run.key} was about to delete it at {row['at']:%Y-%m-%d %H:%M:%S} "
            "UTC, and did not write down what became of it"
        )
    else:
        text = f"the sweep of run {run.key} left it: {said}, {row['error']}"
    told = partial(Outcome, run.key, why=row["reason"])
    if run.store.exists(row["address"]):
        if said == "intended":
            return None
        back = ", and it is in the store again" if said in GONE else ""
        return told("kept", reasons=(Reason("sweep", f"{text}{back}"),))
    if said == "already_gone":
        text += ", so a restore of that run does not bring it back"
        return told("gone", reasons=(Reason("sweep", text),))
    if said not in ("deleted", "intended"):
        text += "; the store has it no more, and no report says who deleted it"
        return told("gone", reasons=(Reason("sweep", text),))
    proof = f"The checks before it are in {run.store.root}{lakegc_keys.verdict_key(run.key)}."
    texts = (text, f"{proof}{_second_look(run)}", _way_back(run, row["address"]))
    reasons = tuple(Reason("sweep", one) for one in texts)
    return told("deleted" if said == "deleted" else "gone", reasons=reasons)


def _second_look(run: Run) -> str:
    """Say when a sweep looked last at what is referenced; nothing where no report tells."""
    if not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        return ""
    look = DeletionFigures.of(run.load(tables.DELETION_REPORT).manifest).second_look
    if look is None:
        return ""
    return (
        " Before it deleted, the sweep read again what is referenced; its last look (branches: "
        f"{look.branches:,}, retained commits: {look.retained_commits:,}) began at "
        f"{instant_in_words(look.began)}."
    )


def _way_back(run: Run, address: str) -> str:
    command = f"`lakegc restore {run.repository.id} {run.key} --dry-run`"
    end = journal.ended(run.store, run.key)
    swept = None
    if run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        swept = run.load(tables.DELETION_REPORT).manifest
    elif end is None:
        return f"The sweep has not ended: {command} shows whether it can bring it back."
    only = "Only what the store itself keeps (versions, soft delete) can bring it back: "
    is_aside = run.store.exists(quarantine.key_of(run.key, address))
    if is_aside and end is not None and (swept is None or any(left_by_sweep(swept))):
        return f"The sweep left no report of its end: {end.words}. {command} shows whether it can."
    if not is_aside and (swept is None or quarantine_ends_at(swept) is not None):
        return f"Nothing of it is in the run's quarantine. {only}{command} shows whether it can."
    return (
        swept is not None and undo_words(run, swept)
    ) or f"{only}{command} shows whether it can."


def whether_a_sweep_takes_it(run: Run) -> list[Reason]:
    """Say whether the checks let the mark be swept."""
    try:
        found = verdict.load(run)
        names = ", ".join(check["name"] for check in confirming.refusing(run.store, run.key, found))
    except VerdictError:
        return [Reason("sweep", "the mark was not checked yet, so no sweep takes it")]
    except CorruptTableError as damaged:
        return [Reason("sweep", f"no sweep takes it: {damaged.found}")]
    begun = Journal(run.store, str(run.key), run.load(tables.EXPIRED_ADDRESSES).manifest.sha256)
    if names:
        return [Reason("sweep", f"the mark is refused by {names}, so no sweep takes it")]
    if begun.parts() and not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        return [Reason("sweep", "a sweep of the mark was begun and has not ended")]
    words = (
        "every check of the mark passed" if found.passed else "what the checks found is confirmed"
    )
    return [Reason("sweep", words)]
