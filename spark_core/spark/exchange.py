"""Rows of several sources, brought together by the hash of their key.

Spark is slow at moving millions of short rows between Java and Python, and fast at moving some
thousand long ones. So a task sorts the rows that it reads by bucket, which is a range of hashes,
and hands over one row for each bucket: the Arrow bytes of all its rows there. Spark moves them, and
a kernel gets whole buckets: plain Arrow tables, in which all rows of a hash are.

Few rows are brought together by the driver, as a single bucket, before Spark would have started.
The kernel is the same.

A row that gets lost on its way could be the one that keeps an object. So whoever packs, compares or
works on rows counts them, the counts travel among the rows, and the driver compares them.

Cost: 8 bytes for the hash and what else is in a row, read, sorted, moved and sorted once more. Each
task sends at most one row to each bucket for every half a million that it read.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from spark_core.errors import IncompleteReadError
from spark_core.spark import placement
from spark_core.spark.failures import surfacing_errors
from spark_core.spark.packed_rows import (
    CAME,
    NO_BUCKET,
    PACKED_IN_SPARK,
    RECEIPT,
    RECEIPTS,
    ROWS,
    SENT,
    TALLY,
    TASKS,
    WAS_PACKED,
    Tally,
    bucket_of,
    bytes_of,
    gathered_from,
    hashes_of,
    packed_row,
    receipts_and_tallies,
    rows_of,
    tally_row,
)
from spark_core.spark.packed_rows import rows_by_number as rows_by_number
from spark_core.spark.session import master_of
from spark_core.spark.sources import AnySource as AnySource
from spark_core.spark.sources import Batches as Batches
from spark_core.spark.sources import JoinedSource as JoinedSource
from spark_core.spark.sources import Receipt
from spark_core.spark.sources import Source as Source
from spark_core.spark.sources import no_rows as no_rows
from spark_core.spark.sources import numbers_of as numbers_of
from spark_core.spark.sources import source_of as source_of
from spark_core.spark.tasks import cores, numbers_of_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Written = TypeVar("Written")

# Rows that are worth a bucket of their own, and those that are worth using another core.
_ROWS_OF_A_BUCKET = 250_000
_ROWS_OF_A_CORE = 20_000
# The most rows that a kernel gets: those of a larger bucket are split by other bits of their hash.
_MOST_ROWS_OF_A_KERNEL = 4_000_000
# Packed rows are long: so many of them travel between Java and Python at once.
_PACKED_AT_ONCE = 64


def no_work(_number: int, _rows: pa.Table) -> None:
    """Work on no rows: for kernels that send none on."""


@dataclass(frozen=True)
class Sent(Generic[Receipt]):
    """What a kernel makes of a bucket.

    Attributes:
        receipt: What it has to say; small, and picklable.
        rows: Rows for those who work on them next, by their numbers.
    """

    receipt: Receipt
    rows: Mapping[int, pa.Table]


@dataclass(frozen=True)
class Exchange(Generic[Receipt, Written]):
    """What becomes of rows that meet.

    Attributes:
        sources: The rows, by name.
        kernel: Gets the rows of each source in one bucket, by name: all rows of every hash in it.
            It is a function of these alone, and right to call twice.
        schema: Columns of the rows that it sends on.
        work: Gets a number, and all rows that were sent to it. It may write, and must be right to
            call twice: Spark runs a lost task again.
    """

    sources: Mapping[str, AnySource]
    kernel: Callable[[Mapping[str, pa.Table]], Sent[Receipt]]
    schema: pa.Schema
    work: Callable[[int, pa.Table], Written]

    @property
    def rows(self) -> int:
        """Rows of all sources."""
        return sum(source.rows for source in self.sources.values())

    @property
    def is_for_the_driver(self) -> bool:
        """Whether the driver brings the rows together, and does the work."""
        return not self.rows or placement.driver_works(self.rows)

    def run(
        self, spark: Callable[[], SparkSession], *, threads: int = 8
    ) -> tuple[list[Receipt], list[Written]]:
        """Bring the rows together.

        Args:
            spark: Gives the session; called if executors bring the rows together, as `placement`
                says.
            threads: Tasks that the driver reads at once.

        Returns:
            The receipts of all buckets and those of all work, in no particular order.

        Raises:
            IncompleteReadError: If Spark lost rows between two tasks.
            LakegcError: The error of a task.
        """
        if self.is_for_the_driver:
            return self._run_here(threads)
        return self._run_on(spark())

    def _run_here(self, threads: int) -> tuple[list[Receipt], list[Written]]:
        sent = self.kernel({name: source.here(threads) for name, source in self.sources.items()})
        return [sent.receipt], [self.work(number, rows) for number, rows in sent.rows.items()]

    def _run_on(self, spark: SparkSession) -> tuple[list[Receipt], list[Written]]:
        buckets = _buckets_for(self.rows, at_once=cores(spark))
        schemas = {name: source.schema for name, source in self.sources.items()}
        packed = [
            numbers_of_tasks(spark, len(part.tasks)).mapInArrow(
                part.packing(buckets, kind), PACKED_IN_SPARK
            )
            for kind, source in enumerate(self.sources.values())
            for part in source.parts
        ]
        # One task for each bucket where rows meet, and one where they are worked on.
        placement.hand_out(2 * buckets, master_of(spark))
        with _in_one_job(spark), surfacing_errors():
            met = (
                # Frames of Spark Connect are of another class: their own method is called.
                reduce(lambda one, other: one.unionByName(other), packed)
                .repartition(buckets, "bucket")
                .mapInArrow(
                    partial(_meet, schemas, self.kernel, self.schema, _MOST_ROWS_OF_A_KERNEL),
                    PACKED_IN_SPARK,
                )
            )
            rows = (
                met.repartition(buckets, "bucket")
                .mapInArrow(partial(_work, self.schema, self.work), PACKED_IN_SPARK)
                .collect()
            )
        found: dict[int, list[Any]] = {RECEIPT: [], ROWS: [], TALLY: []}
        for row in rows:
            # Our own tasks wrote them.
            found[row["kind"]].append(pickle.loads(row["packed"]))  # noqa: S301
        worked_on = sum(count for count, _ in found[ROWS])
        self._require_all(sum(found[TALLY], Counter()), len(found[RECEIPT]), worked_on)
        return found[RECEIPT], [written for _, written in found[ROWS]]

    def _require_all(self, tally: Tally, receipts: int, worked_on: int) -> None:
        """Refuse if anything got lost between the tasks that made it and those that got it."""
        pairs = [
            ("receipts of comparisons", receipts, tally[RECEIPTS]),
            ("rows that came out of comparisons", worked_on, tally[SENT]),
        ]
        for kind, (name, source) in enumerate(self.sources.items()):
            tasks = source.packers if source.rows else 0
            pairs.append((f"tasks that read `{name}`", tally[TASKS, kind], tasks))
            pairs.append((f"rows of `{name}`", tally[CAME, kind], tally[WAS_PACKED, kind]))
        for what, came, wanted in pairs:
            if came != wanted:
                raise IncompleteReadError(
                    f"Spark passed on {came} of {wanted} {what}, and all of them were wanted",
                    "Run again; if it stays, report it with this text and Spark's version.",
                )


def _buckets_for(rows: int, *, at_once: int) -> int:
    return max(-(-rows // _ROWS_OF_A_BUCKET), min(at_once, rows // _ROWS_OF_A_CORE), 1)


@contextmanager
def _in_one_job(spark: SparkSession) -> Iterator[None]:
    """Run a query as it is written, in one job, and move few rows at once.

    Adaptive execution would run each stage as a job of its own, to learn sizes that are known here.
    """
    chosen = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_PACKED_AT_ONCE),
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


def _meet(
    schemas: Mapping[str, pa.Schema],
    kernel: Callable[[Mapping[str, pa.Table]], Sent[Any]],
    sent_on: pa.Schema,
    at_most: int,
    batches: Batches,
) -> Batches:
    """Let the kernel work on each bucket of a partition; runs on an executor."""
    gathered = gathered_from(batches)
    yield from receipts_and_tallies(gathered)
    tally: Tally = Counter()
    while gathered:
        _, kinds = gathered.popitem()
        bucket = {
            name: rows_of(kinds.pop(kind, ()), schema)
            for kind, (name, schema) in enumerate(schemas.items())
        }
        for tables in _small_enough(bucket, at_most):
            tally.update({(CAME, kind): rows.num_rows for kind, rows in enumerate(tables.values())})
            sent = kernel(tables)
            tally[RECEIPTS] += 1
            yield packed_row(NO_BUCKET, RECEIPT, pickle.dumps(sent.receipt))
            for number, rows in sent.rows.items():
                if rows.num_rows:
                    tally[SENT] += rows.num_rows
                    yield packed_row(number, ROWS, bytes_of(rows.cast(sent_on)))
    yield tally_row(tally)


def _small_enough(tables: dict[str, pa.Table], at_most: int) -> Iterator[dict[str, pa.Table]]:
    """Split a bucket with very many rows by other bits of their hashes."""
    rows = sum(table.num_rows for table in tables.values())
    if rows <= at_most:
        yield tables
        return
    count = -(-rows // at_most)
    split = {
        name: dict(rows_by_number(table, bucket_of(_mixed(hashes_of(table)), count)))
        for name, table in tables.items()
    }
    for number in range(count):
        yield {name: split[name].get(number, table.slice(0, 0)) for name, table in tables.items()}


def _mixed(hashes: Any) -> Any:
    """Let all bits of a hash count for the upper ones."""
    return (hashes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


def _work(schema: pa.Schema, work: Callable[[int, pa.Table], Any], batches: Batches) -> Batches:
    """Work on what kernels sent on, and pass on their receipts; runs on an executor."""
    gathered = gathered_from(batches)
    yield from receipts_and_tallies(gathered)
    while gathered:
        number, kinds = gathered.popitem()
        rows = rows_of(kinds[ROWS], schema)
        yield packed_row(NO_BUCKET, ROWS, pickle.dumps((rows.num_rows, work(number, rows))))
