"""The names of the jobs that mark and sweep."""

from typing import Literal

JobName = Literal["mark", "mark_and_sweep", "sweep"]
