"""What lies in the quarantine of a run, and since when: its copies meet the journal of its sweeps.

The journal alone says what a sweep put there. A key that it does not name is somebody else's, and
nobody counts its days; but for copies that were not finished, which end with the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys, schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH, with_address_hash
from spark_core.model import RunKey
from spark_core.records import journal, rows_aside
from spark_core.records.writing import Receipt, Target
from spark_core.run import Run
from spark_core.spark.exchange import Batches, Exchange, Sent, Source
from spark_core.spark.tasks import deal_out
from spark_core.storage import ObjectStore

# A copy in quarantine: the run that moved its object, address, key, size.
COPIES = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
    ]
)
_LISTED = pa.schema([ADDRESS_HASH, *COPIES, pa.field("last_modified", schemas.INSTANT)])
# What a process leaves that is killed while it copies to files: bytes of an object, under no name.
_UNFINISHED = r"(^|/)\.lakegc-[0-9a-f]{16}\.part$"


# What is told of a quarantine, or of a part of it: `objects` that sweeps moved there, their
# `size_bytes`, and `strangers`, keys that the journal does not name; and when the days of the first
# and of the last of the objects began, nothing if there are none.
Counted: TypeAlias = tuple[Counter[str], Sequence[datetime]]


def quarantined(
    run: Run, key: RunKey, target: Target, before: datetime
) -> tuple[Counted, Sequence[Receipt]]:
    """Find what lies in the quarantine of a run, and write down what has for long.

    The days of an object count from its last outcome in the journal. What has none after it was
    intended was moved by a sweep that died: its days count from its copy, or from the last lot that
    the journal tells of, whichever was later. The time of a file alone says nothing: a move keeps
    it. A copy that was not finished counts like one without an outcome.

    Args:
        run: Any run of the repository.
        key: The run whose quarantine it is; no sweep of it is at work.
        target: Where rows go, columns of `COPIES`.
        before: Only rows of objects whose days began by then.

    Raises:
        LakegcError: If the folder cannot be listed, or the journal cannot be read.
    """
    book = journal.begun(run.store, key)
    rows = book.source(book.parts())
    lots = [at for at in rows.each(lambda: run.spark, _last_of) if at is not None]
    last_lot = max(lots, default=run.now())
    places = list(_places(run.store, lakegc_keys.in_quarantine(key)))
    tasks = deal_out(places, run.reading_tasks(len(places)))
    read = partial(_list_all, run.store, str(key))
    sources = {"copies": Source(_LISTED, tasks, rows.rows, read), "journal": rows}
    kernel = partial(_since, last_lot, before)
    exchange = Exchange(sources, kernel, COPIES, partial(rows_aside.put_aside, target))
    found, receipts = exchange.run(lambda: run.spark, threads=run.options.read_threads)
    return (
        sum((counts for counts, _ in found), Counter[str]()),
        sorted(at for _, ends in found for at in ends),
    ), receipts


def _last_of(batches: Batches) -> datetime | None:
    return max((pc.max(batch.column("at")).as_py() for batch in batches), default=None)


def _places(store: ObjectStore, where: str) -> Iterator[tuple[str, bool]]:
    """Name what is listed: slices to their end, and only what lies beside them, not below."""
    for level in (f"{where}data/", where):
        yield level, True
        yield from (
            (below, False) for below in store.children(level)[0] if below != f"{where}data/"
        )


def _list_all(store: ObjectStore, run: str, places: Sequence[tuple[str, bool]]) -> Batches:
    where = lakegc_keys.in_quarantine(run)
    for prefix, is_level in places:
        listed = store.children(prefix)[1].to_batches() if is_level else store.list(prefix)
        for batch in listed:
            keys = batch.column("key")
            columns = [
                pa.repeat(pa.scalar(run), len(keys)),
                pc.utf8_slice_codeunits(keys, len(where)),
                keys,
                *(batch.column(name) for name in ("size_bytes", "last_modified")),
            ]
            named = pa.RecordBatch.from_arrays(columns, _LISTED.names[1:])
            for found in with_address_hash(iter([named])):
                yield found.cast(_LISTED)


def _since(last_lot: datetime, before: datetime, bucket: Mapping[str, pa.Table]) -> Sent[Counted]:
    """Say since when copies lie there, by all that the journal says of their objects."""
    copies, rows = bucket["copies"], bucket["journal"]
    is_intent, never = pc.equal(rows["outcome"], "intended"), pa.scalar(None, rows["at"].type)
    at = {
        "intended": pc.if_else(is_intent, rows["at"], never),
        "told": pc.if_else(is_intent, never, rows["at"]),
    }
    last = pa.table({"address": rows["address"], **at}).group_by("address")
    last = last.aggregate([(name, "max") for name in at]).rename_columns(["address", *at])
    found = copies.join(last, "address", join_type="left outer")
    is_named = pc.or_(pc.is_valid(found["intended"]), pc.is_valid(found["told"]))
    is_part = pc.match_substring_regex(found["address"], _UNFINISHED)
    known = found.filter(pc.or_(is_named, is_part))
    is_told = pc.fill_null(pc.greater_equal(known["told"], known["intended"]), False)
    written, lot = known["last_modified"], pa.scalar(last_lot, rows["at"].type)
    copied = pc.if_else(pc.greater(written, lot), written, lot)
    since = pc.if_else(is_told, known["told"], copied)
    counted = Counter(
        objects=pc.sum(is_named).as_py() or 0,
        size_bytes=pc.sum(known["size_bytes"]).as_py() or 0,
        strangers=copies.num_rows - known.num_rows,
    )
    ends = [pc.min(since).as_py(), pc.max(since).as_py()] if known.num_rows else []
    over = known.filter(pc.less_equal(since, pa.scalar(before, since.type)))
    return Sent((counted, ends), {rows_aside.place_of(copies): over.select(COPIES.names)})
