"""Groups of commands whose help shows whole sentences, by task where there are many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, NoReturn

import click

from spark_core.errors import SettingsError
from spark_core.output import exit_code_of
from spark_core.plain_text import visible

_ALL = 10_000

_ENGINE, _DAGSTER = "spark_core.cli.", "lakegc_dagster.cli."

# Every command, by task, and the module that has it under its name.
TASKS: Mapping[str, Mapping[str, str]] = {
    "Begin": {
        "demo": f"{_DAGSTER}demo",
        "init": f"{_ENGINE}init",
        "config": f"{_ENGINE}config",
        "doctor": f"{_ENGINE}doctor",
        "warm-up": f"{_ENGINE}warm_up",
    },
    "Collect": {
        "mark": f"{_ENGINE}collect",
        "run": f"{_ENGINE}collect",
        "sweep": f"{_ENGINE}collect",
        "confirm": f"{_ENGINE}confirm",
    },
    "Look": {
        "status": f"{_ENGINE}runs",
        "runs": f"{_ENGINE}runs",
        "report": f"{_ENGINE}report",
        "explain": f"{_ENGINE}explain",
        "what-if": f"{_ENGINE}what_if",
        "ui": f"{_DAGSTER}ui",
    },
    "Keep and bring back": {"hold": f"{_ENGINE}holds", "restore": f"{_ENGINE}restore"},
    "Rules and policies": {
        "rules": f"{_ENGINE}rules",
        "retention": f"{_ENGINE}retention",
        "erase": f"{_ENGINE}erase",
    },
    "Prove": {"certificate": f"{_ENGINE}certificate", "verify": f"{_ENGINE}certificate"},
    "Tell": {"notify": f"{_ENGINE}notify", "metrics": f"{_ENGINE}metrics"},
}


class Commands(click.Group):
    """A group whose help cuts no sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each command."""
        self._section("Commands", self.list_commands(ctx), formatter)

    def _section(
        self, title: str, names: Iterable[str], formatter: click.HelpFormatter, *, width: int = 0
    ) -> None:
        lines = [
            (name.ljust(width), self.commands[name].get_short_help_str(_ALL)) for name in names
        ]
        with formatter.section(title):
            formatter.write_dl(lines)


class Lakegc(Commands):
    """All commands of `lakegc`."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run the command that is asked for, whatever becomes of what it shows."""
        # Words about a command go by its name, however the program was started.
        named = {"prog_name": "lakegc", **kwargs}
        raise SystemExit(exit_code_of(partial(super().main, *args, **named)))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an argument with bytes that are not UTF-8, which Python reads as half letters."""
        for given in args:
            if any("\ud800" <= letter <= "\udfff" for letter in given):
                raise click.UsageError(
                    f"{visible(given)} is not text in UTF-8. Nothing was done; write it in UTF-8.",
                    ctx,
                )
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the first sentence of each command, by task."""
        for task, names in TASKS.items():
            self._section(task, names, formatter, width=max(map(len, self.commands)))


class CommandsByName(Mapping[str, click.Command]):
    """The commands of `TASKS`; each one's module is imported when somebody asks for it."""

    _modules: ClassVar = {
        name: module for names in TASKS.values() for name, module in names.items()
    }

    def __getitem__(self, name: str) -> click.Command:
        try:
            module = installed(self._modules[name])
        except SettingsError as missing:
            return _stand_in(name, str(missing))
        command: click.Command = getattr(module, name.replace("-", "_"))
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


def installed(module: str) -> ModuleType:
    """Import a module by its name; the engine has others beside it only where lakegc is installed.

    Raises:
        SettingsError: If it is of the other package, and only the engine is there.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name != _DAGSTER.partition(".")[0]:
            raise
        raise SettingsError(
            "this needs Dagster or the sandbox, and here is lakegc's engine alone",
            "Install the package `lakegc` in its place.",
        ) from None


def _stand_in(name: str, why: str) -> click.Command:
    """Return what stands for a command that is not installed: it says so, and is in the help."""

    def refuse() -> NoReturn:
        raise click.UsageError(why)

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, anything, refuse, help=why)
