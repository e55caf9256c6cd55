"""Each setting that counts, with its value and the place that says it; no secret is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from spark_core.settings import Settings, find_file
from spark_core.settings.file import SettingsSource, read_file
from spark_core.settings.login import KEY_PAIR
from spark_core.settings.secrets import HIDDEN, shown

DEFAULT = "default"


@dataclass(frozen=True)
class Said:
    """One setting.

    Attributes:
        table: Its table, such as `server` or `repositories.my-repo`; empty above all tables.
        name: Its name.
        value: Its value as TOML has it, without secrets.
        place: File and line, environment variable, or `default`.
    """

    table: str
    name: str
    value: str
    place: str


def settings_with_places(
    settings: Settings, path: Path | None, env: Mapping[str, str]
) -> Iterator[Said]:
    """Yield each setting, table by table; of a repository what its own table says.

    Args:
        settings: The settings, as read from there.
        path: The file that was named, if any.
        env: Environment.
    """
    source = read_file(find_file(path, env), env, Settings)
    above = [name for name in Settings.model_fields if not _is_table(getattr(settings, name))]
    for name in above:
        yield _say_where(source, (name,), getattr(settings, name))
    for name in Settings.model_fields:
        if name not in above:
            yield from _table(source, (name,), getattr(settings, name))


def variables_of_log_in(settings: Settings, env: Mapping[str, str]) -> Iterator[Said]:
    """Yield the environment variables that hold secrets, by whether they are set.

    Args:
        settings: The settings.
        env: Environment.
    """
    named = [
        (variable, f"named by [{table}] {name}")
        for table, section in settings
        for name, variable in (section if isinstance(section, BaseModel) else ())
        if name.endswith("_env") and variable
    ]
    for variable, why in (*((name, "the key pair") for name in KEY_PAIR), *named):
        value = f"set {HIDDEN}" if env.get(variable) else "not set"
        yield Said("environment", variable, value, why)


def _is_table(value: Any) -> bool:
    return isinstance(value, BaseModel | dict)


def _table(source: SettingsSource, place: tuple[str, ...], table: Any) -> Iterator[Said]:
    if isinstance(table, BaseModel):
        own_alone = place[0] in ("repositories", "storages")
        for name, value in table:
            if not own_alone or name in table.model_fields_set:
                yield _say_where(source, (*place, name), value)
        return
    for name, value in table.items():
        if isinstance(value, BaseModel) and not value.model_fields_set:
            where = source.place((*place, name))
            yield Said(".".join(place), name, "as [defaults]", where)
        else:
            yield from _table(source, (*place, name), value)


def _say_where(source: SettingsSource, place: tuple[str, ...], value: Any) -> Said:
    *table, name = place
    found = source.place_of(place) or DEFAULT
    return Said(".".join(table), name, _text(name, value), found)


def _text(name: str, value: Any) -> str:
    """Return a value as TOML has it, with everything hidden that may be a secret."""
    if value is None:
        return "none"
    value = shown(name, value)
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {json.dumps(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    return json.dumps(value)
