"""The sensor by which Dagster hears of runs that it did not make: of cron, people and clusters.

A run is told from what it left in the store, oldest first, with what a run in Dagster says of it.
What Dagster has been told is asked of Dagster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.asset_checks import NOTHING_LEFT, as_dagster, asset_of
from lakegc_dagster.assets.of_repositories import not_swept_metadata, of_repository
from lakegc_dagster.headlines import (
    of_concluded,
    of_house_keeping,
    of_policy,
    of_table_of_run,
)
from lakegc_dagster.in_dagster.done_before import repeated_metadata
from lakegc_dagster.in_dagster.telling import Telling, being_made, evaluated
from lakegc_dagster.metadata import Metadata
from lakegc_dagster.names import OWN, Names
from lakegc_dagster.partitions import add_partition, parse_partition_key, partition_key
from lakegc_dagster.resources import Runs
from lakegc_dagster.runs.run_config import HOUSE_KEEPING, VERDICT
from lakegc_dagster.schedules.freshness import stale_after
from spark_core.checks.policies import check_policy
from spark_core.errors import ChainError, LakegcError, SettingsError, VerdictError
from spark_core.model import RunKey
from spark_core.records import journal, tables
from spark_core.records.reading import StoredTable
from spark_core.records.tables import DELETION_REPORT, POLICY_EXPIRATIONS, TableSpec
from spark_core.run import Environment, Run, open_run
from spark_core.settings import Settings
from spark_core.settings.collected_repositories import collected_repositories

if TYPE_CHECKING:
    from spark_core.mark_and_sweep import Concluded

# In one tick. Each takes half a second, or more on a busy disk, and Dagster waits for a minute.
_AT_MOST = 20
_AT_LONGEST = timedelta(seconds=30)
# Repositories whose runs are listed side by side.
_AT_ONCE = 16
# The check of a mark that is told last: with its result, all of the mark is told.
_LAST_OF_A_MARK = "tables_were_made_in_order"
_HOUSE = "what the program that made the run took away stands in what it printed"


@dataclass(frozen=True)
class Told:
    """What Dagster knows of the runs of a repository.

    Attributes:
        marks: Those whose mark it made, or was told whole.
        sweeps: Those of whose sweep it knows -> whether nothing was left by it.
    """

    marks: frozenset[RunKey]
    sweeps: Mapping[RunKey, bool]

    @property
    def open(self) -> frozenset[RunKey]:
        """The marks that may have been swept since, or swept on."""
        return self.marks - {key for key, nothing_left in self.sweeps.items() if nothing_left}


def to_tell(stored: Sequence[RunKey], swept: Collection[RunKey], told: Told) -> list[RunKey]:
    """Decide which runs of a repository Dagster may have to be told of.

    A run that is older than the newest one that was told is left, unless it was told itself and
    swept since.

    Args:
        stored: The newest runs in the store.
        swept: Those that have a report of a sweep.
        told: What Dagster knows of them.
    """
    last = max(told.marks, default=None)
    new = [key for key in stored if last is None or key > last]
    return [*new, *(key for key in stored if key in swept and key in told.open)]


def build_runs_made_elsewhere(
    settings: Settings | None, names: Names = OWN
) -> Sequence[dg.SensorDefinition]:
    """Make the sensor; it starts nothing, so it is on from the start."""
    if settings is None:
        return []
    runs_resource = names.named("runs")

    @dg.sensor(
        name=names.named("runs_made_elsewhere"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={runs_resource},
        description="Shows runs that Dagster did not make: those of the command line, of cron and "
        "of other machines, by what they left in the store.",
    )
    def runs_made_elsewhere(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        told = tell_runs(context, getattr(context.resources, runs_resource), settings)
        return dg.SkipReason(f"it starts no run; Dagster was told of {told} of them")

    return [runs_made_elsewhere]


def tell_runs(context: dg.SensorEvaluationContext, runs: Runs, settings: Settings) -> int:
    """Tell Dagster of the oldest runs that it was not told of, and return of how many.

    Raises:
        LakegcError: If the settings have a pattern, and the server does not give its list.
    """
    now = runs.wiring.clock.now()
    waiting = sorted(_waiting(context, runs, settings, now), key=lambda run: run.key)
    made_here = being_made(context.instance, [_partition(run) for run in waiting])
    fresh_since = now - stale_after(settings.schedule)
    number = 0
    for run in waiting:
        if number == _AT_MOST or (number and runs.wiring.clock.now() - now > _AT_LONGEST):
            break
        if _partition(run) not in made_here:
            with _logged(context, f"run {run.key} of {run.repository.id}"):
                is_fresh = run.key.instant > fresh_since
                number += tell_run(context.instance, runs.names, run, is_fresh=is_fresh)
    return number


@contextmanager
def _logged(context: dg.SensorEvaluationContext, what: str) -> Iterator[None]:
    """Log an error, which keeps no other repository and no other run from its turn."""
    try:
        yield
    except LakegcError as problem:
        context.log.warning("%s could not be told: %s", what, problem)


def _waiting(
    context: dg.SensorEvaluationContext, runs: Runs, settings: Settings, now: datetime
) -> Iterator[Run]:
    environment = runs.environment
    repositories = collected_repositories(settings, environment.server)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        looked = [pool.submit(_look, environment, settings, each, now) for each in repositories]
    found = list[tuple[Run, Sequence[RunKey]]]()
    for repository_id, one in zip(repositories, looked, strict=True):
        with _logged(context, repository_id):
            found.append(one.result())
    forget_old_runs(context.instance, runs.names, found)
    found = [(run, keys[: run.options.keep_runs]) for run, keys in found]
    for (repository, keys), told in zip(found, _told(context, runs.names, found), strict=True):
        with _logged(context, repository.repository.id):
            swept = tables.runs(repository.store, DELETION_REPORT.folder) if told.open else ()
            yield from map(repository.at, to_tell(keys, swept, told))


def _look(
    environment: Environment, settings: Settings, repository_id: str, now: datetime
) -> tuple[Run, Sequence[RunKey]]:
    """Open a repository, and list its runs, newest first."""
    run = open_run(environment, repository_id, RunKey.at(now), settings.run_options(repository_id))
    return run, tables.runs(run.store, tables.NAMESPACE_SLICES.folder)


def forget_old_runs(
    instance: dg.DagsterInstance, names: Names, found: Sequence[tuple[Run, Sequence[RunKey]]]
) -> None:
    """Take runs out of Dagster's partitions that are over; their events stay in Dagster's log.

    Those are older than all that the stores have of their repository, or pruned, or did not do
    their work, as a later one has done. One whose sweep has not ended stays.

    Args:
        instance: Dagster's instance.
        names: Those of the collector.
        found: Repositories with the keys of their stored runs, newest first.
    """
    oldest = {run.repository.id: keys[-1] for run, keys in found if keys}
    done = instance.get_materialized_partitions(names.key(HOUSE_KEEPING))
    known = list[tuple[str, str, RunKey]]()
    for partition in instance.get_dynamic_partitions(names.named("repository_run")):
        with suppress(SettingsError):  # somebody's own key: nothing of lakegc's is under it
            known.append((partition, *parse_partition_key(partition)))
    newest_done = dict(sorted((of, key) for partition, of, key in known if partition in done))
    over = {
        partition
        for partition, of, key in known
        if of in oldest
        and (key < oldest[of] or (partition not in done and key < newest_done.get(of, key)))
    }
    shown = {partition for partition, _, _ in known} - over
    for run, keys in found:
        with suppress(LakegcError):  # the next tick asks again
            over |= {_partition(run.at(key)) for key in _pruned(run, keys, shown)}
            over -= {
                partition
                for key in keys
                if (partition := _partition(run.at(key))) in over and _is_open(run, key)
            }
    for partition in over - being_made(instance, over):
        instance.delete_dynamic_partition(names.named("repository_run"), partition)


def _pruned(run: Run, keys: Sequence[RunKey], shown: Collection[str]) -> Iterator[RunKey]:
    """Yield the runs that house-keeping prunes, of which the manifests stay.

    It leaves one whose sweep has not ended, and one with objects in quarantine.
    """
    # Loading the definitions needs no store.
    from spark_core.upkeep.own_files import has_quarantined

    for key in keys[run.options.keep_runs :]:
        is_old = run.now() - key.instant > run.options.max_mark_age
        if (
            is_old
            and _partition(run.at(key)) in shown
            and not has_quarantined(run.store, key)
            and not _is_open(run, key)
        ):
            yield key


def _is_open(run: Run, key: RunKey) -> bool:
    """Say whether a sweep was begun and has not ended, as far as is known."""
    return journal.is_begun(run.store, key) and not engine.sweep.has_ended(run.store, key)


def _told(
    context: dg.SensorEvaluationContext,
    names: Names,
    found: Sequence[tuple[Run, Sequence[RunKey]]],
) -> Iterator[Told]:
    """Yield what Dagster knows of the runs of each repository; it is asked once for all of them."""
    mark = dg.AssetCheckKey(names.key(VERDICT), _LAST_OF_A_MARK)
    sweep = dg.AssetCheckKey(names.key(DELETION_REPORT.name), NOTHING_LEFT)
    stored = [{_partition(of.at(key)): key for key in keys} for of, keys in found]
    results = evaluated(context.instance, [mark, sweep], [of for each in stored for of in each])
    for each in stored:
        yield Told(
            frozenset(key for of, key in each.items() if (mark, of) in results),
            {key: results[sweep, of] for of, key in each.items() if (sweep, of) in results},
        )


def _partition(run: Run) -> str:
    return partition_key(run.repository.id, run.key)


def tell_run(instance: dg.DagsterInstance, names: Names, run: Run, *, is_fresh: bool) -> bool:
    """Tell Dagster what a run stored, as far as it was not told; return whether anything was.

    What stands in the verdict is told last. A run without one is told by the tables that it has;
    one that has none is not.

    Args:
        instance: Dagster's instance.
        names: Those of the collector.
        run: The run.
        is_fresh: Whether its repository counts as collected because of it.

    Raises:
        LakegcError: If something of it cannot be read.
    """
    stored = list(_tables(run, tables.MARK_TABLES))
    if not stored:
        return False
    telling = Telling(instance, names, add_partition(instance, run.repository.id, run.key, names))
    for table in stored:
        telling.materialize(table.manifest.table, _shown(run, table))
    try:
        concluded = engine.closed_runs.concluded(run)
    except VerdictError:
        return telling.said
    _tell_what_it_came_to(telling, run, concluded, is_fresh=is_fresh)
    return telling.said


def _tell_what_it_came_to(
    telling: Telling, run: Run, concluded: Concluded, *, is_fresh: bool
) -> None:
    """Tell of the verdict of a run and of its sweep, and of its repository if it did its work."""
    instance, names, repository_id = telling.instance, telling.names, run.repository.id
    facts = engine.expirations.stored_facts(run)
    telling.materialize(POLICY_EXPIRATIONS.name, of_policy(check_policy(run, facts), facts))
    results = sorted(concluded.results, key=lambda result: result.name == _LAST_OF_A_MARK)
    sweep: Metadata = {}
    for report in _tables(run, [DELETION_REPORT]):
        sweep = _shown(run, report)
        results.insert(0, engine.checks_of_stored_tables.judge_report(report))
    mark = {**of_concluded(run, concluded), **_confirmed(concluded)}
    telling.materialize(VERDICT, mark)
    if all(result.allows for result in results):
        telling.materialize(
            HOUSE_KEEPING, {**repeated_metadata(_HOUSE), **of_house_keeping(_HOUSE)}
        )
        # Nothing in the store tells a mark that somebody is to sweep from a sweep that was refused.
        if is_fresh and (sweep or not run.options.may_sweep):
            newest_run = of_repository(names, repository_id, run.key, mark, sweep)
            instance.report_runless_asset_event(newest_run)
        if not sweep and not run.options.may_sweep:
            sweep = not_swept_metadata(repository_id)
    # The last materialization: what is told of a sweep is all told.
    if sweep:
        telling.materialize(DELETION_REPORT.name, sweep)
    telling.check(
        {
            dg.AssetCheckKey(names.key(asset_of(each.table)), each.name): as_dagster(each, names)
            for each in results
        }
    )


def _tables(run: Run, specs: Iterable[TableSpec]) -> Iterator[StoredTable]:
    """Yield the stored ones of some tables, up to the first one that is not there."""
    with suppress(ChainError):
        yield from map(run.load, specs)


def _shown(run: Run, table: StoredTable) -> Metadata:
    return of_table_of_run(run, *engine.collect.keep(run, table))


def _confirmed(concluded: Concluded) -> Metadata:
    """Name the findings that were confirmed since the verdict."""
    passed = {result.name for result in concluded.results if result.passed}
    names = [check["name"] for check in concluded.verdict.failed if check["name"] in passed]
    return {"confirmed": dg.MetadataValue.text(", ".join(names))} if names else {}
