"""Check the properties of a table: another property of the format means another format.

References:
    lakefs-facts 2.2; pebble `sstable/properties.go`.
"""

from __future__ import annotations

from spark_core.errors import CorruptTableError
from spark_core.graveler.table_format import SINGLE_LEVEL, TWO_LEVEL
from spark_core.graveler.wire import ReadFile, read_uvarints

# What pebble writes besides lakeFS's own properties. Another property with one of these prefixes
# means another table format.
_ENGINE_PREFIXES = ("rocksdb.", "pebble.")
_ENGINE_PROPERTIES = frozenset(
    "rocksdb." + name
    for name in (
        "block.based.table.index.type",
        "block.based.table.prefix.filtering",
        "block.based.table.whole.key.filtering",
        "column.family.id",
        "column.family.name",
        "comparator",
        "compression",
        "compression_options",
        "creation.time",
        "data.size",
        "deleted.keys",
        "external_sst_file.global_seqno",
        "external_sst_file.version",
        "file.creation.time",
        "filter.size",
        "fixed.key.length",
        "format.version",
        "index.key.is.user.key",
        "index.partitions",
        "index.size",
        "index.value.is.delta.encoded",
        "merge.operands",
        "merge.operator",
        "num.data.blocks",
        "num.entries",
        "num.range-deletions",
        "oldest.key.time",
        "prefix.extractor.name",
        "property.collectors",
        "raw.key.size",
        "raw.value.size",
        "top-level.index.size",
    )
)
_FIXED_PROPERTIES = {
    "rocksdb.comparator": b"leveldb.BytewiseComparator",
    "rocksdb.deleted.keys": b"\x00",
    "rocksdb.merge.operands": b"\x00",
    "rocksdb.num.range-deletions": b"\x00",
    "rocksdb.index.value.is.delta.encoded": b"\x00",
}


def check_properties(raw: dict[bytes, bytes], source: ReadFile) -> dict[str, bytes]:
    """Return the properties by their names, if they are those of the one format.

    Raises:
        CorruptTableError: If one belongs to another format.
    """
    try:
        properties = {key.decode("ascii"): value for key, value in raw.items()}
    except UnicodeDecodeError as error:
        raise source.fail(f"the name {error.object!r} is not ASCII") from error
    for text in properties.keys() - _ENGINE_PROPERTIES:
        if text.startswith(_ENGINE_PREFIXES):
            raise source.fail(f"{text} belongs to a table format that lakeFS does not write")
    for text, wanted in _FIXED_PROPERTIES.items():
        if properties.get(text) != wanted:
            raise source.fail(f"{text} is {properties.get(text)!r}, wanted {wanted!r}")
    return properties


def index_type(properties: dict[str, bytes], name: str) -> int:
    """Return `SINGLE_LEVEL` or `TWO_LEVEL`.

    Raises:
        CorruptTableError: If the properties say neither.
    """
    value = properties.get("rocksdb.block.based.table.index.type", b"")
    kind = int.from_bytes(value, "little") if len(value) == 4 else -1
    if kind not in (SINGLE_LEVEL, TWO_LEVEL):
        raise CorruptTableError(
            name, None, f"index type {value.hex() or 'missing'}, wanted 0 or 2 in four bytes"
        )
    return kind


def engine_number(properties: dict[str, bytes], key: str, name: str) -> int:
    """Return a number that pebble wrote.

    Raises:
        CorruptTableError: If the property is missing or is no number.
    """
    return read_uvarints(properties.get(key, b""), 1, ReadFile(name, f"property {key}"))[0]
