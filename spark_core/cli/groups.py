"""Groups of commands whose help shows whole sentences, by task where there are many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import click

from spark_core.output import exit_code_of
from spark_core.plain_text import visible

_ALL = 10_000

TASKS: Mapping[str, Sequence[str]] = {
    "Begin": ("demo", "init", "config", "doctor", "warm-up"),
    "Collect": ("mark", "run", "sweep", "confirm"),
    "Look": ("status", "runs", "report", "explain", "what-if", "ui"),
    "Keep and bring back": ("hold", "restore"),
    "Rules and policies": ("rules", "retention", "erase"),
    "Prove": ("certificate", "verify"),
    "Tell": ("notify", "metrics"),
}


class Commands(click.Group):
    """A group whose help cuts no sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each command."""
        self._section("Commands", self.list_commands(ctx), formatter)

    def _section(
        self, title: str, names: Sequence[str], formatter: click.HelpFormatter, *, width: int = 0
    ) -> None:
        lines = [
            (name.ljust(width), self.commands[name].get_short_help_str(_ALL))
            for name in names
            if name in self.commands
        ]
        if lines:
            with formatter.section(title):
                formatter.write_dl(lines)


class Lakegc(Commands):
    """All commands of `lakegc`."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run the command that is asked for, whatever becomes of what it shows."""
        raise SystemExit(exit_code_of(partial(super().main, *args, **kwargs)))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an argument with bytes that are not UTF-8, which Python reads as half letters."""
        for given in args:
            if any("\ud800" <= letter <= "\udfff" for letter in given):
                raise click.UsageError(
                    f"{visible(given)} is not text in UTF-8. Nothing was done; write it in UTF-8.",
                    ctx,
                )
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each command, by task."""
        names, width = self.list_commands(ctx), max(map(len, self.commands))
        for task, commands in TASKS.items():
            self._section(task, commands, formatter, width=width)
        known = {name for commands in TASKS.values() for name in commands}
        rest = [name for name in names if name not in known]
        self._section("Other commands", rest, formatter, width=width)
