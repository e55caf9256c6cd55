"""All tables of `lakegc.toml` together, and what follows from them for one repository or store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field, PrivateAttr

from spark_core.did_you_mean import did_you_mean
from spark_core.errors import SettingsError
from spark_core.run.options_and_defaults import RunOptions
from spark_core.settings import patterns
from spark_core.settings.login import login
from spark_core.settings.metrics_and_notify import MetricsSettings, NotifySettings, ReportSettings
from spark_core.settings.sections import (
    DagsterSettings,
    LaunchSettings,
    RepositoryName,
    RepositoryPattern,
    RepositorySettings,
    ScheduleSettings,
    Section,
    SparkSettings,
    UiSettings,
)
from spark_core.settings.server_and_storage import ServerSettings, StorageSettings
from spark_core.spark.placement import default_master, is_local

if TYPE_CHECKING:
    # Both import Spark, and the command line's `--help` should not wait for that.
    from spark_core.lakefs import ServerOptions
    from spark_core.storage import StoreOptions

from spark_core.settings.engine_options import options_of

_Table = TypeVar("_Table", bound=Section)


class Settings(Section):
    """Everything that `lakegc.toml` and the environment say, without secrets.

    Attributes:
        server: The lakeFS server.
        storage: The object store.
        storages: For a server with several: what differs for one of them, by its storage id.
        spark: The Spark session.
        dagster: Dagster's home.
        throwaway_repositories: Repositories whose data may be lost: only they may have
            `allow_unsafe_min_age`.
        defaults: What holds for every repository that does not say otherwise.
        repositories: The repositories to collect, by name or pattern; each value says only what
            differs.
        launch: Where the runs of Dagster work.
        ui: The pages that `lakegc ui` serves.
        schedule: The nightly run.
        metrics: Where runs leave their metrics.
        notify: Who is told of what.
        report: Where people open the pages of runs.
    """

    server: ServerSettings
    storage: StorageSettings = StorageSettings()
    storages: dict[str, StorageSettings] = Field(default_factory=dict)
    spark: SparkSettings = SparkSettings()
    dagster: DagsterSettings = DagsterSettings()
    throwaway_repositories: list[RepositoryName] = Field(default_factory=list)
    defaults: RepositorySettings = RepositorySettings()
    repositories: dict[RepositoryPattern, RepositorySettings] = Field(default_factory=dict)
    launch: LaunchSettings = LaunchSettings()
    ui: UiSettings = UiSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    metrics: MetricsSettings = MetricsSettings()
    notify: NotifySettings = NotifySettings()
    report: ReportSettings = ReportSettings()

    _file: Path | None = PrivateAttr(default=None)
    # None means the environment at the time of the question.
    _env: Mapping[str, str] | None = PrivateAttr(default=None)

    @property
    def file(self) -> Path | None:
        """The file that was read; None when everything came from the environment."""
        return self._file

    @property
    def repository_ids(self) -> tuple[str, ...]:
        """The repositories that the settings name in full, in the order of the file."""
        return tuple(name for name in self.repositories if not patterns.is_pattern(name))

    @property
    def repository_patterns(self) -> tuple[str, ...]:
        """The patterns of repositories, in the order of the file."""
        return tuple(name for name in self.repositories if patterns.is_pattern(name))

    @property
    def dagster_home(self) -> Path:
        """Dagster's home, where commands keep Spark's lines, too; it need not exist yet."""
        return self._path(
            self.dagster.home or self._environment.get("DAGSTER_HOME") or ".lakegc/dagster_home"
        )

    @property
    def metrics_file(self) -> Path | None:
        """The file for the metrics, if there is one."""
        return None if self.metrics.file is None else self._path(self.metrics.file)

    def secret(self, setting: str) -> str | None:
        """Return the secret in the environment variable that a setting names.

        Args:
            setting: Table and name, like `[notify] webhook_env`.

        Returns:
            None if the setting is left out.

        Raises:
            SettingsError: If it names a variable that is not set.
        """
        table, name = setting.strip("[").split("] ")
        variable = getattr(getattr(self, table), name)
        if variable is None:
            return None
        found = self._environment.get(variable, "")
        if not found:
            raise SettingsError(
                f"{setting} names {variable}, and that environment variable is not set",
                "Set it, or take the setting out.",
            )
        return found

    def repository(self, repository_id: str) -> RepositorySettings:
        """Return the settings of a repository: its own words, or its pattern's, over the defaults.

        Raises:
            SettingsError: If the repository is not in the settings, or two patterns match it, or it
                may not have its mode.
        """
        if patterns.is_pattern(repository_id):
            raise SettingsError(
                f"{repository_id} is a pattern, and one repository is wanted",
                "Name one that it matches.",
            )
        own = self._own(repository_id)
        if own is None:
            known = ", ".join(self.repositories) or "none"
            question = did_you_mean(repository_id, self.repository_ids)
            add = f"{question} Else add" if question else "Add"
            raise SettingsError(
                f"repository {repository_id!r} is not in {self._file or 'the settings'} (there: "
                f"{known})",
                f"{add} the line `[repositories.{repository_id}]`; an empty table takes the "
                "defaults.",
            )
        merged: RepositorySettings = _over(self.defaults, own)
        self._refuse_unsafe_age(repository_id, merged)
        return merged

    def _own(self, repository_id: str) -> RepositorySettings | None:
        """Return the table of a repository, or of its pattern; None for neither."""
        own = self.repositories.get(repository_id)
        if own is None:
            where = str(self._file or "the settings")
            pattern = patterns.matching(repository_id, self.repository_patterns, where)
            own = None if pattern is None else self.repositories[pattern]
        return own

    def with_changed(self, repository_id: str, **values: object) -> Settings:
        """Return these settings with other values for one repository; no file changes.

        Raises:
            SettingsError: As `repository`.
        """
        self.repository(repository_id)
        own = self._own(repository_id)
        assert own is not None  # noqa: S101 - it was found a line above
        tables = {**self.repositories, repository_id: own.model_copy(update=values)}
        return self.model_copy(update={"repositories": tables})

    def server_options(self) -> ServerOptions:
        """Return how to reach the server, with the keys, or where tokens come from.

        Raises:
            SettingsError: If there is no way to log in.
        """
        from spark_core.lakefs import ServerOptions

        # Who does not wait for an answer does not wait for a connection either.
        patience = timedelta(seconds=self.server.read_timeout_seconds)
        return ServerOptions(
            **options_of(dict(self.server), ServerOptions, self._path),
            **login(self.server, self._environment, self._path),
            connect_timeout=min(ServerOptions.connect_timeout, patience),
        )

    @property
    def spark_master(self) -> str | None:
        """The Spark master; None when `spark-submit` has chosen it, or Spark is elsewhere."""
        return None if self.spark_remote else self.spark.master or default_master()

    @property
    def spark_remote(self) -> str | None:
        """The address of a Spark Connect server; None when the session has a master."""
        from spark_core.spark.connect import chosen_remote

        return self.spark.remote if self.spark.master else chosen_remote()

    @property
    def are_executors_chosen(self) -> bool:
        """Whether executors do all work: `always`, or they are on other machines."""
        return self.spark.always or self.are_executors_elsewhere

    @property
    def are_executors_elsewhere(self) -> bool:
        """Whether executors have neither the files nor the environment of this process."""
        return self.spark_remote is not None or not is_local(self.spark_master or "")

    def spark_config(self) -> dict[str, str]:
        """Return the properties of the Spark session."""
        from spark_core.spark.connect import remote_config
        from spark_core.spark.session import spark_config

        if self.spark_remote is not None:
            return remote_config(self.spark.config)
        return spark_config(master=self.spark_master, extra=self.spark.config)

    def store_options(self) -> StoreOptions:
        """Return how to reach the object store.

        Credentials come from the store's own chain (environment, profile, role).
        """
        from spark_core.storage import StoreOptions

        return StoreOptions(**self._store_options(dict(self.storage)))

    def storage_of(self, storage_id: str) -> StorageSettings:
        """Return the settings of one of a server's several storages: its words over `[storage]`."""
        own = self.storages.get(storage_id)
        return self.storage if own is None else _over(self.storage, own)

    def own_store_options(self, storage_id: str) -> dict[str, Any]:
        """Return the options of the store that the table of one storage sets by itself, by name.

        Options that the table leaves open are left out, so the result can also be put over options
        from elsewhere. A profile of its own takes its keys with it.
        """
        table = self.storages[storage_id]
        own = self._store_options({name: getattr(table, name) for name in table.model_fields_set})
        if "s3_profile" in own:
            own |= dict.fromkeys(("s3_access_key_id", "s3_secret_access_key", "s3_session_token"))
        return own

    def run_options(self, repository_id: str) -> RunOptions:
        """Return what a run over a repository may do.

        Raises:
            SettingsError: If the repository is not in the settings, or may not have its mode.
        """
        return self.repository(repository_id).run_options()

    def _store_options(self, section: Mapping[str, Any]) -> dict[str, Any]:
        from spark_core.storage import StoreOptions

        found = options_of(section, StoreOptions, self._path)
        if "carry_credentials" in found and not self.are_executors_elsewhere:
            found["carry_credentials"] = "never"
        return found

    @property
    def _environment(self) -> Mapping[str, str]:
        return os.environ if self._env is None else self._env

    def _path(self, text: str) -> Path:
        """Resolve a path of the settings; relative paths start at the settings file."""
        base = Path.cwd() if self._file is None else self._file.parent
        return (base / Path(text).expanduser()).resolve()

    def _refuse_unsafe_age(self, repository_id: str, merged: RepositorySettings) -> None:
        if merged.allow_unsafe_min_age and repository_id not in self.throwaway_repositories:
            raise SettingsError(
                f"{self._file or 'the settings'}: [repositories.{repository_id}] has "
                f"allow_unsafe_min_age, and {repository_id} is not in throwaway_repositories",
                "Uploads in flight could look old. Take it out, or name the repository there if "
                "its data may be lost.",
            )


def _over(usual: _Table, own: _Table) -> _Table:
    """Return a table with the words of another table over its own."""
    return usual.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})
