"""Who needs a table of the server that cannot be read: the name of the file alone tells nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from spark_core import graveler
from spark_core.errors import CorruptTableError, LakegcError, NotFoundError, sentences
from spark_core.references.commits import tables_prefix
from spark_core.references.metaranges import work_of_metaranges
from spark_core.references.table_reader import TableReader
from spark_core.retention import COMPACTED
from spark_core.run import Run
from spark_core.spark.tasks import run_tasks

# Commits that are named; the others are counted.
_SHOWN = 3
# Metaranges of a task that looks for a range in them.
_OF_A_TASK = 256


@contextmanager
def telling_who_needs(run: Run, commits: Callable[[], pa.Table]) -> Iterator[None]:
    """Say which retained commits need a metarange or a range that cannot be read, and what helps.

    Where it is a range, every metarange of retained commits is read again to find out.

    Args:
        run: The run.
        commits: Gives the commits: columns of `schemas.RETAINED_COMMITS`.

    Raises:
        CorruptTableError: As before, with those who need it.
        NotFoundError: As before, with those who need it.
    """
    try:
        yield
    except (CorruptTableError, NotFoundError) as problem:
        reader = TableReader.of(run, tables_prefix(run))
        named = re.search(rf"{re.escape(reader.prefix)}/([0-9a-f]{{64}})", problem.message)
        if named is not None:
            _tell(run, reader, problem, named[1], commits().to_pylist())
        raise


def _tell(
    run: Run,
    reader: TableReader,
    problem: LakegcError,
    table_id: str,
    rows: Sequence[dict[str, Any]],
) -> None:
    what, metaranges = "the metarange", {table_id}
    if all(row["metarange_id"] != table_id for row in rows):
        what, metaranges = "a range", _metaranges_with(run, reader, table_id, rows)
    # Those that nothing ends by itself come first.
    needing = sorted(
        (row for row in rows if row["metarange_id"] in metaranges),
        key=lambda row: (
            row["reason"] == COMPACTED,
            row["retained_until"] is not None,
            row["reason"],
        ),
    )
    if needing:
        problem.found = sentences(problem.message, _needed_by(what, needing))
        problem.next_step = _way_out(run, needing)


def _metaranges_with(
    run: Run, reader: TableReader, range_id: str, rows: Sequence[dict[str, Any]]
) -> set[str]:
    ids = sorted({row["metarange_id"] for row in rows} - {""})
    tasks = [ids[begin : begin + _OF_A_TASK] for begin in range(0, len(ids), _OF_A_TASK)]
    found = run_tasks(
        lambda: run.spark,
        tasks,
        partial(_with_range, reader, range_id),
        rows=work_of_metaranges(len(ids)),
    )
    return {id_ for some in found for id_ in some}


def _with_range(reader: TableReader, range_id: str, _: int, metaranges: list[str]) -> list[str]:
    found = []
    for id_ in metaranges:
        try:
            ranges = graveler.read_metarange(reader.read(id_), name=reader.name(id_))
        except LakegcError:
            continue  # another one that is lost; the next run names it
        if range_id in ranges.column("range_id").to_pylist():
            found.append(id_)
    return found


def _needed_by(what: str, needing: Sequence[dict[str, Any]]) -> str:
    shown = ", ".join(
        f"{row['commit_id'][:12]} ({row['reason']}, made {_day(row['created_at'])})"
        for row in needing[:_SHOWN]
    )
    count = len(needing)
    if needing[0]["reason"] == COMPACTED:
        return f"It is {what} of {shown} and of no retained commit"
    if count == 1:
        return f"It is {what} of 1 retained commit: {shown}"
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    oldest = min((row["created_at"] for row in needing if row["created_at"]), default=None)
    return (
        f"It is {what} of {count} retained commits: {shown}{more}. The oldest was made "
        f"{_day(oldest)}"
    )


def _way_out(run: Run, needing: Sequence[dict[str, Any]]) -> str:
    if needing[0]["reason"] == COMPACTED:
        return (
            "A branch may read what it lists, and nothing else names it. Bring back a version of "
            'the file in the store; if your server does not compact, set `compacted = "ignore"`.'
        )
    commit = f"lakefs://{run.repository.id}/{needing[0]['commit_id']}"
    if needing[0]["retained_until"] is None:
        without = (
            "Nothing lets a run go on without it as long as this commit is kept "
            f"({needing[0]['reason']}): what only this file lists would look unreachable."
        )
    else:
        until = max(row["retained_until"] for row in needing)
        without = (
            "By the rules as they are, the last of these commits is retained until "
            f"{until:%Y-%m-%d %H:%M} UTC; a run after that goes on without it."
        )
    return (
        "Bring back a version of the file in the store, from versions of the bucket or a copy: its "
        "name is the hash of its content, and lakegc compares both. "
        f"`lakectl show commit {commit}` shows the first of these commits, and `lakectl fs ls "
        f"{commit}/` whether the server can read it. {without}"
    )


def _day(instant: Any) -> str:
    return "at an unknown time" if instant is None else f"{instant:%Y-%m-%d}"
