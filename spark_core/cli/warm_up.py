"""`lakegc warm-up`, which images and init containers of 0.1.0 call; it warns that it goes."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from spark_core.cli.common import guarded, output_options

_WARNING = (
    "`lakegc warm-up` goes with the next version. Spark needs no archive of its classes any more; "
    "only lakegc's loops were compiled. A first mark does that, too, and in an image "
    "`python -m spark_core.compile_loops`."
)


@click.command("warm-up")
@click.option("--again", is_flag=True, help="Does nothing any more.")
@output_options
def warm_up(*, again: bool, verbose: bool, debug: bool) -> NoReturn:  # noqa: ARG001 - of 0.1.0
    """Compile lakegc's loops, as a first mark does; goes with the next version.

    The machine code is kept beside the loops, or in the user's cache directory.

    \b
    Examples:
      lakegc warm-up
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"

    def body() -> int:
        from spark_core.compile_loops import compile_loops
        from spark_core.terminal import console

        compile_loops()
        console.console(sys.stderr).print(_WARNING, style="yellow", markup=False, soft_wrap=True)
        return 0

    raise SystemExit(guarded(body, verbose=verbose, debug=debug))
