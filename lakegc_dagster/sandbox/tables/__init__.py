"""Write lakeFS's ranges, metaranges and refs dumps, byte for byte as the server does."""

from typing import TYPE_CHECKING

from spark_core.on_demand import on_demand

if TYPE_CHECKING:
    from lakegc_dagster.sandbox.tables.ranges import write_metarange, write_range, write_tables
    from lakegc_dagster.sandbox.tables.refs_dump import write_refs_dump
    from lakegc_dagster.sandbox.tables.table_builder import TableFile
else:
    __getattr__ = on_demand(
        __name__,
        {
            "ranges": "write_metarange write_range write_tables",
            "refs_dump": "write_refs_dump",
            "table_builder": "TableFile",
        },
    )

__all__ = ["TableFile", "write_metarange", "write_range", "write_refs_dump", "write_tables"]
