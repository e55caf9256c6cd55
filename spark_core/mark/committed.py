"""Table 4: the addresses that retained commits reach, each metarange and each range read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler, schemas
from spark_core.addresses.address_hashes import Distinct, hashed
from spark_core.addresses.collectable import may_be_own
from spark_core.addresses.namespace import Namespace
from spark_core.errors import LakegcError
from spark_core.mark.alive import alive_hashes
from spark_core.mark.commits import tables_prefix
from spark_core.records import tables
from spark_core.records.tables import Draft, Receipt, StoredTable, Target, Written
from spark_core.run import Run
from spark_core.spark.tasks import counting, interleaved, run_tasks
from spark_core.storage import ObjectStore

# A range, with what those who read it want to know of the metaranges that have it.
RANGES = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("is_head", pa.bool_(), nullable=False),
        pa.field("is_retained", pa.bool_(), nullable=False),
        # One of the commits that have it, in words; null where nobody asks.
        pa.field("why", pa.string()),
        # How many metaranges have it.
        pa.field("times", pa.int64(), nullable=False),
    ]
)

# What only expired commits have: hashes for the words of the report, which nothing is decided by.
EXPIRED_HASHES = pa.schema([schemas.COMMITTED_ADDRESSES.field("address_hash")])

# Metaranges, ranges and entries that are worth a task of their own.
_METARANGES_OF_A_TASK = 32
_RANGES_OF_A_TASK = 64
_ENTRIES_OF_A_TASK = 200_000
# Rows of metaranges that a task holds before it makes them distinct.
_ROWS_HELD = 500_000


@dataclass(frozen=True)
class Metarange:
    """A metarange to read: whether a branch points at it, whether a retained commit has it, and a commit in words."""

    id: str
    is_head: bool
    is_retained: bool
    why: str | None = None


@dataclass(frozen=True)
class Reader:
    """What an executor needs to read the server's tables.

    Attributes:
        store: Rooted at the namespace.
        namespace: Resolves addresses.
        prefix: Where the server keeps its tables.
        threads: Files under way at once.
    """

    store: ObjectStore
    namespace: Namespace
    prefix: str
    threads: int

    @classmethod
    def of(cls, run: Run, prefix: str) -> Reader:
        """Take from a run what travels to the executors."""
        return cls(run.store, run.namespace, prefix, run.options.read_threads)

    def name(self, table_id: str) -> str:
        """Return the key of a content-addressed table."""
        return f"{self.prefix}/{table_id}"

    def read(self, table_id: str) -> bytes:
        """Read a table file whole."""
        return self.store.read(self.name(table_id))


def committed_addresses(run: Run, commits: StoredTable) -> Draft:
    """Read every address inside the namespace that a retained commit reaches.

    Commits share metaranges and metaranges share ranges, so both are made
    distinct before they are read: the cost follows the data, not the number of
    commits, and the server is not asked at all. An entry that a branch head has
    keeps its path and checksum, by which re-uploaded twins are found later
    (safety 14). The driver holds one row for each distinct range, some 150 bytes.

    Args:
        run: The run.
        commits: Table 3.

    Returns:
        Columns of `schemas.COMMITTED_ADDRESSES`; an address may come more than once.

    Raises:
        CorruptTableError: If any table cannot be read whole.
        NotFoundError: If a table is missing from the store.
    """
    began = run.begin(tables.COMMITTED_ADDRESSES)
    run.require_same_instance(commits.manifest)
    reader = Reader.of(run, tables_prefix(run))
    expired = commits.manifest.facts["expired_metaranges"]
    metaranges = _metaranges(commits, expired["ids"])
    ranges, read = distinct_ranges(run, reader, metaranges)
    retained = ranges.filter(ranges["is_retained"])
    only_expired = ranges.filter(pc.invert(ranges["is_retained"]))
    explained = only_expired.slice(0, run.options.explain_ranges)
    wanted = pa.concat_tables([retained, explained])
    where, attempt = tables.folder(tables.COMMITTED_ADDRESSES, run.key), tables.new_attempt()
    target = Target(run.store, where, attempt, schemas.COMMITTED_ADDRESSES, _measure)
    beside = Target(run.store, where, attempt, EXPIRED_HASHES, name="_expired")
    written = tables.removed_on_failure(
        target,
        lambda: run_tasks(
            lambda: run.spark,
            tasks_of(wanted, run.options.range_partitions),
            partial(_write, reader, target, beside),
            is_small=wanted.num_rows <= _RANGES_OF_A_TASK
            and (pc.sum(wanted["count"]).as_py() or 0) <= tables.DRIVER_ROWS,
        ),
    )
    figures = read + tables.summed([receipts[0] for receipts in written])[1]

    def facts(_: Counter[str]) -> Mapping[str, Any]:
        found = Counter(figures)
        unread = found.pop("unread", 0)
        return {
            "ranges": retained.num_rows,
            "entries": pc.sum(retained["count"]).as_py() or 0,
            "head_ranges": pc.sum(retained["is_head"]).as_py() or 0,
            "head_metaranges": sum(metarange.is_head for metarange in metaranges),
            "retained_metaranges": sum(metarange.is_retained for metarange in metaranges),
            "metaranges": len(metaranges),
            "metaranges_read": found.pop("metaranges", 0) + found.pop("unread_metaranges", 0),
            "metarange_rows": pc.sum(ranges["times"]).as_py() or 0,
            **{
                f"{what}_read": found.pop(what, 0)
                for what in (
                    "head_ranges",
                    "head_metaranges",
                    "retained_metaranges",
                    "metarange_rows",
                    "ranges",
                    "entries",
                    "addresses",
                )
            },
            "empty_metaranges": found.pop("empty_metaranges", 0),
            "addresses_left_out": found.pop("left_out", 0),
            "expired_ranges": explained.num_rows,
            "expired_ranges_all": expired["all"] and not unread and only_expired.num_rows == explained.num_rows,
            "requests": dict(found),
        }

    return Draft(
        tables.COMMITTED_ADDRESSES,
        Written(attempt, [receipts[0] for receipts in written], [receipts[1] for receipts in written]),
        began,
        parents=(commits.manifest,),
        facts=facts,
    )


def _metaranges(commits: StoredTable, expired_ids: Sequence[str]) -> list[Metarange]:
    """Return each metarange once, oldest commit first: the retained ones, and those that only expired commits have.

    The latter are read for the words of the report alone.
    """
    heads: dict[str, bool] = {}
    columns = ["metarange_id", "created_at", "is_head"]
    schema = pa.schema([schemas.RETAINED_COMMITS.field(name) for name in columns])
    found = pa.Table.from_batches(commits.batches(columns), schema)
    for row in found.sort_by("created_at").to_pylist():
        if row["metarange_id"]:
            heads[row["metarange_id"]] = heads.get(row["metarange_id"], False) or row["is_head"]
    return [Metarange(id_, is_head=is_head, is_retained=True) for id_, is_head in heads.items()] + [
        Metarange(id_, is_head=False, is_retained=False) for id_ in expired_ids
    ]


def distinct_ranges(run: Run, reader: Reader, metaranges: Sequence[Metarange]) -> tuple[pa.Table, Counter[str]]:
    """Read metaranges, and return each of their ranges once.

    Args:
        run: The run.
        reader: What executors read with.
        metaranges: Neighbours, which share most ranges, beside each other.

    Returns:
        Columns of `RANGES`, key range_id and count, by min_key; and figures of what was read.

    Raises:
        CorruptTableError: If a metarange of a retained commit cannot be read whole.
    """
    each = -(
        -len(metaranges) // max(1, min(-(-len(metaranges) // _METARANGES_OF_A_TASK), run.options.range_partitions))
    )
    tasks = [tuple(metaranges[begin : begin + each]) for begin in range(0, len(metaranges), max(1, each))]
    is_small = len(metaranges) <= min(_METARANGES_OF_A_TASK, tables.DRIVER_ROWS)
    told = run_tasks(lambda: run.spark, tasks, partial(_read_metaranges, reader), is_small=is_small)
    figures = Counter[str]()
    for _, read in told:
        figures.update(read)
    found = _merged([table for table, _ in told])
    return found.sort_by([("min_key", "ascending"), ("range_id", "ascending")]), figures


def _merged(some: Sequence[pa.Table]) -> pa.Table:
    """Put together the rows of each range; columns of `RANGES`."""
    merged = (
        pa.concat_tables([RANGES.empty_table(), *some])
        .group_by(["range_id", "count"])
        .aggregate(
            [
                ("min_key", "min"),
                ("is_head", "max"),
                ("is_retained", "max"),
                ("why", "min"),
                ("times", "sum"),
            ]
        )
    )
    return (
        merged.rename_columns(
            {
                "min_key_min": "min_key",
                "is_head_max": "is_head",
                "is_retained_max": "is_retained",
                "why_min": "why",
                "times_sum": "times",
            }
        )
        .select(RANGES.names)
        .cast(RANGES)
    )


def _read_metaranges(reader: Reader, _number: int, metaranges: Sequence[Metarange]) -> tuple[pa.Table, Counter[str]]:
    # Lists, because threads add to them at once.
    seen: list[tuple[Metarange, int]] = []
    unread: list[str] = []

    def read(metarange: Metarange) -> Iterator[pa.RecordBatch]:
        try:
            found = graveler.read_metarange(
                reader.read(metarange.id), name=reader.name(metarange.id), expected_id=metarange.id
            )
        except LakegcError:
            if metarange.is_retained:
                raise
            # Only the report's words depend on an expired commit, and they say when something could not be read.
            unread.append(metarange.id)
            return
        seen.append((metarange, found.num_rows))
        rest = [
            pa.repeat(pa.scalar(value, RANGES.field(name).type), found.num_rows)
            for name, value in (
                ("is_head", metarange.is_head),
                ("is_retained", metarange.is_retained),
                ("why", metarange.why),
                ("times", 1),
            )
        ]
        columns = [found.column(name) for name in ("range_id", "count", "min_key")]
        yield pa.record_batch([*columns, *rest], schema=RANGES)

    figures = Counter[str]()
    ranges, waiting, rows = RANGES.empty_table(), list[pa.RecordBatch](), 0
    with counting(figures, reader.store.requests):
        for batch in interleaved(metaranges, read, threads=reader.threads):
            waiting.append(batch)
            rows += batch.num_rows
            if rows > _ROWS_HELD:
                ranges, waiting, rows = _merged([ranges, pa.Table.from_batches(waiting)]), [], 0
    ranges = _merged([ranges, pa.Table.from_batches(waiting, RANGES)])
    retained = [(metarange, count) for metarange, count in seen if metarange.is_retained]
    figures.update(
        metaranges=len(seen),
        metarange_rows=sum(count for _, count in seen),
        unread=len(unread),
        unread_metaranges=len(unread),
        retained_metaranges=len(retained),
        head_metaranges=sum(metarange.is_head for metarange, _ in retained),
        empty_metaranges=sum(not count for _, count in retained),
    )
    return ranges, figures


def tasks_of(ranges: pa.Table, at_most: int) -> list[pa.Table]:
    """Deal ranges out to tasks by their files and entries.

    Versions of one stretch of paths, which have most addresses in common, come to one task, where each counts once.

    Args:
        ranges: Columns of `RANGES`.
        at_most: Tasks.
    """
    ordered = ranges.sort_by("min_key").select(["range_id", "count", "is_head", "is_retained", "why"]).combine_chunks()
    weights = np.maximum(ordered["count"].to_numpy() / _ENTRIES_OF_A_TASK, 1 / _RANGES_OF_A_TASK)
    if not len(weights):
        return []
    count = min(int(np.ceil(weights.sum())), at_most)
    ends = np.searchsorted(np.cumsum(weights), np.linspace(0, weights.sum(), count + 1)[1:-1], side="right")
    bounds = sorted({0, *ends.tolist(), len(weights)})
    # Taken out: a slice would travel with all that it is a slice of.
    return [ordered.take(pa.array(range(begin, end))) for begin, end in pairwise(bounds)]


def _write(reader: Reader, target: Target, beside: Target, number: int, ranges: pa.Table) -> tuple[Receipt, Receipt]:
    """Read the ranges of a task into the table, and of those that only expired commits have the hashes beside it."""
    retained = tables.write_read(
        target, lambda some, figures: read_ranges(reader, some, figures), number, ranges.filter(ranges["is_retained"])
    )
    rest = ranges.filter(pc.invert(ranges["is_retained"]))
    unneeded = tables.write_read(beside, partial(_read_unneeded, reader), number, rest)
    figures = Counter(retained.figures) + Counter(unneeded.figures)
    return Receipt(retained.parts, retained.measured, figures), unneeded


def read_ranges(
    reader: Reader, ranges: pa.Table, figures: Counter[str], *, saying_why: bool = False
) -> Iterator[pa.RecordBatch]:
    """Read ranges whole, or raise.

    Args:
        reader: The store, and where its tables lie.
        ranges: Columns of `RANGES`, those that matter.
        figures: Gets what was read.
        saying_why: Give the column `why` on.

    Yields:
        Columns of `schemas.COMMITTED_ADDRESSES`, each row once as far as the task remembers, and `why` where it is wanted.
    """
    # Lists, because threads add to them at once.
    seen: list[int] = []
    of_heads: list[bool] = []

    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        table_id = row["range_id"]
        data = reader.read(table_id)
        found = graveler.read_range(data, name=reader.name(table_id), expected_count=row["count"], expected_id=table_id)
        seen.append(found.num_rows)
        of_heads.append(row["is_head"])
        resolved = _addresses(reader.namespace, found, is_head=row["is_head"])
        if saying_why:
            resolved = resolved.append_column("why", pa.repeat(pa.scalar(row["why"], pa.string()), resolved.num_rows))
        yield resolved

    distinct = Distinct()
    addresses = left_out = 0
    with counting(figures, reader.store.requests):
        for batch in interleaved(ranges.to_pylist(), read, threads=reader.threads):
            # What is left out has the very hash that decides, so nothing it keeps can go; somebody may make hashes of a wish.
            first = batch.filter(pa.array(distinct.first(batch.column("address_hash"), _details(batch))))
            addresses += batch.num_rows
            left_out += batch.num_rows - first.num_rows
            yield first
    figures.update(
        ranges=len(seen), entries=sum(seen), head_ranges=sum(of_heads), addresses=addresses, left_out=left_out
    )


def _details(batch: pa.RecordBatch) -> Any:
    """Hash what tells rows apart that keep one object: by the address that is said, too, they differ in what hides behind them."""
    parts = [hashed(batch.column(name)).to_numpy() for name in ("address", "head_path", "checksum")]
    parts += [batch.column("size_bytes").to_numpy(), batch.column("is_live").to_numpy(zero_copy_only=False)]
    with np.errstate(over="ignore"):
        return (((parts[0] * 31 + parts[1]) * 31 + parts[2]) * 31 + parts[3]) * 2 + parts[4]


def _read_unneeded(reader: Reader, ranges: pa.Table, figures: Counter[str]) -> Iterator[pa.RecordBatch]:
    """Read ranges whose damage does not matter; columns of `EXPIRED_HASHES`."""
    unread: list[str] = []

    def read(range_id: str) -> Iterator[pa.RecordBatch]:
        try:
            found = graveler.read_range(reader.read(range_id), name=reader.name(range_id), expected_id=range_id)
            yield _addresses(reader.namespace, found, is_head=False)
        except LakegcError:
            unread.append(range_id)

    distinct = Distinct()
    with counting(figures, reader.store.requests):
        for batch in interleaved(ranges["range_id"].to_pylist(), read, threads=reader.threads):
            hashes = batch.column("address_hash")
            first = distinct.first(hashes, np.zeros(len(hashes), np.int64))
            yield pa.record_batch([hashes], schema=EXPIRED_HASHES).filter(pa.array(first))
    figures["unread"] += len(unread)


def _addresses(namespace: Namespace, found: pa.RecordBatch, *, is_head: bool) -> pa.RecordBatch:
    """Resolve the entries of one range.

    Entries outside the namespace are left out, but not those of a branch head:
    one of those, too, can have a twin inside; nor those that may be inside by
    another name of the store. They keep their absolute address, which equals no relative one.
    """
    address = namespace.relative_batch(found.column("address"), found.column("address_type"))
    if address.null_count:
        another_name = pc.if_else(may_be_own(found.column("address")), found.column("address"), None)
        address = pc.coalesce(address, another_name)
    path, checksum = pa.nulls(found.num_rows, pa.binary()), pa.nulls(found.num_rows, pa.string())
    if is_head:
        path, checksum = found.column("path"), found.column("checksum")
        address = pc.coalesce(address, found.column("address"))
    sizes = found.column("size_bytes")
    if address.null_count:
        kept = address.is_valid()
        address, sizes, path, checksum = (column.filter(kept) for column in (address, sizes, path, checksum))
    is_live = pc.and_(pc.starts_with(address, "data/"), is_head)
    return pa.record_batch(
        [address, sizes, path, checksum, is_live, alive_hashes(address)], schema=schemas.COMMITTED_ADDRESSES
    )


def _measure(batch: pa.RecordBatch) -> Mapping[str, int]:
    addresses = batch.column("address")
    in_data = pc.starts_with(addresses, "data/")
    outside = pc.and_(pc.is_valid(batch.column("head_path")), pc.invert(in_data))
    return {
        "addresses": batch.num_rows,
        "in_data": pc.sum(in_data).as_py() or 0,
        "heads_outside": pc.sum(outside).as_py() or 0,
    }
