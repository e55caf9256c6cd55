"""One fate for each listed object; the objects that are left may go.

The fate is what refers to the object, or its standing by name and age.

Listing and references meet in one join, on the hashes of addresses alone. A collision can only keep
an object. For the objects that are left, the listing's own rows are read again, and each is
compared with the hash that chose it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame, SparkSession

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.addresses.candidates import Limits
from spark_core.errors import IncompleteReadError
from spark_core.holds import Holds
from spark_core.mark.expired_sums import Sums
from spark_core.mark.optimized.listing import Comparable, Listing
from spark_core.records import reading, writing
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Receipt, Target
from spark_core.run import Run
from spark_core.spark.rows import Rows
from spark_core.spark.tasks import frame_of, read_partitions, run_over, run_tasks
from spark_core.storage import ObjectStore

COMMITTED = "committed"
STAGED = "staged"
HELD = "held"
# Fate of references that lead to no listed object.
_ABSENT = "absent"

_FATES = (_ABSENT, COMMITTED, STAGED, *rule.STANDINGS)
_CANDIDATE = _FATES.index(rule.CANDIDATE)

# Bits for what is known of a hash: a commit or a staged entry refers to it, a branch or a staged
# entry reads from it below `data/`, an expired commit has it.
_BY_COMMIT, _BY_STAGED, _LIVE, _EXPIRED = 1, 2, 4, 8

_REFERENCES = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("bits", pa.int32(), nullable=False),
        # Size of the object according to the entry; null if the entry gives none.
        pa.field("said_bytes", pa.int64()),
    ]
)
_LISTED = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        # Number of the part, and of the row in it.
        pa.field("part", pa.int32(), nullable=False),
        pa.field("row", pa.int32(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("standing", pa.int32(), nullable=False),
    ]
)

# A row for each fate; of objects that may go, for each part of the listing.
_GROUPS = pa.schema(
    [
        ("fate", pa.int32()),
        ("part", pa.int32()),
        ("objects", pa.int64()),
        ("bytes", pa.int64()),
        ("live", pa.int64()),
        ("missing", pa.int64()),
        ("other_sizes", pa.int64()),
        ("references", pa.int64()),
        ("rows", pa.list_(pa.int32())),
        ("hashes", pa.list_(pa.int64())),
        ("expired", pa.list_(pa.bool_())),
    ]
)

# Hashes that are worth a task of their own, and those that are worth using another core.
_HASHES_OF_A_TASK = 250_000
_HASHES_OF_A_CORE = 20_000

# Hashes of listed objects, and of ranges that were read, that the driver of an optimized run holds.
_MOST_HELD = 1_000_000
# References that it passes for each row that it may hold.
_PASSING_ROWS = 2_000


@dataclass
class Decided:
    """The decision about all objects, in figures.

    Attributes:
        receipts: Parts of table 5: the objects that may go, before hidden entries and the mark of
            lakeFS's own job are taken out.
        kept: Files of objects that only a hold keeps.
        sums: Figures of those objects.
        objects: Number of all listed objects, by fate.
        size_bytes: Bytes of all listed objects, by fate.
        live: Objects that branches and staged entries read from, listed or not.
        missing: Those live objects that are not listed.
        other_sizes: Listed objects for which an entry gives another size.
        references: Rows that were compared with the listing.
    """

    receipts: list[Receipt] = field(default_factory=list)
    kept: list[Receipt] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    objects: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)
    live: int = 0
    missing: int = 0
    other_sizes: int = 0
    references: int = 0

    def merge(self, other: Decided) -> None:
        """Add what another task decided."""
        self.receipts += other.receipts
        self.kept += other.kept
        self.sums.merge(other.sums)
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)
        self.live += other.live
        self.missing += other.missing
        self.other_sizes += other.other_sizes
        self.references += other.references


@dataclass(frozen=True)
class Words:
    """Why an object may go: words for the report, never part of the decision.

    Attributes:
        expired: For objects of a commit that is past its retention.
        otherwise: For the other objects.
    """

    expired: str
    otherwise: str


@dataclass(frozen=True)
class _Orders:
    """The driver's orders for every task.

    Attributes:
        store: Rooted at the namespace.
        parts: Parts of the listing.
        target: Where the objects that may go are written.
        kept: Where those of them are written that a hold keeps; None if nobody wants them.
        held: Holds.
        words: Why an object may go.
        instant: The run's instant.
        limits: The limits that name and age are compared with once more.
    """

    store: ObjectStore
    parts: Sequence[Part]
    target: Target
    kept: Target | None
    held: Holds
    words: Words
    instant: datetime
    limits: Limits


def decide(
    run: Run,
    listing: Listing,
    staged: StoredTable,
    committed: StoredTable,
    *,
    target: Target,
    kept: Target | None,
    held: Holds,
    words: Words,
) -> Decided:
    """Give every listed object its fate, and write those that may go as parts of table 5.

    The work is one Spark job with three shuffles: two of hashes and sizes, 24 to 32 bytes for each
    object and each reference, and one of the row numbers of the objects that may go. An optimized
    run first leaves out the references that meet no listed object. The driver does the work without
    Spark where hashes are few. Only the rows of the objects that may go are read a second time.

    Args:
        run: The run.
        listing: The listed objects.
        staged: Table 2.
        committed: Table 4.
        target: Where the parts go; columns of `schemas.EXPIRED_ADDRESSES`.
        kept: Where objects go that only a hold keeps; None if nobody wants them.
        held: Holds that keep objects by address.
        words: Words for the reasons.

    Returns:
        The decision, added up over all tasks.

    Raises:
        CorruptTableError: If the bytes of a table are not those of its manifest.
        IncompleteReadError: If objects or references got lost on the way through Spark.
    """
    store, places = run.store, list(enumerate(listing.parts))
    read_listed = partial(_read_listed, store)
    read_references = partial(_read_references, store, listing.comparable)
    references = [
        *[("staged", part) for part in staged.manifest.parts],
        *[("committed", part) for part in committed.manifest.parts],
        *[("expired", part) for part in committed.manifest.beside],
    ]
    rows = sum(part.rows for _, part in references)
    orders = _Orders(store, listing.parts, target, kept, held, words, run.key.instant, run.limits)
    left_out = 0
    if reading.are_few_hashes(listing.rows + rows):
        listed = pa.Table.from_batches(read_listed(places), _LISTED)
        known = pa.Table.from_batches(read_references(references), _REFERENCES)
        decided, repeated = _by_driver(orders, listed, known), 0
    elif listing.comparable is not None and _are_held(listing, references):
        # Most of what is staged lies in slices that were not listed.
        listed = pa.Table.from_batches(read_listed(places), _LISTED)
        known, left_out = _meeting(run, read_references, references, listed)
        decided, repeated = _by_driver(orders, listed, known), 0
    else:
        decided, repeated = _by_executors(
            run.spark,
            orders,
            _frame(run.spark, _LISTED, places, listing.rows, read_listed),
            _frame(run.spark, _REFERENCES, references, rows, read_references),
            hashes=listing.rows + rows,
            references=rows,
        )
    decided.references += left_out
    came = (sum(decided.objects.values()), decided.references - repeated)
    if came != (listing.rows, rows):
        raise IncompleteReadError(
            f"repository {run.repository.id}: {came[0]} of {listing.rows} listed objects and "
            f"{came[1]} of {rows} references came out of their comparison",
            "Run again; if it stays, report it with this text and Spark's version.",
        )
    return decided


def _are_held(listing: Listing, references: Sequence[tuple[str, Part]]) -> bool:
    """Say whether the driver may hold the hashes of a listing, and of what may meet them."""
    unstaged = sum(part.rows for kind, part in references if kind != "staged")
    return listing.rows + unstaged <= _MOST_HELD


def _meeting(
    run: Run,
    read: Callable[[Sequence[tuple[str, Part]]], Iterator[pa.RecordBatch]],
    references: Sequence[tuple[str, Part]],
    listed: pa.Table,
) -> tuple[pa.Table, int]:
    """Read the references that have the hash of a listed object, or that count as live.

    The others decide nothing, and are only counted.

    Args:
        run: The run.
        read: Reads references: columns of `_REFERENCES`.
        references: Their files.
        listed: Columns of `_LISTED`; their hashes travel with each task.

    Returns:
        Columns of `_REFERENCES`, and how many references were left out.
    """
    rows = sum(part.rows for _, part in references)
    found = run_tasks(
        lambda: run.spark,
        _together(references),
        partial(_meet, read, sorted_once(_numbers(listed["address_hash"]))),
        is_small=rows <= _PASSING_ROWS * reading.DRIVER_ROWS,
    )
    return (
        pa.concat_tables([_REFERENCES.empty_table(), *(table for table, _ in found)]),
        sum(count for _, count in found),
    )


def _meet(
    read: Callable[[Sequence[tuple[str, Part]]], Iterator[pa.RecordBatch]],
    hashes: Any,
    _number: int,
    parts: Sequence[tuple[str, Part]],
) -> tuple[pa.Table, int]:
    found, left_out = list[pa.RecordBatch](), 0
    for batch in read(parts):
        is_live = batch.column("bits").to_numpy() & _LIVE != 0
        meets = is_live | are_among(batch.column("address_hash").to_numpy(), hashes)
        found.append(batch.filter(pa.array(meets)))
        left_out += batch.num_rows - found[-1].num_rows
    return pa.Table.from_batches(found, _REFERENCES), left_out


def _by_driver(orders: _Orders, listed: pa.Table, references: pa.Table) -> Decided:
    """Decide about few rows without Spark."""
    return _pick(orders, 0, iter(_grouped_here(listed, references).to_batches()))


def _by_executors(
    spark: SparkSession,
    orders: _Orders,
    listed: DataFrame,
    known: DataFrame,
    *,
    hashes: int,
    references: int,
) -> tuple[Decided, int]:
    """Decide in one Spark job.

    Returns:
        The decision, and how many references it counts more than once.
    """
    at_once = spark.sparkContext.defaultParallelism
    partitions = max(-(-hashes // _HASHES_OF_A_TASK), min(at_once, hashes // _HASHES_OF_A_CORE), 1)
    decided = Decided()
    with _planned(spark, partitions):
        for receipt in run_over(_grouped(listed, known), partial(_pick, orders)):
            decided.merge(receipt)
    # Two listed objects with one hash both meet each reference of that hash. The repeated rows are
    # then counted separately.
    return decided, _repeated(listed, known) if decided.references > references else 0


def _repeated(listed: DataFrame, references: DataFrame) -> int:
    """Count the references that the join repeats because several listed objects have one hash."""
    several = (
        listed.groupBy("address_hash").agg((sf.count("*") - 1).alias("more")).where("more > 0")
    )
    row = (
        references.join(several, on="address_hash", how="inner")
        .agg(sf.coalesce(sf.sum("more"), sf.lit(0)))
        .first()
    )
    assert row is not None  # noqa: S101 - an aggregate without grouping has one row
    return int(row[0])


@contextmanager
def _planned(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Run a query as planned here, from known sizes, in one job.

    Adaptive execution would find the sizes by running each stage as a job of its own.
    """
    chosen = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(partitions),
    }
    before = {name: spark.conf.get(name) for name in chosen}
    try:
        for name, value in chosen.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            assert old is not None  # noqa: S101 - Spark has a default for both
            spark.conf.set(name, old)


def _frame(
    spark: SparkSession,
    schema: pa.Schema,
    parts: Sequence[Any],
    rows: int,
    read: Callable[[Sequence[Any]], Iterator[pa.RecordBatch]],
) -> DataFrame:
    """Read parts on executors, or on the driver if they have few rows together."""
    if rows <= reading.DRIVER_ROWS:
        return frame_of(
            spark, pa.Table.from_batches(read(parts), schema), schemas.spark_type(schema)
        )
    return read_partitions(spark, schema, _together(parts), read)


def _together(parts: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Put small parts into one task."""
    tasks: list[list[Any]] = []
    held = _HASHES_OF_A_TASK
    for part in parts:
        if held >= _HASHES_OF_A_TASK:
            tasks.append([])
            held = 0
        tasks[-1].append(part)
        held += part[1].rows
    return [tuple(task) for task in tasks]


def _read_listed(store: ObjectStore, parts: Sequence[tuple[int, Part]]) -> Iterator[pa.RecordBatch]:
    fates = pa.array(_FATES)
    wanted = _columns(schemas.NAMESPACE_SLICES, "address_hash", "size_bytes", "standing")
    for number, part in parts:
        row = 0
        for batch in reading.read_part(store, wanted, part):
            rows = pa.array(np.arange(row, row + batch.num_rows, dtype=np.int32))
            row += batch.num_rows
            yield pa.record_batch(
                [
                    batch.column("address_hash"),
                    pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows),
                    rows,
                    batch.column("size_bytes"),
                    pc.index_in(batch.column("standing"), fates),
                ],
                schema=_LISTED,
            )


def _read_references(
    store: ObjectStore, comparable: Comparable | None, parts: Sequence[tuple[str, Part]]
) -> Iterator[pa.RecordBatch]:
    wanted = {
        "staged": _columns(schemas.UNCOMMITTED_ADDRESSES, "address", "address_hash"),
        "committed": _columns(
            schemas.COMMITTED_ADDRESSES,
            *(() if comparable is None else ("address",)),
            "address_hash",
            "size_bytes",
            "is_live",
        ),
        "expired": _columns(schemas.COMMITTED_ADDRESSES, "address_hash"),
    }
    for kind, part in parts:
        for batch in reading.read_part(store, wanted[kind], part):
            none = pa.nulls(batch.num_rows, pa.int64())
            if kind == "committed":
                is_live = _compared(comparable, batch, batch.column("is_live"))
                bits, sizes = (
                    pc.if_else(is_live, _BY_COMMIT | _LIVE, _BY_COMMIT),
                    batch.column("size_bytes"),
                )
            elif kind == "staged":
                in_data = pc.starts_with(batch.column("address"), "data/")
                in_data = _compared(comparable, batch, in_data)
                bits, sizes = pc.if_else(in_data, _BY_STAGED | _LIVE, _BY_STAGED), none
            else:
                bits, sizes = pa.repeat(pa.scalar(_EXPIRED), batch.num_rows), none
            yield pa.record_batch(
                [batch.column("address_hash"), bits.cast(pa.int32()), sizes], schema=_REFERENCES
            )


def _compared(
    comparable: Comparable | None, batch: pa.RecordBatch, is_live: pa.BooleanArray
) -> pa.BooleanArray:
    """Leave out the references whose objects the listing need not have."""
    if comparable is None:
        return is_live
    return pc.and_(is_live, comparable.mask(batch.column("address"), batch.column("address_hash")))


def _columns(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _grouped(listed: DataFrame, references: DataFrame) -> DataFrame:
    """Join and group: a row for each fate.

    Columns of `_GROUPS`. Objects that may go come with their row numbers.
    """
    known = references.groupBy("address_hash").agg(
        sf.bit_or("bits").alias("bits"),
        sf.min("said_bytes").alias("least"),
        sf.max("said_bytes").alias("most"),
        sf.count("*").alias("references"),
    )
    bits = sf.coalesce(sf.col("bits"), sf.lit(0))
    is_listed = sf.col("part").isNotNull()
    fate = (
        sf.when(~is_listed, sf.lit(0))
        .when(bits.bitwiseAND(_BY_COMMIT) != 0, sf.lit(_FATES.index(COMMITTED)))
        .when(bits.bitwiseAND(_BY_STAGED) != 0, sf.lit(_FATES.index(STAGED)))
        .otherwise(sf.col("standing"))
    )
    is_live = bits.bitwiseAND(_LIVE) != 0
    other = is_listed & (
        (sf.col("least") != sf.col("size_bytes")) | (sf.col("most") != sf.col("size_bytes"))
    )
    is_candidate = sf.col("fate") == _CANDIDATE
    return (
        listed.join(known, on="address_hash", how="full_outer")
        .select(
            "address_hash",
            "part",
            "row",
            "size_bytes",
            fate.alias("fate"),
            is_live.alias("is_live"),
            is_listed.alias("is_listed"),
            other.alias("is_other"),
            "references",
            (bits.bitwiseAND(_EXPIRED) != 0).alias("is_expired"),
        )
        .groupBy("fate", sf.when(is_candidate, sf.col("part")).alias("part"))
        .agg(
            sf.count("*").alias("objects"),
            sf.coalesce(sf.sum("size_bytes"), sf.lit(0)).alias("bytes"),
            sf.count_if("is_live").alias("live"),
            sf.count_if(sf.col("is_live") & ~sf.col("is_listed")).alias("missing"),
            sf.count_if("is_other").alias("other_sizes"),
            sf.coalesce(sf.sum("references"), sf.lit(0)).alias("references"),
            sf.collect_list(sf.when(is_candidate, sf.col("row"))).alias("rows"),
            sf.collect_list(sf.when(is_candidate, sf.col("address_hash"))).alias("hashes"),
            sf.collect_list(sf.when(is_candidate, sf.col("is_expired"))).alias("expired"),
        )
    )


def _grouped_here(listed: pa.Table, references: pa.Table) -> pa.Table:
    """Do what `_grouped` does where there are few rows, without Spark.

    A reference of several listed objects of one hash counts once.

    Args:
        listed: Columns of `_LISTED`.
        references: Columns of `_REFERENCES`.

    Returns:
        Columns of `_GROUPS`.
    """
    hashes, part, row, size, standing = (_numbers(listed[name]) for name in _LISTED.names)
    known = _Known.of(references)
    at = known.find(hashes)
    bits = known.bits[at]
    fate = np.where(bits & _BY_STAGED, _FATES.index(STAGED), standing)
    fate = np.where(bits & _BY_COMMIT, _FATES.index(COMMITTED), fate)
    is_other = known.is_said[at] & ((known.least[at] != size) | (known.most[at] != size))
    counts = np.zeros(hashes.size, np.int64)
    _, first = np.unique(hashes, return_index=True)
    counts[first] = known.counts[at[first]]
    may_go = fate == _CANDIDATE
    of_fates = [
        *((each, None, fate == each) for each in np.unique(fate[~may_go])),
        *((_CANDIDATE, each, may_go & (part == each)) for each in np.unique(part[may_go])),
    ]
    groups = [
        {
            "fate": each,
            "part": number,
            "objects": rows.sum(),
            "bytes": size[rows].sum(),
            "live": (bits[rows] & _LIVE != 0).sum(),
            "missing": 0,
            "other_sizes": is_other[rows].sum(),
            "references": counts[rows].sum(),
            "rows": [] if number is None else row[rows],
            "hashes": [] if number is None else hashes[rows],
            "expired": [] if number is None else bits[rows] & _EXPIRED != 0,
        }
        for each, number, rows in of_fates
    ]
    absent = ~np.isin(known.hashes, hashes)
    missing = (known.bits[:-1][absent] & _LIVE != 0).sum()
    groups.append(
        {
            "fate": _FATES.index(_ABSENT),
            "part": None,
            "objects": absent.sum(),
            "bytes": 0,
            "live": missing,
            "missing": missing,
            "other_sizes": 0,
            "references": known.counts[:-1][absent].sum(),
            "rows": [],
            "hashes": [],
            "expired": [],
        }
    )
    return pa.Table.from_pylist(groups, _GROUPS)


@dataclass(frozen=True)
class _Known:
    """What references say of each hash, sorted by hashes; a last row says nothing.

    Attributes:
        hashes: The hashes, each once; the last row has none.
        bits: What is known of each.
        is_said: Whether an entry gives a size ...
        least: ... the least of these sizes ...
        most: ... and the largest.
        counts: Number of references.
    """

    hashes: Any
    bits: Any
    is_said: Any
    least: Any
    most: Any
    counts: Any

    @classmethod
    def of(cls, references: pa.Table) -> _Known:
        """Read references: columns of `_REFERENCES`."""
        order = np.argsort(_numbers(references["address_hash"]))
        hashes, begins, counts = np.unique(
            _numbers(references["address_hash"])[order], return_index=True, return_counts=True
        )
        said = references["said_bytes"]
        is_said = _numbers(said.is_valid())[order]
        sizes = _numbers(said.fill_null(0))[order]
        ends = np.iinfo(np.int64)

        def joined(how: Any, column: Any, nothing: int) -> Any:
            found = how.reduceat(column, begins) if hashes.size else column
            return np.append(found, nothing)

        return cls(
            hashes,
            joined(np.bitwise_or, _numbers(references["bits"])[order], 0),
            joined(np.logical_or, is_said, nothing=False),
            joined(np.minimum, np.where(is_said, sizes, ends.max), 0),
            joined(np.maximum, np.where(is_said, sizes, ends.min), 0),
            np.append(counts, 0),
        )

    def find(self, hashes: Any) -> Any:
        """Return the row of each hash."""
        at = np.searchsorted(self.hashes, hashes)
        is_there = np.append(self.hashes, 0)[at] == hashes
        return np.where(is_there & (at < self.hashes.size), at, self.hashes.size)


def _numbers(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks().to_numpy(zero_copy_only=False)


def _pick(orders: _Orders, number: int, batches: Iterator[pa.RecordBatch]) -> Decided:
    """Write the objects of a task that may go; runs on an executor."""
    decided = Decided()
    held: list[pa.RecordBatch] = []

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in range(batch.num_rows):
                group = {name: batch.column(name)[at] for name in batch.schema.names}
                fate = _FATES[group["fate"].as_py()]
                decided.live += group["live"].as_py()
                decided.missing += group["missing"].as_py()
                decided.other_sizes += group["other_sizes"].as_py()
                decided.references += group["references"].as_py()
                if fate == _ABSENT:
                    continue
                decided.objects[fate] += group["objects"].as_py()
                decided.size_bytes[fate] += group["bytes"].as_py()
                if fate == rule.CANDIDATE:
                    yield from _candidates(orders, decided, group, held)

    decided.receipts.append(writing.write_parts(orders.target, number, rows()))
    if orders.kept is not None:
        decided.kept.append(writing.write_parts(orders.kept, number, iter(held)))
    return decided


def _candidates(
    orders: _Orders, decided: Decided, group: Mapping[str, Any], held: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the chosen rows of a listing's part, leave out held objects, and count."""
    part = orders.parts[group["part"].as_py()]
    chosen, hashes, expired = (
        group[name].values.to_numpy(zero_copy_only=False) for name in ("rows", "hashes", "expired")
    )
    order = np.argsort(chosen)
    chosen, hashes, expired = chosen[order], hashes[order], expired[order]
    begin = seen = 0
    for batch in reading.read_part(orders.store, schemas.NAMESPACE_SLICES, part):
        end = np.searchsorted(chosen, begin + batch.num_rows)
        wanted = slice(seen, end)
        taken = batch.take(pa.array(chosen[wanted] - begin))
        begin, seen = begin + batch.num_rows, int(end)
        if not taken.num_rows:
            continue
        addresses = taken.column("address")
        if not np.array_equal(hashed(addresses).to_numpy(), hashes[wanted]):
            raise IncompleteReadError(
                f"{part.key} of {orders.store.root}: its rows changed after they were compared "
                "with the references",
                "Run again; if it stays, report it with this text and Spark's version.",
            )
        reasons = pc.if_else(
            pa.array(expired[wanted]), orders.words.expired, orders.words.otherwise
        )
        columns = [
            addresses,
            taken.column("size_bytes"),
            taken.column("last_modified"),
            taken.column("slice"),
            reasons,
        ]
        found = pa.record_batch(columns, schema=schemas.EXPIRED_ADDRESSES)
        if orders.held.of_addresses:
            protected = orders.held.protecting(addresses)
            kept = found.filter(protected)
            held.append(kept)
            decided.objects.update({HELD: kept.num_rows, rule.CANDIDATE: -kept.num_rows})
            size = pc.sum(kept.column("size_bytes")).as_py() or 0
            decided.size_bytes.update({HELD: size, rule.CANDIDATE: -size})
            found = found.filter(pc.invert(protected))
        decided.sums.add(found, orders.instant, orders.limits)
        yield found


def name_by_policy(decided: Decided, total: tuple[int, int], staged: tuple[int, int]) -> None:
    """Count what a policy names among what may go, although commits reach it or it is staged.

    Args:
        decided: The fates of all objects.
        total: Objects that the policy names, and their bytes.
        staged: Those of them that are staged and in no commit.
    """
    for counts, of_all, of_staged in zip(
        (decided.objects, decided.size_bytes), total, staged, strict=True
    ):
        counts.update({rule.CANDIDATE: of_all, COMMITTED: of_staged - of_all, STAGED: -of_staged})


def write_again(run: Run, rows: Rows, target: Target, *, is_small: bool) -> Decided:
    """Write the objects that may go again, after some were taken out.

    Args:
        run: The run.
        rows: Columns of `schemas.EXPIRED_ADDRESSES`.
        target: Where the parts go.
        is_small: Whether the driver may hold the rows.
    """
    write = partial(_sum_and_write, target, run.key.instant, run.limits)
    if isinstance(rows, pa.Table):
        return write(0, iter(rows.to_batches()))
    decided = Decided()
    for receipt in run_over(rows, write, is_small=is_small):
        decided.merge(receipt)
    return decided


def _sum_and_write(
    target: Target,
    instant: datetime,
    limits: Limits,
    number: int,
    batches: Iterator[pa.RecordBatch],
) -> Decided:
    decided = Decided()

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            whole = batch.select(target.schema.names).cast(target.schema)
            decided.sums.add(whole, instant, limits)
            yield whole

    decided.receipts.append(writing.write_parts(target, number, rows()))
    return decided
