"""Who works, the driver or Spark's executors; and who has worked.

A Python process has one Spark session, so what the settings say of it holds for the process.

The driver works on few rows sooner than Spark starts, by the same code. On a cluster executors do
all work: the driver may be a small machine there, and its session was asked for anyway.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from threading import Lock

# The driver works on what has no more rows: Spark would take as long to start. This is the only
# number that decides who works.
MOST_ROWS_OF_THE_DRIVER = 3_000_000

# Set by `spark-submit` for the Python programs that it starts: Java already runs.
GATEWAY = "PYSPARK_GATEWAY_PORT"


def default_master() -> str | None:
    """Return the default master: this machine; None if `spark-submit` started us and chose."""
    return None if GATEWAY in os.environ else "local[*]"


def is_local(master: str) -> bool:
    """Say whether executors are threads of the driver's process.

    They then have the same files, environment and package.

    Examples:
        >>> is_local("local[*]"), is_local("local-cluster[2,1,1024]"), is_local("yarn")
        (True, False, False)
    """
    return master == "local" or master.startswith("local[")


@dataclass(frozen=True)
class Work:
    """Who did some work.

    Attributes:
        tasks: How many tasks executors got; none if the driver did everything.
        master: The Spark master of the executors.

    Examples:
        >>> print(Work(), Work(1, "yarn"), Work(1_200, "local[*]"), sep="; ")
        this process; Spark: 1 task on yarn; Spark: 1,200 tasks on local[*]
    """

    tasks: int = 0
    master: str = ""

    def __add__(self, other: Work) -> Work:
        return Work(self.tasks + other.tasks, self.master or other.master)

    def __str__(self) -> str:
        plural = "" if self.tasks == 1 else "s"
        return f"Spark: {self.tasks:,} task{plural} on {self.master}" if self.tasks else DRIVER

    def since(self, before: Work) -> Work:
        """Return what came after some earlier work of the same process."""
        return Work(self.tasks - before.tasks, self.master)


DRIVER = "this process"


@dataclass
class _Process:
    """What holds for this process, and what it handed to executors."""

    are_executors_chosen: bool = False
    work: Work = Work()


_PROCESS, _LOCK = _Process(), Lock()


def choose_executors(chosen: bool) -> None:  # noqa: FBT001 - it is the whole question
    """Let executors do all work of this process, or only what is too much for the driver."""
    _PROCESS.are_executors_chosen = chosen


def are_executors_chosen() -> bool:
    """Say whether executors do all work of this process."""
    return _PROCESS.are_executors_chosen


def driver_works(rows: int) -> bool:
    """Say whether the driver works on something by itself.

    Args:
        rows: How many rows, hashes or objects it has; for work of another kind the rows that take
            as long.
    """
    return not _PROCESS.are_executors_chosen and rows <= MOST_ROWS_OF_THE_DRIVER


def hand_out(tasks: int, master: str) -> None:
    """Remember that executors get so many tasks."""
    with _LOCK:
        _PROCESS.work += Work(tasks, master)


def work_so_far() -> Work:
    """Return what executors have got from this process until now."""
    return _PROCESS.work
