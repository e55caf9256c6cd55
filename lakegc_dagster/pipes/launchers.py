"""How a run is started elsewhere: the launchers of the settings, and what any launcher is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import dagster as dg

from spark_core.settings import Settings

# Runs the entry by a client of Dagster's pipes, with these extras, and waits for its end.
Launcher: TypeAlias = Callable[
    [dg.AssetExecutionContext, Mapping[str, Any]], dg.PipesClientCompletedInvocation
]

ENTRY = Path(__file__).with_name("entry.py")


def launcher_of(settings: Settings | None) -> Launcher | None:
    """Return the launcher that the settings name; None where runs work in Dagster's process."""
    if settings is None or settings.launch.tool == "here":
        return None
    return in_a_process(command_of(settings.launch.tool, settings.launch.arguments))


def command_of(tool: str, arguments: Sequence[str]) -> Sequence[str]:
    """Return the command that starts the entry.

    Args:
        tool: `python` or `spark-submit`.
        arguments: Options of `spark-submit`.
    """
    if tool == "python":
        return [sys.executable, "-m", "lakegc_dagster.pipes.entry"]
    return [tool, *arguments, str(ENTRY)]


def in_a_process(command: Sequence[str]) -> Launcher:
    """Return the launcher that starts a command on this machine and waits for it."""

    def launch(
        context: dg.AssetExecutionContext, extras: Mapping[str, Any]
    ) -> dg.PipesClientCompletedInvocation:
        return dg.PipesSubprocessClient().run(context=context, extras=dict(extras), command=command)

    return launch
