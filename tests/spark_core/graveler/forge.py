"""Make broken tables whose checksums fit, so that what lies behind the checksums is tested too."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import cramjam
import google_crc32c

from spark_core.graveler.loops.stored_blocks import CRC_MASK
from spark_core.graveler.sstable import open_table
from spark_core.graveler.table_format import FOOTER_SIZE, MAGIC
from spark_core.graveler.wire import uvarint


def block(entries: list[tuple[int, bytes, bytes]], restarts: int = 1) -> bytes:
    """A block of (shared, unshared key bytes, value)."""
    body = b"".join(
        uvarint(shared) + uvarint(len(key)) + uvarint(len(value)) + key + value
        for shared, key, value in entries
    )
    return body + bytes(4 * restarts) + restarts.to_bytes(4, "little")


def plain(entries: dict[bytes, bytes]) -> bytes:
    return block([(0, key, value) for key, value in entries.items()])


def stored(payload: bytes, kind: int = 0) -> bytes:
    """A block on disk, with type and fitting checksum."""
    checksum = google_crc32c.value(payload + bytes([kind]))
    masked = ((checksum >> 15 | checksum << 17 & 0xFFFFFFFF) + CRC_MASK) & 0xFFFFFFFF
    return payload + bytes([kind]) + masked.to_bytes(4, "little")


def handle(offset: int, length: int) -> bytes:
    return uvarint(offset) + uvarint(length)


@dataclass
class Forgery:
    """A table laid out anew from parts, any of which may be replaced.

    Attributes:
        blocks: Decompressed data blocks.
        properties: All properties.
        kinds: Type byte of each data block.
        index: Entries of the index block; None for the right ones.
        index_block: The index block itself; None for that of `index`.
        metaindex: Entries of the metaindex block; None for the right one.
        footer: Checksum type, version and magic.
    """

    blocks: list[bytes]
    properties: dict[str, bytes]
    kinds: list[int] = field(default_factory=list)
    index: list[tuple[int, bytes, bytes]] | None = None
    index_block: bytes | None = None
    metaindex: dict[bytes, bytes] | None = None
    metaindex_kind: int = 0
    checksum_type: int = 1
    version: int = 2
    magic: bytes = MAGIC
    handles: bytes | None = None

    @classmethod
    def of(cls, data: bytes) -> Forgery:
        """Take a good table apart."""
        table = open_table(data, name="good")
        starts = table.data.starts.tolist()
        raw = table.data.buffer.tobytes()
        blocks = [raw[begin:end] for begin, end in pairwise(starts)]
        properties = dict(table.properties)
        properties["rocksdb.block.based.table.index.type"] = bytes(4)
        return cls(blocks, properties)

    def good_index(self) -> bytes:
        """The index block that fits the data blocks."""
        offset, entries = 0, []
        for number, payload in enumerate(self.blocks):
            entries.append((0, b"key%08d" % number, handle(offset, len(payload))))
            offset += len(payload) + 5
        return block(entries)

    def data(self) -> bytes:
        """Lay the table out, with a one-level index."""
        kinds = self.kinds or [0] * len(self.blocks)
        file = b"".join(map(stored, self.blocks, kinds))
        index_at, index = len(file), self.good_index() if self.index is None else block(self.index)
        if self.index_block is not None:
            index = self.index_block
        file += stored(index)
        properties_at, properties = (
            len(file),
            plain({k.encode(): self.properties[k] for k in sorted(self.properties)}),
        )
        file += stored(properties)
        named = {b"rocksdb.properties": handle(properties_at, len(properties))}
        metaindex_at, metaindex = (
            len(file),
            plain(named if self.metaindex is None else self.metaindex),
        )
        if self.metaindex_kind == 1:
            metaindex = bytes(cramjam.snappy.compress_raw(metaindex))
        file += stored(metaindex, self.metaindex_kind)
        both = handle(metaindex_at, len(metaindex)) + handle(index_at, len(index))
        footer = bytes([self.checksum_type]) + (
            both if self.handles is None else self.handles
        ).ljust(40, b"\0")
        footer += self.version.to_bytes(4, "little") + self.magic
        assert len(footer) == FOOTER_SIZE
        return file + footer
