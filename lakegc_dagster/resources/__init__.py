"""The resources of assets: Spark session, stores' credentials, and the open run of a partition.

This package knows nothing of single assets, and no command.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import PrivateAttr

from lakegc_dagster import engine
from lakegc_dagster.in_dagster.failures import RETRY_AFTER, Retries, raising_failures
from lakegc_dagster.in_dagster.private_doors import started_by_a_person
from lakegc_dagster.names import OWN, Names
from lakegc_dagster.partitions import parse_partition_key
from lakegc_dagster.resources.azure import NoAzure, with_azure
from lakegc_dagster.resources.s3 import NoS3, with_s3
from lakegc_dagster.runs.job_names import REQUESTED_RUNS, JobName
from lakegc_dagster.runs.run_config import HOUSE_KEEPING, LeaseConfig, MarkConfig
from lakegc_dagster.terminal.java_process import start_logged
from lakegc_dagster.terminal.spark_output import OUTPUT
from spark_core.checks import CheckResult
from spark_core.clocks import Clock, SystemClock
from spark_core.errors import LakegcError
from spark_core.model import RunKey
from spark_core.phases import (
    NOTHING_BY_HOUSE_KEEPING,
    NOTHING_BY_THIS_SWEEP,
    NOTHING_DELETED,
    SWEEP_STANDS,
    phase,
    state_of,
)
from spark_core.records.manifest import Manifest
from spark_core.records.tables import DELETION_REPORT, TableSpec
from spark_core.run import Environment, Run, open_run
from spark_core.settings import Settings, no_settings
from spark_core.settings.environment import environment_of
from spark_core.spark import placement
from spark_core.spark.cluster import prepare_cluster
from spark_core.spark.connect import choose_remote, chosen_remote, require_connect
from spark_core.spark.java import check_java, use_launched_java
from spark_core.spark.placement import Work
from spark_core.spark.session import Session, default_master, is_started, spark_config

if TYPE_CHECKING:
    from dagster_aws.s3 import S3Resource

    from lakegc_dagster.resources.azure import AzureResource
    from spark_core.report import Report
    from spark_core.sweep import Progress
    from spark_core.upkeep.house_keeping_result import House

# What a step has done before it is at work, or after it, if that is not simply nothing.
_STATES = {DELETION_REPORT.name: SWEEP_STANDS, HOUSE_KEEPING: NOTHING_BY_HOUSE_KEEPING}


class Observer:
    """Hears what a run does, in the process that does it; this class ignores everything."""

    def started(self, table: str) -> None:
        """A table is about to be made."""

    def progressed(self, table: str, progress: "Progress") -> None:
        """A table that takes long reports its progress."""

    def stored(self, manifest: Manifest) -> None:
        """A table was stored."""

    def checked(self, results: Sequence[CheckResult]) -> None:
        """The checks of a table were run."""

    def concluded(self, run: Run, report: "Report | None") -> None:
        """A mark has its verdict, and a report unless that failed."""

    def failed(self, table: str, error: LakegcError) -> None:
        """A table or its checks raised."""

    def broke(self, table: str, state: str | None) -> None:
        """An error outside lakegc ended a table or its checks; `state` is what they had done."""

    def away(self, tries: int, words: str) -> None:
        """The server, which had answered, is away; a call to it was tried so often."""

    def kept_house(self, house: "House") -> None:
        """House-keeping after the run has ended."""


@dataclass(frozen=True)
class Wiring:
    """The parts that a code location is built with.

    Attributes:
        settings: The settings; None when there are none yet, then every run says so.
        clock: Tells the time.
        observer: Hears what runs do.
        retry_after: How long a step waits before it asks a server or store again that did not
            answer.
        names: What the collector is called in its Dagster project.
    """

    settings: Settings | None
    clock: Clock = field(default_factory=SystemClock)
    observer: Observer = field(default_factory=Observer)
    retry_after: timedelta = RETRY_AFTER
    names: Names = OWN


_STARTING = Lock()


class SparkResource(LazyPySparkResource):
    """The one Spark session of the process; a run without much to read starts none.

    Attributes:
        ship_package: Send lakegc's own code to the executors of a cluster.
    """

    ship_package: bool = True

    _starting: Future[Session] | None = PrivateAttr(default=None)

    def start_ahead(self) -> None:
        """Begin to start the session, so that Spark starts while other things are asked."""
        if self._starting is None:
            executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lakegc-spark")
            self._starting = executor.submit(self._start)
            executor.shutdown(wait=False)

    @property
    def spark_session(self) -> Session:
        """The session, waited for if need be.

        Raises:
            SettingsError: If there is no Java that Spark can run on, or no Spark Connect where the
                settings name a server.
        """
        return self._start() if self._starting is None else self._starting.result()

    def _start(self) -> Session:
        # Runs side by side in one process ask for the same one.
        with _STARTING:
            return self._started()

    def _started(self) -> Session:
        address = chosen_remote()
        if address is not None:
            require_connect(address)
        elif not is_started():
            check_java()
            if OUTPUT.kept_in is not None:
                start_logged(self.spark_config, OUTPUT.kept_in)
            use_launched_java(self.spark_config)
        # Spark itself keeps one session per process, whoever asks first.
        session: Session = super().spark_session
        prepare_cluster(session, ship_package=self.ship_package)
        return session


class Runs(dg.ConfigurableResource[Any]):
    """Opens the run of a partition: repository, server, store and what the settings allow."""

    wiring: dg.ResourceDependency[Wiring]
    spark: dg.ResourceDependency[SparkResource]
    s3: dg.ResourceDependency[Any]
    azure: dg.ResourceDependency[Any]

    _dagster: dg.InitResourceContext | None = PrivateAttr(default=None)
    _environment: Environment | None = PrivateAttr(default=None)
    _opened: dict[tuple[str, RunKey], Run] = PrivateAttr(default_factory=dict)
    _retries: defaultdict[tuple[str, str], Retries] = PrivateAttr(
        default_factory=lambda: defaultdict(Retries)
    )
    _work: defaultdict[tuple[str, str], Work] = PrivateAttr(
        default_factory=lambda: defaultdict(Work)
    )

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Learn which Dagster run it is."""
        self._dagster = context

    @property
    def observer(self) -> Observer:
        """The observer that hears what runs do."""
        return self.wiring.observer

    @property
    def names(self) -> Names:
        """What the collector is called in its Dagster project."""
        return self.wiring.names

    @contextmanager
    def opened(
        self, partition_key: str, step: str, config: MarkConfig | LeaseConfig | None = None
    ) -> Iterator[Run]:
        """Give the run of a partition to a step, and turn the engine's errors into Dagster's.

        The server is asked for the repository once for all tables of a Dagster run; the sweep asks
        again by itself before it deletes.

        Args:
            partition_key: Repository and run key.
            step: The table, or what else is made, that this is about.
            config: What a person asks of it.

        Yields:
            The run.
        """
        state = _STATES.get(step, NOTHING_DELETED)
        with self._opened_in(state, partition_key, step, config) as run:
            yield run

    @contextmanager
    def making(
        self, partition_key: str, spec: TableSpec, config: MarkConfig | LeaseConfig | None = None
    ) -> Iterator[Run]:
        """Give the run of a partition to the asset that makes a table."""
        self.observer.started(spec.name)
        sweeps = spec is DELETION_REPORT
        before = NOTHING_BY_THIS_SWEEP if sweeps else NOTHING_DELETED
        job: JobName = "sweep" if sweeps else "mark"
        with self._opened_in(before, partition_key, spec.name, config, job) as run:
            yield run

    @contextmanager
    def _opened_in(
        self,
        state: str,
        partition_key: str,
        step: str,
        config: MarkConfig | LeaseConfig | None,
        job: JobName | None = None,
    ) -> Iterator[Run]:
        run, before = None, placement.work_so_far()

        def tell(error: LakegcError) -> None:
            self.observer.failed(step, error)
            if job is not None:
                self._cancel_if_wrong(partition_key, run, job, error)

        try:
            retries = self._retries[partition_key, step]
            with (
                raising_failures(tell, retry_after=self.wiring.retry_after, retries=retries),
                phase(state),
            ):
                run = self._open(*parse_partition_key(partition_key))
                yield run if config is None else replace(run, **config.arguments())
        except (dg.Failure, dg.RetryRequested):
            raise
        except Exception as error:
            self.observer.broke(step, state_of(error))
            raise
        finally:
            self._work[partition_key, step] += placement.work_so_far().since(before)

    def work_of(self, partition_key: str, step: str) -> Work:
        """Return who has done the work of a step in this process, each time it had its run."""
        return self._work[partition_key, step]

    def _cancel_if_wrong(
        self, partition_key: str, run: Run | None, job: JobName, error: LakegcError
    ) -> None:
        """Let a person's wrong request end as canceled.

        Dagster shows every table and check that a failed run had planned as failed, also those that
        an earlier run of the same key made. A run that Dagster started by itself fails, because
        nobody looks at it.
        """
        asked = None if self._dagster is None else self._dagster.run
        instance = None if self._dagster is None else self._dagster.instance
        if asked is None or instance is None:
            return
        if not started_by_a_person(asked.tags, self.names.named(REQUESTED_RUNS)):
            return
        from lakegc_dagster.runs.request_checks import was_wrong

        settings, now = self.wiring.settings, self.wiring.clock.now()
        if was_wrong(error, settings, partition_key, run, job=job, now=now):
            instance.report_run_canceling(asked, message=str(error))

    def wrong_request(
        self, job: JobName, repository_id: str, key: RunKey, *, is_new: bool = False
    ) -> LakegcError | None:
        """Return what is wrong with a request before Dagster gets a run of it; None for nothing.

        Args:
            job: What is asked.
            repository_id: Repository name.
            key: Run key.
            is_new: Whether it was made for this request.
        """
        from lakegc_dagster.runs.request_checks import wrong_request

        settings = self.wiring.settings
        assert settings is not None  # noqa: S101 - whoever asks has read them
        now = self.wiring.clock.now()
        return wrong_request(
            settings, lambda: self.environment, job, repository_id, key, now=now, is_new=is_new
        )

    def longest_kept(self, at_least: int) -> int:
        """Return the largest number of runs that any repository of the settings keeps."""
        settings = self.wiring.settings
        others = (
            []
            if settings is None
            else [table.run_options().keep_runs for table in settings.repository_tables]
        )
        return max([at_least, *others])

    @property
    def environment(self) -> Environment:
        """Server, store, Spark and time, as the settings have them; made once, without a request.

        Raises:
            SettingsError: If there are no settings, or no keys.
        """
        settings = self.wiring.settings
        if settings is None:
            raise no_settings()
        if self._environment is None:
            store_options = with_azure(with_s3(settings.store_options(), self.s3), self.azure)
            clock = self.wiring.clock
            server = engine.lakefs.LakeFSServer(
                settings.server_options(), clock=clock, on_away=self.observer.away
            )
            choose_remote(settings.spark_remote)
            self._environment = environment_of(
                settings,
                server,
                store_options,
                lambda: self.spark.spark_session,
                clock,
                start_spark=self.spark.start_ahead,
            )
        return self._environment

    def _open(self, repository_id: str, key: RunKey) -> Run:
        settings = self.wiring.settings
        if settings is None:
            raise no_settings()
        found = self._opened.get((repository_id, key))
        if found is None:
            options = settings.run_options(repository_id)
            found = self._opened[repository_id, key] = open_run(
                self.environment,
                repository_id,
                key,
                options,
            )
        return found


def build_resources(
    wiring: Wiring, s3: "S3Resource | None" = None, azure: "AzureResource | None" = None
) -> dict[str, Any]:
    """Make the resources that assets name; this starts nothing and sends no request.

    Args:
        wiring: Settings, clock, observer.
        s3: The S3 resource of a code location that has one; else the settings and the AWS chain
            give credentials.
        azure: The Azure resource of a code location that has one; else the settings and Azure's
            usual chain give credentials.
    """
    settings = wiring.settings
    session = (
        SparkResource(spark_config=spark_config(master=default_master()))
        if settings is None
        else SparkResource(
            spark_config=settings.spark_config(), ship_package=settings.spark.ship_package
        )
    )
    stores: dict[str, Any] = {
        "s3": NoS3() if s3 is None else s3,
        "azure": NoAzure() if azure is None else azure,
    }
    runs = Runs(wiring=wiring, spark=session, **stores)
    return {"spark": session, **stores, "runs": runs}
