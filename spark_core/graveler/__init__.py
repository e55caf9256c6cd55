"""Read and write lakeFS's ranges, metaranges and refs dumps, byte for byte as the server does.

Readers: `read_range`, `read_dated_range`, `read_metarange`, `is_metarange`, `read_records`,
`read_refs`, `read_commit_records`, `decode_entry`. Writers: `write_range`, `write_metarange`,
`write_tables`, `write_refs_dump`.
Hashes: `table_id`, `entry_identity`, `commit_id`. `warm_up` compiles the loops ahead. The package
converts bytes to Arrow and back; it touches no store.
"""

from spark_core.graveler.commits import CommitRecord
from spark_core.graveler.entries import Entry, Timestamp, decode_entry, encode_entry, entry_identity
from spark_core.graveler.identity import commit_id, table_id
from spark_core.graveler.metaranges import END_BYTES, is_metarange, kind_of, read_metarange
from spark_core.graveler.range_writer import write_metarange, write_range, write_tables
from spark_core.graveler.ranges import read_dated_range, read_range
from spark_core.graveler.records import SSTable, read_records
from spark_core.graveler.refs import RefsTables, read_commit_records, read_refs, write_refs_dump
from spark_core.graveler.warm import warm_up
from spark_core.graveler.writer import TableFile

__all__ = [
    "END_BYTES",
    "CommitRecord",
    "Entry",
    "RefsTables",
    "SSTable",
    "TableFile",
    "Timestamp",
    "commit_id",
    "decode_entry",
    "encode_entry",
    "entry_identity",
    "is_metarange",
    "kind_of",
    "read_commit_records",
    "read_dated_range",
    "read_metarange",
    "read_range",
    "read_records",
    "read_refs",
    "table_id",
    "warm_up",
    "write_metarange",
    "write_range",
    "write_refs_dump",
    "write_tables",
]
