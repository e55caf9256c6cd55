"""Why an object that a mark let go may go, and what became of it since."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import holds, lakegc_keys
from spark_core.errors import TABLES_UNREADABLE
from spark_core.explain.explanation import Explanation, Reason, instant_in_words
from spark_core.explain.outcomes import (
    Outcome,
    as_far_as_known,
    gone_from_the_store,
    outcomes_of,
    outcomes_of_any,
    whether_a_sweep_takes_it,
)
from spark_core.fates.fate import WhyMayGo, rule_in_words
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures
from spark_core.references.policies.document import UNCOMMITTED
from spark_core.run import Run

_UNREADABLE = "can no longer be read (pruned by `keep_runs`, or taken away)"
# How the addresses begin that lakeFS gives.
_OF_LAKEFS = re.compile("data/[0-9a-v]{20}/")
# Earlier runs whose staged entries are looked through.
_EARLIER = 14
_NO_RECORD = "lakeFS keeps no record of what became of it"
_SIGNED = "a client wrote it at an address that lakeFS had given out, and "


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
    never = _never_committed(
        run, [address for address in unnamed if short[address] == WhyMayGo.NEVER_COMMITTED]
    )
    held = held_now(run, {each: words[each]["path"] if each in words else None for each in short})
    standing = [*_held_since_the_mark(run), *whether_a_sweep_takes_it(run)]
    try:
        outcomes = outcomes_of(run, addresses)
    except TABLES_UNREADABLE as problem:
        outcomes = {}
        standing.append(Reason("sweep", f"what its sweep wrote cannot be read: {problem.found}"))
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


def held_now(run: Run, paths: Mapping[str, str | None]) -> dict[str, Reason]:
    """Return the holds that keep objects by their addresses or paths now, by address.

    Args:
        run: The run.
        paths: The known path of each object, by its address; None if none is known.
    """
    now = holds.load(run.store)
    known = [None if path is None else path.encode() for path in paths.values()]
    by_address = now.reasons(pa.array(list(paths), pa.string()))
    by_path = now.reasons_of_paths(pa.array(known, pa.binary()))
    return {
        address: Reason("hold", f"{text} keeps it from any sweep")
        for address, text in zip(paths, pc.coalesce(by_address, by_path).to_pylist(), strict=True)
        if text
    }


def _held_since_the_mark(run: Run) -> list[Reason]:
    """Name the holds by path that were made after the mark: they may keep what it let go."""
    known = {
        (hold.name, hold.value)
        for hold in ExpiredFigures.of(run.load(tables.EXPIRED_ADDRESSES).manifest).holds
    }
    return [
        Reason(
            "hold",
            f"{hold.words} was made after the mark: a sweep looks for such paths in every commit "
            "before it deletes",
        )
        for hold in holds.load(run.store).of_paths
        if (hold.name, hold.value) not in known
    ]


def _by_policy(run: Run, addresses: Sequence[str]) -> dict[str, Explanation]:
    """Say which rule of the retention policy lets each object go, and under which name."""
    try:
        if ExpiredFigures.of(run.load(tables.EXPIRED_ADDRESSES).manifest).policy is None:
            return {}
        rows = run.load(tables.POLICY_EXPIRATIONS).rows_of(addresses, run.environment.spark)
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


def _never_committed(run: Run, addresses: Sequence[str]) -> dict[str, str]:
    """Say what became of objects that no commit had, as far as it can be told.

    lakeFS keeps no record of staged entries that were dropped. Earlier marks do: their tables of
    staged entries.

    Args:
        run: The run that let them go.
        addresses: Their relative addresses.

    Returns:
        The words for each, by address.
    """
    left, told = list(addresses), {}
    earlier = [key for key in tables.runs(run.store, lakegc_keys.UNCOMMITTED) if key < run.key]
    for key in earlier[:_EARLIER]:
        if not left:
            break
        try:
            staged = run.at(key).load(tables.UNCOMMITTED_ADDRESSES)
            found = staged.rows_of(left, run.environment.spark, by_hash=True)
        except TABLES_UNREADABLE:
            continue
        for address in found:
            told[address] = (
                f"{WhyMayGo.NEVER_COMMITTED}: run {key} found it staged, "
                "and since then no branch has it"
            )
        left = [address for address in left if address not in told]
    for address in left:
        told[address] = (
            f"{WhyMayGo.NEVER_COMMITTED}: {_SIGNED if ',' in address else ''}{_NO_RECORD}"
        )
    return told


def _explanations(run: Run, addresses: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the stored explanations of objects that may go; none where none were made."""
    try:
        return run.load(tables.EXPLANATIONS).rows_of(addresses, run.environment.spark)
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
        hint = (
            ""
            if _OF_LAKEFS.match(address)
            else f"; a path is named as lakefs://{run.repository.id}/"
            f"{run.repository.default_branch}/{address}"
        )
        return Explanation(
            run.repository.id,
            address,
            str(run.key),
            "unknown",
            f"the listing of run {run.key} {listing}, and no stored run deleted it"
            f"{as_far_as_known(unread)}{hint}",
            (),
        )
    # The report says why, too: it outlives the other tables of its run.
    other, why = run.at(outcome.run), outcome.why
    row = _explanations(other, [address]).get(address)
    if row is None and why == WhyMayGo.NEVER_COMMITTED:
        why = _never_committed(other, [address])[address]
    was = _by_policy(other, [address]).get(address) or _was(other, address, row, why)
    return with_outcome(was, outcome)
