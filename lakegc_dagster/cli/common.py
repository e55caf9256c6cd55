"""What all commands share: their options, how they end, and the settings that they read."""

from __future__ import annotations

import functools
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from spark_core.errors import LakegcError, SettingsError
from spark_core.phases import ended, ended_a_command
from spark_core.plain_text import visible

if TYPE_CHECKING:
    from lakegc_dagster.settings import Settings

FAILED = 1
WRONG_SETTINGS = 2
INTERRUPTED = 130

# Where a Java stack begins.
_STACK = re.compile(r"\s+at \S+\(")

Body = TypeVar("Body", bound=Callable[..., int])


class RunKeyType(click.ParamType[Any]):
    """A run key on the command line."""

    name = "run key"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the key, or end with what is wrong with it."""
        from spark_core.model import RunKey

        try:
            return value if isinstance(value, RunKey) else RunKey.parse(value)
        except SettingsError as wrong:
            self.fail(str(wrong), param, ctx)


take_over_option = click.option(
    "--take-over",
    type=RunKeyType(),
    metavar="RUN",
    help="Take over the lease of this run, which died while it deleted; refused while it may still be alive.",
)


def command_body(body: Body) -> Callable[..., NoReturn]:
    """Give a command `--config` and `--debug`, and turn how it ends into an exit code.

    Args:
        body: Does the work and returns the exit code; what it raises on purpose is shown in one piece.
    """

    @click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Settings file; else LAKEGC_CONFIG, else ./lakegc.toml.",
    )
    @click.option("--debug", is_flag=True, help="Show where in the code an error came from.")
    @functools.wraps(body)
    def command(*, debug: bool, **arguments: Any) -> NoReturn:
        raise SystemExit(guarded(functools.partial(body, **arguments), debug=debug))

    return command


def guarded(body: Callable[[], int], *, debug: bool) -> int:
    """Run a command and show what it raises on purpose as one piece, without a traceback.

    Args:
        body: What it does; whatever in it deletes is a phase of its own (`spark_core.phases`).
        debug: Show where an error came from.
    """
    from lakegc_dagster import console

    try:
        return body()
    except LakegcError as error:
        if debug:
            # What an error quotes must not drive the terminal that it is shown on.
            sys.stderr.write(visible(traceback.format_exc(), lines=True))
        console.show_error(console.console(sys.stderr), ended_a_command(error))
        return exit_code(error)
    except KeyboardInterrupt:
        console.console(sys.stderr).print(
            "\nended by Ctrl-C; what was stored stays, and the same command goes on from there"
        )
        return INTERRUPTED


def exit_code(error: LakegcError | None) -> int:
    """Return the exit code that an error stands for."""
    return WRONG_SETTINGS if isinstance(error, SettingsError) else FAILED


def unforeseen(message: str | None, log: Path, state: str | None = None) -> LakegcError:
    """Make an error of a failure that no error of ours explains: its first words, where the others are, what had been done."""
    first = _STACK.split((message or "the run failed").strip(), maxsplit=1)[0].strip()
    failure = LakegcError(f"{first}. What Spark said is in {log}; the run's events are in the UI (`lakegc ui`).")
    # Dagster shows the notes of an error with it; a long stack of Java comes before them, and is cut off here.
    return failure if state is None or state in first else ended(failure, state)


def read_settings(config: Path | None, stack: ExitStack) -> Settings:
    """Read the settings, and wake up the demo's sandbox when they are its own."""
    from lakegc_dagster import demo_sandbox
    from lakegc_dagster.settings import load_settings

    return stack.enter_context(demo_sandbox.awake(load_settings(config)))
