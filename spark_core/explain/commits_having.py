"""Find in lakeFS's own tables which retained commits have some objects; many objects at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler, schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.records.reading import StoredTable
from spark_core.references.commits import tables_prefix
from spark_core.references.metaranges import Metarange, distinct_ranges
from spark_core.references.range_entries import read_whole, resolve_entries
from spark_core.references.shared_ranges import tasks_of
from spark_core.references.table_reader import TableReader
from spark_core.run import Run
from spark_core.spark.tasks import interleaved, run_tasks

_FOUND = pa.schema(
    [
        pa.field("range_id", pa.string()),
        pa.field("address_hash", pa.int64()),
        pa.field("path", pa.binary()),
    ]
)
_CONTAINING = pa.schema([pa.field(name, pa.string()) for name in ("metarange_id", "range_id")])

# Metaranges that are worth a task.
_METARANGES_OF_A_TASK = 500


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


def holders(
    run: Run, commits: StoredTable, addresses: Sequence[str]
) -> Mapping[str, Sequence[Holder]]:
    """Find every retained commit of a mark that has one of some objects.

    Each metarange is read twice and each range once, as in the mark's own reading of them.

    Args:
        run: The run.
        commits: Its table 3.
        addresses: Relative addresses, few enough for the driver.

    Returns:
        By address the commits, heads first, then those that are retained longest; nothing for an
        object that no commit has.
    """
    rows = pa.Table.from_batches(commits.batches(), schemas.RETAINED_COMMITS).to_pylist()
    reader = TableReader.of(run, tables_prefix(run))
    ids = sorted({row["metarange_id"] for row in rows} - {""})
    metaranges = [Metarange(id_, is_head=True, is_retained=True) for id_ in ids]
    ranges, _ = distinct_ranges(run, reader, metaranges)
    by_hash = dict(zip(hashed(pa.array(addresses)).to_pylist(), addresses, strict=True))
    having = run_tasks(
        lambda: run.spark,
        tasks_of(ranges, run.reading_tasks),
        partial(_having, reader, sorted(by_hash)),
        rows=pc.sum(ranges["count"]).as_py() or 0,
    )
    entries = [row for found in having for row in found.to_pylist()]
    if not entries:
        return {}
    each = _METARANGES_OF_A_TASK
    parts = [ids[begin : begin + each] for begin in range(0, len(ids), each)]
    told = run_tasks(
        lambda: run.spark,
        parts,
        partial(_containing, reader, sorted({row["range_id"] for row in entries})),
        rows=len(ids) * ranges.num_rows,
    )
    of_range = defaultdict[str, list[str]](list)
    for row in (row for some in told for row in some.to_pylist()):
        of_range[row["range_id"]].append(row["metarange_id"])
    of_metarange = defaultdict[str, list[dict[str, Any]]](list)
    for row in rows:
        of_metarange[row["metarange_id"]].append(row)
    found = defaultdict[str, dict[str, Holder]](dict)
    for entry in entries:
        address = by_hash[entry["address_hash"]]
        for metarange in of_range[entry["range_id"]]:
            for commit in of_metarange[metarange]:
                found[address][commit["commit_id"]] = _holder(commit, entry["path"])
    return {address: _in_order(some.values()) for address, some in found.items()}


def _holder(commit: Mapping[str, Any], path: bytes) -> Holder:
    until = commit["retained_until"]
    return Holder(
        commit["commit_id"],
        path.decode(errors="replace"),
        commit["reason"],
        None if until is None else until.isoformat(),
        commit["is_head"],
    )


def _in_order(some: Iterable[Holder]) -> list[Holder]:
    forever = "9999"
    return sorted(
        some,
        key=lambda one: (one.is_head, one.retained_until or forever, one.commit_id),
        reverse=True,
    )


def _having(reader: TableReader, hashes: Sequence[int], _number: int, ranges: pa.Table) -> pa.Table:
    """Return the entries of some objects: columns of `_FOUND`."""
    wanted = pa.array(hashes, pa.int64())

    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        entries = resolve_entries(reader.namespace, read_whole(reader, row))
        own = entries.filter(pc.is_in(entries.column("address_hash"), wanted))
        ids = pa.repeat(pa.scalar(row["range_id"]), own.num_rows)
        columns = [ids, own.column("address_hash"), own.column("head_path")]
        yield pa.record_batch(columns, schema=_FOUND)

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
