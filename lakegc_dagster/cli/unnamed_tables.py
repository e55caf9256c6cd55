"""`lakegc report --metadata`: which of lakeFS's own tables nothing names."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakegc_dagster.cli.common import read_settings
from spark_core.plain_text import bytes_text

if TYPE_CHECKING:
    from spark_core.explain import TablesReport
    from spark_core.model import RunKey


def show_tables(config: Path | None, repository: str, key: RunKey | None, *, as_json: bool) -> None:
    """Count the server's tables by who names them, and show them.

    Args:
        config: The settings.
        repository: Repository name.
        key: The run that tells where the server keeps its tables; the newest mark by default.
        as_json: Print one JSON object.
    """
    from lakegc_dagster.stored_runs import open_chosen
    from spark_core import explain

    with ExitStack() as stack:
        settings = read_settings(config, stack)
        found = explain.unnamed_tables(open_chosen(settings, repository, key))
    click.echo(found.to_json() if as_json else "\n".join(_lines(found)))


def _lines(found: TablesReport) -> list[str]:
    lines = [f"tables of the server under {found.prefix}/ of {found.repository}"]
    for group in found.groups:
        if not group.files:
            continue
        line = f"{group.what:40} {group.files:>9,}  {bytes_text(group.size_bytes):>9}"
        older = [
            f"{size[0]:,} ({bytes_text(size[1])}) older than {age}"
            for age, size in group.older.items()
            if size[0]
        ]
        lines.append("; ".join([line, *older]))
    lines.append(
        "Nothing deletes any of them, and nobody should: what nothing names here may be that of a "
        "compacted branch, of a merge or an import under way, or of a dump that is kept elsewhere."
    )
    return lines
