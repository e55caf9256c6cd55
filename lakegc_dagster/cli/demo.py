"""`lakegc demo`: a whole collection of a repository made for it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NoReturn

import click

from spark_core.cli.common import guarded, output_options


@click.command()
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".sandbox"),
    show_default=True,
    help="Directory of the sandbox; made anew.",
)
@click.option("--every", is_flag=True, help="Name every object instead of groups.")
@click.option(
    "--story",
    type=click.Choice(["collection", "policies"]),
    default="collection",
    show_default=True,
    help="Collect by rules of retention, or expire by a retention policy.",
)
@output_options
def demo(
    directory: Path,
    *,
    every: bool,
    story: Literal["collection", "policies"],
    verbose: bool,
    debug: bool,
) -> NoReturn:
    """Run a whole collection on a repository made for it, and prove the outcome.

    The demo makes a sandbox server with five weeks of history in `.sandbox/`, marks and sweeps it,
    and then asks for every object through the lakeFS API. The exit code is 0 only if every object
    is as expected. Nothing outside the directory changes.

    \b
    Examples:
      lakegc demo
      lakegc demo --every
      lakegc demo --story policies
      lakegc demo --directory /tmp/lakegc-demo
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"

    def body() -> int:
        from lakegc_dagster.demo.tour import run_demo

        return run_demo(directory, every=every, story=story)

    raise SystemExit(guarded(body, verbose=verbose, debug=debug))
