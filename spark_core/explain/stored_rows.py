"""Rows of a run's stored tables, by address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf

from spark_core.addresses.address_hashes import hashed
from spark_core.records.tables import TableSpec
from spark_core.run import Run
from spark_core.spark.session import surfacing_errors


@surfacing_errors()
def rows_of(
    run: Run,
    spec: TableSpec,
    addresses: Sequence[str],
    *,
    by_hash: bool = False,
    only_small: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return a row of each address in a stored table; small tables are read in memory.

    Args:
        run: The run.
        spec: The table.
        addresses: Relative addresses.
        by_hash: Whether the table is asked by the addresses' hashes.
        only_small: Leave out a table that only Spark can read.

    Raises:
        ChainError: If the run has no such table.
    """
    stored = run.load(spec)
    asked = pa.array(addresses, pa.string())
    column, values = ("address_hash", hashed(asked)) if by_hash else ("address", asked)
    if stored.is_small:
        some: Iterable[pa.RecordBatch | pa.Table] = (
            batch.filter(pc.is_in(batch.column(column), values)) for batch in stored.batches()
        )
    elif only_small:
        return {}
    else:
        frame = stored.frame(run.spark).where(sf.col(column).isin(values.to_pylist()))
        some = [frame.dropDuplicates([column]).toArrow()]
    names = dict(zip(values.to_pylist(), addresses, strict=True))
    return {names[row[column]]: row for batch in some for row in batch.to_pylist()}
