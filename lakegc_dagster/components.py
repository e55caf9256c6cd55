"""The collector as a component, which another project adds to its definitions in YAML."""

from typing import Any

import dagster as dg
from pydantic import Field

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.names import Names
from spark_core.settings import Settings, load_settings
from spark_core.settings.file import Beside

Table = dict[str, Any]


class CollectorComponent(dg.Component, dg.Model, dg.Resolvable):
    """lakegc's assets, checks, jobs, schedules and sensors for the repositories of one server."""

    settings_file: str | None = Field(
        default=None,
        description="lakegc.toml, by its path from the folder of this component; left out, the "
        "file that LAKEGC_CONFIG names, or ./lakegc.toml, unless there is an endpoint here.",
    )
    endpoint: str | None = Field(
        default=None, description="URL of the lakeFS server, as [server] of the file has it."
    )
    repositories: dict[str, Table | None] = Field(
        default_factory=dict,
        description="Names or patterns of the repositories, each with what differs for it from "
        "the defaults, as [repositories.NAME] of the file has it.",
    )
    schedule: Table = Field(
        default_factory=dict,
        description="cron, timezone and run, as [schedule] of the file has them.",
    )
    key_prefix: str = Field(
        default="lakegc",
        description="First part of each asset key, and with _ the beginning of all other names; "
        "empty for none.",
    )
    pool: str | None = Field(
        default=None, description="Pool of all assets and checks; left out, the prefix."
    )
    owners: list[str] = Field(
        default_factory=lambda: ["team:lakegc"], description="Who owns the assets."
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the code location without an executor; the project's own one stays.

        lakegc's jobs bring their own executor.

        Raises:
            SettingsError: If the settings are wrong, or the file says what is said here.
        """
        names = Names(self.key_prefix, self.pool, tuple(self.owners))
        return build_defs(self._settings(context), names=names, executor=None)

    def _settings(self, context: dg.ComponentLoadContext) -> Settings:
        tables = {
            "server": {"endpoint": self.endpoint} if self.endpoint else {},
            "repositories": {name: own or {} for name, own in self.repositories.items()},
            "schedule": self.schedule,
        }
        said = {name: table for name, table in tables.items() if table}
        path = None if self.settings_file is None else context.path / self.settings_file
        return load_settings(path, beside=Beside(f"the component in {context.path}", said))
