"""Table 4: the addresses that retained commits reach, each metarange and each range read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame

from spark_core import graveler, tables
from spark_core.collectable import may_be_own
from spark_core.datasources import counting, frame_of, interleaved, read_partitions, shared_counts
from spark_core.errors import LakegcError
from spark_core.mark.commits import tables_prefix
from spark_core.namespace import Namespace
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.session import surfacing_errors
from spark_core.storage import ObjectStore
from spark_core.tables import Draft, StoredTable

_RANGES = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("is_head", pa.bool_(), nullable=False),
        pa.field("is_retained", pa.bool_(), nullable=False),
        # One of the commits that have it, in words; null where nobody asks.
        pa.field("why", pa.string()),
    ]
)

ADDRESSES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("head_path", pa.binary()),
        pa.field("checksum", pa.string()),
    ]
)

Counts = Accumulator[Counter[str]]


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
        counts: What was read and asked, added up over all tasks.
    """

    store: ObjectStore
    namespace: Namespace
    prefix: str
    threads: int
    counts: Counts

    @classmethod
    def of(cls, run: Run, prefix: str, counts: Counts) -> Reader:
        """Take from a run what travels to the executors."""
        return cls(run.store, run.namespace, prefix, run.options.read_threads, counts)

    def name(self, table_id: str) -> str:
        """Return the key of a content-addressed table."""
        return f"{self.prefix}/{table_id}"

    def read(self, table_id: str) -> bytes:
        """Read a table file whole."""
        return self.store.read(self.name(table_id))


@surfacing_errors()
def committed_addresses(run: Run, commits: StoredTable) -> Draft:
    """Read every address inside the namespace that a retained commit reaches.

    Commits share metaranges and metaranges share ranges, so both are made
    distinct before they are read: the cost follows the data, not the number of
    commits, and the server is not asked at all. An entry that a branch head has
    keeps its path and checksum, by which re-uploaded twins are found later
    (safety 14).

    Args:
        run: The run.
        commits: Table 3.

    Returns:
        Columns of `schemas.COMMITTED_ADDRESSES`, key address and head_path.

    Raises:
        CorruptTableError: If any table cannot be read whole.
        NotFoundError: If a table is missing from the store.
    """
    began = run.begin(tables.COMMITTED_ADDRESSES)
    run.require_same_instance(commits.manifest)
    counts = shared_counts(run.spark)
    reader = Reader.of(run, tables_prefix(run), counts)
    expired = commits.manifest.facts["expired_metaranges"]
    # Read by three actions (two on the totals below, one on the addresses), from the store only once.
    metaranges = _metaranges(commits, expired["ids"])
    ranges = distinct_ranges(run, reader, metaranges).persist()
    totals = ranges.agg(
        sf.count_if("is_retained"),
        sf.sum(sf.when(sf.col("is_retained"), sf.col("count"))),
        sf.count_if(sf.col("is_retained") & sf.col("is_head")),
        sf.sum("times"),
    ).first()
    assert totals is not None  # noqa: S101 - an aggregate without grouping has one row
    only_expired = _only_expired(ranges, run.options.explain_ranges) if expired["ids"] else []
    addresses = (
        ranges.where("is_retained")
        .repartition(max(1, min(totals[0], run.options.range_partitions)))
        .mapInArrow(partial(map_ranges, reader), spark_type(ADDRESSES))
        .distinct()
    )

    def facts() -> Mapping[str, Any]:
        ranges.unpersist()
        read = Counter(counts.value)
        unread = read.pop("unread", 0)
        return {
            "ranges": totals[0],
            "entries": totals[1] or 0,
            "head_ranges": totals[2],
            "head_ranges_read": read.pop("head_ranges", 0),
            "head_metaranges": sum(metarange.is_head for metarange in metaranges),
            "head_metaranges_read": read.pop("head_metaranges", 0),
            "retained_metaranges": sum(metarange.is_retained for metarange in metaranges),
            "retained_metaranges_read": read.pop("retained_metaranges", 0),
            "empty_metaranges": read.pop("empty_metaranges", 0),
            "metaranges": len(metaranges),
            "metaranges_read": read.pop("metaranges", 0) + unread,
            "metarange_rows": totals[3] or 0,
            "metarange_rows_read": read.pop("metarange_rows", 0),
            "ranges_read": read.pop("ranges", 0),
            "entries_read": read.pop("entries", 0),
            "addresses_read": read.pop("addresses", 0),
            "expired_ranges": {
                "ids": only_expired[: run.options.explain_ranges],
                "all": expired["all"] and not unread and len(only_expired) <= run.options.explain_ranges,
            },
            "requests": dict(read),
        }

    return Draft(
        tables.COMMITTED_ADDRESSES,
        addresses,
        began,
        parents=(commits.manifest,),
        facts=facts,
        measure=_measure,
    )


def _metaranges(commits: StoredTable, expired_ids: Sequence[str]) -> list[Metarange]:
    """Return each metarange once, the retained ones and those that only expired commits have.

    The latter are read for the words of the report alone. The commits are on
    the driver anyway, so making them distinct there saves a shuffle.
    """
    heads: dict[str, bool] = {}
    for batch in commits.batches(["metarange_id", "is_head"]):
        for row in batch.to_pylist():
            if row["metarange_id"]:
                heads[row["metarange_id"]] = heads.get(row["metarange_id"], False) or row["is_head"]
    return [Metarange(id_, is_head=is_head, is_retained=True) for id_, is_head in sorted(heads.items())] + [
        Metarange(id_, is_head=False, is_retained=False) for id_ in expired_ids
    ]


def distinct_ranges(run: Run, reader: Reader, metaranges: Sequence[Metarange]) -> DataFrame:
    """Read metaranges; columns range_id, count, is_head, is_retained, why and times (how many of them have it), each range once."""
    count = min(len(metaranges), run.options.range_partitions)
    tasks = [tuple(metaranges[number::count]) for number in range(count)]
    return (
        read_partitions(run.spark, _RANGES, tasks, partial(_read_metaranges, reader))
        .groupBy("range_id", "count")
        .agg(
            sf.max("is_head").alias("is_head"),
            sf.max("is_retained").alias("is_retained"),
            sf.min("why").alias("why"),
            sf.count("*").alias("times"),
        )
    )


def _only_expired(ranges: DataFrame, limit: int) -> list[str]:
    rows = ranges.where("not is_retained").select("range_id").limit(limit + 1).collect()
    return [row.range_id for row in rows]


def addresses_of_ranges(run: Run, prefix: str, range_ids: Sequence[str], counts: Counts) -> DataFrame:
    """Return the addresses (one column) of ranges whose damage does not matter; unread ones are counted as `unread`."""
    wanted = frame_of(run.spark, pa.table({"range_id": pa.array(range_ids, pa.string())}))
    return wanted.repartition(min(run.options.range_partitions, len(range_ids))).mapInArrow(
        partial(_map_unneeded_ranges, Reader.of(run, prefix, counts)), "address string"
    )


def _read_metaranges(reader: Reader, metaranges: Sequence[Metarange]) -> Iterator[pa.RecordBatch]:
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
        flags = [
            pa.repeat(pa.scalar(flag, pa.bool_()), found.num_rows)
            for flag in (metarange.is_head, metarange.is_retained)
        ]
        why = pa.repeat(pa.scalar(metarange.why, pa.string()), found.num_rows)
        yield pa.record_batch([found.column("range_id"), found.column("count"), *flags, why], schema=_RANGES)

    with counting(reader.counts, reader.store.requests):
        yield from interleaved(metaranges, read, threads=reader.threads)
        retained = [(metarange, ranges) for metarange, ranges in seen if metarange.is_retained]
        reader.counts.add(
            Counter(
                metaranges=len(seen),
                metarange_rows=sum(ranges for _, ranges in seen),
                unread=len(unread),
                retained_metaranges=len(retained),
                head_metaranges=sum(metarange.is_head for metarange, _ in retained),
                empty_metaranges=sum(not ranges for _, ranges in retained),
            )
        )


def map_ranges(
    reader: Reader, batches: Iterator[pa.RecordBatch], *, saying_why: bool = False
) -> Iterator[pa.RecordBatch]:
    """Read ranges whole, or raise.

    Args:
        reader: The store, and where its tables lie.
        batches: Rows of `distinct_ranges`.
        saying_why: Give the column `why` on.

    Yields:
        Columns of `ADDRESSES`, and `why` where it is wanted.
    """
    rows = [row for batch in batches for row in batch.to_pylist()]
    seen: list[int] = []
    of_heads: list[bool] = []
    addresses: list[int] = []

    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        table_id = row["range_id"]
        data = reader.read(table_id)
        found = graveler.read_range(data, name=reader.name(table_id), expected_count=row["count"], expected_id=table_id)
        seen.append(found.num_rows)
        of_heads.append(row["is_head"])
        resolved = _addresses(reader.namespace, found, is_head=row["is_head"])
        if saying_why:
            resolved = resolved.append_column("why", pa.repeat(pa.scalar(row["why"], pa.string()), resolved.num_rows))
        addresses.append(resolved.num_rows)
        yield resolved

    with counting(reader.counts, reader.store.requests):
        yield from interleaved(rows, read, threads=reader.threads)
        reader.counts.add(
            Counter(ranges=len(seen), entries=sum(seen), head_ranges=sum(of_heads), addresses=sum(addresses))
        )


def _map_unneeded_ranges(reader: Reader, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    ids = [row["range_id"] for batch in batches for row in batch.to_pylist()]
    unread: list[str] = []

    def read(range_id: str) -> Iterator[pa.RecordBatch]:
        try:
            found = graveler.read_range(reader.read(range_id), name=reader.name(range_id), expected_id=range_id)
            yield _addresses(reader.namespace, found, is_head=False).select(["address"])
        except LakegcError:
            unread.append(range_id)

    with counting(reader.counts, reader.store.requests):
        yield from interleaved(ids, read, threads=reader.threads)
        reader.counts.add(Counter(unread=len(unread)))


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
    resolved = pa.record_batch(
        [address, found.column("size_bytes"), path, checksum],
        schema=pa.schema([ADDRESSES.field("address").with_nullable(True), *list(ADDRESSES)[1:]]),
    )
    return resolved.filter(address.is_valid()).cast(ADDRESSES)


def _measure(batch: pa.RecordBatch) -> Mapping[str, int]:
    addresses = batch.column("address")
    return {"addresses": batch.num_rows, "in_data": pc.sum(pc.starts_with(addresses, "data/")).as_py() or 0}
