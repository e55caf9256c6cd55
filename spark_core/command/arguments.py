"""The command line of `python -m spark_core`."""

from __future__ import annotations

import argparse
from pathlib import Path

from spark_core import __version__
from spark_core.command import work
from spark_core.errors import SettingsError
from spark_core.model import RunKey

_ABOUT = """\
Collect the garbage of lakeFS repositories with the engine alone: find it, show it, delete it.

examples:
  python -m spark_core doctor my-repo      check everything that a run needs
  python -m spark_core mark my-repo        find what may go; deletes nothing
  python -m spark_core run                 mark every repository of the settings, and sweep those
                                           whose mode is `sweep`
  python -m spark_core sweep my-repo --run 2026-11-20T02-00-00Z
  python -m spark_core report my-repo --json

exit codes: 0 done, 1 failed: try again, 2 wrong settings or usage, 3 refused: a person must look,
130 ended by Ctrl-C; of several repositories the largest
"""


def parser() -> argparse.ArgumentParser:
    """Make the parser; `command` of what it returns does the work and returns the exit code."""
    made = argparse.ArgumentParser(
        prog="python -m spark_core",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"lakegc {__version__}")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    marks = [
        _command(commands, "run", "Mark repositories, and sweep those whose mode is `sweep`."),
        _command(commands, "mark", "Find the objects that may go and say why; deletes nothing."),
    ]
    sweep = _command(commands, "sweep", "Delete the objects of an earlier mark.", several=False)
    report = _command(commands, "report", "Show the report of a run again.", several=False)
    _command(commands, "doctor", "Check everything that a run needs.")
    for each in marks:
        _run_key(each, "instant that names the run; default: now")
        each.add_argument(
            "--full", action="store_true", help="read everything, although the settings allow less"
        )
    _run_key(sweep, "run key of the mark; with --reference-mark, that of the new mark")
    _run_key(report, "run key; default: the newest mark")
    for each in (marks[1], sweep):
        each.add_argument(
            "--reference-mark",
            metavar="MARK_ID",
            help="verify this mark of lakeFS's own job: mark again; only what both name may go",
        )
    for each in (marks[0], sweep):
        each.add_argument(
            "--take-over",
            metavar="RUN",
            type=_key,
            help="take over the lease of this run, which died while it deleted",
        )
    report.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    about: str,
    *,
    several: bool = True,
) -> argparse.ArgumentParser:
    made = commands.add_parser(name, help=about, description=about)
    made.set_defaults(command=getattr(work, name), reference_mark=None, take_over=None, full=False)
    made.add_argument(
        "--config", type=Path, metavar="FILE", help="else LAKEGC_CONFIG, else ./lakegc.toml"
    )
    if several:
        words = "default: every repository of the settings"
        made.add_argument("repositories", metavar="REPOSITORY", nargs="*", type=_name, help=words)
    else:
        made.add_argument("repository", metavar="REPOSITORY", type=_name)
    return made


def _run_key(command: argparse.ArgumentParser, words: str) -> None:
    command.add_argument("--run", dest="key", metavar="KEY", type=_key, help=words)


def _key(text: str) -> RunKey:
    try:
        return RunKey.parse(text)
    except SettingsError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


def _name(text: str) -> str:
    name = text.removeprefix("lakefs://").removesuffix("/")
    if not name or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} is no repository, like my-repo")
    return name
