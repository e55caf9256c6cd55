"""The ticks of a schedule: the times between them, and the longest pause."""

from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import dagster as dg

from spark_core.settings.sections import ScheduleSettings

# A year and a day have each pause of a schedule, such as a summer without ticks.
_DAYS = 367


def time_windows(cron: str, timezone: str) -> dg.TimeWindowPartitionsDefinition:
    """Return the times between ticks as partitions, which Dagster can count forth and back."""
    return dg.TimeWindowPartitionsDefinition(
        start=datetime(2000, 1, 1, tzinfo=ZoneInfo(timezone)),
        fmt="%Y-%m-%dT%H:%M:%S%z",
        cron_schedule=cron,
        timezone=timezone,
    )


@cache
def longest_pause(schedule: ScheduleSettings) -> timedelta:
    """Return the longest time between two ticks of a schedule.

    All days that have ticks have them at the same times of the day, so one is looked at whole, and
    of the others the first tick.
    """
    windows = time_windows(schedule.cron, schedule.timezone)
    midnight = datetime(2024, 1, 1, tzinfo=ZoneInfo(schedule.timezone))
    firsts = set[datetime]()
    for day in range(2 if schedule.cron.split()[2:] == ["*", "*", "*"] else _DAYS):
        window = windows.get_next_partition_window(
            midnight + timedelta(days=day), respect_bounds=False
        )
        assert window is not None  # noqa: S101 - without bounds there is always another
        firsts.add(window.start)
    days = sorted(firsts)
    whole = dg.TimeWindow(days[0], days[0].replace(hour=0, minute=0) + timedelta(days=1))
    keys = windows.get_partition_keys_in_time_window(whole)
    # Without the first one where a leap day alone has ticks.
    ticks = [days[0], *map(datetime.fromisoformat, keys)]
    between = max(later - earlier for earlier, later in pairwise(days)) - (ticks[-1] - ticks[0])
    return max([between, *(later - earlier for earlier, later in pairwise(ticks))])
