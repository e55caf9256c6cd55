"""Runs looked at from outside Dagster: their reports and addresses, as they lie in the store."""

from __future__ import annotations

from datetime import UTC, datetime

from lakegc_dagster.resources import Wiring, build_resources
from lakegc_dagster.settings import Settings
from spark_core import lakegc_keys, report
from spark_core.errors import NotFoundError
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.tables import EXPIRED_ADDRESSES
from spark_core.report import Report
from spark_core.report.past_runs import require_known
from spark_core.run import Run, open_run


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
    environment = build_resources(Wiring(settings))["runs"].environment
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


def load_report(
    settings: Settings, repository_id: str, key: RunKey | None = None
) -> tuple[Run, Report, str]:
    """Return a run, its report, and the address of the page; a missing report is made.

    Raises:
        NotFoundError: If there is no such repository, or no such run, or no run was marked.
        ChainError: If the run was not marked.
    """
    run = (
        open_stored(settings, repository_id)
        if key is None
        else open_known(settings, repository_id, key)
    )
    found = report.load(run)
    return run, found, local_path(run, lakegc_keys.report_keys(run.key, swept=found.swept)["html"])


def expired(run: Run) -> dict[str, str]:
    """Return the addresses that a mark names, and why; for repositories as small as the demo's."""
    parts = run.load(EXPIRED_ADDRESSES).manifest.parts
    rows = [
        row
        for part in parts
        for batch in run.store.read_parquet(part.key)
        for row in batch.to_pylist()
    ]
    return {row["address"]: row["reason"] for row in rows}


def local_path(run: Run, key: str) -> str:
    """Return where a person opens a key: a path if the store is on this machine, else its URI."""
    options = run.environment.storage_of(run.repository).store_options
    if run.namespace.scheme != "local" or options.local_path is None:
        return f"{run.store.root}{key}"
    return f"{options.local_path.rstrip('/')}/{run.namespace.root.removeprefix('local://')}{key}"
