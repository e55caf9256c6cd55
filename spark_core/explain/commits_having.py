"""Which retained commits have an object: lakeFS's own tables are read for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler, schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.mark.commits import tables_prefix
from spark_core.mark.committed import (
    Metarange,
    TableReader,
    distinct_ranges,
    read_whole,
    resolved,
    tasks_of,
)
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark.tasks import interleaved, run_tasks

_FOUND = pa.schema([pa.field("range_id", pa.string()), pa.field("path", pa.binary())])
_CONTAINING = pa.schema([pa.field(name, pa.string()) for name in ("metarange_id", "range_id")])

# Tables that the driver reads by itself, and metaranges that are worth a task.
_READ_HERE, _METARANGES_OF_A_TASK = 64, 500


@dataclass(frozen=True)
class Holder:
    """A retained commit that has the object.

    Attributes:
        commit_id: The commit.
        path: Path of the object in it.
        reason: Why the commit is retained, in words.
        retained_until: ISO instant, or None as long as a ref keeps it.
        is_head: Whether a branch points at it.
    """

    commit_id: str
    path: str
    reason: str
    retained_until: str | None
    is_head: bool


def holders(run: Run, commits: StoredTable, address: str) -> list[Holder]:
    """Find every retained commit of a mark that has an object.

    Each metarange is read twice and each range once, as in the mark's own reading of them.

    Args:
        run: The run.
        commits: Its table 3.
        address: Relative address.

    Returns:
        The commits, heads first, then those that are retained longest.
    """
    rows = pa.Table.from_batches(commits.batches(), schemas.RETAINED_COMMITS).to_pylist()
    reader = TableReader.of(run, tables_prefix(run))
    ids = sorted({row["metarange_id"] for row in rows} - {""})
    metaranges = [Metarange(id_, is_head=True, is_retained=True) for id_ in ids]
    ranges, _ = distinct_ranges(run, reader, metaranges)
    having = run_tasks(
        lambda: run.spark,
        tasks_of(ranges, run.options.range_partitions),
        partial(_having, reader, hashed(pa.array([address]))[0].as_py()),
        is_small=ranges.num_rows <= _READ_HERE,
    )
    paths = {row["range_id"]: row["path"] for found in having for row in found.to_pylist()}
    if not paths:
        return []
    each = _METARANGES_OF_A_TASK
    parts = [ids[begin : begin + each] for begin in range(0, len(ids), each)]
    told = run_tasks(
        lambda: run.spark,
        parts,
        partial(_containing, reader, sorted(paths)),
        is_small=len(ids) <= _READ_HERE,
    )
    of_metarange = {
        row["metarange_id"]: paths[row["range_id"]] for some in told for row in some.to_pylist()
    }
    found = [
        Holder(
            row["commit_id"],
            of_metarange[row["metarange_id"]].decode(errors="replace"),
            row["reason"],
            None if row["retained_until"] is None else row["retained_until"].isoformat(),
            row["is_head"],
        )
        for row in rows
        if row["metarange_id"] in of_metarange
    ]
    forever = "9999"
    return sorted(
        found,
        key=lambda one: (one.is_head, one.retained_until or forever, one.commit_id),
        reverse=True,
    )


def _having(reader: TableReader, address_hash: int, _number: int, ranges: pa.Table) -> pa.Table:
    """Return the ranges that have an object: columns range_id and path."""

    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        entries = resolved(reader.namespace, read_whole(reader, row), is_head=True)
        own = entries.filter(pc.equal(entries.column("address_hash"), address_hash))
        ids = pa.repeat(pa.scalar(row["range_id"]), own.num_rows)
        yield pa.record_batch([ids, own.column("head_path")], schema=_FOUND)

    found = interleaved(ranges.to_pylist(), read, threads=reader.threads)
    return pa.Table.from_batches(found, _FOUND)


def _containing(
    reader: TableReader, wanted: Sequence[str], _number: int, ids: Sequence[str]
) -> pa.Table:
    """Return the metaranges that have one of some ranges: columns metarange_id and range_id."""

    def read(id_: str) -> Iterator[pa.RecordBatch]:
        found = graveler.read_metarange(reader.read(id_), name=reader.name(id_), expected_id=id_)
        of_it = found.column("range_id")
        own = of_it.filter(pc.is_in(of_it, pa.array(wanted)))
        yield pa.record_batch([pa.repeat(pa.scalar(id_), len(own)), own], schema=_CONTAINING)

    return pa.Table.from_batches(interleaved(ids, read, threads=reader.threads), _CONTAINING)
