"""The age of the newest run of a repository from which Dagster shows that it has stopped."""

from __future__ import annotations

import dagster as dg

from spark_core.settings.sections import ScheduleSettings
from spark_core.settings.ticks import longest_pause


def freshness_policy(schedule: ScheduleSettings) -> dg.FreshnessPolicy:
    """Return the policy of what each night makes.

    It warns after half a night too many, and fails after a whole one.
    """
    pause = longest_pause(schedule)
    return dg.FreshnessPolicy.time_window(fail_window=2 * pause, warn_window=1.5 * pause)
