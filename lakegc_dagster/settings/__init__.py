"""`lakegc.toml` and the environment: what they may say, checked, and turned into the engine's options.

Secrets are not part of the settings: they come from the environment or from a
file that the settings name, and only when a server is really asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, PrivateAttr, ValidationError

from lakegc_dagster.settings import file as settings_file
from lakegc_dagster.settings.sections import (
    DagsterSettings,
    RepositoryName,
    RepositorySettings,
    ScheduleSettings,
    Section,
    ServerSettings,
    SparkSettings,
    StorageSettings,
)
from spark_core.errors import SettingsError

if TYPE_CHECKING:
    # Both import Spark; the command line's `--help` should not pay for that.
    from spark_core.lakefs import ServerOptions
    from spark_core.run import RunOptions
    from spark_core.storage import StoreOptions

FILE_NAME = "lakegc.toml"
FILE_VARIABLE = "LAKEGC_CONFIG"

# Settings of a storage whose option has another name.
_OPTIONS = {
    "connect_timeout_seconds": "connect_timeout",
    "read_timeout_seconds": "read_timeout",
    "executor_credentials": "carry_credentials",
}

# The same two names in TOML, INI, JSON and lakectl's own YAML.
_CREDENTIAL = re.compile(r"\b(access_key_id|secret_access_key)[\"']?\s*[:=]\s*[\"']?([^\s\"',}]+)")


class Settings(Section):
    """Everything that `lakegc.toml` and the environment say, without secrets.

    Attributes:
        server: The lakeFS server.
        storage: The object store.
        storages: For a server with several: what differs for one of them, by its storage id.
        spark: The Spark session.
        dagster: Dagster's home.
        throwaway_repositories: Repositories whose data may be lost: only they may have `allow_unsafe_min_age`.
        defaults: What holds for every repository that does not say otherwise.
        repositories: The repositories to collect; each value says only what differs.
        schedule: The nightly run.
    """

    server: ServerSettings
    storage: StorageSettings = StorageSettings()
    storages: dict[str, StorageSettings] = Field(default_factory=dict)
    spark: SparkSettings = SparkSettings()
    dagster: DagsterSettings = DagsterSettings()
    throwaway_repositories: list[RepositoryName] = Field(default_factory=list)
    defaults: RepositorySettings = RepositorySettings()
    repositories: dict[RepositoryName, RepositorySettings] = Field(default_factory=dict)
    schedule: ScheduleSettings = ScheduleSettings()

    _file: Path | None = PrivateAttr(default=None)
    # None means the environment as it is when it is asked.
    _env: Mapping[str, str] | None = PrivateAttr(default=None)

    @property
    def file(self) -> Path | None:
        """The file that was read; None when everything came from the environment."""
        return self._file

    @property
    def repository_ids(self) -> tuple[str, ...]:
        """The repositories to collect, in the order of the file."""
        return tuple(self.repositories)

    @property
    def dagster_home(self) -> Path:
        """Dagster's home, shared by the command line and the UI; it need not exist yet."""
        return self._path(self.dagster.home or self._environment.get("DAGSTER_HOME") or ".lakegc/dagster_home")

    def repository(self, repository_id: str) -> RepositorySettings:
        """Return what holds for a repository: its own words over the defaults.

        Raises:
            SettingsError: If the repository is not in the settings, or may not be what its mode says.
        """
        own = self.repositories.get(repository_id)
        if own is None:
            known = ", ".join(self.repository_ids) or "none"
            raise SettingsError(
                f"repository {repository_id!r} is not in {self._file or 'the settings'} (there: {known})",
                f"Add the line `[repositories.{repository_id}]`; an empty table takes the defaults.",
            )
        merged = self.defaults.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})
        self._refuse_unsafe_age(repository_id, merged)
        return merged

    def server_options(self) -> ServerOptions:
        """Return how to reach the server, with the keys.

        Raises:
            SettingsError: If there are no keys.
        """
        from spark_core.lakefs import ServerOptions

        server = self.server
        access_key_id, secret_access_key = self._credentials()
        return ServerOptions(
            endpoint=server.endpoint,
            access_key_id=access_key_id,
            secret_access_key=secret_access_key,
            ca_certificate=None if server.ca_certificate is None else str(self._path(server.ca_certificate)),
            connect_timeout=timedelta(seconds=server.connect_timeout_seconds),
            read_timeout=timedelta(seconds=server.read_timeout_seconds),
            prepare_deadline=timedelta(seconds=server.prepare_deadline_seconds),
            longest_outage=timedelta(seconds=server.longest_outage_seconds),
        )

    @property
    def spark_master(self) -> str | None:
        """The Spark master; None when `spark-submit` has chosen it."""
        from spark_core.spark.session import default_master

        return self.spark.master or default_master()

    def spark_config(self) -> dict[str, str]:
        """Return the properties of the Spark session."""
        from spark_core.spark.session import spark_config

        spark = self.spark
        return spark_config(master=self.spark_master, address_partitions=spark.address_partitions, extra=spark.config)

    def store_options(self) -> StoreOptions:
        """Return how to reach the object store; credentials come from the store's own chain (environment, profile, role)."""
        from spark_core.spark.session import is_local
        from spark_core.storage import StoreOptions

        storage = self.storage
        return StoreOptions(
            local_path=None if storage.local_path is None else str(self._path(storage.local_path)),
            s3_endpoint=storage.s3_endpoint,
            s3_region=storage.s3_region,
            s3_profile=storage.s3_profile,
            s3_path_style=storage.s3_path_style,
            s3_role_arn=storage.s3_role_arn,
            s3_sts_endpoint=storage.s3_sts_endpoint,
            azure_endpoint=storage.azure_endpoint,
            azure_client_id=storage.azure_client_id,
            azure_tenant_id=storage.azure_tenant_id,
            gcs_endpoint=storage.gcs_endpoint,
            gcs_service_account_file=(
                None if storage.gcs_service_account_file is None else str(self._path(storage.gcs_service_account_file))
            ),
            carry_credentials="never" if is_local(self.spark_master or "") else storage.executor_credentials,
            allow_http=storage.allow_http,
            connect_timeout=timedelta(seconds=storage.connect_timeout_seconds),
            read_timeout=timedelta(seconds=storage.read_timeout_seconds),
            max_retries=storage.max_retries,
        )

    def storage_of(self, storage_id: str) -> StorageSettings:
        """Return what holds for one storage of a server with several: its own words over `[storage]`."""
        own = self.storages.get(storage_id)
        if own is None:
            return self.storage
        return self.storage.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})

    def own_store_options(self, storage_id: str) -> dict[str, Any]:
        """Return the options of the store that the table of one storage sets by itself, by name.

        What it leaves open is not in it, so it can be put over options that
        come from elsewhere, too. A profile of its own takes its keys with it.
        """
        whole = self.model_copy(update={"storage": self.storage_of(storage_id)}).store_options()
        own = {
            option: getattr(whole, option)
            for name in self.storages[storage_id].model_fields_set
            if hasattr(whole, option := _OPTIONS.get(name, name))
        }
        if "s3_profile" in own:
            own |= dict.fromkeys(("s3_access_key_id", "s3_secret_access_key", "s3_session_token"))
        return own

    def run_options(self, repository_id: str) -> RunOptions:
        """Return what a run over a repository may do.

        Raises:
            SettingsError: If the repository is not in the settings, or may not be what its mode says.
        """
        from spark_core.run import RunOptions

        chosen = self.repository(repository_id)
        return RunOptions(
            may_sweep=chosen.mode == "sweep",
            min_age=timedelta(hours=chosen.min_age_hours),
            allow_unsafe_min_age=chosen.allow_unsafe_min_age,
            flat=chosen.flat,
            tags_protect=chosen.tags_protect,
            clock_margin=timedelta(minutes=chosen.clock_margin_minutes),
            twin_calls=chosen.twin_calls,
            hidden_entries=chosen.hidden_entries,
            longest_upload=timedelta(days=chosen.longest_upload_days),
            branches_at_once=chosen.branches_at_once,
            strangers=chosen.strangers,
            inherited=chosen.inherited,
            explain_ranges=chosen.explain_ranges,
            max_expired_share=chosen.max_expired_share,
            max_missing_share=chosen.max_missing_share,
            share_from_objects=chosen.share_from_objects,
            max_sudden_drop=chosen.max_sudden_drop,
            max_expired_rise=chosen.max_expired_rise,
            max_clock_skew=timedelta(seconds=chosen.max_clock_skew_seconds),
            max_mark_age=timedelta(days=chosen.max_mark_age_days),
            max_deletes_per_second=chosen.max_deletes_per_second,
            reread_every=timedelta(minutes=chosen.reread_minutes),
            quarantine=chosen.quarantine,
            quarantine_days=chosen.quarantine_days,
            repository_cache=timedelta(seconds=chosen.repository_cache_seconds),
            range_partitions=chosen.range_partitions,
            read_threads=chosen.read_threads,
            write_reference_mark=chosen.write_reference_mark,
            exclusive=chosen.exclusive,
            lease_ttl=timedelta(seconds=chosen.lease_ttl_seconds),
            keep_runs=chosen.keep_runs,
        )

    @property
    def _environment(self) -> Mapping[str, str]:
        return os.environ if self._env is None else self._env

    def _path(self, text: str) -> Path:
        """Resolve a path of the settings; relative ones start at the settings file, so that any folder will do."""
        base = Path.cwd() if self._file is None else self._file.parent
        return (base / Path(text).expanduser()).resolve()

    def _credentials(self) -> tuple[str, str]:
        server, env = self.server, self._environment
        found = {
            "access_key_id": env.get(server.access_key_id_env, ""),
            "secret_access_key": env.get(server.secret_access_key_env, ""),
        }
        if any(found.values()) and not all(found.values()):
            there, absent = server.access_key_id_env, server.secret_access_key_env
            if not found["access_key_id"]:
                there, absent = absent, there
            raise SettingsError(f"{there} is set and {absent} is not", "Set both, or neither.")
        if not all(found.values()):
            found = self._credentials_file()
        return found["access_key_id"], found["secret_access_key"]

    def _credentials_file(self) -> dict[str, str]:
        server = self.server
        if server.credentials_file is None:
            raise SettingsError(
                f"no keys for {server.endpoint}: {server.access_key_id_env} and {server.secret_access_key_env} are not "
                "set, and [server] names no credentials_file",
                'Set both variables, or write credentials_file = "~/.lakectl.yaml".',
            )
        path = self._path(server.credentials_file)
        try:
            pairs = _CREDENTIAL.findall(path.read_text())
        except (OSError, UnicodeDecodeError) as problem:
            # The decoder's own words quote the file's bytes.
            reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
            raise SettingsError(
                f"the credentials_file {path} cannot be read ({reason})",
                f"Mend it, or set {server.access_key_id_env} and {server.secret_access_key_env}.",
            ) from None
        names = sorted(name for name, _ in pairs)
        if names != ["access_key_id", "secret_access_key"]:
            raise SettingsError(
                f"the credentials_file {path} has {names.count('access_key_id')} access_key_id and "
                f"{names.count('secret_access_key')} secret_access_key, wanted one of each",
                "Keep the keys of one user in it.",
            )
        return dict(pairs)

    def _refuse_unsafe_age(self, repository_id: str, merged: RepositorySettings) -> None:
        if merged.allow_unsafe_min_age and repository_id not in self.throwaway_repositories:
            raise SettingsError(
                f"{self._file or 'the settings'}: [repositories.{repository_id}] has allow_unsafe_min_age, and {repository_id} is "
                "not in throwaway_repositories",
                "Uploads in flight could look old. Take it out, or name the repository there if its data may be lost.",
            )


def settings_are_given(env: Mapping[str, str] | None = None) -> bool:
    """Say whether there is a settings file to find, or a server named in the environment."""
    env = os.environ if env is None else env
    return bool(env.get(FILE_VARIABLE)) or Path(FILE_NAME).exists() or f"{settings_file.PREFIX}SERVER__ENDPOINT" in env


def no_settings() -> SettingsError:
    """Return the refusal of whoever needs settings and finds none."""
    return SettingsError(
        f"no settings: there is no {FILE_NAME} in {Path.cwd()}, and {FILE_VARIABLE} names no other",
        'Write one that begins with\n[server]\nendpoint = "https://lakefs.example.com"\n'
        "or try `lakegc demo`, which needs none.",
    )


def load_settings(path: Path | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """Read the settings file and the environment, and check every word of them.

    Args:
        path: The file; else the one that `LAKEGC_CONFIG` names; else `./lakegc.toml`, which may be absent
            when the environment says everything.
        env: Environment; this process's own when None.

    Raises:
        SettingsError: One line for each thing that is wrong, with its place.
    """
    variables = os.environ if env is None else env
    source = settings_file.read(_find(path, variables), variables, Settings)
    try:
        settings = Settings.model_validate(source.document)
    except ValidationError as invalid:
        raise SettingsError(
            "\n".join(settings_file.describe(error, source, Settings) for error in invalid.errors())
        ) from None
    settings._file = source.path  # noqa: SLF001 - pydantic's constructor takes no private attributes
    settings._env = env  # noqa: SLF001 - as above
    for repository_id in settings.repository_ids:
        settings.repository(repository_id)
    return settings


def _find(path: Path | None, env: Mapping[str, str]) -> Path | None:
    named = path or (Path(env[FILE_VARIABLE]) if env.get(FILE_VARIABLE) else None)
    if named is None:
        usual = Path(FILE_NAME)
        if usual.exists() or settings_are_given(env):
            return usual.resolve() if usual.exists() else None
        raise no_settings()
    resolved = named.expanduser().resolve()
    if not resolved.is_file():
        by = "" if path else f" (named by {FILE_VARIABLE})"
        raise SettingsError(f"settings file {resolved}{by} does not exist", "Name one that does.")
    return resolved
