"""Why an object is kept, may go, or is gone, as the stored runs know it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from spark_core.errors import NotFoundError
from spark_core.explain.commits_having import Holder, holders
from spark_core.explain.explanation import NAMED, Explanation, Reason, instant_in_words
from spark_core.explain.let_go import held_now, let_go, not_listed, with_outcome
from spark_core.explain.outcomes import gone_from_the_store
from spark_core.fates import Fate
from spark_core.fates.fate import written_after_inventory, written_too_lately
from spark_core.records import tables
from spark_core.records.figures import ListedFigures
from spark_core.run import Run

_REACHED = Reason("commit", "a retained commit had it when the run was marked")


def explain(run: Run, address: str) -> Explanation:
    """Say why an object is kept or may go, or when it was deleted; see `explain_each`.

    Examples:
        >>> explain(run, live).state, explain(run, dead).state
        ('kept', 'may go')
    """
    (found,) = explain_each(run, [address])
    return found


def explain_each(run: Run, addresses: Sequence[str]) -> list[Explanation]:
    """Say why objects are kept or may go, or when they were deleted.

    Each table of the run is read once, however many objects are asked about; of one that it did not
    list, or that is gone, the reports and journals of all runs are read.

    Args:
        run: The run whose tables are read; if its listing lacks an object or is pruned, what the
            sweeps of all runs wrote down is looked through.
        addresses: Relative addresses, few enough for the driver.

    Returns:
        One for each address, in their order.

    Raises:
        ChainError: If the run has no mark.
    """
    try:
        listed = run.load(tables.NAMESPACE_SLICES).rows_of(addresses, run.environment.spark)
        fates = _fates(run, list(listed))
    except NotFoundError:
        # Deletion reports outlive the tables of their runs.
        return [not_listed(run, address, is_pruned=True) for address in addresses]
    found = _looked_up(run, listed, fates)
    return [found.get(address) or not_listed(run, address) for address in addresses]


def _looked_up(
    run: Run, listed: Mapping[str, Mapping[str, Any]], fates: Mapping[str, Mapping[str, Any]]
) -> dict[str, Explanation]:
    """Explain the objects that a run listed, by the fates that it stored."""
    reached = [address for address in listed if address not in fates]
    having = holders(run, run.load(tables.RETAINED_COMMITS), reached) if reached else {}
    held = held_now(
        run, {each: having[each][0].path if each in having else None for each in listed}
    )
    going = {each: row["why"] for each, row in fates.items() if Fate(row["fate"]).may_go}
    found = let_go(run, going)
    vanished = gone_from_the_store(
        run,
        [each for each in reached if not (having.get(each) or run.store.exists(each))],
    )
    for address, row in listed.items():
        known, commits = fates.get(address), having.get(address, ())
        if address in going:
            found[address] = replace(found[address], fate=fates[address]["fate"])
        elif address in vanished:
            knew = f"run {run.key} knew it from the index"
            was = Explanation(run.repository.id, address, str(run.key), "gone", knew, ())
            found[address] = with_outcome(was, vanished[address])
        else:
            fate = Fate(known["fate"]) if known else Fate.COMMITTED
            reasons = [_reason(run, known, row)] if known else _commits(commits) or [_REACHED]
            if address in held and fate is not Fate.HELD:
                reasons.append(held[address])
            found[address] = _kept(run, address, fate, reasons, commits)
        found[address] = _as_listed(found[address], row)
    return found


def _fates(run: Run, addresses: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the stored fates of listed objects.

    One that a retained commit reaches has none, unless a policy takes it.
    """
    found = run.load(tables.FATES).rows_of(addresses, run.environment.spark, by_hash=True)
    return {each: row for each, row in found.items() if row["address"] in (None, each)}


def _as_listed(found: Explanation, row: Mapping[str, Any]) -> Explanation:
    return replace(
        found, size_bytes=row["size_bytes"], last_modified=row["last_modified"].isoformat()
    )


def _kept(
    run: Run,
    address: str,
    fate: Fate,
    reasons: Sequence[Reason],
    of_commits: Sequence[Holder] = (),
) -> Explanation:
    sentence = f"kept: {reasons[0].text}"
    until = [reason.until for reason in reasons]
    if None not in until:
        latest = max(text for text in until if text)
        sentence += f"; under the rules of that run it cannot go before {instant_in_words(latest)}"
    found = Explanation(
        run.repository.id,
        address,
        str(run.key),
        "kept",
        sentence,
        tuple(reasons),
        rule=reasons[0].text,
        fate=fate.value,
    )
    if not of_commits:
        return found
    first = of_commits[0]
    return replace(
        found,
        path=first.path,
        commit_id=first.commit_id,
        rule=f"in a retained commit ({first.reason})",
    )


def _reason(run: Run, row: Mapping[str, Any], listed: Mapping[str, Any]) -> Reason:
    """Say why an object has its fate, as the mark stored it."""
    fate, why, until = Fate(row["fate"]), row["why"], row["until"]
    if fate in (Fate.YOUNG, Fate.UPLOADING):
        text = _age(run, fate, listed["last_modified"])
    else:
        text = fate.with_cause(why)
    return Reason(fate, text, until.isoformat() if until and until > run.key.instant else None)


def _age(run: Run, fate: Fate, modified: datetime) -> str:
    figures = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest)
    limits, inventory = run.as_decided(figures).limits, figures.inventory
    if inventory is not None and fate is Fate.YOUNG and modified < limits.cutoff:
        return written_after_inventory(modified, inventory.created_at)
    limit = limits.uploads_cutoff if fate is Fate.UPLOADING else limits.cutoff
    return written_too_lately(modified, run.key.instant - limit)


def _commits(found: Sequence[Holder]) -> list[Reason]:
    shown = [
        Reason(
            "commit",
            f"commit {one.commit_id[:12]} has it as {one.path} ({one.reason})",
            one.retained_until,
        )
        for one in found[:NAMED]
    ]
    if len(found) > NAMED:
        left = found[NAMED:]
        until = [one.retained_until for one in left]
        latest = None if None in until else max(text for text in until if text)
        shown.append(Reason("commit", f"{len(left)} more commits have it", latest))
    return shown
