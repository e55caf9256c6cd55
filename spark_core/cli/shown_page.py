"""`lakegc report --html` and `--open`: the page of a run, wherever it lies."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.errors import LakegcError
from spark_core.whole_file import write_file

if TYPE_CHECKING:
    from spark_core.model import RunKey
    from spark_core.run import Run
    from spark_core.settings import Settings


def show_page(
    settings: Settings,
    repository_id: str,
    key: RunKey | None,
    file: Path | None,
    *,
    opens: bool,
    to_stderr: bool,
) -> None:
    """Write the page of a run into a file, open it, or both.

    Args:
        settings: The settings.
        repository_id: Repository name.
        key: Run key; the newest mark's when None.
        file: Where it is written; None if it is only opened.
        opens: Whether the browser opens it.
        to_stderr: Whether standard output is for a program.

    Raises:
        LakegcError: If the page cannot be read, or no browser opens it.
    """
    from spark_core import lakegc_keys
    from spark_core.stored_runs import load_report

    run, found = load_report(settings, repository_id, key)
    page = lakegc_keys.report_keys(run.key, swept=found.swept)["html"]
    if file is not None:
        write_file(file, run.store.read(page))
        click.echo(f"page     {file}", err=to_stderr)
    if opens:
        where = file.resolve().as_uri() if file is not None else _where_a_browser_reads(run, page)
        if not webbrowser.open(where):
            raise LakegcError(
                "there is no browser here that could open the page",
                "Take it with you: `lakegc report REPOSITORY --html FILE`.",
            )
        click.echo(f"opened   {where}", err=to_stderr)


def _where_a_browser_reads(run: Run, page: str) -> str:
    """Return a URL of the page; one that lies in a bucket is copied to this machine.

    What serves the pages may be away, and a link that is signed is for others.
    """
    from spark_core.run.local_path import local_path

    path = Path(local_path(run, page))
    if not path.is_file():
        folder = Path(tempfile.mkdtemp(prefix="lakegc-report-"))
        path = folder / f"{run.repository.id}-{run.key}.html"
        write_file(path, run.store.read(page))
    return path.resolve().as_uri()
