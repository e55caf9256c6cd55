"""One fate for each listed object; the objects that are left may go.

The fate is what refers to the object, or its standing by name and age.

Listing and references meet by the hashes of addresses alone: a kernel decides about all objects and
references of a bucket of hashes. A collision can only keep an object. For the objects that are
left, the listing's own rows are read again, and each is compared with the hash that chose it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.addresses.address_hashes import are_among, hashed, place_among, sorted_once
from spark_core.addresses.candidates import Limits
from spark_core.errors import IncompleteReadError
from spark_core.holds import Holds
from spark_core.mark.expired_sums import Sums
from spark_core.optimized.listing import Comparable, Listing
from spark_core.records import reading, writing
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Receipt, Target
from spark_core.run import Run
from spark_core.spark import exchange
from spark_core.spark.exchange import Exchange, Sent, Source, numbers_of
from spark_core.spark.rows import Rows
from spark_core.spark.tasks import run_over, run_tasks
from spark_core.storage import ObjectStore

COMMITTED = "committed"
STAGED = "staged"
HELD = "held"

_FATES = (COMMITTED, STAGED, *rule.STANDINGS)
_CANDIDATE = _FATES.index(rule.CANDIDATE)

# Bits for what is known of a hash: a commit or a staged entry refers to it, a branch or a staged
# entry reads from it below `data/`, an expired commit has it.
_BY_COMMIT, _BY_STAGED, _LIVE, _EXPIRED = 1, 2, 4, 8

# What references say of a hash: the bits of all of them together, the least and the largest size
# that an entry gives (the least is larger where none gives one), and their number.
_REFERENCES = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("bits", pa.int32(), nullable=False),
        pa.field("least_bytes", pa.int64(), nullable=False),
        pa.field("most_bytes", pa.int64(), nullable=False),
        pa.field("references", pa.int64(), nullable=False),
    ]
)
_SIZES = np.iinfo(np.int64)
# Where a listed object is: the task that reads its row again, the part, and the row in it.
_PLACE = (
    pa.field("task", pa.int32(), nullable=False),
    pa.field("part", pa.int32(), nullable=False),
    pa.field("row", pa.int32(), nullable=False),
)
_LISTED = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        *_PLACE,
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("standing", pa.int32(), nullable=False),
    ]
)
# An object that may go, and whether an expired commit has it.
_CHOSEN = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        *_PLACE[1:],
        pa.field("is_expired", pa.bool_(), nullable=False),
    ]
)

# Rows that are worth a task of their own.
_ROWS_OF_A_TASK = 250_000

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

    def count(self, fate: str, sizes: Any) -> None:
        """Count objects of a fate.

        Args:
            fate: The fate.
            sizes: Their bytes: an array of numpy or Arrow.
        """
        self.objects[fate] += len(sizes)
        self.size_bytes[fate] += int(np.sum(np.asarray(sizes), dtype=np.int64))

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

    Each object and each hash that is referenced moves once, 24 to 36 bytes, and so do the row
    numbers of the objects that may go: one Spark job, or none where rows are few. An optimized run
    first leaves out the references that meet no listed object. Only the rows of the objects that
    may go are read a second time.

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
    listed = _together(list(enumerate(listing.parts)))
    references = [
        *[("staged", part) for part in staged.manifest.parts],
        *[("committed", part) for part in committed.manifest.parts],
        *[("expired", part) for part in committed.manifest.beside],
    ]
    rows = sum(part.rows for _, part in references)
    read = partial(_read_references, run.store, listing.comparable)
    known, left_out = Source(_REFERENCES, _together(references), rows, read, _combined), 0
    is_much = listing.rows + rows > exchange.MOST_ROWS_OF_THE_DRIVER
    if is_much and listing.comparable is not None and _are_held(listing, references):
        # Most of what is staged lies in slices that were not listed.
        known, left_out = _meeting(run, known, listing.parts)
    orders = _Orders(
        run.store, listing.parts, target, kept, held, words, run.key.instant, run.limits
    )
    receipts, written = Exchange(
        {
            "listed": Source(
                _LISTED, list(enumerate(listed)), listing.rows, partial(_read_listed, run.store)
            ),
            "references": known,
        },
        _decided,
        _CHOSEN,
        partial(_pick, orders),
    ).run(lambda: run.spark, threads=run.options.read_threads)
    decided = Decided(references=left_out)
    for receipt in [*receipts, *written]:
        decided.merge(receipt)
    came = (sum(decided.objects.values()), decided.references)
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


def _meeting(run: Run, references: Source[Any], parts: Sequence[Part]) -> tuple[Source[Any], int]:
    """Read the references that have the hash of a listed object, or that count as live.

    The others decide nothing, and are only counted.

    Args:
        run: The run.
        references: How they are read.
        parts: Files of the listed objects; their hashes travel with each task.

    Returns:
        Those references, and how many others were left out.
    """
    wanted = _columns(schemas.NAMESPACE_SLICES, "address_hash")
    hashes = [
        batch.column("address_hash").to_numpy()
        for part in parts
        for batch in reading.read_part(run.store, wanted, part)
    ]
    listed = sorted_once(np.concatenate([np.empty(0, np.int64), *hashes]))
    found = run_tasks(
        lambda: run.spark,
        references.tasks,
        partial(_meet, references.read, listed),
        is_small=references.rows <= _PASSING_ROWS * reading.DRIVER_ROWS,
    )
    tables = [table for table, _ in found]
    rows = sum(table.num_rows for table in tables)
    meeting = Source(_REFERENCES, tables, rows, _batches_of, _combined)
    return meeting, sum(count for _, count in found)


def _batches_of(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from rows.to_batches()


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


def _together(parts: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Put small parts into one task."""
    tasks: list[list[Any]] = []
    held = _ROWS_OF_A_TASK
    for part in parts:
        if held >= _ROWS_OF_A_TASK:
            tasks.append([])
            held = 0
        tasks[-1].append(part)
        held += part[1].rows
    return [tuple(task) for task in tasks]


def _read_listed(
    store: ObjectStore, task: tuple[int, Sequence[tuple[int, Part]]]
) -> Iterator[pa.RecordBatch]:
    """Read listed objects: columns of `_LISTED`."""
    fates = pa.array(_FATES)
    wanted = _columns(schemas.NAMESPACE_SLICES, "address_hash", "size_bytes", "standing")
    for number, part in task[1]:
        row = 0
        for batch in reading.read_part(store, wanted, part):
            rows = pa.array(np.arange(row, row + batch.num_rows, dtype=np.int32))
            row += batch.num_rows
            yield pa.record_batch(
                [
                    batch.column("address_hash"),
                    _same(task[0], batch),
                    _same(number, batch),
                    rows,
                    batch.column("size_bytes"),
                    pc.index_in(batch.column("standing"), fates),
                ],
                schema=_LISTED,
            )


def _read_references(
    store: ObjectStore, comparable: Comparable | None, parts: Sequence[tuple[str, Part]]
) -> Iterator[pa.RecordBatch]:
    """Read references: columns of `_REFERENCES`, a row for each."""
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
            sizes = pa.nulls(batch.num_rows, pa.int64())
            if kind == "committed":
                is_live = _compared(comparable, batch, batch.column("is_live"))
                bits = pc.if_else(is_live, _BY_COMMIT | _LIVE, _BY_COMMIT).cast(pa.int32())
                sizes = batch.column("size_bytes")
            elif kind == "staged":
                in_data = pc.starts_with(batch.column("address"), "data/")
                in_data = _compared(comparable, batch, in_data)
                bits = pc.if_else(in_data, _BY_STAGED | _LIVE, _BY_STAGED).cast(pa.int32())
            else:
                bits = _same(_EXPIRED, batch)
            yield pa.record_batch(
                [
                    batch.column("address_hash"),
                    bits,
                    sizes.fill_null(_SIZES.max),
                    sizes.fill_null(_SIZES.min),
                    pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows),
                ],
                schema=_REFERENCES,
            )


def _same(number: int, batch: pa.RecordBatch) -> pa.Int32Array:
    return pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)


def _compared(
    comparable: Comparable | None, batch: pa.RecordBatch, is_live: pa.BooleanArray
) -> pa.BooleanArray:
    """Leave out the references whose objects the listing need not have."""
    if comparable is None:
        return is_live
    return pc.and_(is_live, comparable.mask(batch.column("address"), batch.column("address_hash")))


def _columns(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _combined(references: pa.Table) -> pa.Table:
    """Make one row of the references of each hash, sorted by it; columns of `_REFERENCES`."""
    hashes, bits, least, most, counts = (numbers_of(references[name]) for name in _REFERENCES.names)
    order = np.argsort(hashes)
    hashes = hashes[order]
    begins = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))[: hashes.size]
    if not begins.size:
        return _REFERENCES.empty_table()
    return pa.table(
        [
            hashes[begins],
            *(
                how.reduceat(column[order], begins)
                for how, column in (
                    (np.bitwise_or, bits),
                    (np.minimum, least),
                    (np.maximum, most),
                    (np.add, counts),
                )
            ),
        ],
        schema=_REFERENCES,
    )


def _decided(bucket: Mapping[str, pa.Table]) -> Sent[Decided]:
    """Decide about the objects of a bucket, in which all references to their hashes are.

    Args:
        bucket: `listed` with columns of `_LISTED`, `references` with those of `_REFERENCES`.

    Returns:
        The figures, without the objects that may go; and these, in columns of `_CHOSEN`, for the
        task that reads each again.
    """
    listed, references = bucket["listed"], _combined(bucket["references"])
    hashes, bits, least, most, counts = (numbers_of(references[name]) for name in _REFERENCES.names)
    of_object, size, standing = (
        numbers_of(listed[name]) for name in ("address_hash", "size_bytes", "standing")
    )
    at = place_among(of_object, hashes)
    is_met = at < hashes.size
    # A last row says nothing.
    known, least, most = np.append(bits, 0)[at], np.append(least, 0)[at], np.append(most, 0)[at]
    fate = np.where(known & _BY_STAGED, _FATES.index(STAGED), standing)
    fate = np.where(known & _BY_COMMIT, _FATES.index(COMMITTED), fate)
    is_said = is_met & (least <= most)
    is_absent = np.ones(hashes.size, np.bool_)
    is_absent[at[is_met]] = False
    missing = int((bits[is_absent] & _LIVE != 0).sum())
    decided = Decided(
        live=int((known & _LIVE != 0).sum()) + missing,
        missing=missing,
        other_sizes=int((is_said & ((least != size) | (most != size))).sum()),
        references=int(counts.sum()),
    )
    for each, name in enumerate(_FATES):
        if each != _CANDIDATE:
            decided.count(name, size[fate == each])
    may_go = fate == _CANDIDATE
    chosen = listed.append_column("is_expired", pa.array(known & _EXPIRED != 0))
    task = numbers_of(listed["task"])
    return Sent(
        decided,
        {
            int(number): chosen.filter(pa.array(may_go & (task == number)))
            .select(_CHOSEN.names)
            .cast(_CHOSEN)
            for number in np.unique(task[may_go])
        },
    )


def _pick(orders: _Orders, number: int, chosen: pa.Table) -> Decided:
    """Write the objects of a task that may go; runs on an executor."""
    decided = Decided()
    held: list[pa.RecordBatch] = []
    parts = np.unique(numbers_of(chosen["part"]))

    def rows() -> Iterator[pa.RecordBatch]:
        for part in parts:
            some = chosen.filter(pc.equal(chosen["part"], int(part))).sort_by("row")
            yield from _candidates(orders, decided, orders.parts[part], some, held)

    decided.receipts.append(writing.write_parts(orders.target, number, rows()))
    if orders.kept is not None:
        decided.kept.append(writing.write_parts(orders.kept, number, iter(held)))
    return decided


def _candidates(
    orders: _Orders, decided: Decided, part: Part, chosen: pa.Table, held: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the chosen rows of a listing's part, leave out held objects, and count."""
    at, hashes, is_expired = (
        numbers_of(chosen[name]) for name in ("row", "address_hash", "is_expired")
    )
    begin = seen = 0
    for batch in reading.read_part(orders.store, schemas.NAMESPACE_SLICES, part):
        end = int(np.searchsorted(at, begin + batch.num_rows))
        wanted = slice(seen, end)
        taken = batch.take(pa.array(at[wanted] - begin))
        begin, seen = begin + batch.num_rows, end
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
            pa.array(is_expired[wanted]), orders.words.expired, orders.words.otherwise
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
            held.append(found.filter(protected))
            decided.count(HELD, held[-1].column("size_bytes"))
            found = found.filter(pc.invert(protected))
        decided.count(rule.CANDIDATE, found.column("size_bytes"))
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
