"""Why an object that a mark let go may go, and what became of it since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_core.errors import TABLES_UNREADABLE
from spark_core.explain.explanation import Explanation, Reason, instant_in_words
from spark_core.explain.held import held_now, held_since_the_mark
from spark_core.explain.never_committed import never_committed
from spark_core.explain.outcomes import (
    Outcome,
    as_far_as_known,
    gone_from_the_store,
    outcomes_of,
    outcomes_of_any,
    whether_a_sweep_takes_it,
)
from spark_core.explain.stored_rows import rows_of
from spark_core.fates.fate import WhyMayGo, rule_in_words
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures
from spark_core.references.policies.document import UNCOMMITTED
from spark_core.run import Run

_UNREADABLE = "can no longer be read (pruned by `keep_runs`, or taken away)"


def let_go(run: Run, short: Mapping[str, str]) -> dict[str, Explanation]:
    """Explain objects that a mark let go.

    Args:
        run: The run.
        short: The reason in its table 5, by address.
    """
    if not short:
        return {}
    addresses = list(short)
    words = _explanations(run, addresses)
    by_policy = _by_policy(run, addresses)
    unnamed = [address for address in addresses if address not in words]
    never = never_committed(
        run, [address for address in unnamed if short[address] == WhyMayGo.NEVER_COMMITTED]
    )
    held = held_now(run, {each: words[each]["path"] if each in words else None for each in short})
    standing = [*held_since_the_mark(run), *whether_a_sweep_takes_it(run)]
    outcomes = outcomes_of(run, addresses)
    absent = [
        each
        for each in addresses
        if (each not in outcomes or outcomes[each].state == "gone") and not run.store.exists(each)
    ]
    by_any = gone_from_the_store(run, absent)
    explained = {}
    for address in addresses:
        why = never.get(address, short[address])
        found = by_policy.get(address) or _was(run, address, words.get(address), why)
        also = (held[address],) if address in held else ()
        found = replace(found, reasons=(*found.reasons, *also, *standing))
        outcome = by_any.get(address) or outcomes.get(address)
        explained[address] = (
            replace(found, sentence=f"may go: {found.sentence}")
            if outcome is None
            else with_outcome(found, outcome)
        )
    return explained


def with_outcome(found: Explanation, outcome: Outcome) -> Explanation:
    """Complete what an object was with what became of it."""
    sentence = f"{outcome.state}: {outcome.reasons[0].text}"
    return replace(
        found,
        state=outcome.state,
        sentence=f"{sentence}; {found.sentence}" if found.sentence else sentence,
        reasons=(*found.reasons, *outcome.reasons),
    )


def _by_policy(run: Run, addresses: Sequence[str]) -> dict[str, Explanation]:
    """Say which rule of the retention policy lets each object go, and under which name."""
    try:
        if ExpiredFigures.of(run.load(tables.EXPIRED_ADDRESSES).manifest).policy is None:
            return {}
        rows = rows_of(run, tables.POLICY_EXPIRATIONS, addresses)
    except TABLES_UNREADABLE:
        return {}
    found = {}
    for address, row in rows.items():
        path = row["path"].decode(errors="replace")
        where = "a branch that is not known" if row["branch"] is None else row["branch"]
        how = "staged" if row["action"] == UNCOMMITTED else "committed"
        due = instant_in_words(row["due_since"].isoformat())
        text = f"{path}, {how} on {where}: {row['reason']}, due since {due}"
        found[address] = Explanation(
            run.repository.id,
            address,
            str(run.key),
            "may go",
            text,
            (Reason("rule", text),),
            rule=row["reason"],
            path=path,
            branch=row["branch"],
        )
    return found


def _was(run: Run, address: str, row: Mapping[str, Any] | None, short: str) -> Explanation:
    """Say what an object that may go was: its stored explanation, or else its short reason."""
    text = short if row is None else str(row["explanation"])
    found = Explanation(
        run.repository.id,
        address,
        str(run.key),
        "may go",
        text,
        (Reason("rule", text),) if text else (),
        rule=text,
    )
    if row is None:
        return found
    return replace(
        found,
        rule=rule_in_words(row, run.key.instant),
        path=row["path"],
        other_paths=row["other_paths"],
        commit_id=row["commit_id"],
        branch=row["branch"],
        replaced_at=row["replaced_at"].isoformat(),
    )


def _explanations(run: Run, addresses: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the stored explanations of objects that may go; none where none were made."""
    try:
        return rows_of(run, tables.EXPLANATIONS, addresses)
    except TABLES_UNREADABLE:
        return {}


def not_listed(run: Run, address: str, *, is_pruned: bool = False) -> Explanation:
    """Look for an object in what the sweeps of all runs wrote down.

    Args:
        run: The run that did not list it.
        address: Its relative address.
        is_pruned: What the run listed cannot be read any more.
    """
    outcomes, unread = outcomes_of_any(run, [address])
    if (outcome := outcomes.get(address)) is None:
        listing = _UNREADABLE if is_pruned else "has no such object"
        return Explanation(
            run.repository.id,
            address,
            str(run.key),
            "unknown",
            f"the listing of run {run.key} {listing}, and no stored run deleted it"
            f"{as_far_as_known(unread)}",
            (),
        )
    # The report says why, too: it outlives the other tables of its run.
    other, why = replace(run, key=outcome.run), outcome.why
    row = _explanations(other, [address]).get(address)
    if row is None and why == WhyMayGo.NEVER_COMMITTED:
        why = never_committed(other, [address])[address]
    was = _by_policy(other, [address]).get(address) or _was(other, address, row, why)
    return with_outcome(was, outcome)
