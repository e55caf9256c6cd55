"""The age of the newest run of a repository from which Dagster shows that it has stopped."""

from __future__ import annotations

from datetime import timedelta

import dagster as dg

from spark_core.settings.sections import ScheduleSettings
from spark_core.settings.ticks import longest_pause


def freshness_policy(schedule: ScheduleSettings) -> dg.FreshnessPolicy:
    """Return the policy of what each night makes.

    It warns after half a night too many, and fails after a whole one.
    """
    warn_window = 1.5 * longest_pause(schedule)
    return dg.FreshnessPolicy.time_window(
        fail_window=stale_after(schedule), warn_window=warn_window
    )


def stale_after(schedule: ScheduleSettings) -> timedelta:
    """Return the age of the newest run from which the policy fails."""
    return 2 * longest_pause(schedule)
