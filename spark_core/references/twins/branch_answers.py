"""What is known of candidates once branches were asked: references, by hashes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_core.addresses.address_hashes import sorted_once
from spark_core.records.figures import TwinFigures
from spark_core.spark.exchange import numbers_of

# Objects that branches read from, each once, and where one of its branches shows it; in the order
# of their hashes.
READ_BY_BRANCH = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("branch", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Answers:
    """What branches answered. Two objects of one hash are kept alike.

    Attributes:
        read_by_branch: Columns of `READ_BY_BRANCH`, key address: candidates that a branch really
            answers from. The driver holds them.
        may_hide: Hashes of the candidates that may hide where nobody could be asked, sorted and
            once; none of those that a branch reads from. The driver holds 8 bytes for each.
        figures: What was done and found, for the manifest: also the calls that were made, and those
            that would have sufficed.
    """

    read_by_branch: pa.Table
    may_hide: Any
    figures: TwinFigures

    @property
    def read_hashes(self) -> Any:
        """Hashes of what branches read from, sorted and once."""
        return sorted_once(numbers_of(self.read_by_branch["address_hash"]))

    @property
    def hashes(self) -> Any:
        """Hashes of all that stays: what branches read from, and what may hide; sorted and once."""
        return sorted_once(np.concatenate([self.read_hashes, self.may_hide]))


# Without candidates nobody need be asked.
NONE = Answers(READ_BY_BRANCH.empty_table(), np.empty(0, np.int64), TwinFigures())
