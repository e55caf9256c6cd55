"""The repositories that are known while Dagster loads, when no server may be asked.

Those that patterns match are remembered in Dagster's home each time that the sensor has asked for
them, for the next time that Dagster loads the code location.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from lakegc_dagster.names import Names
from spark_core.errors import SettingsError
from spark_core.json_and_toml import read_json
from spark_core.settings import Settings
from spark_core.whole_file import write_file


def known_repositories(settings: Settings | None, names: Names) -> tuple[str, ...]:
    """Return the repositories that the settings name, and those that their patterns matched last.

    Args:
        settings: The settings; None when there are none yet.
        names: Those of the collector.
    """
    if settings is None:
        return ()
    if not settings.repository_patterns:
        return settings.repository_ids
    try:
        found = read_json(_file(settings, names).read_bytes())
    except (OSError, ValueError):
        found = []  # it was not asked yet, or somebody changed the file; the sensor writes it again
    remembered = [each for each in found if isinstance(each, str) and _is_of(settings, each)]
    return tuple(dict.fromkeys([*settings.repository_ids, *sorted(remembered)]))


def remember_repositories(settings: Settings, names: Names, found: Sequence[str]) -> bool:
    """Keep what patterns match now, and say whether it is something else than before."""
    if {*found} == {*known_repositories(settings, names)}:
        return False
    settings.dagster_home.mkdir(parents=True, exist_ok=True)
    write_file(_file(settings, names), json.dumps(sorted(found)).encode())
    return True


def _file(settings: Settings, names: Names) -> Path:
    return settings.dagster_home / f"{names.named('repositories')}.json"


def _is_of(settings: Settings, repository_id: str) -> bool:
    try:
        settings.repository(repository_id)
    except SettingsError:
        return False
    return True
