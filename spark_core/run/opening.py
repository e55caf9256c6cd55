"""Open a run: find the repository and the store that holds it, and fix the cutoff."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from spark_core.clocks import SystemClock, require_not_set_back
from spark_core.errors import UnsafePlanError
from spark_core.model import RunKey
from spark_core.run.cutoff import cutoff_of
from spark_core.run.environment import Environment
from spark_core.run.options_and_defaults import RunOptions
from spark_core.run.run import Run
from spark_core.storage import open_store


def open_run(
    environment: Environment,
    repository_id: str,
    key: RunKey,
    options: RunOptions,
    *,
    reference_mark: str | None = None,
    take_over: str | None = None,
    full: bool = False,
) -> Run:
    """Find a repository and the store that holds it; one call to the server.

    Args:
        environment: Server, store, Spark, time.
        repository_id: Repository name.
        key: The instant the run stands for.
        options: What the run may do.
        reference_mark: Id of a mark of lakeFS's own job to verify, and to stay within.
        take_over: Key of the dead run whose lease may be taken over.
        full: Whether to read everything, although the settings allow an optimized run.

    Raises:
        UnsafePlanError: If the key lies in the future, or this machine's clock was set back so far
            that this cannot be told.
        NotFoundError: If there is no such repository.
        SettingsError: If the store of this namespace is not configured.

    Examples:
        >>> run = open_run(environment, "lake", key, RunOptions(may_sweep=True))
        >>> run.repository.default_branch, run.namespace.uri
        ('main', 'local://lake')
    """
    clock = environment.clock
    if isinstance(clock, SystemClock):
        require_not_set_back(clock.ahead)
    require_past(key, clock.now())
    repository = environment.server.repository(repository_id)
    storage = environment.storage_of(repository)
    namespace = storage.namespace_of(repository)
    if options.quarantine is None and namespace.kind == "local":
        options = replace(options, quarantine=True)
    return Run(
        key=key,
        repository=repository,
        namespace=namespace,
        store=open_store(namespace, storage.store_options),
        options=options,
        environment=environment,
        cutoff=cutoff_of(options, key),
        reference_mark=reference_mark,
        take_over=take_over,
        full=full,
    )


def require_past(key: RunKey, now: datetime) -> None:
    """Refuse a run key in the future.

    Raises:
        UnsafePlanError: If it lies there.
    """
    if key.instant > now:
        raise UnsafePlanError(
            f"run key {key} lies in the future (it is {RunKey.at(now)}): objects that are still "
            "being uploaded would look old",
            "Use the present instant or an earlier one.",
        )
