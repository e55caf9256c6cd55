"""Which objects of a plan a policy took."""

import pyarrow as pa

from spark_core.fates import Fate
from spark_core.references import policy_rows


def test_of_all_fates_one_is_that_a_policy_takes_it():
    fates = pa.record_batch(
        [[fate.value for fate in Fate], [f"data/{fate.value}" for fate in Fate]],
        schema=policy_rows._FATES,
    )
    (taken,) = policy_rows._taken([fates])
    assert taken.to_pylist() == [{"address": "data/taken_by_policy"}]
