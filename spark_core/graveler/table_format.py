"""Constants of the table format that lakeFS writes, shared by reader and writer.

References:
    lakefs-facts 2.2; pebble `sstable/table.go` (RocksDB format, version 2).
"""

from __future__ import annotations

# The newest lakeFS version whose messages and columns were compared with what is read here.
LAKEFS_CHECKED = "1.84"

# Versions of commits. In version 0 the order of a merge's parents is reversed. In an unknown
# version another parent may be the main one.
COMMIT_VERSIONS = (0, 1)

# Why an unknown field of Entry or RangeData is refused: these messages say what is alive.
MAY_MATTER = (
    f"lakegc knows the fields up to lakeFS {LAKEFS_CHECKED}, and another one may say which object "
    "is meant, where it lies or whether it is alive; if the server is newer than that, use a "
    "lakegc that knows it"
)

FOOTER_SIZE = 53
MAGIC = bytes.fromhex("f7cff485b741e288")
FORMAT_VERSION = 2
CHECKSUM_CRC32C = 1

# After each block: one byte for its type, four for its checksum.
TRAILER_SIZE = 5

PROPERTIES_BLOCK = b"rocksdb.properties"
SINGLE_LEVEL, TWO_LEVEL = 0, 2
