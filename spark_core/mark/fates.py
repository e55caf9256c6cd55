"""One fate for each listed object, and the two tables that come of it: `fates` and table 5.

Listing and references meet by the hashes of addresses: a kernel lets `fates.deciding` decide about
all objects of a bucket of hashes. What a retained commit reaches is counted there. The listing's
own rows of the others are read again, and each is compared with the hash that chose it. Where a
hash could let an object go, because a policy or a mark of lakeFS's own job names it, the addresses
are compared as well: a collision can only keep an object.

What may go waits aside until branches have answered. Then the same function decides once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import are_among, hashed, place_among
from spark_core.addresses.candidates import Limits
from spark_core.errors import IncompleteReadError
from spark_core.fates import Fate
from spark_core.fates.deciding import CODES, MAY_GO, Known, fate
from spark_core.holds import Holds
from spark_core.mark.compared import (
    BY_COMMIT,
    BY_STAGED,
    DUE,
    EXPIRED,
    HELD,
    LIVE,
    SIZED,
    SIZES_DIFFER,
    UNNAMED,
    columns_of,
    listed_of,
    numbered,
    references_of,
    tasks_of,
)
from spark_core.mark.expired_sums import SUMMED
from spark_core.mark.fate_rows import (
    SENT,
    VALUES,
    WAITING,
    Decided,
    FateTargets,
    rows_of_fates,
    until_of,
)
from spark_core.records import reading, writing
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.references.twins import OBJECTS
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, divided, numbers_of
from spark_core.spark.tasks import run_tasks
from spark_core.storage import ObjectStore

# What is read a second time of the objects that nothing refers to.
_READ_AGAIN = columns_of(
    schemas.NAMESPACE_SLICES,
    *("slice", "address", "size_bytes", "last_modified", "checksum", "storage_class"),
)


@dataclass(frozen=True)
class ReasonWords:
    """Why an object may go: words for the report, never part of the decision.

    Attributes:
        expired: For objects of a commit that is past its retention.
        otherwise: For the other objects.
    """

    expired: str
    otherwise: str


@dataclass(frozen=True)
class Inputs:
    """What decides beside listing and references.

    Attributes:
        held: Holds.
        held_paths: What holds keep by the paths of commits: columns of `held_paths.HELD`.
        due: What the retention policy takes: columns of `NAMED`; None for nothing.
        named: What the mark names that the run must keep to: columns of `NAMED`; None: there is
            none.
        collects_unreachable: Whether what nothing reaches may go; it is left to another run
            otherwise.
    """

    held: Holds
    held_paths: AnySource
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
class _FateOrders:
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
    targets: FateTargets
    held: Holds
    words: ReasonWords
    instant: datetime
    limits: Limits
    is_left: bool


def decide(
    run: Run,
    slices: StoredTable,
    staged: StoredTable,
    committed: StoredTable,
    *,
    inputs: Inputs,
    targets: FateTargets,
    words: ReasonWords,
) -> Decided:
    """Give every listed object its fate, as far as branches need not be asked.

    Each object and each hash that is referenced moves once, 22 to 26 bytes, and so do the row
    numbers of the objects that no retained commit reaches: one Spark job, or none where rows are
    few. Only the rows of the objects that nothing refers to are read a second time.

    Args:
        run: The run.
        slices: Table 1.
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
    references = references_of(run, staged, committed)
    is_left = not inputs.collects_unreachable
    orders = _FateOrders(
        run.store,
        slices.manifest.parts,
        targets,
        inputs.held,
        words,
        run.key.instant,
        run.limits,
        is_left,
    )
    sources: dict[str, AnySource] = {
        "listed": listed_of(run, slices, inputs.held),
        "references": references,
        "held_paths": inputs.held_paths,
    }
    others = {"due": inputs.due, "named": inputs.named}
    sources.update({name: source for name, source in others.items() if source is not None})
    receipts, written = Exchange(
        sources,
        partial(_decided, is_left, tasks_of(slices.manifest.parts)),
        SENT,
        partial(_pick, orders),
    ).run(lambda: run.spark, threads=run.options.read_threads)
    decided = Decided()
    for receipt in [*receipts, *written]:
        decided.merge(receipt)
    waiting = sum(part.rows for part in decided.waiting_parts)
    came = (sum(decided.objects.values()) + waiting, decided.references)
    wanted = (slices.manifest.rows, references.rows + inputs.held_paths.rows)
    if came != wanted:
        raise IncompleteReadError(
            f"repository {run.repository.id}: {came[0]} of {wanted[0]} listed objects and "
            f"{came[1]} of {wanted[1]} references came out of their comparison",
            "Run again; if it stays, report it with this text and Spark's version.",
        )
    return decided


def _known(alone: Any, bits: Any, *, is_left: bool) -> Known:
    return Known(
        alone,
        is_committed=bits & BY_COMMIT != 0,
        is_staged=bits & BY_STAGED != 0,
        is_held=bits & HELD != 0,
        is_due=bits & DUE != 0,
        is_left=is_left,
        is_unnamed=bits & UNNAMED != 0,
    )


def _decided(is_left: bool, tasks: Any, bucket: Mapping[str, pa.Table]) -> Sent[Decided]:  # noqa: FBT001 - of a partial function
    """Decide about the objects of a bucket, in which all references to their hashes are.

    Args:
        is_left: As in `_FateOrders`.
        tasks: For each part of the listing, the number of the task that reads its rows again.
        bucket: `listed` with columns of `LISTED`, `references` with those of `REFERENCES`,
            `held_paths` with those of `held_paths.HELD`, and perhaps `due` and `named` with those
            of `NAMED`.

    Returns:
        The figures of what commits reach; and the others, in columns of `SENT`, for the task that
        reads each again.
    """
    listed = bucket["listed"]
    numbers, references = numbered(bucket["references"])
    bits, said, counts = (
        numbers_of(references[name]) for name in ("bits", "size_bytes", "references")
    )
    of_object, size, alone = (
        numbers_of(listed[name]) for name in ("address_hash", "size_bytes", "alone")
    )
    at = numbers.place(of_object)
    # A last row says nothing.
    bits, said = np.append(bits, np.int16(0)), np.append(said, 0)
    known = bits[at]
    held_by = _held_by(of_object, bucket["held_paths"])
    is_held = numbers_of(listed["is_held"]) | numbers_of(held_by.is_valid())
    is_other = (known & SIZED != 0) & ((known & SIZES_DIFFER != 0) | (said[at] != size))
    known |= np.where(is_held, np.int16(HELD), np.int16(0))
    naming = pa.nulls(len(of_object), pa.string()), pa.nulls(len(of_object), pa.string())
    for name, bit, says in (("due", DUE, True), ("named", UNNAMED, False)):
        if name in bucket:
            is_named, columns = _named_among(of_object, bucket[name])
            known |= np.where(is_named == says, np.int16(bit), np.int16(0))
            naming = tuple(pc.coalesce(*two) for two in zip(naming, columns, strict=True))
    codes = fate(_known(alone, known, is_left=is_left))
    is_absent = np.ones(bits.size, np.bool_)
    is_absent[at] = False
    missing = numbers.hashes[(is_absent & (bits & LIVE != 0))[:-1]]
    decided = Decided(
        live=int((known & LIVE != 0).sum()) + missing.size,
        missing=[missing] if missing.size else [],
        other_sizes=int(is_other.sum()),
        references=int(counts.sum(dtype=np.int64)) + bucket["held_paths"].num_rows,
    )
    is_sent = codes != CODES[Fate.COMMITTED]
    decided.count(codes[~is_sent], size[~is_sent])
    sending = {
        **{name: listed[name] for name in ("address_hash", "part", "row", "size_bytes", "alone")},
        "bits": pa.array(known),
        **dict(zip(("named_as", "why"), naming, strict=True)),
        "held_by": held_by,
    }
    sent = pa.table([sending[name] for name in SENT.names], schema=SENT)
    sent = sent.filter(pa.array(is_sent))
    return Sent(decided, dict(divided(sent, tasks[numbers_of(sent["part"])])))


def _held_by(hashes: Any, held: pa.Table) -> pa.StringArray:
    """Return for each object the hold that keeps it by a path; null if none does."""
    if not held.num_rows:
        return pa.nulls(len(hashes), pa.string())
    first = held.group_by("address_hash").aggregate([("held_by", "min")]).sort_by("address_hash")
    at = place_among(hashes, numbers_of(first["address_hash"]))
    words = first["held_by_min"].combine_chunks()
    return words.take(pa.array(at, mask=at == len(words)))


def _named_among(hashes: Any, names: pa.Table) -> tuple[Any, tuple[pa.Array, pa.Array]]:
    """Say of each object whether its hash is named, by which address, and why."""
    ordered = names.combine_chunks().sort_by("address_hash")
    at = place_among(hashes, numbers_of(ordered["address_hash"]))
    is_named = at < ordered.num_rows
    where = pa.array(at, mask=~is_named)
    return is_named, tuple(
        ordered[name].combine_chunks().take(where) for name in ("named_as", "why")
    )


def _pick(orders: _FateOrders, number: int, sent: pa.Table) -> Decided:
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
    orders: _FateOrders, decided: Decided, part: Part, sent: pa.Table, waiting: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the fates of the objects of a listing's part, and put aside what may go."""
    codes = fate(
        _known(*(numbers_of(sent[name]) for name in ("alone", "bits")), is_left=orders.is_left)
    )
    is_staged = codes == CODES[Fate.STAGED]
    if is_staged.any():
        sizes = numbers_of(sent["size_bytes"])[is_staged]
        decided.count(codes[is_staged], sizes)
        yield rows_of_fates(numbers_of(sent["address_hash"])[is_staged], codes[is_staged], sizes)
        sent = sent.filter(pa.array(~is_staged))
    sent = sent.combine_chunks()
    at, hashes = (numbers_of(sent[name]) for name in ("row", "address_hash"))
    begin = seen = 0
    for batch in reading.read_part(orders.store, _READ_AGAIN, part):
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
    orders: _FateOrders,
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
    said_nothing = np.where(bits & DUE != 0, bits & ~DUE, bits | UNNAMED)
    bits = np.where(is_another, said_nothing, bits)
    alone, sizes = numbers_of(sent["alone"]), numbers_of(sent["size_bytes"])
    codes = fate(_known(alone, bits, is_left=orders.is_left))
    may_go = np.isin(codes, MAY_GO)
    reasons = pc.if_else(
        pa.array(bits & EXPIRED != 0), orders.words.expired, orders.words.otherwise
    )
    reasons = pc.if_else(
        pa.array(codes == CODES[Fate.TAKEN_BY_POLICY]), sent["why"].combine_chunks(), reasons
    )
    held_by = pc.coalesce(orders.held.reasons(addresses), sent["held_by"].combine_chunks())
    going = pa.record_batch(
        [
            addresses,
            listed.column("size_bytes"),
            listed.column("last_modified"),
            listed.column("slice"),
            reasons.fill_null(orders.words.otherwise),
            sent["address_hash"].combine_chunks(),
            listed.column("checksum"),
            pa.array(alone),
            pa.array(bits.astype(np.int16)),
            listed.column("storage_class"),
        ],
        schema=WAITING,
    )
    waiting.append(going.filter(pa.array(may_go)))
    decided.count(codes[~may_go], sizes[~may_go])
    return rows_of_fates(
        numbers_of(sent["address_hash"]),
        codes,
        sizes,
        why=held_by,
        until=until_of(codes, listed, orders.limits, orders.instant),
        addresses=addresses,
    ).filter(pa.array(~may_go))


def fates_of_waiting(waiting: pa.RecordBatch, *, is_left: bool) -> Any:
    """Decide about objects that wait, as far as branches need not be asked; numbers of fates.

    Args:
        waiting: Columns of `WAITING`.
        is_left: Whether what nothing reaches is left to another run.
    """
    alone, bits = (waiting.column(name).to_numpy() for name in ("alone", "bits"))
    return fate(_known(alone, bits, is_left=is_left))


def source_of_waiting(run: Run, decided: Decided) -> AnySource:
    """Return the objects that wait for the answers of branches: columns of `twins.OBJECTS`.

    What a policy takes can be linked from where it is seen at any time, however old it is.
    """
    wanted = columns_of(WAITING, *OBJECTS.names, "bits")
    waiting = reading.source_of_parts(run.store, wanted, decided.waiting_parts)
    return waiting.through(OBJECTS, partial(_as_objects, run.now()))


def _as_objects(now: datetime, batches: Batches) -> Batches:
    for batch in batches:
        is_due = pa.array(batch.column("bits").to_numpy() & DUE != 0)
        modified = pc.if_else(
            is_due, pa.scalar(now, schemas.INSTANT), batch.column("last_modified")
        )
        yield pa.record_batch(
            [batch.column("address"), batch.column("size_bytes"), modified], schema=OBJECTS
        )


def conclude(run: Run, decided: Decided, answers: Answers, targets: FateTargets) -> Decided:
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
    before, rows = sum(decided.objects.values()), sum(part.rows for part in parts)
    concluded = replace(decided, waiting=[])
    for receipt in run_tasks(lambda: run.spark, reading.together(parts), work, rows=rows):
        concluded.merge(receipt)
    came = sum(concluded.objects.values())
    if came != before + rows:
        raise IncompleteReadError(
            f"repository {run.repository.id}: {came} of {before + rows} objects have a fate after "
            "branches answered",
            "Run again; if it stays, report it with this text and Spark's version.",
        )
    run.store.delete([part.key for part in parts if not part.content])
    return concluded


@dataclass(frozen=True)
class _Asked:
    """What tasks are told once branches have answered; as in `_FateOrders` and for `conclude`."""

    store: ObjectStore
    targets: FateTargets
    answers: Answers
    instant: datetime
    limits: Limits


def _conclude(asked: _Asked, number: int, parts: Sequence[Part]) -> Decided:
    """Decide about the objects of some files; runs on an executor."""
    decided, fates = Decided(), list[pa.RecordBatch]()

    def going() -> Iterator[pa.RecordBatch]:
        for part in parts:
            for batch in reading.read_part(asked.store, WAITING, part):
                found, expired, taken = _answered(asked.answers, batch)
                fates.append(found)
                decided.sums.add(expired, asked.instant, asked.limits)
                if taken.num_rows:
                    decided.taken.add(taken, asked.instant, asked.limits)
                yield expired.select(schemas.EXPIRED_ADDRESSES.names)

    decided.expired.append(writing.write_parts(asked.targets.expired, number, going()))
    for rows in fates:
        codes = pc.index_in(rows.column("fate"), VALUES).to_numpy()
        decided.count(codes, rows.column("size_bytes").to_numpy())
    decided.fates.append(writing.write_parts(asked.targets.fates, number, iter(fates)))
    return decided


def _answered(
    answers: Answers, waiting: pa.RecordBatch
) -> tuple[pa.RecordBatch, pa.RecordBatch, pa.RecordBatch]:
    """Decide with the answers of branches.

    Returns:
        The fates; what may go; and what of it a policy takes: columns of `SUMMED`.
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
    may_go, is_taken = np.isin(codes, MAY_GO), codes == CODES[Fate.TAKEN_BY_POLICY]
    why = pc.if_else(pa.array(may_go), waiting.column("reason"), None)
    paths = answers.paths.take(pa.array(at, mask=codes != CODES[Fate.READ_BY_BRANCH]))
    shown = pc.binary_join_element_wise(Fate.READ_BY_BRANCH.sentence, paths, ": ")
    fates = rows_of_fates(
        hashes,
        codes,
        sizes,
        why=pc.coalesce(why, shown),
        addresses=waiting.column("address"),
    )
    rows = waiting.select(SUMMED.names)
    return fates, rows.filter(pa.array(may_go)), rows.filter(pa.array(is_taken))
