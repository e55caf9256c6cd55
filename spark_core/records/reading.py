"""Read a stored table: its manifest, and its Parquet parts, each compared with its hash first."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.errors import OF_A_RUN, ChainError, CorruptTableError, NotFoundError
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.manifest import ENCLOSED, Manifest, Part
from spark_core.records.tables import TableSpec
from spark_core.spark import tasks
from spark_core.spark.exchange import Batches, Source
from spark_core.spark.session import Session
from spark_core.storage import ObjectStore

# Rows of small parts that one task reads, one part after the other.
_ROWS_READ_TOGETHER = 100_000


@dataclass(frozen=True)
class StoredTable:
    """A table read back: its manifest, and its rows on demand."""

    manifest: Manifest
    store: ObjectStore

    def source(self, columns: Sequence[str] | None = None) -> Source[Any]:
        """Return the table as what an exchange reads.

        Args:
            columns: Columns to read; all by default. They come in this order.
        """
        return source_of_parts(self.store, self._schema(columns), self.manifest.parts)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the table here; only for tables that do not grow with the objects."""
        for part in self.manifest.parts:
            yield from read_part(self.store, self._schema(columns), part)

    def rows_of(
        self, addresses: Sequence[str], spark: Callable[[], Session], *, by_hash: bool = False
    ) -> dict[str, dict[str, Any]]:
        """Return a row of each address that the table has, by address.

        Args:
            addresses: Relative addresses, few enough for the driver.
            spark: Starts Spark, if the table is large.
            by_hash: Whether the table is asked by the addresses' hashes.
        """
        asked = pa.array(addresses, pa.string())
        column, values = ("address_hash", hashed(asked)) if by_hash else ("address", asked)
        names = dict(zip(values.to_pylist(), addresses, strict=True))
        some = self.source().each(spark, partial(_by_key, column, values))
        return {names[key]: row for found in some for key, row in found.items()}

    def _schema(self, columns: Sequence[str] | None) -> pa.Schema:
        schema = tables.SCHEMAS[self.manifest.table]
        return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def _by_key(column: str, values: pa.Array, batches: Batches) -> dict[Any, dict[str, Any]]:
    """Return a row of each of some values of a column."""
    return {
        row[column]: row
        for batch in batches
        for row in batch.filter(pc.is_in(batch.column(column), value_set=values)).to_pylist()
    }


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
        return None  # it was not stored yet
    text = outer.manifest.facts.get(ENCLOSED, {}).get(spec.name)
    return None if text is None else str(text).encode()


def source_of_parts(store: ObjectStore, schema: pa.Schema, parts: Sequence[Part]) -> Source[Any]:
    """Return Parquet parts as what an exchange reads; columns of `schema`."""
    rows = sum(part.rows for part in parts)
    return Source(schema, join_small_parts(parts), rows, partial(_read_parts, store, schema))


def join_small_parts(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Group parts that are too small for a task of their own."""
    return tasks.join_small(parts, lambda part: part.rows, _ROWS_READ_TOGETHER)


def _read_parts(
    store: ObjectStore, schema: pa.Schema, parts: Sequence[Part]
) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from read_part(store, schema, part)


def read_part(
    store: ObjectStore, schema: pa.Schema, part: Part, *, again: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one part that count, after comparing its bytes with the manifest.

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
    if parquet.metadata.num_rows != part.whole.rows:
        raise CorruptTableError(
            part.key,
            None,
            f"{parquet.metadata.num_rows} rows, the manifest says {part.whole.rows}",
            OF_A_RUN,
        )
    missing = [name for name in schema.names if name not in parquet.schema_arrow.names]
    if missing:
        raise CorruptTableError(
            part.key,
            None,
            f"lacks the columns {missing}",
            OF_A_RUN,
        )
    left_out, begin = rows_left_out(store, part), 0
    for batch in parquet.iter_batches(batch_size=20_000, columns=schema.names):
        end = begin + batch.num_rows
        some = left_out[np.searchsorted(left_out, begin) : np.searchsorted(left_out, end)]
        rows = batch.select(schema.names).cast(schema)
        if len(some):
            counts = np.ones(batch.num_rows, np.bool_)
            counts[some - begin] = False
            rows = rows.filter(pa.array(counts))
        begin = end
        if rows.num_rows:
            yield rows


def rows_left_out(store: ObjectStore, part: Part) -> Any:
    """Return the numbers of the rows of a part that do not count, sorted.

    Raises:
        CorruptTableError: If they are not as they were written, or are no rows of the part.
    """
    if part.without is None:
        return np.empty(0, np.int32)
    batches = read_part(store, schemas.LEFT_OUT_ROWS, part.without)
    rows = np.concatenate(
        [np.empty(0, np.int32), *(batch.column(0).to_numpy() for batch in batches)]
    )
    if (
        np.any(np.diff(rows) <= 0)
        or rows.min(initial=0) < 0
        or rows.max(initial=0) >= part.whole.rows
    ):
        raise CorruptTableError(
            part.without.key, None, f"its rows are none of {part.key}, or are named twice", OF_A_RUN
        )
    return rows
