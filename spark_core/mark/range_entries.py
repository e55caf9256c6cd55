"""The entries of ranges, as rows of table 4; those of expired commits explain what may go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler, schemas
from spark_core.addresses.address_hashes import Distinct, hashed
from spark_core.addresses.collectable import may_be_own
from spark_core.addresses.namespace import Namespace
from spark_core.errors import LakegcError
from spark_core.mark import explanations
from spark_core.mark.kept_objects import alive_hashes
from spark_core.mark.optimized import sketches
from spark_core.mark.ranges import ROWS_HELD, TableReader
from spark_core.spark.tasks import counting, interleaved


def read_ranges(
    reader: TableReader,
    ranges: pa.Table,
    figures: Counter[str],
    *,
    saying_why: bool = False,
    sketched: list[dict[str, Any]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read ranges whole, or raise.

    Args:
        reader: The store, and where its tables lie.
        ranges: Columns of `RANGES`, only ranges of retained commits.
        figures: Counts what was read.
        saying_why: Whether to return the column `why` too.
        sketched: Gets the sketch of each range; None if nobody wants them.

    Yields:
        Columns of `schemas.COMMITTED_ADDRESSES`, each row once as far as the task remembers, and
        `why` if it is wanted.
    """
    # Lists, because several threads add to them at once.
    seen: list[int] = []
    of_heads: list[bool] = []

    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        found = read_whole(reader, row)
        seen.append(found.num_rows)
        of_heads.append(row["is_head"])
        entries = resolved(reader.namespace, found, is_head=row["is_head"])
        if sketched is not None:
            sketched.append(
                sketches.sketch(
                    row["range_id"],
                    found.num_rows,
                    entries,
                    with_contents=reader.store.tells_content,
                )
            )
        if saying_why:
            entries = entries.append_column(
                "why", pa.repeat(pa.scalar(row["why"], pa.string()), entries.num_rows)
            )
        yield entries

    distinct = Distinct()
    addresses = left_out = 0
    with counting(figures, reader.store.requests):
        for batch in interleaved(ranges.to_pylist(), read, threads=reader.threads):
            # A row that is left out has the same hash as a stored one, and that hash decides, so
            # nothing that it keeps can go. This matters because somebody may craft hashes.
            first = batch.filter(
                pa.array(distinct.first(batch.column("address_hash"), _details(batch)))
            )
            addresses += batch.num_rows
            left_out += batch.num_rows - first.num_rows
            yield first
    figures.update(
        ranges=len(seen),
        entries=sum(seen),
        head_ranges=sum(of_heads),
        addresses=addresses,
        left_out=left_out,
    )


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
    reader: TableReader, ranges: pa.Table, figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Read ranges of expired commits: columns of `explanations.ENTRIES`, the hash alone filled."""
    distinct = Distinct()
    for batch in _read_unneeded(reader, ranges, figures):
        hashes = batch.column("address_hash")
        first = pa.array(distinct.first(hashes, np.zeros(len(hashes), np.int64)))
        yield explanations.entries(batch.filter(first), with_paths=False)


def read_entries(
    reader: TableReader, ranges: pa.Table, figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Read ranges of expired commits: columns of `explanations.ENTRIES`, few of them twice."""
    held, waiting, rows = explanations.ENTRIES.empty_table(), list[pa.RecordBatch](), 0
    for batch in _read_unneeded(reader, ranges, figures):
        waiting.append(explanations.entries(batch, with_paths=True))
        rows += batch.num_rows
        if rows > ROWS_HELD:
            held = explanations.newest([held, pa.Table.from_batches(waiting)])
            waiting, rows = [], 0
            if held.num_rows > ROWS_HELD:
                yield from held.to_batches()
                held = explanations.ENTRIES.empty_table()
    left = [held, pa.Table.from_batches(waiting, explanations.ENTRIES)]
    yield from explanations.newest(left).to_batches()


def _read_unneeded(
    reader: TableReader, ranges: pa.Table, figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Read ranges whose damage does not matter: address_hash, path and newest."""
    unread: list[str] = []

    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        range_id = row["range_id"]
        try:
            found = graveler.read_range(
                reader.read(range_id), name=reader.name(range_id), expected_id=range_id
            )
            # As of a head, so that the paths stay.
            entries = resolved(reader.namespace, found, is_head=True)
        except LakegcError:
            unread.append(range_id)
            return
        newest = pa.repeat(pa.scalar(row["newest"], pa.int32()), entries.num_rows)
        yield entries.append_column("newest", newest)

    with counting(figures, reader.store.requests):
        yield from interleaved(ranges.to_pylist(), read, threads=reader.threads)
    figures["unread"] += len(unread)


def resolved(namespace: Namespace, found: pa.RecordBatch, *, is_head: bool) -> pa.RecordBatch:
    """Resolve the entries of one range; columns of `schemas.COMMITTED_ADDRESSES`.

    Entries outside the namespace are left out, except two kinds. An entry of a branch head stays,
    because it can have a twin inside. An entry that may be inside by another name of the store
    stays too. Such entries keep their absolute address, which equals no relative one.
    """
    address = namespace.relative_batch(found.column("address"), found.column("address_type"))
    if address.null_count:
        another_name = pc.if_else(
            may_be_own(found.column("address")), found.column("address"), None
        )
        address = pc.coalesce(address, another_name)
    path, checksum = pa.nulls(found.num_rows, pa.binary()), pa.nulls(found.num_rows, pa.string())
    if is_head:
        path, checksum = found.column("path"), found.column("checksum")
        address = pc.coalesce(address, found.column("address"))
    sizes = found.column("size_bytes")
    if address.null_count:
        kept = address.is_valid()
        address, sizes, path, checksum = (
            column.filter(kept) for column in (address, sizes, path, checksum)
        )
    is_live = pc.and_(pc.starts_with(address, "data/"), is_head)
    return pa.record_batch(
        [address, sizes, path, checksum, is_live, alive_hashes(address)],
        schema=schemas.COMMITTED_ADDRESSES,
    )
