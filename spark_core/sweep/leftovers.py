"""Leftovers: objects that the report would call left, although another attempt may delete them.

An attempt is a killed process, which has ended when the next one begins, or an executor that this
process lost. They are looked at again once every attempt must have ended.
"""

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
from spark_core.records import reading
from spark_core.records.journal import Journal
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import tasks_for

# Outcomes of the report for an object that is still there.
_STAYS = ("kept", "refused", "failed")
# Number of objects asked for before those found gone are written down.
_LOT = 1000

_GONE = pa.schema([pa.field("address", pa.string(), nullable=False)])


def recheck_leftovers(
    run: Run, journal: Journal, sent_until: datetime | None, named: Collection[str] = ()
) -> frozenset[str]:
    """Check whether the objects that are left are still there, and journal those that are gone.

    A killed process may have deleted an object and not lived to write that down. If the object came
    back to life since, this process keeps it, unseen. A lost executor may still work off its rows,
    under an earlier look that is still good, and delete what this process keeps. It journals that
    only just before. So the report must not say `kept` of such an object, nor, while an executor
    may be at work, `failed` of an object that this process could not look at.

    Without a lost executor only kept objects are looked at; the next sweep finds out about failed
    ones. Executors look, unless so few objects are left that the driver may hold them.

    Args:
        run: The run.
        journal: Journal of the run's sweeps; objects that are found gone are written into it.
        sent_until: Until when a lost executor may send requests. The call waits until then. None:
            none was lost.
        named: Addresses that the caller wants to know about.

    Returns:
        The addresses of `named` that were found gone.

    Raises:
        LakegcError: If the store does not say whether an object is there that the report would call
            `kept`.
    """
    wait = 0.0 if sent_until is None else (sent_until - run.now()).total_seconds()
    stays = _STAYS if sent_until is not None else _STAYS[:1]
    if wait > 0 and _leaves_any(run, journal, stays):
        run.environment.clock.sleep(wait)
    recheck = _RecheckTask(journal, frozenset(named), run.options.read_threads, run.now())
    # The rows are counted and looked at, so they are persisted: the journal is read once for both.
    doubtful = _left_and_intended(run, journal, stays).persist()
    try:
        with surfacing_errors():
            count = doubtful.count()
            if count > reading.DRIVER_ROWS:
                spread = doubtful.repartition(tasks_for(run.spark, count), "address")
                found = [
                    row["address"]
                    for row in spread.mapInArrow(recheck, spark_type(_GONE)).collect()
                ]
                return frozenset(found)
            few = doubtful.toArrow()
    finally:
        doubtful.unpersist()
    return frozenset(
        row["address"] for batch in recheck(iter(few.to_batches())) for row in batch.to_pylist()
    )


@dataclass(frozen=True)
class _RecheckTask:
    """The work of a task: ask the store for each object, and write down the ones that are gone.

    Attributes:
        journal: Journal that is written to.
        named: Addresses that the driver wants to know about.
        threads: Objects that a task asks for at once.
        at: When the check began, by the driver's clock.
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
                    gone = rows.filter(
                        pa.array(pool.map(self._is_gone, rows.to_pylist()), pa.bool_())
                    )
                    if gone.num_rows:
                        self._write_down(gone)
                        addresses = gone.column("address").to_pylist()
                        named = [address for address in addresses if address in self.named]
                        yield pa.record_batch([pa.array(named, pa.string())], schema=_GONE)

    def _is_gone(self, row: Mapping[str, Any]) -> bool:
        try:
            return not self.journal.store.exists(row["address"])
        except LakegcError:
            if row["kept"]:
                raise
            # It stays `failed`, with its cause. The next sweep looks.
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
        self.journal.conclude(
            f"{secrets.token_hex(6)}.0.0.0.0", pa.record_batch(columns, schema=schemas.JOURNAL)
        )


def _leaves_any(run: Run, journal: Journal, stays: Sequence[str]) -> bool:
    with surfacing_errors():
        return (
            not journal.frame(run.spark, journal.parts())
            .where(sf.col("outcome").isin(*stays))
            .isEmpty()
        )


def _left_and_intended(run: Run, journal: Journal, stays: Sequence[str]) -> DataFrame:
    """Return the objects that stay although some batch was about to delete them.

    No answer to such a batch is written down.

    Returns:
        Columns address, size (bytes) and kept (the report says `kept`).
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
