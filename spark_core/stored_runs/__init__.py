"""Runs looked at from outside: their reports and addresses, as they lie in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_core import report
from spark_core.model import RunKey
from spark_core.records.tables import NAMESPACE_SLICES
from spark_core.report import Report
from spark_core.report.past_runs import require_known
from spark_core.report.stored_run import stored_run
from spark_core.run import Run
from spark_core.settings import Settings
from spark_core.settings.environment import open_environment

if TYPE_CHECKING:
    from spark_core.explain import Explanation


def open_stored(settings: Settings, repository_id: str, key: RunKey | None = None) -> Run:
    """Open a run to look at it; Spark starts only when somebody asks for it.

    Args:
        settings: The settings.
        repository_id: Repository name.
        key: Which run; the newest one that was marked when None.

    Raises:
        NotFoundError: If there is no such repository, or no run of it was marked.
        SettingsError: If the settings do not know the repository.
    """
    options = settings.run_options(repository_id)
    return stored_run(open_environment(settings), repository_id, options, key)


def open_known(settings: Settings, repository_id: str, key: RunKey) -> Run:
    """Open a run that a person named.

    Raises:
        NotFoundError: If there is no such repository, or no such run; the runs there are, are
            named.
        SettingsError: If the settings do not know the repository.
    """
    run = open_stored(settings, repository_id, key)
    require_known(run.store, repository_id, key)
    return run


def open_run_or_newest_mark(settings: Settings, repository_id: str, key: RunKey | None) -> Run:
    """Open the run that a person named, else the newest mark; raises as both do."""
    if key is None:
        return open_stored(settings, repository_id)
    return open_known(settings, repository_id, key)


def load_report(
    settings: Settings, repository_id: str, key: RunKey | None = None
) -> tuple[Run, Report]:
    """Return a run and its report; a missing report is made.

    Raises:
        NotFoundError: If there is no such repository, or no such run, or no run was marked.
        ChainError: If the run was not marked.
    """
    run = open_run_or_newest_mark(settings, repository_id, key)
    return run, report.load(run)


def explained(run: Run) -> list[Explanation]:
    """Explain every listed object of a mark; for repositories as small as the demo's."""
    from spark_core.explain import explain_each

    listed = run.load(NAMESPACE_SLICES).batches(["address"])
    return explain_each(run, [row for batch in listed for row in batch.column(0).to_pylist()])
