"""The two dimensions of a partition, repository and run, and the way between keys and values."""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from spark_core.errors import SettingsError
from spark_core.model import RunKey

REPOSITORY = dg.DynamicPartitionsDefinition(name="repository")
RUN = dg.DynamicPartitionsDefinition(name="run")
REPOSITORY_RUN = dg.MultiPartitionsDefinition({"repository": REPOSITORY, "run": RUN})


def partition_key(repository_id: str, key: RunKey) -> dg.MultiPartitionKey:
    """Return the partition of one run over one repository."""
    return dg.MultiPartitionKey({"repository": repository_id, "run": str(key)})


def parse_partition_key(text: str) -> tuple[str, RunKey]:
    """Return the repository and the run key of a partition.

    Raises:
        SettingsError: If somebody added a run that is not an instant.
    """
    repository_id, separator, run = text.partition("|")
    if not separator:
        raise SettingsError(f"partition {text!r} is not a repository and a run key, like my-repo|2026-11-20T02-00-00Z.")
    return repository_id, RunKey.parse(run)


def add_partitions(instance: dg.DagsterInstance, repository_ids: Iterable[str], keys: Iterable[RunKey]) -> None:
    """Let Dagster know repositories and runs; what it knows already stays, and what is said twice is added once."""
    instance.add_dynamic_partitions("repository", sorted(set(repository_ids)))
    instance.add_dynamic_partitions("run", sorted({str(key) for key in keys}))
