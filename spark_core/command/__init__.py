"""The engine as a program of its own: `python -m spark_core`, also called `lakegc-engine`.

It marks, sweeps and reports with the engine alone, for cron, Airflow, a notebook or a cluster where
no Dagster is. The settings file, the tables, the checks and the exit codes are those of `lakegc`.

- `arguments`: the command line
- `work`: the commands
- `showing`: what they print
- `ending`: errors
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from spark_core.command.arguments import parser
from spark_core.command.ending import show_error
from spark_core.errors import INTERRUPTED, LakegcError, exit_code
from spark_core.foreign_errors import in_a_sentence
from spark_core.output import exit_code_of
from spark_core.phases import state_of

_AFTER_INTERRUPT = (
    "a mark that did not end is made anew by the next run; a sweep that began goes on from its "
    "journal with `sweep REPOSITORY --run KEY`"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what a command line asks for.

    Args:
        arguments: The words after the program's name; those of this process when None.

    Returns:
        0 done, 1 failed, 2 wrong settings, 3 refused, 130 ended by Ctrl-C; 2 for wrong usage,
        too.
    """
    return exit_code_of(partial(_done, arguments))


def _done(arguments: Sequence[str] | None) -> int:
    asked = parser().parse_args(arguments)
    try:
        return int(asked.command(asked))
    except KeyboardInterrupt as ended:
        sys.stderr.write(f"\nended by Ctrl-C: {_AFTER_INTERRUPT}. {state_of(ended) or ''}\n")
        return INTERRUPTED
    except Exception as error:
        found = error if isinstance(error, LakegcError) else in_a_sentence(error)
        if found is None:
            raise
        show_error(found)
        return exit_code(found)
