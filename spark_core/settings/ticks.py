"""The longest pause between two ticks of a schedule."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise

from croniter import croniter

from spark_core.settings.sections import ScheduleSettings

# A year and a day have each pause of a schedule, such as a summer without ticks.
_DAYS = 367
_MINUTE = timedelta(minutes=1)


@cache
def longest_pause(schedule: ScheduleSettings) -> timedelta:
    """Return the longest time between two ticks of a schedule.

    All days that have ticks have them at the same times of the day, so one is looked at whole, and
    of the others the first tick.
    """
    # In the hours that people read: a night is a day long also where clocks are changed.
    begin = datetime(2024, 1, 1)  # noqa: DTZ001 - as above
    looked_at = 2 if schedule.cron.split()[2:] == ["*", "*", "*"] else _DAYS
    days = sorted({_next(schedule, begin + timedelta(days=day)) for day in range(looked_at)})
    ticks = [days[0]]
    while (later := _next(schedule, ticks[-1] + _MINUTE)).date() == days[0].date():
        ticks.append(later)
    # Where a leap day alone has ticks, its next one is four years later.
    between = max(later - earlier for earlier, later in pairwise([*days, later]))
    return max(
        [between - (ticks[-1] - ticks[0]), *(later - earlier for earlier, later in pairwise(ticks))]
    )


def _next(schedule: ScheduleSettings, since: datetime) -> datetime:
    """Return the first tick at an instant or after it."""
    found: datetime = croniter(schedule.cron, since - _MINUTE).get_next(datetime)
    return found
