"""Runs looked at from outside Dagster: their reports and addresses, as they lie in the store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakegc_dagster.resources import Wiring, build_resources
from spark_core import lakegc_keys, report
from spark_core.explain import Explanation, explain_each
from spark_core.model import RunKey
from spark_core.records.tables import NAMESPACE_SLICES
from spark_core.report import Report
from spark_core.report.past_runs import require_known
from spark_core.report.stored_run import stored_run
from spark_core.run import Run
from spark_core.run.local_path import local_path
from spark_core.settings import Settings
from spark_core.settings.environment import open_environment

if TYPE_CHECKING:
    from spark_core.spark.session import Session

__all__ = ["explained", "load_report", "local_path", "open_known", "open_stored"]


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
    environment = open_environment(settings, partial(_quiet_session, settings))
    return stored_run(environment, repository_id, settings.run_options(repository_id), key)


def _quiet_session(settings: Settings) -> Session:
    """Start Spark for somebody who looks at a run; its own lines go to a file."""
    from lakegc_dagster.terminal.java_process import LOOKING_LOG_NAME, start_quietly

    start_quietly(settings, LOOKING_LOG_NAME)
    session: Session = build_resources(Wiring(settings))["spark"].spark_session
    return session


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
) -> tuple[Run, Report, str]:
    """Return a run, its report, and the address of the page; a missing report is made.

    Raises:
        NotFoundError: If there is no such repository, or no such run, or no run was marked.
        ChainError: If the run was not marked.
    """
    run = open_run_or_newest_mark(settings, repository_id, key)
    found = report.load(run)
    return run, found, local_path(run, lakegc_keys.report_keys(run.key, swept=found.swept)["html"])


def explained(run: Run) -> list[Explanation]:
    """Explain every listed object of a mark; for repositories as small as the demo's."""
    listed = run.load(NAMESPACE_SLICES).batches(["address"])
    return explain_each(run, [row for batch in listed for row in batch.column(0).to_pylist()])
