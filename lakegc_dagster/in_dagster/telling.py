"""What Dagster is told of a run that it did not make, and what it was told before.

All of it is told by Dagster's event log, so neither a restart nor a lost cursor tells it twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import dagster as dg

from lakegc_dagster.in_dagster.private_doors import target_of
from lakegc_dagster.metadata import Metadata
from lakegc_dagster.names import Names

# The tag of a run with its partition, as Dagster stores it.
PARTITION = "dagster/partition"
# What tells two materializations of a partition apart, where what is stored was made anew.
_IDENTITY = ("manifest_sha256", "digest", "confirmed")
_EVALUATED = ("SUCCEEDED", "FAILED")


def evaluated(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey], partitions: Sequence[str]
) -> dict[tuple[dg.AssetCheckKey, str], bool]:
    """Return whether each check passed that has a result; a planned one has none.

    Args:
        instance: Dagster's instance.
        keys: The checks.
        partitions: The partitions to look at.
    """
    found = instance.event_log_storage.get_asset_check_partition_info(
        keys, partition_keys=partitions
    )
    return {
        (each.check_key, each.partition_key): each.latest_execution_status.value == "SUCCEEDED"
        for each in found
        if each.partition_key and each.latest_execution_status.value in _EVALUATED
    }


def being_made(instance: dg.DagsterInstance, partitions: Collection[str]) -> set[str]:
    """Return those of some partitions of which Dagster has a run that is not over."""
    over = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
    going = [status for status in dg.DagsterRunStatus if status not in over]
    asked = dg.RunsFilter(statuses=going, tags={PARTITION: list(partitions)})
    return {run.tags[PARTITION] for run in instance.get_runs(asked)} if partitions else set()


def newest(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str
) -> dg.EventLogRecord | None:
    """Return the newest materialization of a partition of an asset; None if there is none."""
    asked = dg.AssetRecordsFilter(key, asset_partitions=[partition])
    return next(iter(instance.fetch_materializations(asked, limit=1).records), None)


@dataclass
class Telling:
    """Tells Dagster of one run, as far as it was not told before.

    Attributes:
        instance: Dagster's instance.
        names: Those of the collector.
        partition: The run.
        said: Whether anything was told ...
        was_begun: ... and whether something had been told before.
    """

    instance: dg.DagsterInstance
    names: Names
    partition: str
    said: bool = field(default=False, init=False)
    was_begun: bool = field(default=False, init=False)

    def materialize(self, asset: str, metadata: Metadata) -> None:
        """Materialize an asset, unless Dagster has a materialization of what is stored now.

        Args:
            asset: Its name.
            metadata: What is said of it.
        """
        key = self.names.key(asset)
        found = newest(self.instance, key, self.partition)
        said = None if found is None else found.asset_materialization
        self.was_begun |= said is not None
        if said is None or any(said.metadata.get(at) != metadata.get(at) for at in _IDENTITY):
            self._tell(dg.AssetMaterialization(key, partition=self.partition, metadata=metadata))

    def check(self, results: Mapping[dg.AssetCheckKey, dg.AssetCheckResult]) -> None:
        """Tell what checks found of what was materialized before; each is told only once.

        Dagster itself refuses to take a result of the same check and partition again, after it has
        written a part of it.

        Args:
            results: The results by their checks, in the order in which they are told.
        """
        # Loading the definitions needs no database.
        from sqlalchemy.exc import IntegrityError

        there = evaluated(self.instance, [*results], [self.partition]) if self.was_begun else {}
        assets = dict.fromkeys(key.asset_key for key in results)
        targets = {key: newest(self.instance, key, self.partition) for key in assets}
        for key, result in results.items():
            if (key, self.partition) in there:
                continue
            made = targets[key.asset_key]
            evaluation = dg.AssetCheckEvaluation(
                asset_key=key.asset_key,
                check_name=key.name,
                passed=result.passed,
                metadata=result.metadata,
                target_materialization_data=None if made is None else target_of(made),
                severity=result.severity,
                description=result.description,
                partition=self.partition,
            )
            with suppress(IntegrityError):  # another daemon told it
                self._tell(evaluation)

    def _tell(self, event: dg.AssetMaterialization | dg.AssetCheckEvaluation) -> None:
        self.instance.report_runless_asset_event(event)
        self.said = True
