"""The names of the jobs that mark and sweep, and of the sensor that starts them for a person."""

from typing import Literal

JobName = Literal["mark", "mark_and_sweep", "sweep"]

REQUESTED_RUNS = "requested_runs"
