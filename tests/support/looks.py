"""A second check whose result is scripted."""

from dataclasses import dataclass

import pyarrow as pa

from spark_core.records.figures import SecondLookFigures
from tests.support.figures import read

FOUND = pa.schema(
    [pa.field("address", pa.string(), nullable=False), pa.field("why", pa.string(), nullable=False)]
)


@dataclass(frozen=True)
class Looked:
    began: object
    frame: object
    figures: SecondLookFigures


def looked(*results):
    """Make a look that finds one of the results after the other, the last one again and again;
    pairs of address and why.
    """
    left = list(results)

    def look(run, _plan, _mark):
        found = left.pop(0) if len(left) > 1 else left[0]
        rows = [{"address": address, "why": why} for address, why in found]
        return Looked(
            run.now(),
            run.spark.createDataFrame(pa.Table.from_pylist(rows, schema=FOUND)),
            read(SecondLookFigures),
        )

    return look
