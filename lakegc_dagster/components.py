"""The collector as a component, which another project adds to its definitions in YAML."""

import dagster as dg
from pydantic import Field

from lakegc_dagster.definitions import build_defs
from spark_core.settings import load_settings


class CollectorComponent(dg.Component, dg.Model, dg.Resolvable):
    """lakegc's assets, checks, jobs, schedules and sensor for a settings file's repositories."""

    settings_file: str | None = Field(
        default=None,
        description="lakegc.toml, by its path from the folder of this component; left out, the "
        "file that LAKEGC_CONFIG "
        "names, or ./lakegc.toml.",
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the code location without an executor; the project's own one stays.

        lakegc's jobs bring their own executor.

        Raises:
            SettingsError: If the settings are wrong.
        """
        path = None if self.settings_file is None else context.path / self.settings_file
        return build_defs(load_settings(path), executor=None)
