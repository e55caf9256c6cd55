"""Parquet files on plain binary streams: hashed and in bounded row groups, read in batches."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from spark_core.errors import CorruptTableError
from spark_core.schemas import repeating
from spark_core.storage.small_files import LARGEST

# A row group of addresses is some 10 MB. Readers skip and parallelize by row group.
ROW_GROUP_ROWS = 131_072
ROW_GROUP_BYTES = 64 << 20
BATCH_ROWS = 65_536


class _HashingWriter(io.RawIOBase):
    """Pass writes on to a stream, counting and hashing them; few bytes are held as well."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._held = bytearray()
        self.size_bytes = 0
        self.hash = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        self.hash.update(view)
        self.size_bytes += len(view)
        self._target.write(view)
        if self.size_bytes <= LARGEST:
            self._held += view
        return len(view)

    @property
    def held(self) -> bytes | None:
        """All bytes; None if they are many."""
        return bytes(self._held) if self.size_bytes <= LARGEST else None

    def tell(self) -> int:
        return self.size_bytes


def write(
    sink: BinaryIO, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> tuple[int, int, str, bytes | None]:
    """Write batches as Parquet (zstd) with row groups of at most `ROW_GROUP_ROWS` rows.

    Small batches are gathered first: a row group for each would make the file slow to read.

    Args:
        sink: The target, from its start; only written to, never moved.
        batches: Each with exactly the columns of `schema`.
        schema: Columns of the file.

    Returns:
        Rows, the number of bytes, their sha256 in hex, and the bytes themselves if they are few.

    Raises:
        ValueError: If a batch has other columns.
    """
    out = _HashingWriter(sink)
    waiting: list[pa.RecordBatch] = []
    waiting_rows = waiting_bytes = rows = 0
    with pq.ParquetWriter(
        out, schema, compression="zstd", use_dictionary=repeating(schema)
    ) as writer:
        for batch in batches:
            if not batch.schema.equals(schema):
                raise ValueError(
                    f"a batch has the columns {batch.schema.names}, wanted exactly {schema.names} "
                    "of the schema"
                )
            waiting.append(batch)
            rows += batch.num_rows
            waiting_rows += batch.num_rows
            waiting_bytes += batch.nbytes
            if waiting_rows >= ROW_GROUP_ROWS or waiting_bytes >= ROW_GROUP_BYTES:
                writer.write_table(
                    pa.Table.from_batches(waiting, schema), row_group_size=ROW_GROUP_ROWS
                )
                waiting, waiting_rows, waiting_bytes = [], 0, 0
        if waiting_rows:
            writer.write_table(
                pa.Table.from_batches(waiting, schema), row_group_size=ROW_GROUP_ROWS
            )
    return rows, out.size_bytes, out.hash.hexdigest(), out.held


def read_batches(source: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
    """Read a Parquet file in batches of at most `BATCH_ROWS` rows.

    Args:
        source: The file, with seeks.
        name: What to call it in an error.

    Raises:
        CorruptTableError: If it is no sound Parquet file.
    """
    try:
        yield from _open_file(source).iter_batches(batch_size=BATCH_ROWS)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptTableError(name, None, f"no sound Parquet file ({error})") from error


def schema(source: BinaryIO, name: str) -> pa.Schema:
    """Read the columns of a Parquet file; see `read_batches`."""
    return footer(source, name)[0]


def footer(source: BinaryIO, name: str) -> tuple[pa.Schema, int]:
    """Read the columns of a Parquet file, and the number of rows it claims; see `read_batches`."""
    try:
        file = _open_file(source)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptTableError(name, None, f"no sound Parquet file ({error})") from error
    return file.schema_arrow, file.metadata.num_rows


def _open_file(source: BinaryIO) -> pq.ParquetFile:
    """Open a file whose column names are UTF-8: Arrow decodes and checks names only when asked."""
    file = pq.ParquetFile(source)
    _ = file.schema_arrow.names
    return file
