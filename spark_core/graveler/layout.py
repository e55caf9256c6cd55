"""The numbers of the one table format that lakeFS writes, shared by reader and writer.

References:
    lakefs-facts 2.2; pebble `sstable/table.go` (RocksDB format, version 2).
"""

from __future__ import annotations

FOOTER_SIZE = 53
MAGIC = bytes.fromhex("f7cff485b741e288")
FORMAT_VERSION = 2
CHECKSUM_CRC32C = 1

# Behind each block: one byte for its type, four for its checksum.
TRAILER_SIZE = 5
PLAIN, SNAPPY = 0, 1
CRC_MASK = 0xA282EAD8

PROPERTIES_BLOCK = b"rocksdb.properties"
SINGLE_LEVEL, TWO_LEVEL = 0, 2
