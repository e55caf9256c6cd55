"""Files that nobody changes under their name: Parquet tables, and small ones, remembered."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from spark_core.storage import parquet
from spark_core.storage.small_files import SmallFiles


@dataclass(frozen=True)
class WrittenFile:
    """A Parquet file that was written.

    Attributes:
        key: Relative to the namespace.
        rows: Number of rows in it.
        size_bytes: Length of the file.
        sha256: Of the bytes that were sent, in hex.
    """

    key: str
    rows: int
    size_bytes: int
    sha256: str


class UnchangingFiles(ABC):
    """The part of a store that reads and writes files whose names no other file ever gets.

    Attributes:
        small_files: Small files that need not be asked for again.
    """

    small_files: SmallFiles

    @property
    @abstractmethod
    def root(self) -> str:
        """Absolute URI of the namespace, to be shown."""

    @abstractmethod
    def read(self, key: str) -> bytes:
        """Read a whole object."""

    @abstractmethod
    def open_sink(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Open an object for writing in one pass; it appears whole, if the block ends well."""

    @abstractmethod
    def open_source(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Open an object for reading with seeks, without holding a large one in memory."""

    def write_parquet(
        self, key: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> WrittenFile:
        """Write batches as one Parquet file (zstd), one row group in memory at a time.

        Args:
            key: Where; replaced when it exists.
            batches: Each with exactly the columns of `schema`.
            schema: Columns of the file; written even when there are no batches.

        Returns:
            What was written, with the sha256 of the bytes sent.
        """
        with self.open_sink(key) as sink:
            rows, size_bytes, sha256, data = parquet.write(sink, batches, schema)
        if data is not None:
            self.small_files.keep(key, data)
        return WrittenFile(key, rows, size_bytes, sha256)

    def read_unchanging(self, key: str, *, again: bool = False) -> bytes:
        """Read a file that nobody changes under its name; a small one once while a run is marked.

        The caller compares the bytes with a hash that was stored elsewhere.

        Args:
            key: A name that no other file ever gets.
            again: It will be read again soon, so a larger one is remembered, too.
        """
        data = self.small_files.get(key)
        if data is None:
            data = self.read(key)
            self.small_files.keep(key, data, again=again)
        return data

    def read_parquet(self, key: str) -> Iterator[pa.RecordBatch]:
        """Read a Parquet file in batches.

        Args:
            key: Which file.

        Yields:
            Batches of at most `parquet.BATCH_ROWS` rows.

        Raises:
            CorruptTableError: If it is no sound Parquet file.
        """
        with self._unchanging(key) as source:
            yield from parquet.read_batches(source, f"{self.root}{key}")

    def parquet_footer(self, key: str) -> tuple[pa.Schema, int]:
        """Read the columns of a Parquet file, and the number of its rows, from its end.

        Raises:
            CorruptTableError: If it is no sound Parquet file.
        """
        with self._unchanging(key) as source:
            return parquet.footer(source, f"{self.root}{key}")

    @contextmanager
    def _unchanging(self, key: str) -> Iterator[BinaryIO]:
        """Open a Parquet file, whose name no other file ever gets; see `read_unchanging`."""
        data = self.small_files.get(key)
        if data is not None:
            yield io.BytesIO(data)
            return
        with self.open_source(key) as source:
            if self.small_files.takes(source.seek(0, io.SEEK_END)):
                source.seek(0)
                self.small_files.keep(key, source.read())
            source.seek(0)
            yield source
