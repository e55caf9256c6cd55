"""Writes docs/commands.md from the commands: `python -m spark_core.cli.reference_page`."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from spark_core.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"

_HEAD = """\
# Commands

<!-- Written by `python -m spark_core.cli.reference_page`; change what it is made of. -->

This page is what `--help` says. The commands call the engine; Dagster's catalogue hears of
what they made ([Dagster](dagster.md)).

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | failed: something was not there, or not done in full; trying again may help |
| 2 | the settings or the command line are wrong |
| 3 | refused: a check or a doubt stopped it; a person must look |
| 130 | ended by Ctrl-C |

What nobody takes of the output (`| head -1`, a full disk) is dropped, and the command does all that
it was to do; standard error says what that was.

A command over several repositories goes on after each, and ends with the largest of their codes: 1
says that no person is needed, 2 and 3 that one is.

All commands have `-h`, `--help` and `--debug`, which shows the traceback of an error. All but
`demo` and `warm-up` have `--config FILE`: the settings file; else `LAKEGC_CONFIG`, else
`./lakegc.toml`.

A shell completes commands, options, the repositories of the settings and their run keys, after one
line in its start file:

```sh
eval "$(_LAKEGC_COMPLETE=bash_source lakegc)"    # ~/.bashrc
eval "$(_LAKEGC_COMPLETE=zsh_source lakegc)"     # ~/.zshrc
_LAKEGC_COMPLETE=fish_source lakegc | source     # ~/.config/fish/config.fish
```
"""
_EVERYWHERE = ("config", "debug")
_WIDTH = 100
# Click's mark for "leave these lines as they are".
_VERBATIM = "\b\n"


def page() -> str:
    """Return the page: a section for each command, by name."""
    lines = [_HEAD]
    for name, command in commands(main, "lakegc"):
        lines += _section(name, command)
    return "\n".join(lines)


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command below a group with its full name, such as `lakegc rules get`.

    Args:
        group: The group.
        name: The group's own name.
    """
    for each, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {each}")
        else:
            yield f"{name} {each}", command


def _section(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    yield f"## {name}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{name} {usage}\n```\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith(_VERBATIM):
            _, _, lines = paragraph.removeprefix(_VERBATIM).partition("\n")
            yield f"```sh\n{textwrap.dedent(lines).strip()}\n```\n"
        else:
            yield textwrap.fill(paragraph, _WIDTH, break_on_hyphens=False) + "\n"
    rows = [
        f"| {_name(option, context)} | {_says(option, context)} |"
        for option in command.params
        if isinstance(option, click.Option) and option.name not in _EVERYWHERE
    ]
    if rows:
        yield "\n".join(["| option | what it does |", "| --- | --- |", *rows, ""])


def _name(option: click.Option, context: click.Context) -> str:
    value = "" if option.is_flag else f" {option.make_metavar(context)}"
    return ", ".join(f"`{name}{value}`" for name in option.opts)


def _says(option: click.Option, context: click.Context) -> str:
    """Return the help of an option with its default, and whether it is required."""
    extra = option.get_help_extra(context)
    more = [f"Default: `{extra['default']}`."] if "default" in extra else []
    more += ["Required."] if option.required else []
    return " ".join([option.help or "", *more])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
