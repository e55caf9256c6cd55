"""The open run of a partition, as a resource of assets, and how all resources are made."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import PrivateAttr

from lakegc_dagster import engine
from lakegc_dagster.in_dagster.failures import raising_failures
from lakegc_dagster.in_dagster.private_doors import started_by_a_person
from lakegc_dagster.names import Names
from lakegc_dagster.partitions import parse_partition_key
from lakegc_dagster.resources.azure import NoAzure, with_azure
from lakegc_dagster.resources.s3 import NoS3, with_s3
from lakegc_dagster.resources.spark import SparkResource
from lakegc_dagster.resources.wiring import Wiring
from lakegc_dagster.runs.run_config import HOUSE_KEEPING, REQUESTED_RUNS, LeaseConfig, MarkConfig
from spark_core.errors import LakegcError
from spark_core.model import Job, RunKey
from spark_core.phases import (
    NOTHING_BY_HOUSE_KEEPING,
    NOTHING_BY_THIS_SWEEP,
    NOTHING_DELETED,
    SWEEP_STANDS,
    phase,
)
from spark_core.records.tables import DELETION_REPORT, TableSpec
from spark_core.run import Environment, Run, open_run
from spark_core.settings import no_settings
from spark_core.settings.environment import environment_of
from spark_core.spark import placement
from spark_core.spark.connect import choose_remote
from spark_core.spark.placement import Work, default_master
from spark_core.spark.session import spark_config
from spark_core.tries import Retries

if TYPE_CHECKING:
    from dagster_aws.s3 import S3Resource

    from lakegc_dagster.resources.azure import AzureResource

# What a step has done before it is at work, or after it, if that is not simply nothing.
_STATES = {DELETION_REPORT.name: SWEEP_STANDS, HOUSE_KEEPING: NOTHING_BY_HOUSE_KEEPING}


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
        sweeps = spec is DELETION_REPORT
        before = NOTHING_BY_THIS_SWEEP if sweeps else NOTHING_DELETED
        job: Job = "sweep" if sweeps else "mark"
        with self._opened_in(before, partition_key, spec.name, config, job) as run:
            yield run

    @contextmanager
    def _opened_in(
        self,
        state: str,
        partition_key: str,
        step: str,
        config: MarkConfig | LeaseConfig | None,
        job: Job | None = None,
    ) -> Iterator[Run]:
        run, before = None, placement.work_so_far()

        def tell(error: LakegcError) -> None:
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
        finally:
            self._work[partition_key, step] += placement.work_so_far().since(before)

    def work_of(self, partition_key: str, step: str) -> Work:
        """Return who has done the work of a step in this process, each time it had its run."""
        return self._work[partition_key, step]

    def _cancel_if_wrong(
        self, partition_key: str, run: Run | None, job: Job, error: LakegcError
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

    def wrong_request(self, job: Job, repository_id: str, key: RunKey) -> LakegcError | None:
        """Return what is wrong with a request before Dagster gets a run of it; None for nothing.

        Args:
            job: What is asked.
            repository_id: Repository name.
            key: Run key.
        """
        from lakegc_dagster.runs.request_checks import wrong_request

        settings = self.wiring.settings
        assert settings is not None  # noqa: S101 - whoever asks has read them
        now = self.wiring.clock.now()
        return wrong_request(settings, lambda: self.environment, job, repository_id, key, now=now)

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
            server = engine.lakefs.LakeFSServer(settings.server_options(), clock=clock)
            choose_remote(settings.spark_remote)
            self._environment = environment_of(
                settings,
                server,
                store_options,
                lambda: self.spark.spark_session,
                clock,
                start_spark=self.spark.start_ahead,
                origin="Dagster",
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
