"""Read a stored table: its manifest, and its Parquet parts, each compared with its hash first."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from spark_core.errors import OF_A_RUN, ChainError, CorruptTableError, NotFoundError
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.manifest import ENCLOSED, Manifest, Part
from spark_core.records.tables import TableSpec
from spark_core.schemas import spark_type
from spark_core.spark import tasks
from spark_core.spark.exchange import Source
from spark_core.spark.rows import Rows
from spark_core.spark.tasks import frame_of, read_partitions
from spark_core.storage import ObjectStore

# The driver reads a table that exceeds neither limit: starting tasks would take longer. The limits
# are constants, so the rows on the driver do not grow with the number of objects. Only executors
# read a larger table.
DRIVER_ROWS = 10_000
DRIVER_BYTES = 2**22
# Rows of a small table that are worth a task of their own.
_ROWS_OF_A_TASK = 1_000
# Rows of small parts of a larger table that one task reads, one part after the other.
_ROWS_READ_TOGETHER = 100_000


@dataclass(frozen=True)
class StoredTable:
    """A table read back: its manifest, and its rows on demand."""

    manifest: Manifest
    store: ObjectStore

    @property
    def is_small(self) -> bool:
        """Whether the driver reads it by itself, and may hold it."""
        return are_small(self.manifest.parts)

    def frame(self, spark: SparkSession, columns: Sequence[str] | None = None) -> DataFrame:
        """Read the table as a frame.

        A small table is read now, by the driver; a larger one when the frame is run, by executors.

        Args:
            spark: The session.
            columns: Columns to read; all by default.

        Returns:
            The columns asked for, in the schema's order.

        Raises:
            CorruptTableError: If the bytes of a part are not those of the manifest. A small table
                raises it here, a larger one when the frame is run.
        """
        return frame_of_parts(spark, self.store, self._schema(columns), self.manifest.parts)

    def rows(
        self,
        spark: Callable[[], SparkSession],
        columns: Sequence[str] | None = None,
        *,
        at_most: int | None = None,
    ) -> Rows:
        """Read the table: a small one now, by the driver, which then holds it; else as `frame`.

        Args:
            spark: Gives the session.
            columns: As for `frame`.
            at_most: As for `are_small`.
        """
        schema = self._schema(columns)
        return rows_of_parts(spark, self.store, schema, self.manifest.parts, at_most=at_most)

    def source(self, columns: Sequence[str] | None = None) -> Source[Any]:
        """Return the table as what an exchange reads; columns as for `frame`."""
        return source_of_parts(self.store, self._schema(columns), self.manifest.parts)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the table here, without Spark; only for tables that do not grow with the objects."""
        for part in self.manifest.parts:
            yield from read_part(self.store, self._schema(columns), part)

    def _schema(self, columns: Sequence[str] | None) -> pa.Schema:
        schema = tables.SCHEMAS[self.manifest.table]
        return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def load_table(
    store: ObjectStore, spec: TableSpec, run: RunKey, *, around: StoredTable | None = None
) -> StoredTable:
    """Read a table's manifest.

    That of a table on the way lies in the manifest of the table that was made around it. An earlier
    lakegc stored it by itself.

    Args:
        store: Rooted at the namespace.
        spec: The table.
        run: Run key.
        around: The table around it, if it was read before.

    Raises:
        ChainError: If the table was not made in this run, or its manifest is another table's.
        CorruptTableError: If the manifest cannot be read.
    """
    key = tables.manifest_key(spec, run)
    try:
        data = _enclosed(store, spec, run, around) or store.read(key)
    except NotFoundError as missing:
        raise ChainError(
            f"run {run} of {store.root} has no {spec.name} ({key} does not exist)",
            "Materialize the run from its beginning (`lakegc mark`).",
        ) from missing
    manifest = Manifest.from_json(data, name=key)
    if manifest.table != spec.name or manifest.run != str(run):
        raise ChainError(
            f"{key} is the manifest of {manifest.table} of run {manifest.run}, wanted {spec.name} "
            f"of run {run}",
            "Files of a run must not be moved; mark again under a new run key.",
        )
    return StoredTable(manifest, store)


def _enclosed(
    store: ObjectStore, spec: TableSpec, run: RunKey, around: StoredTable | None
) -> bytes | None:
    if spec.name not in tables.ENCLOSED_IN:
        return None
    try:
        outer = around or load_table(store, tables.ENCLOSED_IN[spec.name], run)
    except ChainError:
        return None  # it was not stored yet, or an earlier lakegc was killed
    text = outer.manifest.facts.get(ENCLOSED, {}).get(spec.name)
    return None if text is None else str(text).encode()


def frame_of_parts(
    spark: SparkSession, store: ObjectStore, schema: pa.Schema, parts: Sequence[Part]
) -> DataFrame:
    """Make a frame of Parquet parts, each compared with its hash before its rows are used.

    Args:
        spark: The session.
        store: Where the parts lie.
        schema: Columns to read.
        parts: The parts that were written.

    Returns:
        The columns of `schema`. Executors read them when the frame is run, a partition for each
        part or for several small ones. If all parts together are within `DRIVER_ROWS` and
        `DRIVER_BYTES`, the driver reads them now, and their rows are in no more partitions than are
        worth a task.

    Raises:
        CorruptTableError: If a part that is read here is not what was written.
    """
    rows = sum(part.rows for part in parts)
    if not are_small(parts):
        return read_partitions(
            spark, schema, together(parts), partial(_read_parts, store, schema), rows=rows
        )
    batches = [batch for part in parts for batch in read_part(store, schema, part)]
    content = frame_of(spark, pa.Table.from_batches(batches, schema), spark_type(schema))
    return content.coalesce(max(1, -(-rows // _ROWS_OF_A_TASK)))


def rows_of_parts(
    spark: Callable[[], SparkSession],
    store: ObjectStore,
    schema: pa.Schema,
    parts: Sequence[Part],
    *,
    at_most: int | None = None,
) -> Rows:
    """Read Parquet parts: few rows now, by the driver, which then holds them; else as a frame.

    Args:
        spark: Gives the session; called for a frame.
        store: As for `frame_of_parts`, like the following.
        schema: Columns to read.
        parts: The parts that were written.
        at_most: As for `are_small`.
    """
    if not are_small(parts, at_most):
        return frame_of_parts(spark(), store, schema, parts)
    return pa.Table.from_batches(_read_parts(store, schema, parts), schema)


def source_of_parts(store: ObjectStore, schema: pa.Schema, parts: Sequence[Part]) -> Source[Any]:
    """Return Parquet parts as what an exchange reads; columns of `schema`."""
    rows = sum(part.rows for part in parts)
    return Source(schema, together(parts), rows, partial(_read_parts, store, schema))


def together(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Group parts that are too small for a task of their own."""
    return tasks.together(parts, lambda part: part.rows, _ROWS_READ_TOGETHER)


def _read_parts(
    store: ObjectStore, schema: pa.Schema, parts: Sequence[Part]
) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from read_part(store, schema, part)


def are_small(parts: Sequence[Part], at_most: int | None = None) -> bool:
    """Say whether all parts together are within `DRIVER_ROWS` and `DRIVER_BYTES`.

    Args:
        parts: The parts.
        at_most: Rows that the driver may hold instead, of as many bytes each.
    """
    most = DRIVER_ROWS if at_most is None else at_most
    return (
        sum(part.rows for part in parts) <= most
        and sum(part.size_bytes for part in parts) * DRIVER_ROWS <= DRIVER_BYTES * most
    )


def read_part(
    store: ObjectStore, schema: pa.Schema, part: Part, *, again: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one part after comparing its bytes with the manifest.

    Args:
        store: Where it lies.
        schema: Columns to read.
        part: The part.
        again: As for `ObjectStore.read_unchanging`.

    Raises:
        CorruptTableError: If the bytes, the rows or the columns are not those that were written.
    """
    held = part.held
    data = store.read_unchanging(part.key, again=again) if held is None else held
    digest = hashlib.sha256(data).hexdigest()
    if digest != part.sha256:
        raise CorruptTableError(
            part.key, None, f"sha256 is {digest}, the manifest says {part.sha256}", OF_A_RUN
        )
    parquet = pq.ParquetFile(io.BytesIO(data))
    if parquet.metadata.num_rows != part.rows:
        raise CorruptTableError(
            part.key,
            None,
            f"{parquet.metadata.num_rows} rows, the manifest says {part.rows}",
            OF_A_RUN,
        )
    missing = [name for name in schema.names if name not in parquet.schema_arrow.names]
    if missing:
        raise CorruptTableError(
            part.key,
            None,
            f"lacks the columns {missing}: it was written by an earlier lakegc",
            OF_A_RUN,
        )
    for batch in parquet.iter_batches(batch_size=20_000, columns=schema.names):
        yield batch.select(schema.names).cast(schema)
