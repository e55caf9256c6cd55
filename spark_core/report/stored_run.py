"""A run that was made, opened to look at it."""

from __future__ import annotations

from datetime import UTC, datetime

from spark_core.errors import NotFoundError
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.tables import EXPIRED_ADDRESSES
from spark_core.run import Environment, Run, RunOptions, open_run


def stored_run(
    environment: Environment, repository_id: str, options: RunOptions, key: RunKey | None = None
) -> Run:
    """Open a run; Spark starts only when somebody asks for it.

    Args:
        environment: Server, stores, Spark.
        repository_id: Repository name.
        options: Those of the repository.
        key: Which run, whether it was made or not; the newest one that was marked when None.

    Raises:
        NotFoundError: If there is no such repository, or no run of it was marked.
    """
    run = open_run(environment, repository_id, key or RunKey.at(datetime.now(UTC)), options)
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
    return open_run(environment, repository_id, newest, options)
