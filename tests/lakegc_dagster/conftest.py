"""A sandbox with a repository that has garbage, the settings for it, and Dagster runs over it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from alembic.script import ScriptDirectory

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.partitions import add_partition, partition_key
from lakegc_dagster.resources import Wiring, build_resources
from lakegc_dagster.sandbox import Sandbox, objects, refs, repositories
from spark_core import lakegc_keys
from spark_core.addresses.namespace import Namespace
from spark_core.model import RunKey
from spark_core.settings import Settings
from spark_core.storage import ObjectStore, StoreOptions, open_store
from tests.support.small_spark import SMALL_SPARK

# Few and small Spark tasks: these repositories are tiny.
SMALL = {"repository_cache_seconds": 0}
SPARK = {"master": "local[2]", "config": SMALL_SPARK}


@dataclass
class Ground:
    """One repository on a running sandbox, and Dagster on an instance of its own.

    Attributes:
        sandbox: The server.
        repository_id: The repository.
        settings: The settings for it; `with_settings` gives others.
        instance: Dagster's instance.
        garbage: Addresses that a collection deletes.
        alive: Addresses that it keeps.
    """

    sandbox: Sandbox
    repository_id: str
    settings: Settings
    instance: dg.DagsterInstance
    garbage: set[str] = field(default_factory=set)
    alive: set[str] = field(default_factory=set)

    def with_settings(self, **own) -> "Ground":
        """The same ground under other settings of the repository."""
        document = self.settings.model_dump(exclude_unset=True)
        document["repositories"][self.repository_id] |= own
        settings = Settings.model_validate(document)
        settings._env = self.settings._env
        return Ground(
            self.sandbox, self.repository_id, settings, self.instance, self.garbage, self.alive
        )

    def job(self, name, key, **more) -> dg.ExecuteInProcessResult:
        """Run a job for the repository and a run key."""
        add_partition(self.instance, self.repository_id, key)
        wiring = more.pop("wiring", None) or Wiring(self.settings, retry_after=timedelta(0))
        built = build_defs(wiring.settings)
        # The assets of a selection take no other resources than those they were built with.
        definitions = dg.Definitions(
            assets=built.assets,
            asset_checks=built.asset_checks,
            jobs=built.jobs,
            resources={**(built.resources or {}), **build_resources(wiring)},
        )
        return definitions.resolve_job_def(name).execute_in_process(
            instance=self.instance,
            partition_key=partition_key(self.repository_id, key),
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            **more,
        )

    def only(self, key, *assets: str, job="mark_and_sweep") -> dg.ExecuteInProcessResult:
        """Materialize some of the assets with their checks, as a person who selects them does."""
        return self.job(job, key, asset_selection=[dg.AssetKey(name) for name in assets])

    @property
    def store(self) -> ObjectStore:
        namespace = Namespace.parse(
            f"local://{self.repository_id}", server_path=str(self.sandbox.blockstore)
        )
        return open_store(namespace, StoreOptions(local_path=str(self.sandbox.blockstore)))

    def objects(self) -> set[str]:
        """What lies under data/ now."""
        return {
            key for batch in self.store.list("data/") for key in batch.column("key").to_pylist()
        }

    def has_verdict(self, key) -> bool:
        return self.store.exists(lakegc_keys.verdict_key(key))


def failure(result) -> str:
    """What the first failed step of a run says."""
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            return (
                data.user_failure_data.description
                if data.user_failure_data
                else data.error.to_string()
            )
    return "no step failed"


def ran(result) -> list[str]:
    """The steps that began, in order, those of checks by the name of their op."""
    return [event.step_key for event in result.all_events if event.event_type_value == "STEP_START"]


def answers(result) -> dict[str, bool]:
    """What each check said."""
    return {check.check_name: check.passed for check in result.get_asset_check_evaluations()}


def new_key(*, ago: timedelta = timedelta(0)) -> RunKey:
    return RunKey.at(datetime.now(UTC) - ago)


def settings_of(sandbox: Sandbox, repository_ids: Sequence[str], **own) -> Settings:
    settings = Settings.model_validate(
        {
            "server": {"endpoint": sandbox.endpoint},
            "storage": {"local_path": str(sandbox.blockstore)},
            "spark": SPARK,
            "throwaway_repositories": list(repository_ids),
            "defaults": {"mode": "sweep", "quarantine": False, **SMALL, **own},
            "repositories": {name: {} for name in repository_ids},
        }
    )
    settings._env = {
        "LAKEGC_ACCESS_KEY_ID": sandbox.access_key_id,
        "LAKEGC_SECRET_ACCESS_KEY": sandbox.secret_access_key,
    }
    return settings


@pytest.fixture(scope="session", autouse=True)
def _databases_in_memory_have_no_revision():
    """Leave out the revision of databases that are made whole and end with their process.

    To note it alembic loads ninety files, three quarters of what such an instance takes.
    """
    with pytest.MonkeyPatch.context() as patch:
        for storage in ("event_log", "runs"):
            place = f"dagster._core.storage.{storage}.in_memory.stamp_alembic_rev"
            patch.setattr(place, lambda _config, _connection: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _revisions_are_read_once():
    """Remember the revisions that Dagster's databases may have.

    Each instance of a home asks alembic six times, which loads those ninety files anew.
    """
    whole, read = ScriptDirectory.from_config, {}

    def remembered(config):
        place = config.get_main_option("script_location")
        if place not in read:
            read[place] = whole(config)
        return read[place]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", remembered)
        yield


@contextmanager
def instance_in_memory(_home: object = None) -> Iterator[dg.DagsterInstance]:
    """Stand in for `open_instance` where no test looks at the home.

    Making one and writing to its files takes longer than a mark.
    """
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@contextmanager
def ground_on(sandbox: Sandbox, repository_id: str) -> Iterator[Ground]:
    """Make a repository with a live, an overwritten, a removed and a young object."""
    core, now = sandbox.core, datetime.now(UTC)
    with core.lock, sandbox.clock.at(now - timedelta(days=30)):
        repositories.create(core, repository_id, f"local://{repository_id}")
        kept = objects.upload(core, repository_id, "main", "kept", b"kept")
        objects.upload(core, repository_id, "main", "staged", b"first")
        refs.commit(core, repository_id, "main", message="first")
        never = objects.upload(core, repository_id, "main", "never", b"uploaded and taken back")
        objects.delete(core, repository_id, "main", ["never"])
        staged = objects.upload(core, repository_id, "main", "staged", b"second")
    young = objects.upload(core, repository_id, "main", "young", b"young")
    objects.delete(core, repository_id, "main", ["young"])
    with instance_in_memory() as instance:
        ground = Ground(sandbox, repository_id, settings_of(sandbox, [repository_id]), instance)
        ground.garbage = {never.address}
        ground.alive = ground.objects() - ground.garbage
        assert {kept.address, staged.address, young.address} <= ground.alive
        yield ground


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One sandbox for the tests of a module, each of which makes repositories of its own."""
    with Sandbox(tmp_path_factory.mktemp("served")) as sandbox:
        yield sandbox


@pytest.fixture
def ground(served, spark, request):
    """A repository of its own for a test."""
    name = f"r{abs(hash(request.node.nodeid)) % 10**10}"
    with ground_on(served, name) as made:
        yield made
