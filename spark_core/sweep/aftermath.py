"""What a process that was killed had under way when the next one went on at once: looked at once it must have ended."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as sf
from pyspark.sql import Column, DataFrame

from spark_core import schemas
from spark_core.errors import LakegcError
from spark_core.records import tables
from spark_core.records.journal import Journal
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import tasks_for

# What the report says of an object that is there.
_STAYS = ("kept", "refused", "failed")
# Objects asked for before what is found gone is written down.
_LOT = 1000

_GONE = pa.schema([pa.field("address", pa.string(), nullable=False)])


def settle_left(
    run: Run, journal: Journal, under_way_until: datetime | None, named: Collection[str] = ()
) -> frozenset[str]:
    """See whether what is left is still there, where an earlier process of this sweep was, or came, to delete it.

    The same command goes on at once after a kill, beside executors of the dead
    process that still work off what they were given, under a look of their own that is still good. An object that came
    back to life between the two looks is kept by this process and may be deleted by those, which say so only just
    before: the report must not say `kept` of it then, nor `failed` of one that this process could not look at.
    Without an earlier process only what is kept is looked at: what failed the next sweep finds out.
    Executors look; this process does so itself where no more is left than it may hold.

    Args:
        run: The run.
        journal: Of its sweeps; what is found gone is written into it.
        under_way_until: Until when something of an earlier process may be under way, which is waited for; None: nothing is.
        named: Addresses that somebody wants to know about.

    Returns:
        Those of `named` that were found gone.

    Raises:
        LakegcError: If the store does not say whether an object is there that is to be reported as `kept`.
    """
    wait = 0.0 if under_way_until is None else (under_way_until - run.now()).total_seconds()
    stays = _STAYS if under_way_until is not None else _STAYS[:1]
    if wait > 0 and _leaves_any(run, journal, stays):
        run.environment.clock.sleep(wait)
    look = _Look(journal, frozenset(named), run.options.read_threads, run.now())
    # Counted, and looked at: the journal is read once for both.
    doubtful = _left_and_intended(run, journal, stays).persist()
    try:
        with surfacing_errors():
            count = doubtful.count()
            if count > tables.DRIVER_ROWS:
                spread = doubtful.repartition(tasks_for(run.spark, count), "address")
                found = [row["address"] for row in spread.mapInArrow(look, spark_type(_GONE)).collect()]
                return frozenset(found)
            few = doubtful.toArrow()
    finally:
        doubtful.unpersist()
    return frozenset(row["address"] for batch in look(iter(few.to_batches())) for row in batch.to_pylist())


@dataclass(frozen=True)
class _Look:
    """What a task does: asks the store for each object, and writes down what is gone.

    Attributes:
        journal: Where.
        named: What the driver wants to know about.
        threads: Objects that a task asks for at once.
        at: When it began, by the driver's clock.
    """

    journal: Journal
    named: frozenset[str]
    threads: int
    at: datetime

    def __call__(self, doubtful: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakegc-left") as pool:
            for batch in doubtful:
                for begin in range(0, batch.num_rows, _LOT):
                    rows = batch.slice(begin, _LOT)
                    gone = rows.filter(pa.array(pool.map(self._is_gone, rows.to_pylist()), pa.bool_()))
                    if gone.num_rows:
                        self._write_down(gone)
                        told = [address for address in gone.column("address").to_pylist() if address in self.named]
                        yield pa.record_batch([pa.array(told, pa.string())], schema=_GONE)

    def _is_gone(self, row: Mapping[str, Any]) -> bool:
        try:
            return not self.journal.store.exists(row["address"])
        except LakegcError:
            if row["kept"]:
                raise
            # It stays `failed`, with its cause: the next sweep looks.
            return False

    def _write_down(self, gone: pa.RecordBatch) -> None:
        count = gone.num_rows
        columns = [
            gone.column("address").cast(pa.string()),
            gone.column("size").cast(pa.int64()),
            pa.array(["already_gone"] * count, pa.string()),
            pa.nulls(count, pa.string()),
            pa.array([self.at] * count, schemas.INSTANT),
        ]
        self.journal.conclude(f"{secrets.token_hex(6)}.0.0.0.0", pa.record_batch(columns, schema=schemas.JOURNAL))


def _leaves_any(run: Run, journal: Journal, stays: Sequence[str]) -> bool:
    with surfacing_errors():
        return not journal.frame(run.spark, journal.parts()).where(sf.col("outcome").isin(*stays)).isEmpty()


def _left_and_intended(run: Run, journal: Journal, stays: Sequence[str]) -> DataFrame:
    """Return what stays, and what some batch was about to delete without an answer that is written down.

    Returns:
        Columns address, size (bytes) and kept (it is reported as that).
    """

    def count(*outcomes: str) -> Column:
        return sf.count_if(sf.col("outcome").isin(*outcomes))

    return (
        journal.frame(run.spark, journal.parts())
        .groupBy("address")
        .agg(
            sf.max("size_bytes").alias("size"),
            (count("kept") > 0).alias("kept"),
            count(*stays).alias("stays"),
            count("deleted", "already_gone").alias("gone"),
            count("intended").alias("sent"),
            count("refused", "unsent").alias("answered"),
        )
        .where("stays > 0 and gone = 0 and sent > answered")
        .select("address", "size", "kept")
    )
