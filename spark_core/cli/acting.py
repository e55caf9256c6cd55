"""`--json` of commands that change one thing of a repository: one shape for all of them."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

import click

from spark_core.cli.act_document import ActDocument, Problem
from spark_core.cli.common import command_body
from spark_core.errors import LakegcError, exit_code
from spark_core.phases import ended_a_command

if TYPE_CHECKING:
    from collections.abc import Mapping

_RESULT, _NEXT = "lakegc.result", "lakegc.next_step"


def acting(body: Callable[..., int]) -> Callable[..., NoReturn]:
    """Give a command `--json` beside the options of `command_body`.

    Args:
        body: As for `command_body`; it says by `tell` what it did, and one of its arguments is
            `repository`.
    """

    @click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON object; the rest goes to standard error.",
    )
    @functools.wraps(body)
    def command(*, as_json: bool, **arguments: Any) -> int:
        return _as_json(body, arguments) if as_json else body(**arguments)

    return command_body(command)


def tell(result: object, next_step: str = "") -> None:
    """Say what the command of now did.

    Args:
        result: One of the classes of `act_document`.
        next_step: The command that comes next; empty if there is none.
    """
    meta = click.get_current_context().meta
    meta[_RESULT], meta[_NEXT] = result, next_step


def _as_json(body: Callable[..., int], arguments: Mapping[str, Any]) -> int:
    try:
        with redirect_stdout(sys.stderr):
            code = body(**arguments)
    except LakegcError as error:
        _print(arguments["repository"], exit_code(error), ended_a_command(error))
        raise
    _print(arguments["repository"], code, None)
    return code


def _print(repository: str, code: int, error: LakegcError | None) -> None:
    context = click.get_current_context()
    document = ActDocument(
        context.command_path.partition(" ")[2],
        repository,
        code,
        context.meta.get(_RESULT),
        None if error is None else Problem(error.kind, str(error)),
        context.meta.get(_NEXT, ""),
    )
    sys.stdout.write(json.dumps(asdict(document), indent=1) + "\n")
