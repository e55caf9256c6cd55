"""Runs looked at from outside Dagster: their reports and addresses, as they lie in the store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lakegc_dagster.resources import Wiring, build_resources
from spark_core import lakegc_keys, report
from spark_core.errors import NotFoundError
from spark_core.explain import Explanation, explain_each
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.tables import EXPIRED_ADDRESSES, NAMESPACE_SLICES
from spark_core.report import Report
from spark_core.report.past_runs import require_known
from spark_core.run import Environment, Run, open_run
from spark_core.run.local_path import local_path
from spark_core.settings import Settings

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
    environment = _quiet(settings, build_resources(Wiring(settings))["runs"].environment)
    now = RunKey.at(datetime.now(UTC))
    run = open_run(environment, repository_id, key or now, settings.run_options(repository_id))
    if key is not None:
        return run
    marked = (
        key
        for key in tables.runs(run.store)
        if run.store.exists(tables.manifest_key(EXPIRED_ADDRESSES, key))
    )
    newest = next(marked, None)
    if newest is None:
        raise NotFoundError(
            f"repository {repository_id} was never marked: there is no run under {run.store.root}. "
            f"Mark it first (`lakegc mark {repository_id}`)."
        )
    return open_run(environment, repository_id, newest, run.options)


def _quiet(settings: Settings, environment: Environment) -> Environment:
    """Let Spark's own lines go to a file, if Spark is started at all."""

    def spark() -> Any:
        from lakegc_dagster.java_process import LOOKING_LOG_NAME, start_quietly

        start_quietly(settings, LOOKING_LOG_NAME)
        return environment.spark()

    return replace(environment, spark=spark)


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


def open_chosen(settings: Settings, repository_id: str, key: RunKey | None) -> Run:
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
    run = open_chosen(settings, repository_id, key)
    found = report.load(run)
    return run, found, local_path(run, lakegc_keys.report_keys(run.key, swept=found.swept)["html"])


def explained(run: Run) -> list[Explanation]:
    """Explain every listed object of a mark; for repositories as small as the demo's."""
    listed = run.load(NAMESPACE_SLICES).batches(["address"])
    return explain_each(run, [row for batch in listed for row in batch.column(0).to_pylist()])
