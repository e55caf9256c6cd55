"""`lakegc config`: which settings count, and where they come from."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.cli.common import command_body
from spark_core.cli.groups import Commands

if TYPE_CHECKING:
    from spark_core.settings.where_said import Said


@click.group(cls=Commands)
def config() -> None:
    """Show which settings count, and where each comes from.

    \b
    Examples:
      lakegc config show
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"


@config.command()
@click.option("--all", "show_all", is_flag=True, help="Also show what has its default.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list, with the defaults.")
@command_body
def show(config: Path | None, *, show_all: bool, as_json: bool) -> int:
    """Show each setting that counts, and the file and line or variable that says it.

    Secrets are not shown: of the environment variables that hold them, whether they are set. The
    table of a repository says what differs from [defaults].

    \b
    Examples:
      lakegc config show
      lakegc config show --all
      lakegc config show --json
    """  # noqa: D301 - as above
    from spark_core.settings import load_settings
    from spark_core.settings.where_said import (
        DEFAULT,
        settings_with_places,
        variables_of_log_in,
    )

    settings = load_settings(config)
    found = list(settings_with_places(settings, config, os.environ))
    found += variables_of_log_in(settings, os.environ)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=1))
        return 0
    click.echo(f"settings of {settings.file or 'the environment'}")
    for line in _lines([each for each in found if show_all or each.place != DEFAULT]):
        click.echo(line)
    if not show_all:
        defaults = sum(each.place == DEFAULT for each in found)
        click.echo(f"\n{defaults} more have their defaults (--all).")
    return 0


def _lines(found: list[Said]) -> list[str]:
    """Return a line for each setting, under the name of its table."""
    from spark_core.plain_text import visible

    lines, table = [], ""
    for each in found:
        if each.table != table:
            table = each.table
            lines.append(f"\n{table}" if table == "environment" else f"\n[{visible(table)}]")
        sign = ":" if table == "environment" else " ="
        said = f"{each.name}{sign} {each.value}"
        lines.append(f"{visible(said)}   # {visible(_near(each.place))}")
    return lines


def _near(place: str) -> str:
    """Name a file of this folder without it."""
    with suppress(ValueError):
        return str(Path(place).relative_to(Path.cwd()))
    return place
