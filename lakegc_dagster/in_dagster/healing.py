"""Red heals: what failed runs left red is told to be over, once a later run has done its work.

Each run is a partition of its own, so the success of a later one makes no cell of a failed one
green. Records and tables of a failed run stay as they are; only what Dagster shows changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

from lakegc_dagster.headlines import of_ended
from lakegc_dagster.in_dagster.asset_events import Told, tell_again, tell_of_a_check
from lakegc_dagster.in_dagster.done_before import made_assets
from lakegc_dagster.names import Names
from lakegc_dagster.partitions import parse_partition_key, partition_key
from lakegc_dagster.runs.run_config import HOUSE_KEEPING, VERDICT
from spark_core.errors import SettingsError
from spark_core.model import RunKey
from spark_core.records import tables

if TYPE_CHECKING:
    from dagster import AssetExecutionContext

# The tag that a failed run gets when what it left red was healed.
SUPERSEDED = "lakegc/superseded_by"

_HEALED = (
    *(spec.name for spec in tables.ALL_TABLES),
    tables.POLICY_EXPIRATIONS.name,
    VERDICT,
    HOUSE_KEEPING,
)
_REPOSITORY, _RUN = "dagster/partition/repository", "dagster/partition/run"
# More have hardly failed since a run last did its work.
_NEWEST = 200
_OF_ASSETS = {
    dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
    dg.DagsterEventType.ASSET_MATERIALIZATION,
    dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED,
    dg.DagsterEventType.ASSET_CHECK_EVALUATION,
}

Failed = Mapping[RunKey, Sequence[dg.DagsterRun]]


def failed_before(context: AssetExecutionContext) -> Failed:
    """Return the failed runs under earlier keys of a step's repository that were not healed yet."""
    repository_id, key = parse_partition_key(context.partition_key)
    failed = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.FAILURE], tags={_REPOSITORY: repository_id}
    )
    found: dict[RunKey, list[dg.DagsterRun]] = {}
    for run in context.instance.get_runs(failed, limit=_NEWEST):
        try:
            earlier = RunKey.parse(run.tags.get(_RUN, ""))
        except SettingsError:
            continue  # somebody's own key, under which nothing of lakegc's can be
        if earlier < key and SUPERSEDED not in run.tags:
            found.setdefault(earlier, []).append(run)
    return found


def heal(
    context: AssetExecutionContext, names: Names, failed: Failed, *, left_open: Collection[RunKey]
) -> None:
    """Tell Dagster of everything that failed runs left red that it is over.

    Args:
        context: The last step of a run; one that made neither a verdict nor a sweep heals nothing.
        names: Those of the collector whose runs they are.
        failed: What `failed_before` returned.
        left_open: Run keys with a sweep that did not end; they stay red.
    """
    if not {VERDICT, tables.DELETION_REPORT.name} & {*made_assets(context)}:
        return
    over = {key: runs for key, runs in failed.items() if key not in left_open}
    try:
        _heal(context, {names.key(name) for name in _HEALED}, over)
    except Exception:
        # Red cells may stay; what the run did is done, and the next run tries it again.
        context.log.warning("What earlier runs left red could not be healed.", exc_info=True)


def _heal(context: AssetExecutionContext, ours: Collection[dg.AssetKey], over: Failed) -> None:
    repository_id, key = parse_partition_key(context.partition_key)
    touched: set[dg.AssetKey] = set()
    for earlier, runs in over.items():
        red = _red(context.instance, partition_key(repository_id, earlier), ours)
        touched |= _end(context.instance, red, _words(context.instance, runs[0], key), key)
        if red.shows_anything:
            for run in runs:
                context.instance.add_run_tags(run.run_id, {SUPERSEDED: str(key)})
    _show_again(context.instance, context.run_id, touched)


@dataclass
class _Red:
    """What Dagster shows as failed in a partition.

    Attributes:
        partition: The partition.
        assets: The assets that were planned and not made.
        not_run: Check -> the run that planned and did not run it, and the event of that.
        made: Asset -> the run that made it last, and the event of that.
        found: Check that was run -> whether it found something.
    """

    partition: dg.MultiPartitionKey
    assets: set[dg.AssetKey] = field(default_factory=set)
    not_run: dict[dg.AssetCheckKey, Told] = field(default_factory=dict)
    made: dict[dg.AssetKey, Told] = field(default_factory=dict)
    found: dict[dg.AssetCheckKey, bool] = field(default_factory=dict)

    @property
    def shows_anything(self) -> bool:
        """Whether anything of it is lakegc's."""
        return bool(self.assets or self.not_run or self.found)

    def take(self, told: Told, *, has_failed: bool) -> None:
        """Take the next event of a run; later ones decide."""
        event: Any = told.event
        match event.event_type:
            case dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED if has_failed:
                self.assets.add(event.asset_key)
            case dg.DagsterEventType.ASSET_MATERIALIZATION:
                self.assets.discard(event.asset_key)
                self.made[event.asset_key] = told
            case dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED if has_failed:
                self.not_run[event.event_specific_data.asset_check_key] = told
            case dg.DagsterEventType.ASSET_CHECK_EVALUATION:
                check = event.event_specific_data.asset_check_key
                self.not_run.pop(check, None)
                self.found[check] = not event.event_specific_data.passed


def _red(
    instance: dg.DagsterInstance, partition: dg.MultiPartitionKey, ours: Collection[dg.AssetKey]
) -> _Red:
    red = _Red(partition)
    for run in reversed(instance.get_runs(dg.RunsFilter(tags={"dagster/partition": partition}))):
        has_failed = run.status is dg.DagsterRunStatus.FAILURE and SUPERSEDED not in run.tags
        for told in _told(instance, run.run_id):
            if told.asset in ours:
                red.take(told, has_failed=has_failed)
    return red


def _end(instance: dg.DagsterInstance, red: _Red, words: str, key: RunKey) -> set[dg.AssetKey]:
    """Tell that what is red is over, and return the assets that got a new event for it."""
    told = {**of_ended(words), SUPERSEDED: dg.MetadataValue.text(str(key))}
    for asset in red.assets:
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                asset, partition=red.partition, description=words, metadata=told
            )
        )
    for check, planned in red.not_run.items():
        # In the failed run, whose check it was: the newest run decides what a list of checks shows.
        over = dg.AssetCheckEvaluation(
            asset_key=check.asset_key,
            check_name=check.name,
            passed=True,
            partition=red.partition,
            description=words,
            metadata=told,
        )
        tell_of_a_check(instance, planned, over)
    # A finding counts for the materialization that it was made of, and no longer for a later one.
    found = {check.asset_key for check, failed in red.found.items() if failed} - red.assets
    for asset in found & red.made.keys():
        tell_again(instance, red.made[asset])
    return red.assets | found


def _show_again(instance: dg.DagsterInstance, run_id: str, assets: Collection[dg.AssetKey]) -> None:
    """Let what a run has made be the newest of its assets, with its checks."""
    told = [each for each in _told(instance, run_id) if each.asset in assets]
    for each in told:
        if each.event.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION:
            tell_again(instance, each)
    for each in told:
        result = each.event.event_specific_data
        if isinstance(result, dg.AssetCheckEvaluation):
            tell_of_a_check(instance, each, result)


def _told(instance: dg.DagsterInstance, run_id: str) -> list[Told]:
    return [
        Told(run_id, record.timestamp, record.dagster_event)
        for record in instance.all_logs(run_id, of_type=_OF_ASSETS)
        if record.dagster_event is not None
    ]


def _words(instance: dg.DagsterInstance, run: dg.DagsterRun, key: RunKey) -> str:
    return f"ended: {_sentence(instance, run).rstrip('.')}; superseded by run {key}"


def _sentence(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Return what ended a failed run, as its first failed step says."""
    for record in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE):
        event: Any = record.dagster_event
        failure = event.step_failure_data
        said = failure.user_failure_data
        if said is not None and said.description:
            return str(said.description)
        if failure.error is not None:
            return f"{event.step_key} failed: {failure.error.message.strip()}"
    return "the run failed, and Dagster does not say why"
