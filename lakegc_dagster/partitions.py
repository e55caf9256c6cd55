"""The two dimensions of a partition, repository and run, and their keys and values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import dagster as dg

from lakegc_dagster.names import OWN, Names
from spark_core.errors import SettingsError
from spark_core.model import RunKey


def repositories_of(names: Names) -> dg.DynamicPartitionsDefinition:
    """Return the set of repositories that a collector's partitions are made of."""
    return dg.DynamicPartitionsDefinition(name=names.named("repository"))


def runs_of(names: Names) -> dg.DynamicPartitionsDefinition:
    """Return the set of run keys that a collector's partitions are made of."""
    return dg.DynamicPartitionsDefinition(name=names.named("run"))


def repository_run(names: Names) -> dg.MultiPartitionsDefinition:
    """Return the partitions of a collector's assets; their dimensions have no prefix."""
    return dg.MultiPartitionsDefinition(
        {"repository": repositories_of(names), "run": runs_of(names)}
    )


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
        raise SettingsError(
            f"partition {text!r} is not a repository and a run key, like "
            "my-repo|2026-11-20T02-00-00Z."
        )
    return repository_id, RunKey.parse(run)


def add_partitions(
    instance: dg.DagsterInstance,
    repository_ids: Iterable[str],
    keys: Iterable[RunKey],
    names: Names = OWN,
) -> None:
    """Add repositories and runs to Dagster's partitions; known and repeated ones are added once."""
    instance.add_dynamic_partitions(names.named("repository"), sorted(set(repository_ids)))
    instance.add_dynamic_partitions(names.named("run"), sorted({str(key) for key in keys}))


def forget_runs(
    instance: dg.DagsterInstance,
    pruned: Sequence[RunKey],
    keep_runs: int,
    names: Names = OWN,
) -> list[str]:
    """Take the keys of runs whose tables are pruned from Dagster's partitions.

    All repositories share the keys, so the newest ones stay whatever was pruned. If another
    repository still has tables for a key, the key comes back when it is named again; its events
    stay in Dagster's log.

    Args:
        instance: Dagster's instance.
        pruned: Runs with pruned tables in some repository.
        keep_runs: How many of the newest keys stay: the most that any repository keeps.
        names: Those of the collector whose keys they are.

    Returns:
        The keys that are gone.
    """
    if not pruned:
        return []
    # Somebody may have added a key that is no instant. Such a key is not lakegc's to delete.
    runs = names.named("run")
    newest = sorted(instance.get_dynamic_partitions(runs), reverse=True)[:keep_runs]
    gone = [
        key
        for key in map(str, pruned)
        if key not in newest and instance.has_dynamic_partition(runs, key)
    ]
    for key in gone:
        instance.delete_dynamic_partition(runs, key)
    return gone
