"""Find the settings, read them from the file and the environment, and check every word of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from spark_core.errors import SettingsError
from spark_core.settings import file as settings_file
from spark_core.settings.all_tables import Settings

FILE_NAME = "lakegc.toml"
FILE_VARIABLE = "LAKEGC_CONFIG"


def settings_are_given(env: Mapping[str, str] | None = None) -> bool:
    """Say whether there is a settings file to find, or a server named in the environment."""
    env = os.environ if env is None else env
    return (
        bool(env.get(FILE_VARIABLE))
        or Path(FILE_NAME).exists()
        or f"{settings_file.PREFIX}SERVER__ENDPOINT" in env
    )


def no_settings() -> SettingsError:
    """Return the refusal for callers that need settings and find none."""
    return SettingsError(
        f"no settings: there is no {FILE_NAME} in {Path.cwd()}, and {FILE_VARIABLE} names no other",
        "`lakegc init` writes one and asks for what it needs; `lakegc demo` needs none.",
    )


def load_settings(
    path: Path | None = None,
    env: Mapping[str, str] | None = None,
    *,
    beside: settings_file.Beside | None = None,
) -> Settings:
    """Read the settings file and the environment, and check every word of them.

    Args:
        path: The file; else the one that `LAKEGC_CONFIG` names; else `./lakegc.toml`, which may be
            absent if the environment says everything. Where `beside` names the server, no file is
            looked for.
        env: Environment; this process's own when None.
        beside: What somebody else says beside the file.

    Raises:
        SettingsError: One line for each thing that is wrong, with its place.
    """
    variables = os.environ if env is None else env
    names_server = beside is not None and "server" in beside.document
    found = None if path is None and names_server else find_file(path, variables)
    source = settings_file.read_file(found, variables, Settings, beside)
    try:
        settings = Settings.model_validate(source.document)
    except ValidationError as invalid:
        raise SettingsError(
            "\n".join(settings_file.describe(error, source, Settings) for error in invalid.errors())
        ) from None
    settings._file = source.path  # noqa: SLF001 - pydantic's constructor does not take it
    settings._env = env  # noqa: SLF001 - as above
    for repository_id in settings.repository_ids:
        settings.repository(repository_id)
    return settings


def find_file(path: Path | None, env: Mapping[str, str]) -> Path | None:
    """Return the settings file; None where the environment says everything.

    Args:
        path: The file, where one is named.
        env: Environment.

    Raises:
        SettingsError: If there is none, or the one that is named does not exist.
    """
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
