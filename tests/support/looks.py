"""A second look whose result a test says."""

from dataclasses import dataclass

import pyarrow as pa

FOUND = pa.schema([pa.field("address", pa.string(), nullable=False), pa.field("why", pa.string(), nullable=False)])


@dataclass(frozen=True)
class Looked:
    began: object
    frame: object
    facts: dict


def looked(*results):
    """Make a look that finds one of the results after the other, the last one again and again; pairs of address and why."""
    left = list(results)

    def look(run, _plan, _mark):
        found = left.pop(0) if len(left) > 1 else left[0]
        rows = [{"address": address, "why": why} for address, why in found]
        return Looked(run.now(), run.spark.createDataFrame(pa.Table.from_pylist(rows, schema=FOUND)), {})

    return look
