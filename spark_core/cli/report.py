"""The command `report`: a run's report again, as text, page, picture or JSON."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.cli.common import RepositoryType, RunKeyType, command_body, read_settings
from spark_core.cli.shown_page import show_page
from spark_core.cli.shown_report import show_report
from spark_core.cli.unnamed_tables import show_tables
from spark_core.whole_file import require_place, write_file

if TYPE_CHECKING:
    from spark_core.model import RunKey


@click.command()
@click.argument("repository", type=RepositoryType())
@click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="KEY",
    help="Run key; default: the newest mark.",
)
@click.option(
    "--chart",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw its bars into a PNG file, for a message or a slide.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write its page into a file, wherever it lies.",
)
@click.option("--open", "opens", is_flag=True, help="Open its page in the default browser.")
@click.option(
    "--metadata",
    is_flag=True,
    help="Show instead which of lakeFS's own tables no commit names, and what collections left.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@command_body
def report(
    config: Path | None,
    repository: str,
    key: RunKey | None,
    chart: Path | None,
    html: Path | None,
    *,
    opens: bool,
    metadata: bool,
    as_json: bool,
) -> int:
    """Show the report of a run again, and the paths of its page and its Parquet.

    With --metadata, the server dumps its refs, as for a mark, and every metarange is read.

    \b
    Examples:
      lakegc report my-repo
      lakegc report my-repo --run 2026-11-20T02-00-00Z
      lakegc report my-repo --open
      lakegc report my-repo --html november.html
      lakegc report my-repo --chart november.png
      lakegc report my-repo --metadata
      lakegc report my-repo --json
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from spark_core.stored_runs import load_report

    if metadata:
        show_tables(config, repository, key, as_json=as_json)
        return 0
    for file in (chart, html):
        if file is not None:
            require_place(file)
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        run, found = load_report(settings, repository, key)
        if chart is not None:
            from spark_core.report import chart as drawn

            write_file(chart, drawn(found))
        if as_json:
            click.echo(found.to_json())
        else:
            show_report(settings, run, found, earlier=key is None)
            if chart is not None:
                click.echo(f"chart    {chart}")
        if html is not None or opens:
            show_page(settings, repository, key, html, opens=opens, to_stderr=as_json)
    return 0
