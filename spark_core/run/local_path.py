"""Where a person opens what lies in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_core.run import Run


def local_path(run: Run, key: str) -> str:
    """Return where a person opens a key: a path if the store is on this machine, else its URI."""
    options = run.environment.storage_of(run.repository).store_options
    if run.namespace.scheme != "local" or options.local_path is None:
        return f"{run.store.root}{key}"
    return f"{options.local_path.rstrip('/')}/{run.namespace.root.removeprefix('local://')}{key}"
