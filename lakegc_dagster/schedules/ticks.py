"""The ticks of a schedule: the times between them, and the longest pause."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import dagster as dg

from spark_core.settings.sections import ScheduleSettings

# So many ticks show each pause of a schedule, such as a weekend.
_TICKS = 60


def time_windows(cron: str, timezone: str) -> dg.TimeWindowPartitionsDefinition:
    """Return the times between ticks as partitions, which Dagster can count forth and back."""
    return dg.TimeWindowPartitionsDefinition(
        start=datetime(2000, 1, 1, tzinfo=ZoneInfo(timezone)),
        fmt="%Y-%m-%dT%H:%M:%S%z",
        cron_schedule=cron,
        timezone=timezone,
    )


def longest_pause(schedule: ScheduleSettings) -> timedelta:
    """Return the longest time between two ticks of a schedule."""
    windows = time_windows(schedule.cron, schedule.timezone)
    ticks = [datetime(2024, 1, 1, tzinfo=UTC)]
    for _ in range(_TICKS):
        window = windows.get_next_partition_window(ticks[-1], respect_bounds=False)
        assert window is not None  # noqa: S101 - without bounds there is always another
        ticks.append(window.end)
    return max(later - earlier for earlier, later in pairwise(ticks[1:]))
