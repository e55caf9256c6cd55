"""What the README says of settings and commands is true of them."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from lakegc_dagster.cli.main import main
from lakegc_dagster.settings import Settings
from lakegc_dagster.settings.sections import (
    DagsterSettings,
    RepositorySettings,
    ScheduleSettings,
    ServerSettings,
    SparkSettings,
)

PAGE = (Path(__file__).parents[2] / "README.md").read_text()
SETTINGS = PAGE.partition("\n## Settings\n")[2].partition("\n## ")[0]
ROWS = dict(re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", SETTINGS, re.MULTILINE))


@pytest.mark.parametrize(
    "model", [Settings, ServerSettings, SparkSettings, DagsterSettings, ScheduleSettings, RepositorySettings]
)
def test_every_setting_is_named(model):
    named = set(re.findall(r"[`.]\[?([a-z_0-9]+)", SETTINGS))
    assert model.model_fields.keys() - named == set()


def test_the_table_names_what_there_is_with_its_default():
    defaults = {}
    for names, values in ROWS.items():
        # A row of several settings has their defaults in the same order.
        keys = re.findall(r"`([a-z_]+)`", names)
        said = values.split(",") if len(keys) > 1 else [values]
        defaults |= dict(zip(keys, (value.strip(" `") for value in said), strict=True))
    fields = RepositorySettings.model_fields
    assert defaults.keys() == fields.keys()
    for name, said in defaults.items():
        default = fields[name].default
        words = {True: "true", False: "false", None: "none"}
        shown = words[default] if default is None or isinstance(default, bool) else default
        assert said == str(shown) or float(said) == float(shown), (name, said, shown)


def test_every_command_is_named():
    usage = set(re.findall(r"^\| `lakegc ([a-z-]+)", PAGE, re.MULTILINE))
    commands = {name for name, command in main.commands.items() if isinstance(command, click.Command)}
    assert commands == usage
