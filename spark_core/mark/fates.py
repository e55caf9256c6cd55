"""One fate for each listed object, and the two tables that come of it: `fates` and table 5.

Listing and references meet by the hashes of addresses: a kernel lets `fates.deciding` decide about
all objects of a bucket of hashes. What a retained commit reaches is counted there. The listing's
own rows of the others are read again, and each is compared with the hash that chose it. Where a
hash could let an object go, because a policy or a mark of lakeFS's own job names it, the addresses
are compared as well: a collision can only keep an object.

What may go waits aside until branches have answered. Then the same function decides once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
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
from spark_core.fates import Fate
from spark_core.fates.deciding import CODES, FATES, OF_STANDING, Known, fate
from spark_core.holds import Holds
from spark_core.mark.expired_sums import Sums
from spark_core.optimized.listing import Comparable, Listing
from spark_core.records import reading, writing
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Receipt, Target
from spark_core.references.suspects import OBJECTS
from spark_core.run import Run
from spark_core.spark import exchange
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, Source, numbers_of
from spark_core.spark.tasks import run_tasks
from spark_core.storage import ObjectStore

# Bits for what references say of a hash: a commit or a staged entry refers to it, a branch or a
# staged entry reads from it below `data/`, an expired commit has it.
_BY_COMMIT, _BY_STAGED, _LIVE, _EXPIRED = 1, 2, 4, 8
# Bits for what else is known of an object.
_HELD, _DUE, _UNNAMED = 16, 32, 64

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
# `alone` is the number of the fate by name and age alone.
_ALONE = pa.field("alone", pa.int8(), nullable=False)
_LISTED = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        *_PLACE,
        pa.field("size_bytes", pa.int64(), nullable=False),
        _ALONE,
        pa.field("is_held", pa.bool_(), nullable=False),
    ]
)
_BITS = pa.field("bits", pa.int16(), nullable=False)
# Who names an object, by which address, and why it may go by that; both are null if nobody does.
_NAMING = (pa.field("named_as", pa.string()), pa.field("why", pa.string()))
NAMED = pa.schema([pa.field("address_hash", pa.int64(), nullable=False), *_NAMING])
"""Columns of what names objects by their addresses: a policy, or a mark of lakeFS's own job."""

# An object that no retained commit reaches, or that a policy names.
_SENT = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        *_PLACE[1:],
        pa.field("size_bytes", pa.int64(), nullable=False),
        _ALONE,
        _BITS,
        *_NAMING,
    ]
)
# An object that may go unless a branch reads it.
_WAITING = pa.schema(
    [
        *schemas.EXPIRED_ADDRESSES,
        pa.field("address_hash", pa.int64(), nullable=False),
        _ALONE,
        _BITS,
    ]
)

# Numbers of the fates that let an object go, and those of a candidate that something else keeps:
# their addresses are noted.
_MAY_GO = [CODES[fate] for fate in Fate if fate.may_go]
_NAMED = [*_MAY_GO, *(CODES[fate] for fate in (Fate.HELD, Fate.READ_BY_BRANCH, Fate.MAY_HIDE))]
_SENTENCES = pa.array([fate.sentence for fate in FATES])
_VALUES = pa.array([fate.value for fate in FATES])

# Stands for no moment.
_NEVER = np.iinfo(np.int64).min

# Rows that are worth a task of their own.
_ROWS_OF_A_TASK = 250_000
# What waits for answers is held by a driver that does the work itself, up to so much a file.
_HELD_BYTES = 2**27

# Hashes of listed objects, and of ranges that were read, that the driver of an optimized run holds.
_MOST_HELD = 1_000_000
# References that it passes for each row that it may hold.
_PASSING_ROWS = 2_000


@dataclass
class Decided:
    """The decision about all objects, in figures.

    Attributes:
        expired: Parts of table 5.
        fates: Parts of the table `fates`.
        waiting: Parts of the objects that may go unless a branch reads them; none at the end.
        sums: Figures of the objects that may go.
        taken: The same for those that a policy takes.
        objects: Number of objects, by fate.
        size_bytes: Their bytes, by fate.
        live: Objects that branches and staged entries read from, listed or not.
        missing: Hashes of those live objects that are not listed: 8 bytes for each.
        other_sizes: Listed objects for which an entry gives another size.
        references: Rows that were compared with the listing.
    """

    expired: list[Receipt] = field(default_factory=list)
    fates: list[Receipt] = field(default_factory=list)
    waiting: list[Receipt] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    taken: Sums = field(default_factory=Sums)
    objects: Counter[Fate] = field(default_factory=Counter)
    size_bytes: Counter[Fate] = field(default_factory=Counter)
    live: int = 0
    missing: list[Any] = field(default_factory=list)
    other_sizes: int = 0
    references: int = 0

    def count(self, codes: Any, sizes: Any) -> None:
        """Count objects.

        Args:
            codes: Numbers of their fates.
            sizes: Their bytes.
        """
        objects = np.bincount(codes, minlength=len(FATES))
        for code in np.flatnonzero(objects):
            self.objects[FATES[code]] += int(objects[code])
            self.size_bytes[FATES[code]] += int(sizes[codes == code].sum(dtype=np.int64))

    def merge(self, other: Decided) -> None:
        """Add what another task decided."""
        self.expired += other.expired
        self.fates += other.fates
        self.waiting += other.waiting
        self.sums.merge(other.sums)
        self.taken.merge(other.taken)
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)
        self.live += other.live
        self.missing += other.missing
        self.other_sizes += other.other_sizes
        self.references += other.references

    @property
    def waiting_parts(self) -> tuple[Part, ...]:
        """The files of what waits for the answers of branches."""
        return writing.parts_of(self.waiting)


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
class Targets:
    """Where the rows of an attempt are written.

    Attributes:
        expired: Table 5.
        fates: The table `fates`.
    """

    expired: Target
    fates: Target

    @property
    def waiting(self) -> Target:
        """Where objects wait until branches have answered."""
        return replace(self.expired, name="_waiting", schema=_WAITING, holds=_HELD_BYTES)


@dataclass(frozen=True)
class Inputs:
    """What decides beside listing and references.

    Attributes:
        held: Holds.
        due: What the retention policy takes: columns of `NAMED`; None for nothing.
        named: What the mark names that the run must keep to: columns of `NAMED`; None: there is
            none.
        collects_unreachable: Whether what nothing reaches may go; it is left to another run
            otherwise.
    """

    held: Holds
    due: AnySource | None = None
    named: AnySource | None = None
    collects_unreachable: bool = True


@dataclass(frozen=True)
class Answers:
    """What branches said of the objects that wait.

    Attributes:
        read: Hashes of those that a branch answers from, sorted.
        paths: A path for each of `read`.
        unanswered: Hashes of those that may hide where nobody could be asked, sorted.
    """

    read: Any
    paths: pa.StringArray
    unanswered: Any


@dataclass(frozen=True)
class _Orders:
    """The driver's orders for every task.

    Attributes:
        store: Rooted at the namespace.
        parts: Parts of the listing.
        targets: Where the rows are written.
        held: Holds.
        words: Why an object may go.
        instant: The run's instant.
        limits: The limits that name and age are compared with once more.
        is_left: Whether what nothing reaches is left to another run.
    """

    store: ObjectStore
    parts: Sequence[Part]
    targets: Targets
    held: Holds
    words: Words
    instant: datetime
    limits: Limits
    is_left: bool


def decide(
    run: Run,
    listing: Listing,
    staged: StoredTable,
    committed: StoredTable,
    *,
    inputs: Inputs,
    targets: Targets,
    words: Words,
) -> Decided:
    """Give every listed object its fate, as far as branches need not be asked.

    Each object and each hash that is referenced moves once, 24 to 36 bytes, and so do the row
    numbers of the objects that no retained commit reaches: one Spark job, or none where rows are
    few. An optimized run first leaves out the references that meet no listed object. Only the rows
    of the objects that nothing refers to are read a second time.

    Args:
        run: The run.
        listing: The listed objects.
        staged: Table 2.
        committed: Table 4.
        inputs: What decides beside them.
        targets: Where the rows go. What may go waits; `conclude` writes it.
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
    is_left = not inputs.collects_unreachable
    orders = _Orders(
        run.store,
        listing.parts,
        targets,
        inputs.held,
        words,
        run.key.instant,
        run.limits,
        is_left,
    )
    sources: dict[str, AnySource] = {
        "listed": Source(
            _LISTED,
            list(enumerate(listed)),
            listing.rows,
            partial(_read_listed, run.store, inputs.held),
        ),
        "references": known,
    }
    others = {"due": inputs.due, "named": inputs.named}
    sources.update({name: source for name, source in others.items() if source is not None})
    receipts, written = Exchange(
        sources, partial(_decided, is_left), _SENT, partial(_pick, orders)
    ).run(lambda: run.spark, threads=run.options.read_threads)
    decided = Decided(references=left_out)
    for receipt in [*receipts, *written]:
        decided.merge(receipt)
    waiting = sum(part.rows for part in decided.waiting_parts)
    came = (sum(decided.objects.values()) + waiting, decided.references)
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
    store: ObjectStore, held: Holds, task: tuple[int, Sequence[tuple[int, Part]]]
) -> Iterator[pa.RecordBatch]:
    """Read listed objects: columns of `_LISTED`."""
    standings, alone = pa.array(rule.STANDINGS), pa.array(OF_STANDING)
    address = ("address",) if held.of_addresses else ()
    wanted = _columns(schemas.NAMESPACE_SLICES, *address, "address_hash", "size_bytes", "standing")
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
                    alone.take(pc.index_in(batch.column("standing"), standings)),
                    held.protecting(batch.column("address"))
                    if address
                    else pa.repeat(False, batch.num_rows),
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


def _known(alone: Any, bits: Any, *, is_left: bool) -> Known:
    return Known(
        alone,
        is_committed=bits & _BY_COMMIT != 0,
        is_staged=bits & _BY_STAGED != 0,
        is_held=bits & _HELD != 0,
        is_due=bits & _DUE != 0,
        is_left=is_left,
        is_unnamed=bits & _UNNAMED != 0,
    )


def _decided(is_left: bool, bucket: Mapping[str, pa.Table]) -> Sent[Decided]:  # noqa: FBT001 - of a partial function
    """Decide about the objects of a bucket, in which all references to their hashes are.

    Args:
        is_left: As in `_Orders`.
        bucket: `listed` with columns of `_LISTED`, `references` with those of `_REFERENCES`, and
            perhaps `due` and `named` with those of `NAMED`.

    Returns:
        The figures of what commits reach; and the others, in columns of `_SENT`, for the task that
        reads each again.
    """
    listed, references = bucket["listed"], _combined(bucket["references"])
    hashes, bits, least, most, counts = (numbers_of(references[name]) for name in _REFERENCES.names)
    of_object, size, alone = (
        numbers_of(listed[name]) for name in ("address_hash", "size_bytes", "alone")
    )
    at = place_among(of_object, hashes)
    is_met = at < hashes.size
    # A last row says nothing.
    least, most = np.append(least, 0)[at], np.append(most, 0)[at]
    known = np.append(bits, 0)[at] | np.where(numbers_of(listed["is_held"]), _HELD, 0)
    naming = pa.nulls(len(of_object), pa.string()), pa.nulls(len(of_object), pa.string())
    for name, bit, says in (("due", _DUE, True), ("named", _UNNAMED, False)):
        if name in bucket:
            is_named, columns = _named_among(of_object, bucket[name])
            known |= np.where(is_named == says, bit, 0)
            naming = tuple(pc.coalesce(*two) for two in zip(naming, columns, strict=True))
    codes = fate(_known(alone, known, is_left=is_left))
    is_said = is_met & (least <= most)
    is_absent = np.ones(hashes.size, np.bool_)
    is_absent[at[is_met]] = False
    missing = hashes[is_absent & (bits & _LIVE != 0)]
    decided = Decided(
        live=int((known & _LIVE != 0).sum()) + missing.size,
        missing=[missing] if missing.size else [],
        other_sizes=int((is_said & ((least != size) | (most != size))).sum()),
        references=int(counts.sum()),
    )
    is_sent = codes != CODES[Fate.COMMITTED]
    decided.count(codes[~is_sent], size[~is_sent])
    task = numbers_of(listed["task"])
    sending = {
        **{name: listed[name] for name in ("address_hash", "part", "row", "size_bytes", "alone")},
        "bits": pa.array(known.astype(np.int16)),
        **dict(zip(("named_as", "why"), naming, strict=True)),
    }
    sent = pa.table([sending[name] for name in _SENT.names], schema=_SENT)
    return Sent(
        decided,
        {
            int(number): sent.filter(pa.array(is_sent & (task == number)))
            for number in np.unique(task[is_sent])
        },
    )


def _named_among(hashes: Any, names: pa.Table) -> tuple[Any, tuple[pa.Array, pa.Array]]:
    """Say of each object whether its hash is named, by which address, and why."""
    ordered = names.combine_chunks().sort_by("address_hash")
    at = place_among(hashes, numbers_of(ordered["address_hash"]))
    is_named = at < ordered.num_rows
    where = pa.array(at, mask=~is_named)
    return is_named, tuple(
        ordered[name].combine_chunks().take(where) for name in ("named_as", "why")
    )


def _pick(orders: _Orders, number: int, sent: pa.Table) -> Decided:
    """Write the objects of a task that no retained commit reaches; runs on an executor."""
    decided, waiting = Decided(), list[pa.RecordBatch]()
    parts = np.unique(numbers_of(sent["part"]))

    def rows() -> Iterator[pa.RecordBatch]:
        for part in parts:
            some = sent.filter(pc.equal(sent["part"], int(part))).sort_by("row")
            yield from _read_again(orders, decided, orders.parts[part], some, waiting)

    decided.fates.append(writing.write_parts(orders.targets.fates, number, rows()))
    decided.waiting.append(writing.write_parts(orders.targets.waiting, number, iter(waiting)))
    return decided


def _read_again(
    orders: _Orders, decided: Decided, part: Part, sent: pa.Table, waiting: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the fates of the objects of a listing's part, and put aside what may go."""
    codes = fate(
        _known(*(numbers_of(sent[name]) for name in ("alone", "bits")), is_left=orders.is_left)
    )
    is_staged = codes == CODES[Fate.STAGED]
    if is_staged.any():
        sizes = numbers_of(sent["size_bytes"])[is_staged]
        decided.count(codes[is_staged], sizes)
        yield _fates(numbers_of(sent["address_hash"])[is_staged], codes[is_staged], sizes)
        sent = sent.filter(pa.array(~is_staged))
    sent = sent.combine_chunks()
    at, hashes = (numbers_of(sent[name]) for name in ("row", "address_hash"))
    begin = seen = 0
    for batch in reading.read_part(orders.store, schemas.NAMESPACE_SLICES, part):
        end = int(np.searchsorted(at, begin + batch.num_rows))
        wanted = slice(seen, end)
        taken = batch.take(pa.array(at[wanted] - begin))
        known = sent.slice(seen, end - seen)
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
        yield _divided(orders, decided, taken, known, waiting)


def _divided(
    orders: _Orders,
    decided: Decided,
    listed: pa.RecordBatch,
    sent: pa.Table,
    waiting: list[pa.RecordBatch],
) -> pa.RecordBatch:
    """Put aside the objects that may go; return the fates of the others."""
    addresses, bits = listed.column("address"), numbers_of(sent["bits"])
    named_as = sent["named_as"].combine_chunks()
    is_another = pc.not_equal(addresses, named_as).fill_null(False).to_numpy(zero_copy_only=False)
    # Two addresses of one hash: what is said of the one says nothing of the other.
    said_nothing = np.where(bits & _DUE != 0, bits & ~_DUE, bits | _UNNAMED)
    bits = np.where(is_another, said_nothing, bits)
    alone, sizes = numbers_of(sent["alone"]), numbers_of(sent["size_bytes"])
    codes = fate(_known(alone, bits, is_left=orders.is_left))
    may_go = np.isin(codes, _MAY_GO)
    reasons = pc.if_else(
        pa.array(bits & _EXPIRED != 0), orders.words.expired, orders.words.otherwise
    )
    reasons = pc.if_else(
        pa.array(codes == CODES[Fate.TAKEN_BY_POLICY]), sent["why"].combine_chunks(), reasons
    )
    going = pa.record_batch(
        [
            addresses,
            listed.column("size_bytes"),
            listed.column("last_modified"),
            listed.column("slice"),
            reasons.fill_null(orders.words.otherwise),
            sent["address_hash"].combine_chunks(),
            pa.array(alone),
            pa.array(bits.astype(np.int16)),
        ],
        schema=_WAITING,
    )
    waiting.append(going.filter(pa.array(may_go)))
    decided.count(codes[~may_go], sizes[~may_go])
    return _fates(
        numbers_of(sent["address_hash"]),
        codes,
        sizes,
        why=orders.held.reasons(addresses) if orders.held.of_addresses else None,
        until=_until(codes, listed, orders),
        addresses=addresses,
    ).filter(pa.array(~may_go))


def _until(codes: Any, listed: pa.RecordBatch, orders: _Orders) -> pa.Array:
    """Return when time alone could change the fates of some objects; null where it cannot."""
    latest = rule.latest_times(
        listed.column("address").cast(pa.string()), listed.column("last_modified")
    ).to_numpy(zero_copy_only=False)
    limits, instant = orders.limits, orders.instant
    moments = np.full(len(codes), _NEVER, np.int64)
    for which, cutoff in ((Fate.YOUNG, limits.cutoff), (Fate.UPLOADING, limits.uploads_cutoff)):
        waits = (instant - cutoff) // timedelta(microseconds=1)
        moments = np.where(codes == CODES[which], latest + waits, moments)
    return pa.array(moments, pa.int64(), mask=moments == _NEVER).cast(schemas.INSTANT)


def _fates(
    hashes: Any,
    codes: Any,
    sizes: Any,
    *,
    why: pa.Array | None = None,
    until: pa.Array | None = None,
    addresses: pa.Array | None = None,
) -> pa.RecordBatch:
    """Make rows of the table `fates`.

    Args:
        hashes: Hashes of addresses.
        codes: Numbers of the fates.
        sizes: Bytes.
        why: Reasons; null, or None, stands for what the fate says by itself.
        until: Instants; None for none.
        addresses: The addresses, of which those are noted that may be wanted; None for none.
    """
    numbers, count = pa.array(codes), len(codes)
    sentences = _SENTENCES.take(numbers)
    if addresses is not None:
        addresses = pc.if_else(pa.array(np.isin(codes, _NAMED)), addresses, None)
    columns = [
        pa.array(hashes),
        _VALUES.take(numbers),
        sentences if why is None else pc.coalesce(why, sentences),
        pa.nulls(count, schemas.INSTANT) if until is None else until,
        pa.array(sizes),
        pa.nulls(count, pa.string()) if addresses is None else addresses,
    ]
    return pa.record_batch(columns, schema=schemas.FATES)


def source_of_waiting(run: Run, decided: Decided) -> AnySource:
    """Return the objects that wait for the answers of branches: columns of `suspects.OBJECTS`.

    What a policy takes can be linked from where it is seen at any time, however old it is.
    """
    wanted = _columns(_WAITING, *OBJECTS.names, "bits")
    waiting = reading.source_of_parts(run.store, wanted, decided.waiting_parts)
    return waiting.through(OBJECTS, partial(_as_objects, run.now()))


def _as_objects(now: datetime, batches: Batches) -> Batches:
    for batch in batches:
        is_due = pa.array(batch.column("bits").to_numpy() & _DUE != 0)
        modified = pc.if_else(
            is_due, pa.scalar(now, schemas.INSTANT), batch.column("last_modified")
        )
        yield pa.record_batch(
            [batch.column("address"), batch.column("size_bytes"), modified], schema=OBJECTS
        )


def conclude(run: Run, decided: Decided, answers: Answers, targets: Targets) -> Decided:
    """Decide about the objects that waited for the answers of branches, and write table 5.

    It costs one pass over these objects.

    Args:
        run: The run.
        decided: The decision before.
        answers: What branches said.
        targets: As for `decide`.

    Returns:
        The whole decision; nothing waits any more.
    """
    parts = decided.waiting_parts
    work = partial(_conclude, _Asked(run.store, targets, answers, run.key.instant, run.limits))
    concluded = replace(decided, waiting=[])
    is_small = sum(part.rows for part in parts) <= exchange.MOST_ROWS_OF_THE_DRIVER
    for receipt in run_tasks(lambda: run.spark, reading.together(parts), work, is_small=is_small):
        concluded.merge(receipt)
    run.store.delete([part.key for part in parts if not part.content])
    return concluded


@dataclass(frozen=True)
class _Asked:
    """What tasks are told once branches have answered; as in `_Orders` and for `conclude`."""

    store: ObjectStore
    targets: Targets
    answers: Answers
    instant: datetime
    limits: Limits


def _conclude(asked: _Asked, number: int, parts: Sequence[Part]) -> Decided:
    """Decide about the objects of some files; runs on an executor."""
    decided, rows_of_fates = Decided(), list[pa.RecordBatch]()

    def going() -> Iterator[pa.RecordBatch]:
        for part in parts:
            for batch in reading.read_part(asked.store, _WAITING, part):
                fates, expired, taken = _answered(asked.answers, batch)
                rows_of_fates.append(fates)
                decided.sums.add(expired, asked.instant, asked.limits)
                if taken.num_rows:
                    decided.taken.add(taken, asked.instant, asked.limits)
                yield expired

    decided.expired.append(writing.write_parts(asked.targets.expired, number, going()))
    for rows in rows_of_fates:
        codes = pc.index_in(rows.column("fate"), _VALUES).to_numpy()
        decided.count(codes, rows.column("size_bytes").to_numpy())
    decided.fates.append(writing.write_parts(asked.targets.fates, number, iter(rows_of_fates)))
    return decided


def _answered(
    answers: Answers, waiting: pa.RecordBatch
) -> tuple[pa.RecordBatch, pa.RecordBatch, pa.RecordBatch]:
    """Decide with the answers of branches.

    Returns:
        The fates; what may go; and what of it a policy takes.
    """
    hashes, alone, bits, sizes = (
        waiting.column(name).to_numpy() for name in ("address_hash", "alone", "bits", "size_bytes")
    )
    at = place_among(hashes, answers.read)
    is_read = at < len(answers.read)
    known = replace(
        _known(alone, bits, is_left=False),
        is_read=is_read,
        may_hide=are_among(hashes, answers.unanswered),
    )
    codes = fate(known)
    may_go, is_taken = np.isin(codes, _MAY_GO), codes == CODES[Fate.TAKEN_BY_POLICY]
    why = pc.if_else(pa.array(may_go), waiting.column("reason"), None)
    paths = answers.paths.take(pa.array(at, mask=codes != CODES[Fate.READ_BY_BRANCH]))
    shown = pc.binary_join_element_wise(Fate.READ_BY_BRANCH.sentence, paths, ": ")
    fates = _fates(
        hashes,
        codes,
        sizes,
        why=pc.coalesce(why, shown),
        addresses=waiting.column("address"),
    )
    rows = waiting.select(schemas.EXPIRED_ADDRESSES.names)
    return fates, rows.filter(pa.array(may_go)), rows.filter(pa.array(is_taken))
