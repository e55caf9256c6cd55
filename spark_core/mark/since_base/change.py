"""Which metaranges and ranges came and left since the base: each is counted, none is listed anew.

Metaranges and ranges are named by their content. So the number of metaranges that have a range
follows from the metaranges that came and left. A range that none has any more has left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.errors import ChainError
from spark_core.optimized.base import MARK_FULL, Base, needed
from spark_core.records import tables
from spark_core.records.reading import StoredTable
from spark_core.references import expired_entries
from spark_core.references.ranges import RANGES, Metarange, TableReader, distinct_ranges
from spark_core.run import Run


@dataclass
class _Known:
    """A range of retained commits; see `schemas.RETAINED_RANGES`."""

    count: int
    min_key: bytes
    times: int
    is_head: bool


@dataclass(frozen=True)
class Change:
    """The ranges of retained commits, compared with those of the base.

    Attributes:
        came: Columns of `ranges.RANGES`: ranges that the base did not have.
        left: The same of ranges that no retained commit has any more.
        known: Ranges that stayed, by id.
        new_heads: Those of them that became a head's; since the last full run none had them.
        metaranges: The metaranges that were read.
        rows: Rows of them that came back from the tasks.
        new_metaranges: How many of them are new ...
        left_metaranges: ... and how many left.
        read: Figures of what was read.
    """

    came: pa.Table
    left: pa.Table
    known: Mapping[str, _Known]
    new_heads: frozenset[str]
    metaranges: tuple[Metarange, ...]
    rows: int
    new_metaranges: int
    left_metaranges: int
    read: Counter[str]

    def stayed(self, names: frozenset[str] | set[str]) -> pa.Table:
        """Return some of the ranges that stayed, to be read: columns of `ranges.RANGES`."""
        return _table((name, self.known[name]) for name in sorted(names))

    @property
    def head_entries(self) -> int:
        """How many entries the ranges have that heads have, or had since the last full run."""
        came = self.came.filter(self.came["is_head"])
        known = sum(one.count for one in self.known.values() if one.is_head)
        return known + (pc.sum(came["count"]).as_py() or 0)

    @property
    def retained(self) -> pa.Table:
        """All ranges of retained commits: columns of `ranges.RANGES`."""
        return pa.concat_tables([self.came, self.stayed(set(self.known))])


def change_since(run: Run, reader: TableReader, commits: StoredTable, base: Base) -> Change:
    """Read the metaranges that came and left, and those that became a head's.

    The driver holds a row for each distinct range, as in a full run.

    Raises:
        ChainError: If what the base saved contradicts the server's tables, or a metarange that left
            cannot be read whole.
        CorruptTableError: If another metarange cannot be read whole.
        NotFoundError: If one is missing from the store.
    """
    now, then = heads_of(commits), heads_of(base.table(tables.RETAINED_COMMITS))
    words = expired_entries.commits_of(run, commits)
    rows = {} if words is None else _rows(words)
    new = [
        Metarange(id_, is_head=is_head, is_retained=True)
        for id_, is_head in now.items()
        if id_ not in then
    ]
    heads = [
        Metarange(id_, is_head=True, is_retained=True)
        for id_, is_head in now.items()
        if is_head and then.get(id_) is False
    ]
    # Each of them must be read, so they are read as those of retained commits are.
    left = [
        Metarange(id_, is_head=False, is_retained=True, newest=rows.get(id_))
        for id_ in then
        if id_ not in now
    ]
    read, found = Counter[str](), list[pa.Table]()
    for some in (new, heads, left):
        with of_expired_commits(base) if some is left else nullcontext():
            ranges, figures = distinct_ranges(run, reader, some)
        read.update(figures)
        found.append(ranges)
    known = {
        row["range_id"]: _Known(row["count"], row["min_key"], row["times"], row["is_head"])
        for batch in base.table(tables.RETAINED_RANGES).batches()
        for row in batch.to_pylist()
    }
    of_heads = {name for name, one in known.items() if one.is_head}
    came = []
    for row in found[0].to_pylist():
        before = known.get(row["range_id"])
        if before is None:
            came.append(row)
        else:
            before.times += row["kept_times"]
            before.is_head = before.is_head or row["is_head"]
    for row in found[1].to_pylist():
        _of(base, known, row).is_head = True
    gone = []
    for row in found[2].to_pylist():
        before = _of(base, known, row)
        before.times -= row["kept_times"]
        if before.times < 0:
            raise _contradiction(base, row["range_id"])
        if not before.times:
            gone.append({**row, "is_head": before.is_head, "is_retained": False})
            del known[row["range_id"]]
    return Change(
        pa.Table.from_pylist(came, schema=RANGES),
        pa.Table.from_pylist(gone, schema=RANGES),
        known,
        frozenset(name for name, one in known.items() if one.is_head) - of_heads,
        (*new, *heads, *left),
        sum(pc.sum(ranges["times"]).as_py() or 0 for ranges in found),
        len(new),
        len(left),
        read,
    )


def of_expired_commits(base: Base) -> AbstractContextManager[None]:
    """Say what to do where a table of commits that expired since the base cannot be read."""
    return needed(
        f"commits that expired since run {base.key} had it, and without it nobody knows what they "
        "let go"
    )


def heads_of(commits: StoredTable) -> dict[str, bool]:
    """Return the metaranges of a table of retained commits, and whether a head has each."""
    found: dict[str, bool] = {}
    for batch in commits.batches(["metarange_id", "is_head"]):
        for row in batch.to_pylist():
            id_ = row["metarange_id"]
            if id_:
                found[id_] = found.get(id_, False) or row["is_head"]
    return found


def _of(base: Base, known: Mapping[str, _Known], row: Mapping[str, object]) -> _Known:
    found = known.get(str(row["range_id"]))
    if found is None or found.count != row["count"]:
        raise _contradiction(base, str(row["range_id"]))
    return found


def _contradiction(base: Base, range_id: str) -> ChainError:
    return ChainError(
        f"range {range_id} is in commits that run {base.key} retained, and not as it saved the "
        "range",
        MARK_FULL,
    )


def _rows(words: pa.Table) -> dict[str, int]:
    """Return the row of each metarange's newest expired commit, for words."""
    return {id_: row for row, id_ in enumerate(words["metarange_id"].to_pylist())}


def _table(ranges: Iterator[tuple[str, _Known]]) -> pa.Table:
    rows = [
        {
            "range_id": name,
            "count": known.count,
            "min_key": known.min_key,
            "is_head": known.is_head,
            "is_retained": True,
            "newest": None,
            "why": None,
            "times": known.times,
            "kept_times": known.times,
        }
        for name, known in ranges
    ]
    return pa.Table.from_pylist(rows, schema=RANGES)
