"""Turn a table of the settings into options of the engine: durations, and whole paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

# Settings whose option has another name.
_OPTIONS = {"executor_credentials": "carry_credentials"}

# Settings that may be relative to the folder of the settings file.
_PATHS = {
    "ca_certificate",
    "client_certificate",
    "client_key",
    "local_path",
    "gcs_service_account_file",
}


def options_of(
    section: Mapping[str, Any], known: type, path: Callable[[str], Path]
) -> dict[str, Any]:
    """Return the options that a table sets, by name; settings without an option are left out.

    Args:
        section: The table, or a part of it.
        known: The options of the engine, a dataclass.
        path: Resolves a path of the settings.
    """
    options = {each.name for each in fields(known)}
    found: dict[str, Any] = {}
    for name, value in section.items():
        option = _OPTIONS.get(name, name.removesuffix("_seconds"))
        if option in options and name.endswith("_seconds"):
            found[option] = timedelta(seconds=value)
        elif option in options:
            found[option] = str(path(value)) if value is not None and name in _PATHS else value
    return found
