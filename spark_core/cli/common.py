"""The parts that all commands share: options, exit codes and settings."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import click

from spark_core.errors import (
    INTERRUPTED,
    LakegcError,
    SettingsError,
    exit_code,
)
from spark_core.foreign_errors import in_a_sentence
from spark_core.output import lost
from spark_core.phases import ended_a_command, state_of
from spark_core.plain_text import visible
from spark_core.spark.output import OUTPUT

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from spark_core.lakefs import LakeFSServer
    from spark_core.settings import Settings

# What is true of a command that Ctrl-C ended; every other one only reads.
INTERRUPTED_WORDS = {
    "mark": "no sweep had begun; the same command marks anew under a new run key",
    "run": "a mark that did not end is made anew by the next run; a sweep that began goes on with "
    "`lakegc sweep REPOSITORY --run KEY`, from its journal (`lakegc runs` shows the keys)",
    "sweep": "the journal names what was deleted; the same command goes on from there",
    "restore": "what was brought back stays; the same command goes on with the rest",
    "init": "no settings file was written, or all of it",
    "demo": "the sandbox stays in its directory, and the next demo makes it anew",
    "warm-up": "what was compiled is kept, and runs compile the rest",
    "ui": "the UI has ended, and runs that it had started were ended with it",
    "confirm": "`lakegc runs`, or the command that was to come next, shows whether it is confirmed",
    "hold add": "`lakegc hold list` shows whether the hold is there",
    "hold remove": "`lakegc hold list` shows whether the hold is there",
    "retention branches delete": "the same command goes on; `lakegc retention branches mark` shows "
    "what was deleted",
    "rules set": "`lakegc rules get` shows the rules as the server has them",
    "rules delete": "`lakegc rules get` shows the rules as the server has them",
    "retention set": "`lakegc retention get --history` shows the versions that there are",
    "retention delete": "`lakegc retention get --history` shows the versions that there are",
    "retention remove": "no object was deleted; merges that were made stand, and `lakegc retention "
    "restore` reverts them",
    "retention restore": "what was brought back stands; the same command goes on with the rest",
    "metrics": "a file is replaced in one step or stays as it was",
    "notify": "some people may have been told",
    "certificate": "no certificate was written",
}

_SPARKS_LINES = "Show Spark's own lines, which otherwise only go to a file."

Body = TypeVar("Body", bound=Callable[..., int])


LAKEFS = "lakefs://"

# This file says that `lakegc demo` made its folder and may delete it. The process that serves the
# sandbox keeps it locked.
DEMO_MARKER = ".made-by-lakegc-demo"


class RunKeyType(click.ParamType[Any]):
    """A run key on the command line."""

    name = "run key"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the key; a wrong one is a usage error."""
        from spark_core.model import RunKey

        try:
            return value if isinstance(value, RunKey) else RunKey.parse(value)
        except SettingsError as wrong:
            self.fail(str(wrong), param, ctx)

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """Complete a run key of the repository that was named before."""
        from spark_core.cli import completion

        return completion.runs(ctx, incomplete)


class RepositoryType(click.ParamType[Any]):
    """A repository by its name or its URI."""

    name = "repository"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take the name out of a URI; what lies in a repository is a usage error."""
        name = value.removeprefix(LAKEFS).removesuffix("/")
        if not name or "/" in name:
            self.fail(f"{value!r} is no repository, like my-repo or lakefs://my-repo/", param, ctx)
        return name

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """Complete a repository of the settings."""
        from spark_core.cli import completion

        return completion.repositories(ctx, incomplete)


take_over_option = click.option(
    "--take-over",
    type=RunKeyType(),
    metavar="RUN",
    help="Take over the lease of this run, which died while it deleted;"
    " refused while it may still be alive.",
)


def command_body(body: Body, verbose: str = _SPARKS_LINES) -> Callable[..., NoReturn]:
    """Give a command `--config`, `--verbose` and `--debug`, and turn its end into an exit code.

    Args:
        body: Does the work and returns the exit code. A LakegcError of it is shown without a
            traceback.
        verbose: What `--verbose` shows.
    """

    @click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Settings file; else LAKEGC_CONFIG, else ./lakegc.toml.",
    )
    @functools.partial(output_options, words=verbose)
    @functools.wraps(body)
    def command(*, verbose: bool, debug: bool, **arguments: Any) -> NoReturn:
        work = functools.partial(body, **arguments)
        raise SystemExit(guarded(work, verbose=verbose, debug=debug))

    return command


def output_options(command: Callable[..., Any], words: str = _SPARKS_LINES) -> Callable[..., Any]:
    """Give a command `--verbose`, which shows what `words` say, and `--debug`."""
    debug = click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    verbose = click.option("--verbose", is_flag=True, help=words)
    return verbose(debug(command))


def guarded(body: Callable[[], int], *, verbose: bool = False, debug: bool) -> int:
    """Run a command and return its exit code; show errors as sentences, without a traceback.

    The one exception is a mistake in lakegc itself, which nobody has foreseen.

    Args:
        body: The command's work; each part of it that deletes is a phase (`spark_core.phases`).
        verbose: Show Spark's own lines.
        debug: Show the traceback of an error.
    """
    from spark_core.terminal import console

    OUTPUT.is_shown = verbose
    try:
        code = body()
    except LakegcError as error:
        return _show_failure(error, debug=debug)
    except KeyboardInterrupt as ended:
        state = state_of(ended)
        words = INTERRUPTED_WORDS.get(_path(), "it only reads, and changed nothing")
        told = "\nended by Ctrl-C: " + (words if state is None else f"{state} Now: {words}")
        console.console(sys.stderr).print(told, markup=False, soft_wrap=True)
        return INTERRUPTED
    except Exception as error:
        found = in_a_sentence(error)
        if found is None:
            raise
        return _show_failure(found, debug=debug)
    if lost() is not None and _path() in INTERRUPTED_WORDS:
        words = (
            f"lakegc: its output was not read to its end; the command ended with exit code {code}"
        )
        console.console(sys.stderr).print(words, markup=False, soft_wrap=True)
    return code


def _show_failure(error: LakegcError, *, debug: bool) -> int:
    """Show an error, and return the exit code that it calls for."""
    from spark_core.terminal import console

    if debug:
        # Control characters in text that an error quotes must not reach the terminal.
        sys.stderr.write(visible(traceback.format_exc(), lines=True))
    console.show_error(console.console(sys.stderr), ended_a_command(error))
    return exit_code(error)


def _path() -> str:
    context = click.get_current_context(silent=True)
    return "" if context is None else context.command_path.partition(" ")[2]


def can_ask() -> bool:
    """Say whether somebody is there to answer; standard input may be closed."""
    return sys.stdin is not None and sys.stdin.isatty()


def agreed(question: str) -> bool:
    """Ask whether to go on; nobody there to answer is a no."""
    # Python says the latter where standard input is closed.
    with suppress(click.Abort, RuntimeError):
        return click.confirm(question, err=True)
    click.echo(err=True)
    return False


def name_absent_branches(server: LakeFSServer, repository_id: str, named: Iterable[str]) -> None:
    """Say which branches that rules name do not exist."""
    from spark_core.did_you_mean import no_branch_named
    from spark_core.terminal import console

    if words := no_branch_named(named, [each.id for each in server.branches(repository_id)]):
        console.console(sys.stderr).print(words, style="yellow", markup=False, soft_wrap=True)


def read_settings(config: Path | None, stack: ExitStack) -> Settings:
    """Read the settings; start the demo's sandbox when they belong to it."""
    from spark_core.cli.groups import installed
    from spark_core.settings import load_settings

    settings = load_settings(config)
    if settings.file is not None and (settings.file.parent / DEMO_MARKER).is_file():
        sandbox = installed("lakegc_dagster.demo.sandbox")
        settings = cast("Settings", stack.enter_context(sandbox.awake(settings)))
    OUTPUT.keep_in(settings.dagster_home)
    return settings
