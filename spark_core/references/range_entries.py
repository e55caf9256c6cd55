"""The entries of ranges, as rows of table 4; those of expired commits explain what may go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler, schemas
from spark_core.addresses.address_hashes import Distinct, hashed
from spark_core.addresses.collectable import may_be_own
from spark_core.addresses.namespace import Namespace
from spark_core.errors import LakegcError
from spark_core.index.entry_numbers import Kept
from spark_core.references import expired_entries
from spark_core.references.kept_objects import alive_hashes
from spark_core.references.shared_ranges import RANGES, ROWS_HELD
from spark_core.references.table_reader import TableReader
from spark_core.spark.tasks import counting, interleaved

# Ranges that are resolved and written together: their rows of `RANGES`, and the entries of each.
_Group: TypeAlias = Sequence[tuple[Mapping[str, Any], pa.RecordBatch]]
# Bytes of their entries. For a range of some hundred entries, the calls cost more than the entries.
_GROUP_BYTES = 2**22


def read_ranges(
    reader: TableReader,
    ranges: pa.Table,
    figures: Counter[str],
    *,
    saying_why: bool = False,
    kept: Kept | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read ranges whole, or raise.

    Args:
        reader: The store, and where its tables lie.
        ranges: Columns of `RANGES`, only ranges of retained commits.
        figures: Counts what was read.
        saying_why: Whether to return the column `why` too.
        kept: Gets what the index keeps of each range; None if nothing is kept.

    Yields:
        Columns of `schemas.COMMITTED_ADDRESSES`, each row once as far as the task remembers, and
        `why` if it is wanted.
    """
    distinct = Distinct()
    with counting(figures, reader.store.requests):
        for group in _groups(reader, ranges, partial(read_whole, reader)):
            batch, owners = _resolved_group(reader.namespace, group, kept)
            # A row that is left out has the same hash as a stored one, and that hash decides, so
            # nothing that it keeps can go. This matters because somebody may craft hashes.
            is_first = distinct.first(batch.column("address_hash"), _details(batch))
            if saying_why:
                batch = batch.append_column("why", _of_ranges(group, "why", owners))
            first = batch.filter(pa.array(is_first))
            figures.update(
                ranges=len(group),
                entries=sum(found.num_rows for _, found in group),
                head_ranges=sum(row["is_head"] for row, _ in group),
                addresses=batch.num_rows,
                left_out=batch.num_rows - first.num_rows,
            )
            yield first


def _groups(
    reader: TableReader,
    ranges: pa.Table,
    read: Callable[[Mapping[str, Any]], pa.RecordBatch | None],
) -> Iterator[_Group]:
    """Read ranges on threads, and group those that are read one after another.

    Args:
        reader: The store, and where its tables lie.
        ranges: Columns of `RANGES`.
        read: Reads the entries of one; runs on a thread. A range of which it returns None is left
            out.
    """

    def read_one(row: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], pa.RecordBatch]]:
        found = read(row)
        if found is not None:
            yield row, found

    group, group_bytes = list[tuple[Mapping[str, Any], pa.RecordBatch]](), 0
    for row, found in interleaved(ranges.to_pylist(), read_one, threads=reader.threads):
        if group and group_bytes + found.nbytes > _GROUP_BYTES:
            yield group
            group, group_bytes = [], 0
        group.append((row, found))
        group_bytes += found.nbytes
    if group:
        yield group


def _resolved_group(
    namespace: Namespace, group: _Group, kept: Kept | None
) -> tuple[pa.RecordBatch, Any]:
    """Resolve the entries of ranges, and keep them for the index.

    Returns:
        Columns of `schemas.COMMITTED_ADDRESSES`, and for each row the number of its range.
    """
    owners = np.repeat(np.arange(len(group)), [found.num_rows for _, found in group])
    entries = group[0][1]
    if len(group) > 1:
        entries = pa.concat_batches([found for _, found in group])
    every, is_elsewhere = _resolved(namespace, entries)
    if kept is not None:
        kept.add([row for row, _ in group], every)
    is_head = _of_ranges(group, "is_head", owners)
    is_row = pc.or_(is_head, pc.invert(is_elsewhere))
    rows = _as_of(every, is_head)
    return rows.filter(is_row), owners[is_row.to_numpy(zero_copy_only=False)]


def _of_ranges(group: _Group, name: str, owners: Any) -> pa.Array:
    """Return for each row what `RANGES` says of its range."""
    return pa.array([row[name] for row, _ in group], RANGES.field(name).type).take(pa.array(owners))


def read_whole(reader: TableReader, row: Mapping[str, Any]) -> pa.RecordBatch:
    """Read one range as its metarange says that it is; columns of `schemas.RANGE_ENTRIES`.

    Args:
        reader: The store, and where its tables lie.
        row: range_id and count of the range.

    Raises:
        CorruptTableError: If it has another content or another number of entries.
    """
    table_id = row["range_id"]
    return graveler.read_range(
        reader.read(table_id),
        name=reader.name(table_id),
        expected_count=row["count"],
        expected_id=table_id,
    )


def _details(batch: pa.RecordBatch) -> Any:
    """Hash the details in which the rows of one kept object differ.

    The address as written is one of them, because rows also differ in what hides behind them.
    """
    parts = [hashed(batch.column(name)).to_numpy() for name in ("address", "head_path", "checksum")]
    parts += [
        batch.column("size_bytes").to_numpy(),
        batch.column("is_live").to_numpy(zero_copy_only=False),
    ]
    with np.errstate(over="ignore"):
        return (((parts[0] * 31 + parts[1]) * 31 + parts[2]) * 31 + parts[3]) * 2 + parts[4]


def read_hashes(
    reader: TableReader, ranges: pa.Table, figures: Counter[str], *, kept: Kept | None = None
) -> Iterator[pa.RecordBatch]:
    """Read ranges of expired commits: columns of `expired_entries.ENTRIES`, without paths."""
    distinct = Distinct()
    for batch in _read_unneeded(reader, ranges, figures, kept):
        entries = expired_entries.entries(batch, with_paths=False)
        # Entries of one object that say different things of it stay apart.
        said = entries.column("checksum").to_numpy() * 31 + entries.column("size_bytes").to_numpy()
        yield entries.filter(pa.array(distinct.first(entries.column("address_hash"), said)))


def read_entries(
    reader: TableReader, ranges: pa.Table, figures: Counter[str], *, kept: Kept | None = None
) -> Iterator[pa.RecordBatch]:
    """Read ranges of expired commits: columns of `expired_entries.ENTRIES`, few of them twice."""
    held, waiting, rows = expired_entries.ENTRIES.empty_table(), list[pa.RecordBatch](), 0
    for batch in _read_unneeded(reader, ranges, figures, kept):
        waiting.append(expired_entries.entries(batch, with_paths=True))
        rows += batch.num_rows
        if rows > ROWS_HELD:
            held = expired_entries.newest([held, pa.Table.from_batches(waiting)])
            waiting, rows = [], 0
            if held.num_rows > ROWS_HELD:
                yield from held.to_batches()
                held = expired_entries.ENTRIES.empty_table()
    left = [held, pa.Table.from_batches(waiting, expired_entries.ENTRIES)]
    yield from expired_entries.newest(left).to_batches()


def _read_unneeded(
    reader: TableReader, ranges: pa.Table, figures: Counter[str], kept: Kept | None
) -> Iterator[pa.RecordBatch]:
    """Read ranges whose damage does not matter: `schemas.COMMITTED_ADDRESSES`, and newest."""
    # A list, because several threads add to it at once.
    unread: list[str] = []

    def read(row: Mapping[str, Any]) -> pa.RecordBatch | None:
        try:
            return read_whole(reader, row)
        except LakegcError:
            unread.append(row["range_id"])
            return None

    def resolve(group: _Group) -> Iterator[pa.RecordBatch]:
        try:
            entries, owners = _resolved_group(reader.namespace, group, kept)
        except LakegcError:
            if len(group) == 1:
                unread.append(group[0][0]["range_id"])
                return
            for one in group:
                yield from resolve([one])
            return
        yield entries.append_column("newest", _of_ranges(group, "newest", owners))

    # As of heads, so that the paths stay.
    names = ranges.column_names
    is_head = pa.repeat(pa.scalar(True), ranges.num_rows)
    ranges = ranges.set_column(names.index("is_head"), RANGES.field("is_head"), is_head)
    with counting(figures, reader.store.requests):
        for group in _groups(reader, ranges, read):
            yield from resolve(group)
    figures["unread"] += len(unread)


def resolve_entries(namespace: Namespace, found: pa.RecordBatch) -> pa.RecordBatch:
    """Resolve the entries of a range of a head; columns of `schemas.COMMITTED_ADDRESSES`.

    Entries outside the namespace stay, because they can have a twin inside. They keep their
    absolute address, which equals no relative one.
    """
    return _resolved(namespace, found)[0]


def _resolved(
    namespace: Namespace, found: pa.RecordBatch
) -> tuple[pa.RecordBatch, pa.BooleanArray]:
    """Do `resolved`, and say which entries lie elsewhere under every name of the store."""
    address = namespace.relative_batch(found.column("address"), found.column("address_type"))
    is_elsewhere = pa.repeat(pa.scalar(False), found.num_rows)
    if address.null_count:
        is_elsewhere = pc.and_(address.is_null(), pc.invert(may_be_own(found.column("address"))))
        address = pc.coalesce(address, found.column("address"))
    columns = [address, found.column("size_bytes"), found.column("path"), found.column("checksum")]
    in_data = pc.starts_with(address, "data/")
    every = pa.record_batch(
        [*columns, in_data, alive_hashes(address)], schema=schemas.COMMITTED_ADDRESSES
    )
    return every, is_elsewhere


def _as_of(every: pa.RecordBatch, is_head: pa.BooleanArray) -> pa.RecordBatch:
    """Leave path, checksum and life to the entries of heads."""
    rows = dict(zip(every.schema.names, every.columns, strict=True))
    for name in ("head_path", "checksum"):
        rows[name] = pc.if_else(is_head, rows[name], None)
    rows["is_live"] = pc.and_(rows["is_live"], is_head)
    return pa.record_batch(list(rows.values()), schema=every.schema)
