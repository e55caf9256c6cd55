"""The partitions of a collector: each is a run of a repository, and no other exists."""

from __future__ import annotations

from contextlib import suppress

import dagster as dg

from lakegc_dagster.names import OWN, Names
from spark_core.errors import SettingsError
from spark_core.model import RunKey
from spark_core.records.tables import DELETION_REPORT, NAMESPACE_SLICES


def repository_run(names: Names) -> dg.DynamicPartitionsDefinition:
    """Return the partitions of a collector's assets.

    A key is there once its run was asked for, and goes when the tables of the run are pruned.
    """
    return dg.DynamicPartitionsDefinition(name=names.named("repository_run"))


def partition_key(repository_id: str, key: RunKey) -> str:
    """Return the partition of one run over one repository.

    Examples:
        >>> partition_key("my-repo", RunKey.parse("2026-11-20T02-00-00Z"))
        'my-repo|2026-11-20T02-00-00Z'
    """
    return f"{repository_id}|{key}"


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


def add_partition(
    instance: dg.DagsterInstance, repository_id: str, key: RunKey, names: Names = OWN
) -> str:
    """Add a run to Dagster's partitions, also if it is there, and return its partition."""
    # Loading the definitions needs no database.
    from sqlalchemy.exc import IntegrityError

    partition = partition_key(repository_id, key)
    # Dagster looks for a key and then inserts it; another command may be between the two.
    with suppress(IntegrityError):
        instance.add_dynamic_partitions(names.named("repository_run"), [partition])
    return partition


def carry_over(instance: dg.DagsterInstance, names: Names = OWN) -> None:
    """Add the runs that Dagster knows from version 0.1.0, whose partitions had two dimensions.

    Each pair of a repository and a run was a partition; what was made of one is a run.

    Args:
        instance: Dagster's instance.
        names: Those of the collector.
    """
    known = set(instance.get_dynamic_partitions(names.named("run")))
    made = {
        partition
        for table in (NAMESPACE_SLICES, DELETION_REPORT)
        for partition in instance.get_materialized_partitions(names.key(table.name))
        if partition.partition("|")[2] in known
    }
    instance.add_dynamic_partitions(names.named("repository_run"), sorted(made))
