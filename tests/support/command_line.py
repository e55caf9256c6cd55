"""The settings of a command line on a sandbox, and what its words say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core.cli.main import main

WITH_REPO = """\
[server]
endpoint = "{endpoint}"
[storage]
local_path = "{blockstore}"
[repositories.repo]
"""


def settings_on(sandbox: Sandbox, folder: Path, settings: str) -> dict[str, str]:
    """Write `lakegc.toml` and return the variables that name it and the keys.

    Args:
        sandbox: A running one.
        folder: Where the file is written.
        settings: Its text, with `{endpoint}` and `{blockstore}`.
    """
    config = folder / "lakegc.toml"
    config.write_text(settings.format(endpoint=sandbox.endpoint, blockstore=sandbox.blockstore))
    return {
        "LAKEGC_ACCESS_KEY_ID": sandbox.access_key_id,
        "LAKEGC_SECRET_ACCESS_KEY": sandbox.secret_access_key,
        "LAKEGC_CONFIG": str(config),
    }


def settings_in_environment(
    sandbox: Sandbox, folder: Path, monkeypatch: pytest.MonkeyPatch, settings: str
) -> Path:
    """Write `lakegc.toml`, put the sandbox's keys into the environment, and return the file."""
    env = settings_on(sandbox, folder, settings)
    file = Path(env.pop("LAKEGC_CONFIG"))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return file


def parsed(words: Sequence[str]) -> Mapping[str, Any]:
    """Return what the words of a command line say, without running the command.

    Raises:
        click.ClickException: If they are none that `lakegc` knows.
    """
    context, rest = main.make_context("lakegc", [*words]), [*words]
    while isinstance(context.command, click.Group):
        name, command, rest = context.command.resolve_command(context, rest)
        assert name is not None
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context.params
