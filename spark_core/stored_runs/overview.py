"""What happened to the repositories of the settings: their runs and their states, from the store.

Nothing here starts Spark. One repository costs a few requests to server and store, and two or three
for each of its runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from spark_core.clocks import Clock, SystemClock
from spark_core.errors import LakegcError
from spark_core.model import RunKey
from spark_core.report.fleet import FleetRow
from spark_core.report.past_run import PastRun
from spark_core.report.past_runs import past_runs
from spark_core.report.status import RepositoryStatus
from spark_core.report.status_of_runs import status_of
from spark_core.run import Environment, Run, open_run
from spark_core.settings import Settings
from spark_core.settings.collected_repositories import (
    chosen_repositories,
    collected_repositories,
)
from spark_core.settings.environment import open_environment
from spark_core.settings.ticks import longest_pause


@dataclass(frozen=True)
class Past:
    """The runs of one repository.

    Attributes:
        repository: Repository id.
        runs: Its runs, newest first.
        status: What they come to.
        error: Why neither is known; None if they are.
    """

    repository: str
    runs: Sequence[PastRun]
    status: RepositoryStatus
    error: LakegcError | None = None

    @property
    def row(self) -> FleetRow:
        """Its row among all repositories."""
        return FleetRow(self.status, self.runs)


def overview(
    settings: Settings,
    repositories: Sequence[str] = (),
    *,
    clock: Clock | None = None,
    newest: int | None = None,
) -> Iterator[Past]:
    """Read what happened to repositories, one after the other.

    Args:
        settings: The settings.
        repositories: Names or patterns; those that the settings collect when empty.
        clock: Tells the time; the machine's when None.
        newest: Only so many of the newest runs of each.

    Yields:
        One for each repository. An error of one is part of it and keeps no other from its turn.

    Raises:
        SettingsError: If the settings do not know a repository, or have no keys.
        LakegcError: If the settings have a pattern, and the server does not give its list.
    """
    clock = clock or SystemClock()
    environment = open_environment(settings, clock=clock)
    pause = longest_pause(settings.schedule)
    chosen = (
        chosen_repositories(settings, repositories, environment.server)
        if repositories
        else collected_repositories(settings, environment.server)
    )
    for repository_id in chosen:
        options = settings.run_options(repository_id)
        now = clock.now()
        try:
            store = open_to_look(settings, environment, repository_id, now).store
            # One more shows whether there are older runs.
            found = past_runs(store, now, newest=None if newest is None else newest + 1)
        except LakegcError as error:
            yield Past(
                repository_id, (), RepositoryStatus(repository_id, problem=error.message), error
            )
            continue
        runs = found[:newest]
        yield Past(
            repository_id,
            runs,
            status_of(
                repository_id,
                runs,
                now,
                pause=pause,
                may_sweep=options.may_sweep,
                price=options.price,
                max_mark_age=options.max_mark_age,
                are_all=len(runs) == len(found),
            ),
        )


def open_to_look(
    settings: Settings, environment: Environment, repository_id: str, now: datetime
) -> Run:
    """Open a repository to look at it."""
    return open_run(environment, repository_id, RunKey.at(now), settings.run_options(repository_id))
