"""`lakegc report --metadata`: which of lakeFS's tables nothing names, and what collections left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.cli.common import read_settings
from spark_core.plain_text import bytes_text, visible

if TYPE_CHECKING:
    from spark_core.explain import TablesReport
    from spark_core.explain.unnamed_tables import Tables
    from spark_core.model import RunKey

_NOBODY = (
    "Nothing deletes any of them, and nobody should: what nothing names here may be that of a "
    "compacted branch, of a merge or an import under way, or of a dump that is kept elsewhere."
)


def show_tables(config: Path | None, repository: str, key: RunKey | None, *, as_json: bool) -> None:
    """Count the server's tables by who names them, and show them.

    Args:
        config: The settings.
        repository: Repository name.
        key: The run that tells where the server keeps its tables; the newest mark by default.
        as_json: Print one JSON object.
    """
    from spark_core import explain
    from spark_core.stored_runs import open_run_or_newest_mark

    with ExitStack() as stack:
        settings = read_settings(config, stack)
        found = explain.unnamed_tables(open_run_or_newest_mark(settings, repository, key))
    click.echo(found.to_json() if as_json else "\n".join(map(visible, _lines(found))))


def _lines(found: TablesReport) -> list[str]:
    grown = (f"{bytes_text(size)} in {age}" for age, size in found.grown.items())
    return [
        f"tables of the server under {found.prefix}/ of {found.repository}",
        *_groups(found.groups),
        _NOBODY,
        "",
        f"files of collections under {found.prefix}/retention/gc/, without objects in quarantine",
        *_groups(found.collections),
        f"These and the dumps grew by no more than {', '.join(grown)}.",
    ]


def _groups(groups: Sequence[Tables]) -> Iterator[str]:
    for group in groups:
        if group.files:
            line = f"{group.what:40} {group.files:>9,}  {bytes_text(group.size_bytes):>9}"
            older = (
                f"{files:,} ({bytes_text(size)}) older than {age}"
                for age, (files, size) in group.older.items()
                if files
            )
            yield "; ".join([line, *older])
