"""The rows of an inventory's data file, as a listing of the store would show them."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv, orc

from spark_core.addresses.collectable import collectable_batch
from spark_core.errors import CorruptTableError, NotFoundError
from spark_core.storage.contract import ObjectStore
from spark_core.storage.inventory.manifest import (
    CLASS,
    KEY,
    LATEST,
    MARKER,
    MODIFIED,
    OF_AN_INVENTORY,
    SIZE,
    TAG,
    Inventory,
    InventoryFile,
    plain,
)
from spark_core.storage.listing_rows import instants, listing_batch

ROWS, PASSED_OVER = "inventory_rows", "inventory_rows_passed_over"

_BATCH_ROWS = 65_536
_CHUNK_BYTES = 1 << 20
_MD5 = r"^\"?(?P<md5>[0-9a-f]{32})\"?$"


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a bucket's inventory.

    Attributes:
        before: The namespace's part of every key: empty, or ending in a slash.
        flat: Whether flat names of old versions, at the namespace's root, are wanted too.
    """

    before: str
    flat: bool = False


def rows_of(
    store: ObjectStore,
    inventory: Inventory,
    file: InventoryFile,
    wanted: Wanted,
    figures: Counter[str],
) -> Iterator[pa.RecordBatch]:
    """Read one data file.

    A file that S3 delivered is compared with the manifest before its first row is believed. Of an
    inventory with versions only the latest ones count, and no delete markers. In CSV files keys are
    URL-encoded, in Parquet and ORC files they are not.

    Args:
        store: The store that the file's key is relative to.
        inventory: What the manifest says.
        file: The file.
        wanted: Which rows are wanted.
        figures: Gets the rows read (`ROWS`), and those passed over (`PASSED_OVER`).

    Yields:
        Columns of `schemas.OBJECT_LISTING`, keys relative to the namespace.

    Raises:
        CorruptTableError: If it is missing, or is not the file that the manifest says.

    References:
        AWS, Amazon S3 User Guide, "Cataloging and analyzing your data with S3 Inventory": "When
        you're using the CSV file format, the key name is URL-encoded and must be decoded before you
        can use it". A space is a plus there (cloud-custodian issue 1997).
    """
    name = f"{store.root}{file.key}"
    try:
        for batch in _found(store, inventory, file, name):
            listed = _as_listing(batch, inventory, wanted)
            figures[ROWS] += batch.num_rows
            figures[PASSED_OVER] += batch.num_rows - listed.num_rows
            yield listed
    except (pa.ArrowException, ValueError, KeyError, EOFError, OSError) as error:
        raise CorruptTableError(
            name, None, f"no sound {inventory.file_format} file ({error})", OF_AN_INVENTORY
        ) from error


def _found(
    store: ObjectStore, inventory: Inventory, file: InventoryFile, name: str
) -> Iterator[pa.RecordBatch]:
    """Read all rows of a file, as it has them."""
    if inventory.table is not None:
        yield from inventory.table.batches(store, file, inventory.source_bucket)
        return
    with _opened(store, file, name) as source:
        _require_intact(source, file, name)
        source.seek(0)
        yield from _batches(source, inventory)


@contextmanager
def _opened(store: ObjectStore, file: InventoryFile, name: str) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        try:
            source = stack.enter_context(store.open_source(file.key))
        except NotFoundError as error:
            problem = "its inventory's manifest names it, and it is not there"
            raise CorruptTableError(name, None, problem, OF_AN_INVENTORY) from error
        yield source


def _require_intact(source: BinaryIO, file: InventoryFile, name: str) -> None:
    digest, size = hashlib.md5(usedforsecurity=False), 0
    while chunk := source.read(_CHUNK_BYTES):
        digest.update(chunk)
        size += len(chunk)
    if (size, digest.hexdigest()) != (file.size_bytes, file.md5):
        raise CorruptTableError(
            name,
            None,
            f"it has {size} bytes with the MD5 {digest.hexdigest()}, its inventory's manifest says "
            f"{file.size_bytes} with {file.md5}",
            OF_AN_INVENTORY,
        )


def _batches(source: BinaryIO, inventory: Inventory) -> Iterator[pa.RecordBatch]:
    """Read the columns that are needed, named as `plain` names them."""
    columns = [plain(column) for column in inventory.columns]
    needed = (
        *(KEY, SIZE, MODIFIED, TAG),
        *((CLASS,) if CLASS in columns else ()),
        *((LATEST, MARKER) if inventory.has_versions else ()),
    )
    if inventory.file_format == "CSV":
        # Arrow takes a text without a line for a broken one.
        if not gzip.GzipFile(fileobj=source, mode="rb").read(1):
            return
        source.seek(0)
        texts = csv.ConvertOptions(
            include_columns=needed, column_types=dict.fromkeys(needed, pa.string())
        )
        with (
            pa.CompressedInputStream(pa.PythonFile(source, "r"), "gzip") as text,
            csv.open_csv(
                text, csv.ReadOptions(column_names=columns), convert_options=texts
            ) as reader,
        ):
            yield from reader
        return
    own = [inventory.columns[columns.index(column)] for column in needed]
    found: Iterator[pa.RecordBatch]
    if inventory.file_format == "Parquet":
        found = pq.ParquetFile(source).iter_batches(batch_size=_BATCH_ROWS, columns=own)
    else:
        stripes = orc.ORCFile(source)
        found = (stripes.read_stripe(number, own) for number in range(stripes.nstripes))
    for batch in found:
        yield pa.record_batch([batch.column(column) for column in own], names=needed)


def _as_listing(batch: pa.RecordBatch, inventory: Inventory, wanted: Wanted) -> pa.RecordBatch:
    if inventory.has_versions:
        markers = _flag(batch, MARKER)
        batch = batch.filter(pc.and_(_flag(batch, LATEST), pc.invert(markers)))
    keys = _column(batch, KEY).cast(pa.string())
    if inventory.file_format == "CSV":
        keys = _decoded(keys)
    inside = pc.starts_with(keys, wanted.before)
    keys = pc.utf8_slice_codeunits(keys.filter(inside), len(wanted.before))
    batch = batch.filter(inside)
    chosen = pc.starts_with(keys, "data/")
    if wanted.flat:
        chosen = pc.or_(chosen, collectable_batch(keys, flat=True))
    batch = batch.filter(chosen)
    tags = pc.extract_regex(batch.column(TAG).cast(pa.string()), _MD5)
    return listing_batch(
        keys.filter(chosen),
        _column(batch, SIZE).cast(pa.int64()),
        instants(_column(batch, MODIFIED)),
        pc.struct_field(tags, "md5"),
        _classes(batch),
    )


def _classes(batch: pa.RecordBatch) -> pa.StringArray | None:
    """Return the storage classes, which an inventory need not have; null where none is named."""
    if CLASS not in batch.schema.names:
        return None
    classes = batch.column(CLASS).cast(pa.string())
    return pc.if_else(pc.equal(classes, ""), pa.scalar(None, pa.string()), classes)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column that must not have nulls."""
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"{column.null_count} rows have no {name}")
    return column


def _flag(batch: pa.RecordBatch, name: str) -> pa.BooleanArray:
    column = _column(batch, name)
    if pa.types.is_boolean(column.type):
        return column
    words = pc.utf8_lower(column.cast(pa.string()))
    if not pc.all(pc.is_in(words, pa.array(["true", "false"]))).as_py():
        raise ValueError(f"a row's {name} is neither true nor false")
    return pc.equal(words, "true")


def _decoded(keys: pa.StringArray) -> pa.StringArray:
    """Undo the encoding of keys in CSV files, in which a space is a plus."""
    encoded = pc.match_substring_regex(keys, r"[%+]")
    if not pc.any(encoded).as_py():
        return keys
    return pa.array(
        [
            unquote_to_bytes(key.replace("+", " ")).decode() if "%" in key or "+" in key else key
            for key in keys.to_pylist()
        ],
        pa.string(),
    )
