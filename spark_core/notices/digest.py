"""One message a night: what it reclaimed, what waits for whom, and what did not come to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from spark_core.notices.messages import Message
from spark_core.plain_text import bytes_text, counted
from spark_core.prices import moneys_text
from spark_core.report.fate_counts import total
from spark_core.report.fleet import FleetRow, needs_a_person

# Repositories that a message names; the page has them all.
_NAMED = 20
# States of a newest run that nobody is at work on when a digest is made.
_NOT_ENDED = frozenset({"unfinished", "sweep unfinished", "swept in part", "unreadable"})


def digest_of(
    fleet: Sequence[FleetRow], since: datetime, *, failed: Mapping[str, str] | None = None
) -> Message:
    """Make the message about all repositories.

    Args:
        fleet: The repositories.
        since: When the night began: what was swept from then on was reclaimed in it.
        failed: Why the run of a repository did not come to its end, where that is known.
    """
    told = dict(failed or {})
    said = {row.status.repository: _what_to_know(row, told) for row in fleet}
    waiting = {name: words for name, words in said.items() if words}
    in_order = len(fleet) - len(waiting)
    verb = "is" if in_order == 1 else "are"
    lines = [f"{_reclaimed(fleet, since)} {in_order:,} of {_repositories(fleet)} {verb} in order."]
    for name in list(waiting)[:_NAMED]:
        lines += [f"{name}: {waiting[name][0]}", *(f"  {more}" for more in waiting[name][1:])]
    if len(waiting) > _NAMED:
        lines.append(f"and {len(waiting) - _NAMED:,} more; `lakegc status` shows them all.")
    subject = (
        f"{len(waiting):,} of {_repositories(fleet)} need{'s' * (len(waiting) == 1)} a person"
        if waiting
        else "a night in order"
    )
    return Message("digest", "", "", "\n".join(lines), subject=subject)


def _repositories(fleet: Sequence[FleetRow]) -> str:
    """Say how many repositories there are."""
    return "1 repository" if len(fleet) == 1 else f"{len(fleet):,} repositories"


def _reclaimed(fleet: Sequence[FleetRow], since: datetime) -> str:
    taken, priced = [], []
    for row in fleet:
        swept = [run for run in row.runs if run.swept_at is not None and run.swept_at >= since]
        taken.append(total(run.reclaimed for run in swept))
        if (price := row.status.price) is not None:
            priced += [(run.price_of_expired(price), run.saved_bytes) for run in swept]
    objects, size_bytes = total(taken)
    if not objects:
        return f"Nothing was reclaimed since {since:%Y-%m-%d %H:%M} UTC."
    costs = moneys_text(priced)
    cost = f", which saves {costs}" if costs else ""
    return (
        f"Reclaimed since {since:%Y-%m-%d %H:%M} UTC: {counted(objects, 'object')}, "
        f"{bytes_text(size_bytes)}{cost}."
    )


def _what_to_know(row: FleetRow, failed: Mapping[str, str]) -> list[str]:
    """Return what a person must know of a repository, and the way on; empty if nothing."""
    status, said = row.status, list[str]()
    if status.repository in failed:
        said.append(failed[status.repository])
    elif status.problem:
        said.append(status.problem)
    elif status.newest_state in _NOT_ENDED:
        said.append(f"its newest run, {status.newest}, is {status.newest_state}.")
    if not needs_a_person(status):
        return said
    if status.overdue:
        said.append(f"{status.overdue}.")
    for kind in status.kinds:
        if status.repository not in failed:
            said += [f"{name}: {why.rstrip('.')}." for name, why in kind.refused]
        if kind.refused and kind.waits_for:
            objects, size_bytes = kind.waiting
            size = f"{counted(objects, 'object')}, {bytes_text(size_bytes)},"
            said += [f"{size} wait for {kind.waits_for}.", f"Next: {kind.next_step}"]
    return said
