"""Fates by addresses: the rows of objects that no retained commit reaches are read again.

Each is compared with the hash that chose it. Where a hash could let an object go, because a policy
or a mark of lakeFS's own job names it, the addresses are compared as well: a collision can only
keep an object. What may go is put aside until branches have answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.addresses.candidates import Limits
from spark_core.errors import IncompleteReadError
from spark_core.fates import Fate, WhyMayGo
from spark_core.fates.deciding import CODES, MAY_GO, fate
from spark_core.holds import Holds
from spark_core.mark.compared import BY_EXPIRED_COMMIT, DUE, UNNAMED, columns_of, known_by
from spark_core.mark.fate_rows import WAITING, Decided, FateTargets, rows_of_fates, until_of
from spark_core.records import reading, writing
from spark_core.records.figures import WALK, CommitsFigures, CommittedFigures
from spark_core.records.manifest import Part
from spark_core.run.chain import Mark
from spark_core.spark.exchange import numbers_of
from spark_core.storage import ObjectStore

# What is read a second time of the objects that nothing refers to.
_READ_AGAIN = columns_of(
    schemas.NAMESPACE_SLICES,
    *("slice", "address", "size_bytes", "last_modified", "checksum", "storage_class"),
)


@dataclass(frozen=True)
class FateOrders:
    """The driver's orders for every task.

    Attributes:
        store: Rooted at the namespace.
        parts: Parts of the listing.
        targets: Where the rows are written.
        held: Holds.
        otherwise: Why an object may go that no expired commit is known to have had; words for the
            report, never part of the decision.
        instant: The run's instant.
        limits: The limits that name and age are compared with once more.
        is_left: Whether what nothing reaches is left to another run.
    """

    store: ObjectStore
    parts: Sequence[Part]
    targets: FateTargets
    held: Holds
    otherwise: WhyMayGo
    instant: datetime
    limits: Limits
    is_left: bool


def write_objects(orders: FateOrders, number: int, sent: pa.Table) -> Decided:
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
    orders: FateOrders, decided: Decided, part: Part, sent: pa.Table, waiting: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the fates of the objects of a listing's part, and put aside what may go."""
    codes = fate(
        known_by(*(numbers_of(sent[name]) for name in ("alone", "bits")), is_left=orders.is_left)
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
    orders: FateOrders,
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
    codes = fate(known_by(alone, bits, is_left=orders.is_left))
    may_go = np.isin(codes, MAY_GO)
    held_by = pc.coalesce(orders.held.reasons(addresses), sent["held_by"].combine_chunks())
    going = pa.record_batch(
        [
            addresses,
            listed.column("size_bytes"),
            listed.column("last_modified"),
            listed.column("slice"),
            _reasons(orders.otherwise, codes, bits, sent["why"].combine_chunks()),
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


def _reasons(otherwise: WhyMayGo, codes: Any, bits: Any, why: pa.StringArray) -> pa.StringArray:
    """Say why each object may go.

    Args:
        otherwise: The reason of those that no expired commit is known to have had.
        codes: Numbers of their fates.
        bits: Bits for what is known of them.
        why: What a policy says of those that it takes.
    """
    by_expired_commit = pa.array(bits & BY_EXPIRED_COMMIT != 0)
    reasons = pc.if_else(by_expired_commit, WhyMayGo.ONLY_EXPIRED_COMMITS.value, otherwise.value)
    reasons = pc.if_else(pa.array(codes == CODES[Fate.TAKEN_BY_POLICY]), why, reasons)
    return reasons.fill_null(otherwise.value)


def reason_without_commit(mark: Mark) -> WhyMayGo:
    """Return why an object may go that no expired commit is known to have had.

    Two cases leave unknown what commits had. Where commits were walked, those that nothing leads to
    were not seen. A table of an expired commit may have been unreadable. In both cases the words
    cannot say of any object that no commit had it. (Where an earlier dump was read, a commit alone
    is unseen that was made since, was dated back past the rules, and that nothing leads to.)
    """
    all_read = CommittedFigures.of(mark.committed.manifest).expired_ranges_all
    all_seen = all_read and CommitsFigures.of(mark.commits.manifest).refs_read_by != WALK
    return WhyMayGo.NEVER_COMMITTED if all_seen else WhyMayGo.UNREACHABLE
