"""Which of some hashes a stored table has."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from spark_core.addresses.address_hashes import are_among, sorted_once
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark.exchange import Batches


def hashes_in_table(run: Run, table: StoredTable, hashes: Any) -> Any:
    """Return which of some hashes a table has in its column address_hash.

    Args:
        run: The run.
        table: The table.
        hashes: Hashes, sorted, each once; they travel with each task.
    """
    if not len(hashes):
        return hashes
    rows = table.source(["address_hash"])
    found = rows.each(lambda: run.spark, partial(_among, hashes))
    return sorted_once(np.concatenate([hashes[:0], *found]))


def _among(hashes: Any, batches: Batches) -> Any:
    found = [hashes[:0]]
    for batch in batches:
        some = sorted_once(batch.column("address_hash").to_numpy())
        found.append(some[are_among(some, hashes)])
    return sorted_once(np.concatenate(found))
