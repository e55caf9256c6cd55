"""Write lakeFS's ranges, metaranges and refs dumps, byte for byte as the server does."""

from lakegc_dagster.sandbox.tables.ranges import write_metarange, write_range, write_tables
from lakegc_dagster.sandbox.tables.refs_dump import write_refs_dump
from lakegc_dagster.sandbox.tables.table_builder import TableFile

__all__ = ["TableFile", "write_metarange", "write_range", "write_refs_dump", "write_tables"]
