"""The state of a repository's collection in one line: last good runs, what waits, what is late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from spark_core.model import RunKey
from spark_core.report.past_runs import PastRun

LATELY = timedelta(days=30)
# The freshness policy warns at the same share of the time between two runs.
_LATE_AFTER = 1.5


@dataclass(frozen=True)
class RepositoryStatus:
    """One repository.

    Attributes:
        repository: Repository id.
        runs: How many runs it has, or how many of the newest were read.
        only_newest: That number, where older runs were not read; None if all were.
        last_mark: Run key of the newest mark that passed or was confirmed ...
        last_marked_at: ... and when it ended.
        last_mark_kind: What it read: `full` or `optimized`; empty if nobody knows ...
        last_mark_why_full: ... and why a mark that might be optimized was a full one.
        last_sweep: Run key of the newest sweep that left a report ...
        last_swept_at: ... and when it ended.
        newest: Run key of the newest run, whatever became of it ...
        newest_state: ... and what did.
        reclaimed_lately: Objects and bytes that sweeps of the last 30 days took from their places.
        lately_is_whole: Whether it has all of those sweeps; else some may be among older runs.
        reclaimed: The same of all sweeps. What was restored is not counted.
        in_quarantine: Those of them that lie in quarantine, and take up space.
        waiting: Objects and bytes that the newest mark names and nobody has swept ...
        waiting_run: ... and its run key.
        waits_for: What they wait for; empty if nothing waits.
        next_step: The command that goes on; empty if nothing waits.
        refused: Name of each check that refuses the newest mark -> its sentence.
        overdue: What is late, in sentences; empty if nothing is.
        price_per_gb_month: What a GB costs in a month; None if the settings do not say.
        problem: Why nothing else is known; empty if it is.
    """

    repository: str
    runs: int = 0
    only_newest: int | None = None
    last_mark: str | None = None
    last_marked_at: datetime | None = None
    last_mark_kind: str = ""
    last_mark_why_full: str = ""
    last_sweep: str | None = None
    last_swept_at: datetime | None = None
    newest: str | None = None
    newest_state: str | None = None
    reclaimed_lately: tuple[int, int] = (0, 0)
    lately_is_whole: bool = True
    reclaimed: tuple[int, int] = (0, 0)
    in_quarantine: tuple[int, int] = (0, 0)
    waiting: tuple[int, int] = (0, 0)
    waiting_run: str | None = None
    waits_for: str = ""
    next_step: str = ""
    refused: tuple[tuple[str, str], ...] = ()
    overdue: str = ""
    price_per_gb_month: float | None = None
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return its values as JSON has them."""
        return {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in {**asdict(self), "refused": dict(self.refused)}.items()
        }


def status_of(
    repository_id: str,
    runs: Sequence[PastRun],
    now: datetime,
    *,
    pause: timedelta,
    may_sweep: bool,
    price_per_gb_month: float | None = None,
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
        price_per_gb_month: As the settings have it.
        max_mark_age: How long after its mark a sweep may begin.
        are_all: Whether the repository has no older runs than these.
    """
    good = next((run for run in runs if run.passed), None)
    sweep = next((run for run in runs if run.swept), None)
    newest = runs[0] if runs else None
    concluded = next((run for run in runs if run.concluded_at is not None), None)
    waits_for, next_step = _waits_for(repository_id, concluded, may_sweep=may_sweep)
    return RepositoryStatus(
        repository_id,
        runs=len(runs),
        only_newest=None if are_all else len(runs),
        last_mark=None if good is None else good.run,
        last_marked_at=None if good is None else good.concluded_at,
        last_mark_kind="" if good is None else good.kind,
        last_mark_why_full="" if good is None else good.why_full,
        last_sweep=None if sweep is None else sweep.run,
        last_swept_at=None if sweep is None else sweep.swept_at,
        newest=None if newest is None else newest.run,
        newest_state=None if newest is None else newest.state,
        reclaimed_lately=_reclaimed(
            [run for run in runs if run.swept_at is not None and run.swept_at > now - LATELY]
        ),
        lately_is_whole=are_all or _began_before(runs, now - LATELY - max_mark_age),
        reclaimed=_reclaimed(runs),
        in_quarantine=_reclaimed([run for run in runs if run.in_quarantine]),
        waiting=(concluded.expired_objects or 0, concluded.expired_bytes or 0)
        if concluded is not None and waits_for
        else (0, 0),
        waiting_run=concluded.run if concluded is not None and waits_for else None,
        waits_for=waits_for,
        next_step=next_step,
        refused=() if concluded is None else tuple(concluded.refused.items()),
        overdue=_overdue(good, runs, now, pause, are_all=are_all),
        price_per_gb_month=price_per_gb_month,
    )


def _reclaimed(runs: Sequence[PastRun]) -> tuple[int, int]:
    figures = [run.reclaimed for run in runs]
    return sum(objects for objects, _ in figures), sum(size for _, size in figures)


def _waits_for(repository_id: str, run: PastRun | None, *, may_sweep: bool) -> tuple[str, str]:
    """Say what the newest mark waits for, and the command that goes on."""
    if run is None or not run.expired_objects or run.state in {"swept", "restored", "unreadable"}:
        return "", ""
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


def _began_before(runs: Sequence[PastRun], instant: datetime) -> bool:
    return bool(runs) and RunKey.parse(runs[-1].run).instant <= instant


def _overdue(
    good: PastRun | None, runs: Sequence[PastRun], now: datetime, pause: timedelta, *, are_all: bool
) -> str:
    if not runs:
        return "it was never marked"
    if good is None or good.concluded_at is None:
        return (
            "no mark of it ever passed"
            if are_all
            else f"no mark of its newest {len(runs)} runs passed"
        )
    late = now - good.concluded_at
    if late > _LATE_AFTER * pause:
        return f"the last good mark ended {_long(late)} ago, and one is due every {_long(pause)}"
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
