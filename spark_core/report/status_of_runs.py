"""Sums up the runs of a repository to its status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from spark_core.fates import Fate
from spark_core.model import RunKey
from spark_core.prices import Price
from spark_core.records.figures import Collects
from spark_core.report.fate_counts import Amount, total
from spark_core.report.past_run import PastRun
from spark_core.report.status import OTHER_KINDS, KindStatus, RepositoryStatus
from spark_core.report.values import bytes_text

LATELY = timedelta(days=30)
# The fates of what nothing reaches and a run of another kind leaves.
_LEFT = (Fate.NOT_NAMED, Fate.LEFT_TO_OTHERS)
# The freshness policy warns at the same share of the time between two runs.
_LATE_AFTER = 1.5


def status_of(
    repository_id: str,
    runs: Sequence[PastRun],
    now: datetime,
    *,
    pause: timedelta,
    may_sweep: bool,
    price: Price | None = None,
    max_mark_age: timedelta = timedelta(0),
    are_all: bool = True,
) -> RepositoryStatus:
    """Sum up the runs of a repository.

    Args:
        repository_id: Repository name.
        runs: Its runs, newest first.
        now: The time.
        pause: The longest time between two runs of the schedule.
        may_sweep: Whether the repository's mode is `sweep`.
        price: As the settings have it.
        max_mark_age: How long after its mark a sweep may begin.
        are_all: Whether the repository has no older runs than these.
    """
    good = next((run for run in runs if run.passed and run.collects == "all"), None)
    newest = runs[0] if runs else None
    lately = _swept_within(runs, now - LATELY, now)
    before = _swept_within(runs, now - 2 * LATELY, now - LATELY)
    # A mark of the collection reads and names anew what waits from marks of other kinds before it.
    collected = next((at for at, run in enumerate(runs) if _concluded(run, "all")), len(runs))
    found = RepositoryStatus(
        repository_id,
        **_of_kind(repository_id, "all", runs, runs, may_sweep=may_sweep),
        runs=len(runs),
        only_newest=None if are_all else len(runs),
        newest=None if newest is None else newest.run,
        newest_state=None if newest is None else newest.state,
        reclaimed_lately=_reclaimed(lately),
        reclaimed_before=_reclaimed(before),
        lately_is_whole=are_all or _began_before(runs, now - LATELY - max_mark_age),
        reclaimed=_reclaimed(runs),
        in_quarantine=total(run.in_quarantine for run in runs),
        left_by_dead=_left_by_dead(runs, may_sweep=may_sweep),
        listed=next((total(run.fates.values()) for run in runs if run.fates), (0, 0)),
        overdue=_overdue(good, runs, now, pause, are_all=are_all),
        others=tuple(
            KindStatus(**_of_kind(repository_id, kind, runs, runs[:collected], may_sweep=may_sweep))
            for kind in OTHER_KINDS
            if any(run.collects == kind for run in runs)
        ),
        price=price,
    )
    if price is None:
        return found
    return replace(found, money_per_month=_money_per_month(found, runs, price, lately, before))


def _swept_within(runs: Sequence[PastRun], after: datetime, until: datetime) -> list[PastRun]:
    """Return the runs whose sweep ended in a time: after its beginning, at its end or before."""
    return [run for run in runs if run.swept_at is not None and after < run.swept_at <= until]


def _money_per_month(
    found: RepositoryStatus,
    runs: Sequence[PastRun],
    price: Price,
    lately: Sequence[PastRun],
    before: Sequence[PastRun],
) -> dict[str, float]:
    """Return what the bytes of a status cost in a month, by what they are."""
    return {
        "listed": _cost_of_listed(runs, price),
        "reclaimed": _saved(runs, price),
        "reclaimed_lately": _saved(lately, price),
        "reclaimed_before": _saved(before, price),
        "waiting": max(_cost_of_waiting(kind, runs, price) for kind in found.kinds),
        "in_quarantine": price.amount(found.in_quarantine[1]),
    }


def _cost_of_listed(runs: Sequence[PastRun], price: Price) -> float:
    newest = next((run for run in runs if run.fates), None)
    if newest is None:
        return 0.0
    size_bytes = total(newest.fates.values())[1]
    return price.over(newest.listed_by_class, size_bytes).amount(size_bytes)


def _saved(runs: Sequence[PastRun], price: Price) -> float:
    return sum(run.price_of_expired(price).amount(run.saved_bytes) for run in runs)


def _cost_of_waiting(kind: KindStatus, runs: Sequence[PastRun], price: Price) -> float:
    run = next((run for run in runs if run.run == kind.waiting_run), None)
    return 0.0 if run is None else run.price_of_expired(price).amount(kind.waiting[1])


def _of_kind(
    repository_id: str,
    kind: Collects,
    runs: Sequence[PastRun],
    may_wait: Sequence[PastRun],
    *,
    may_sweep: bool,
) -> dict[str, Any]:
    """Sum up the runs of one kind, as the values of `KindStatus`.

    Args:
        repository_id: Repository name.
        kind: The kind.
        runs: All runs, newest first.
        may_wait: Those of them whose objects may still wait.
        may_sweep: Whether the repository's mode is `sweep`.
    """
    good = next((run for run in runs if run.passed and run.collects == kind), None)
    sweep = next((run for run in runs if run.swept and run.collects == kind), None)
    concluded = next((run for run in may_wait if _concluded(run, kind)), None)
    waits_for, next_step = _waits_for(repository_id, concluded, may_sweep=may_sweep)
    found: dict[str, Any] = {"collects": kind, "waits_for": waits_for, "next_step": next_step}
    if good is not None:
        found |= {
            "last_mark": good.run,
            "last_marked_at": good.concluded_at,
            "last_mark_kind": good.kind,
            "last_mark_why_full": good.why_full,
        }
    if sweep is not None:
        found |= {"last_sweep": sweep.run, "last_swept_at": sweep.swept_at}
    if concluded is not None:
        found["refused"] = tuple(concluded.refused.items())
        if waits_for:
            found["waiting"] = _still_waiting(concluded, runs)
            found["waiting_run"] = concluded.run
            if not found["waiting"][0]:
                return {**found, "waiting_run": None, "waits_for": "", "next_step": ""}
    return found


def _still_waiting(mark: PastRun, runs: Sequence[PastRun]) -> Amount:
    """Return what of the objects of a mark no sweep since took, that of whichever run."""
    waiting = mark.not_swept
    for other in runs:
        if other.swept_at is None or mark.began is None or other.swept_at <= mark.began:
            continue
        if other.run < mark.run:
            gone = other.outcomes.get("deleted", (0, 0))
            waiting = (max(0, waiting[0] - gone[0]), max(0, waiting[1] - gone[1]))
        elif other.run > mark.run and mark.collects != "policies":
            # A later mark names anew what nothing reaches, and says what of that it leaves.
            left = (other.fates.get(name, (0, 0)) for name in _LEFT)
            waiting = min(waiting, total((other.not_swept, *left)))
    return waiting


def _concluded(run: PastRun, kind: Collects) -> bool:
    return run.concluded_at is not None and run.collects == kind


def _reclaimed(runs: Sequence[PastRun]) -> tuple[int, int]:
    return total(run.reclaimed for run in runs)


def _waits_for(repository_id: str, run: PastRun | None, *, may_sweep: bool) -> tuple[str, str]:
    """Say what the newest mark waits for, and the command that goes on."""
    if (
        run is None
        or not run.expired_objects
        or run.ended_by
        or run.state in {"swept", "unreadable"}
    ):
        return "", ""
    if run.state == "restored":
        # Who brings objects back is not told to sweep the rest.
        return ("its sweep or a new mark, after a restore" if run.not_swept[0] else ""), ""
    named = f"{repository_id} --run {run.run}"
    if run.refused:
        if set(run.refused) - set(run.confirmable):
            return "", ""
        checks = " and ".join(run.confirmable)
        return (
            f"confirmation of {checks}",
            f"lakegc confirm {repository_id} {run.confirmable[0]} --run {run.run}",
        )
    if not may_sweep:
        return 'a sweep (mode = "mark")', f"lakegc report {named}"
    begun = "its sweep to go on" if run.state != "marked" else "a sweep"
    return begun, f"lakegc sweep {named}"


def _left_by_dead(runs: Sequence[PastRun], *, may_sweep: bool) -> str:
    """Say what lies in quarantine whose days nobody counts yet; empty if nothing does."""
    dead = [run for run in runs if run.in_quarantine[0] and not (run.swept or run.ended_by)]
    objects, size_bytes = total(run.in_quarantine for run in dead)
    once = "" if may_sweep else ', once mode is `sweep` (mode = "mark" ends none)'
    return bool(dead) * (
        f"{objects:,} objects, {bytes_text(size_bytes)}, were moved to quarantine by sweeps that "
        f"left no report (run {', '.join(run.run for run in dead)}): the next sweep or "
        f"house-keeping after them ends these{once}, and then says until when the objects stay"
    )


def _began_before(runs: Sequence[PastRun], instant: datetime) -> bool:
    return bool(runs) and RunKey.parse(runs[-1].run).instant <= instant


def _overdue(
    good: PastRun | None, runs: Sequence[PastRun], now: datetime, pause: timedelta, *, are_all: bool
) -> str:
    if not runs:
        return "it was never marked"
    if good is None or good.concluded_at is None:
        words = (
            "no mark of it ever passed"
            if are_all
            else f"no mark of its newest {len(runs)} runs passed"
        )
        only_others = any(run.passed for run in runs)
        return f"{words} that lets go what nothing reaches" if only_others else words
    late = now - good.concluded_at
    if late > _LATE_AFTER * pause:
        words = f"the last good mark ended {_long(late)} ago"
        return f"{words}, and the longest pause of the schedule is {_long(pause)}"
    return ""


def _long(time: timedelta) -> str:
    """Say a duration in the unit that suits it.

    Examples:
        >>> [_long(timedelta(hours=hours)) for hours in (0.5, 1, 47, 60)]
        ['30 minutes', '1 hour', '47 hours', '2.5 days']
    """
    hours = time.total_seconds() / 3600
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    count, unit = (hours, "hour") if hours >= 1 else (hours * 60, "minute")
    return f"{count:.0f} {unit}{'' if round(count) == 1 else 's'}"
