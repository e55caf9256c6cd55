"""What a mark names although a sweep reported it deleted: counted on arrays."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_core.mark.deleted_before import _amount


def _bucket(outcomes, named):
    """The outcomes as (address, sweep, outcome), and the names, with ten bytes each."""
    return {
        "outcomes": pa.table(
            {
                name: pa.array([row[at] for row in outcomes], kind)
                for at, (name, kind) in enumerate(
                    [("address", pa.string()), ("sweep", pa.int32()), ("outcome", pa.string())]
                )
            }
        ),
        "named": pa.table(
            {
                "address": pa.array(named, pa.string()),
                "size_bytes": pa.array([10] * len(named), pa.int64()),
            }
        ),
    }


@pytest.mark.parametrize(
    ("outcomes", "named", "objects"),
    [
        ([("a", 0, "deleted"), ("b", 0, "deleted")], ["a", "c"], 1),
        ([("a", 0, "deleted"), ("a", 0, "restored")], ["a"], 0),
        # A later sweep deleted it again; what came back before that does not count.
        ([("a", 1, "deleted"), ("a", 1, "restored"), ("a", 0, "deleted")], ["a"], 1),
        ([("a", 1, "deleted"), ("a", 0, "deleted")], ["a"], 1),
        ([], ["a"], 0),
        ([("a", 0, "deleted")], [], 0),
    ],
)
def test_an_object_counts_once_if_a_sweep_deleted_it_and_no_restore_of_that_sweep_brought_it_back(
    outcomes, named, objects
):
    assert _amount(_bucket(outcomes, named)).receipt == (objects, 10 * objects)
