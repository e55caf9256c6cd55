"""Marks of lakeFS's own collection job: their place, and their addresses.

The reference job keeps the result of a mark under `_lakefs/retention/gc/unified/<mark_id>/`: the
addresses as Parquet (`deleted/`) and as text (`deleted.text/`), and last of all `summary.json`. A
sweep of that job deletes the list without looking again, however old the list is. lakegc treats the
list only as a question.

References:
    lakefs-facts 6.2, 6.6, 12.3, 12.4; lakeFS Spark client 0.22.0 `GarbageCollection.scala`.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_core import lakegc_keys
from spark_core.errors import CorruptTableError, NotFoundError, UnsafePlanError
from spark_core.json_and_toml import read_json
from spark_core.reference_job.summary import WAY_ON, Summary
from spark_core.spark.exchange import Source
from spark_core.spark.tasks import deal_out, run_tasks
from spark_core.storage import ObjectStore

SUMMARY = "summary.json"
SUCCESS = "_SUCCESS"

# One nullable string column, as Spark writes it.
ADDRESSES = pa.schema([pa.field("address", pa.string())])

# Ids are xids today. Older servers had other forms, and no form leads out of its folder.
_MARK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_PART = re.compile(r"part-[^/]+\.parquet")


@dataclass(frozen=True)
class ReferenceMark:
    """A finished mark of the reference job.

    Attributes:
        mark_id: Its id.
        summary: What it says of itself.
        parts: Keys of its Parquet files, sorted.
    """

    mark_id: str
    summary: Summary
    parts: tuple[str, ...]


@dataclass(frozen=True)
class MarkFile:
    """A Parquet file of a mark as it was read.

    Attributes:
        key: Key in the store.
        rows: Rows in it.
        sha256: Hex digest of its bytes.
    """

    key: str
    rows: int
    sha256: str


def folder(mark_id: str) -> str:
    """Return the folder of a mark, ending in a slash.

    Raises:
        UnsafePlanError: If the id is no name of a mark.
    """
    if not _MARK_ID.fullmatch(mark_id):
        raise UnsafePlanError(
            f"{mark_id[:80]!r} is not the id of a mark: wanted the name of a folder under "
            f"{lakegc_keys.UNIFIED}, like ft6s0e1ksdufuaulm34g",
            "Look into that folder of the repository's namespace.",
        )
    return f"{lakegc_keys.UNIFIED}{mark_id}/"


def load(store: ObjectStore, mark_id: str) -> ReferenceMark:
    """Find a finished mark of the reference job.

    Args:
        store: Rooted at the namespace.
        mark_id: Which one.

    Raises:
        UnsafePlanError: If `mark_id` is no id, or the mark is of a failed run or another namespace.
        NotFoundError: If the namespace has no such mark.
        CorruptTableError: If its files are not what the job writes.
    """
    where = folder(mark_id)
    key = f"{where}{SUMMARY}"
    try:
        data = store.read(key)
        summary = Summary.from_json(data, name=f"{store.root}{key}")
    except NotFoundError as missing:
        raise NotFoundError(
            f"mark {mark_id} does not exist in {store.root} ({key} is not there): it is of "
            "another repository, or its run broke off before it was finished",
            f"The marks of this repository: {_known(store)}.",
        ) from missing
    if summary.run_id != mark_id:
        raise CorruptTableError(
            f"{store.root}{key}",
            None,
            f"it is the summary of mark {summary.run_id!r}, wanted {mark_id!r}",
            WAY_ON,
        )
    _require_own_namespace(store, key, data)
    if not summary.success:
        raise UnsafePlanError(
            f"mark {mark_id} in {store.root} is of a failed run (its {SUMMARY} says success: "
            "false): its list may be anything",
            f"Name another one ({_known(store)}), or mark with lakegc.",
        )
    return ReferenceMark(mark_id, summary, _parts(store, where))


def _require_own_namespace(store: ObjectStore, key: str, data: bytes) -> None:
    """Refuse a summary that names another place: a mark that was copied here names other objects.

    Today's job names no place in its summary; a later one may.

    Raises:
        UnsafePlanError: Naming the place.
    """
    for text in _texts(read_json(data)):
        if "://" in text and not f"{text}/".startswith(store.root):
            raise UnsafePlanError(
                f"{store.root}{key} speaks of {text[:300].partition('?')[0]!r}, another "
                "namespace: the mark is not of this repository",
                "Look where it was copied from.",
            )


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for each in value.values() for text in _texts(each))
    elif isinstance(value, list):
        yield from (text for each in value for text in _texts(each))


def _parts(store: ObjectStore, where: str) -> tuple[str, ...]:
    """Return the Parquet files of a mark; the job's other files are named exactly."""
    prefixes, found = store.children(f"{where}deleted/")
    names = [key.rpartition("/")[2] for key in found.column("key").to_pylist()]
    # Names that begin like this belong to Spark and Hadoop. No reader of Parquet takes them for
    # data.
    visible = sorted(name for name in names if not name.startswith(("_", ".")))
    odd = [
        *(prefix.removeprefix(f"{where}deleted/") for prefix in prefixes),
        *(name for name in visible if not _PART.fullmatch(name)),
    ]
    if odd:
        raise CorruptTableError(
            f"{store.root}{where}deleted/",
            None,
            f"it holds {odd[0]!r}, which the reference job does not write",
            WAY_ON,
        )
    return tuple(f"{where}deleted/{name}" for name in visible)


def _known(store: ObjectStore) -> str:
    """Name the newest marks; ids begin with a time that counts down."""
    prefixes, _ = store.children(lakegc_keys.UNIFIED)
    names = sorted(prefix.removeprefix(lakegc_keys.UNIFIED).rstrip("/") for prefix in prefixes)
    return (
        ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        if names
        else "none"
    )


@dataclass(frozen=True)
class Addresses:
    """The addresses of a mark, with the hashes of the files that they were read from.

    Attributes:
        mark: The mark.
        parts: Its files, by key.
        source: Column address (nullable), as written, with duplicates.
    """

    mark: ReferenceMark
    parts: tuple[MarkFile, ...]
    source: Source[Any]


def addresses(
    spark: Callable[[], Any], store: ObjectStore, mark: ReferenceMark, *, tasks: int
) -> Addresses:
    """Hash the files of a mark, and return its addresses as a source that checks those hashes.

    Args:
        spark: Gives the session.
        store: Rooted at the namespace.
        mark: From `load`.
        tasks: Tasks to read with.

    Raises:
        CorruptTableError: If a file is no Parquet of one string column, or the files do not have as
            many rows as the summary says.
    """
    described = run_tasks(
        spark,
        deal_out(mark.parts, tasks),
        partial(_describe, store),
        rows=mark.summary.num_deleted_objects,
    )
    parts = tuple(sorted((each for some in described for each in some), key=lambda part: part.key))
    named = sum(part.rows for part in parts)
    if named != mark.summary.num_deleted_objects:
        raise CorruptTableError(
            f"{store.root}{folder(mark.mark_id)}deleted/",
            None,
            f"its {len(parts)} files hold {named} addresses, its {SUMMARY} says "
            f"{mark.summary.num_deleted_objects}",
            WAY_ON,
        )
    return Addresses(mark, parts, source(store, parts, rows=named))


def source(store: ObjectStore, parts: Sequence[MarkFile], *, rows: int) -> Source[MarkFile]:
    """Return the addresses of parts whose hashes are known: column address, as written.

    Args:
        store: Rooted at the namespace.
        parts: The parts.
        rows: How many rows they have together.
    """
    return Source(ADDRESSES, [part for part in parts if part.rows], rows, partial(_read, store))


def _describe(store: ObjectStore, _number: int, keys: Sequence[str]) -> list[MarkFile]:
    found = []
    for key in keys:
        data = store.read(key)
        rows = _opened(store, key, data).metadata.num_rows
        found.append(MarkFile(key, rows, hashlib.sha256(data).hexdigest()))
    return found


def _read(store: ObjectStore, part: MarkFile) -> Iterator[pa.RecordBatch]:
    data = store.read(part.key)
    digest = hashlib.sha256(data).hexdigest()
    if digest != part.sha256:
        raise CorruptTableError(
            f"{store.root}{part.key}",
            None,
            f"sha256 is {digest}, it was {part.sha256} a moment ago",
            WAY_ON,
        )
    try:
        for batch in _opened(store, part.key, data).iter_batches(batch_size=20_000):
            yield batch.cast(ADDRESSES)
    except (pa.ArrowException, OSError) as problem:
        raise CorruptTableError(
            f"{store.root}{part.key}", None, f"no sound Parquet file ({problem})", WAY_ON
        ) from problem


def _opened(store: ObjectStore, key: str, data: bytes) -> pq.ParquetFile:
    try:
        parquet = pq.ParquetFile(io.BytesIO(data))
        schema = parquet.schema_arrow
        names = schema.names
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise CorruptTableError(
            f"{store.root}{key}", None, f"no sound Parquet file ({problem})", WAY_ON
        ) from problem
    if names != ["address"] or not (
        pa.types.is_string(schema[0].type) or pa.types.is_large_string(schema[0].type)
    ):
        raise CorruptTableError(
            f"{store.root}{key}",
            None,
            f"its columns are {schema.to_string()!r}, wanted one string, `address`",
            WAY_ON,
        )
    return parquet
