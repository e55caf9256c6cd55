"""What a clean mark names although an earlier sweep reported it deleted.

Such an object is still there: the store answers "deleted" and keeps it, or somebody brought it back
past lakegc. It decides nothing. The figure says so to people, and keeps totals from counting an
object twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys, schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH, hashed, with_address_hash
from spark_core.errors import ChainError, CorruptTableError, NotFoundError
from spark_core.model import RunKey
from spark_core.records import reading, tables
from spark_core.records.figures import AmountFigures, ExpiredFigures, ListedFigures
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark.exchange import (
    AnySource,
    Batches,
    Exchange,
    JoinedSource,
    Sent,
    Source,
    no_work,
)
from spark_core.storage import ObjectStore

_OUTCOME = ("address", "outcome")
# The outcomes that count: those of sweeps, and those of restores.
_COUNTING = pa.array(["deleted", "restored"])
_OUTCOMES = pa.schema(
    [
        ADDRESS_HASH,
        pa.field("address", pa.string(), nullable=False),
        pa.field("sweep", pa.int32(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
    ]
)
_EXPIRED = pa.schema([schemas.EXPIRED_ADDRESSES.field(name) for name in ("address", "size_bytes")])


def deleted_before(run: Run, expired: Sequence[Part]) -> AmountFigures | None:
    """Count what a mark names and a sweep since the last clean one, that one included, deleted.

    What a restore brought back is not counted. Each clean mark compares, so an object that stays is
    found by the first one after each sweep. It costs three small reads for each of those sweeps,
    and one pass over their reports.

    Args:
        run: A clean run.
        expired: Files of its table 5.

    Returns:
        The figures; None for no such object, and where a report cannot be read any more.
    """
    if not any(part.rows for part in expired):
        return None
    try:
        objects, size_bytes = _named_again(run, expired)
    except (ChainError, CorruptTableError, NotFoundError):
        return None  # decides nothing, and whoever needs that report says so
    return AmountFigures(objects=objects, bytes=size_bytes) if objects else None


def _named_again(run: Run, expired: Sequence[Part]) -> tuple[int, int]:
    sweeps = list(_sweeps_since_last_clean(run))
    if not sweeps:
        return 0, 0
    outcomes = [
        source.through(_OUTCOMES, partial(_told, number))
        for number, (key, report) in enumerate(sweeps)
        for source in (report.source(_OUTCOME), *_restored(run, key, report.manifest.rows))
    ]
    named = reading.source_of_parts(run.store, _EXPIRED, expired)
    sources: dict[str, AnySource] = {
        "outcomes": JoinedSource(outcomes),
        "named": named.through(pa.schema([ADDRESS_HASH, *_EXPIRED]), with_address_hash),
    }
    work = Exchange(sources, _amount, pa.schema([ADDRESS_HASH]), no_work)
    found, _ = work.run(lambda: run.spark, threads=run.options.read_threads)
    return sum(objects for objects, _ in found), sum(size_bytes for _, size_bytes in found)


def _sweeps_since_last_clean(run: Run) -> Iterator[tuple[RunKey, StoredTable]]:
    for key in tables.runs(run.store, tables.DELETION_REPORT.folder):
        if key >= run.key:
            continue
        try:
            report = reading.load_table(run.store, tables.DELETION_REPORT, key)
        except ChainError:
            continue  # its sweep did not end
        if report.manifest.instance != run.instance:
            return
        yield key, report
        if _took_everything(run, key):
            return


def _took_everything(run: Run, key: RunKey) -> bool:
    """Say whether a run read the whole namespace, and let go whatever nothing reaches."""
    listed = reading.load_table(run.store, tables.NAMESPACE_SLICES, key).manifest
    expired = reading.load_table(run.store, tables.EXPIRED_ADDRESSES, key).manifest
    is_optimized = ListedFigures.of(listed).is_optimized
    return not is_optimized and ExpiredFigures.of(expired).collects == "all"


def _restored(run: Run, key: RunKey, at_most: int) -> list[Source[str]]:
    """Say how the outcomes of the restores of a sweep are read, which deleted at most so many."""
    files = [
        name
        for found in run.store.list(f"{lakegc_keys.RESTORES}run_id={key}/")
        for name in found.column("key").to_pylist()
        if name.endswith(".parquet")
    ]
    wanted = pa.schema([schemas.RESTORATIONS.field(name) for name in _OUTCOME])
    return [Source(wanted, files, at_most, partial(_read, run.store, wanted))] if files else []


def _read(store: ObjectStore, wanted: pa.Schema, name: str) -> Batches:
    for batch in store.read_parquet(name):
        yield batch.select(wanted.names).cast(wanted)


def _told(number: int, batches: Batches) -> Batches:
    """Return the outcomes of a sweep, or of its restores, that count here."""
    for batch in batches:
        counts = batch.filter(pc.is_in(batch.column("outcome"), _COUNTING))
        addresses = counts.column("address").cast(pa.string())
        numbers = pa.repeat(pa.scalar(number, pa.int32()), counts.num_rows)
        columns = [hashed(addresses), addresses, numbers, counts.column("outcome")]
        yield pa.record_batch(columns, schema=_OUTCOMES)


def _amount(bucket: Mapping[str, pa.Table]) -> Sent[tuple[int, int]]:
    """Count what is named, and was deleted by a sweep and not restored: objects and bytes."""
    outcomes = bucket["outcomes"]
    deleted, restored = (
        outcomes.filter(pc.equal(outcomes["outcome"], word)).select(["address", "sweep"])
        for word in _COUNTING.to_pylist()
    )
    gone = deleted.join(restored, ["address", "sweep"], join_type="left anti")
    again = bucket["named"].join(gone.select(["address"]), "address", join_type="left semi")
    return Sent((again.num_rows, pc.sum(again["size_bytes"]).as_py() or 0), {})
