"""Read lakeFS's ranges, metaranges and refs dumps; encode and hash what is in them.

Readers: `read_range`, `read_dated_range`, `read_metarange`, `is_metarange`, `read_records`,
`read_refs`, `read_commit_records`, `decode_entry`.
Hashes: `entry_identity`, `commit_id`. `warm_up` compiles the loops ahead. The package
converts bytes to Arrow and back; it touches no store.
"""

from typing import TYPE_CHECKING

from spark_core.on_demand import on_demand

if TYPE_CHECKING:
    from spark_core.graveler.commits import CommitRecord as CommitRecord
    from spark_core.graveler.encoded_entries import Entry as Entry
    from spark_core.graveler.encoded_entries import Timestamp as Timestamp
    from spark_core.graveler.encoded_entries import decode_entry as decode_entry
    from spark_core.graveler.encoded_entries import encode_entry as encode_entry
    from spark_core.graveler.encoded_entries import entry_identity as entry_identity
    from spark_core.graveler.identity import commit_id as commit_id
    from spark_core.graveler.metaranges import END_BYTES as END_BYTES
    from spark_core.graveler.metaranges import is_metarange as is_metarange
    from spark_core.graveler.metaranges import kind_of as kind_of
    from spark_core.graveler.metaranges import read_metarange
    from spark_core.graveler.ranges import read_dated_range as read_dated_range
    from spark_core.graveler.ranges import read_range
    from spark_core.graveler.records import SSTable as SSTable
    from spark_core.graveler.records import read_records as read_records
    from spark_core.graveler.refs import read_commit_records, read_refs
    from spark_core.graveler.warm import warm_up as warm_up
else:
    __getattr__ = on_demand(
        __name__,
        {
            "commits": "CommitRecord",
            "encoded_entries": "Entry Timestamp decode_entry encode_entry entry_identity",
            "identity": "commit_id",
            "metaranges": "END_BYTES is_metarange kind_of read_metarange",
            "ranges": "read_dated_range read_range",
            "records": "SSTable read_records",
            "refs": "read_commit_records read_refs",
            "warm": "warm_up",
        },
    )


__all__ = ["read_commit_records", "read_metarange", "read_range", "read_refs"]
