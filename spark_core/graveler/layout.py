"""The numbers of the one table format that lakeFS writes, shared by reader and writer.

References:
    lakefs-facts 2.2; pebble `sstable/table.go` (RocksDB format, version 2).
"""

from __future__ import annotations

# The newest lakeFS whose messages and columns were compared with those that are read here.
LAKEFS_CHECKED = "1.84"

# Versions of commits; in 0 the order of a merge's parents is reversed. Another one may mean another main parent.
COMMIT_VERSIONS = (0, 1)

# Why a field that is not known refuses, in a message that says what is alive: Entry and RangeData.
MAY_MATTER = (
    f"lakegc knows the fields up to lakeFS {LAKEFS_CHECKED}, and another one may say which object is meant, where it lies or "
    "whether it is alive; if the server is newer than that, use a lakegc that knows it"
)

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
