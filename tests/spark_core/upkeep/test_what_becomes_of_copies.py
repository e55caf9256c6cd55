"""What a purge does with copies in quarantine, decided on arrays alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_core import holds
from spark_core.holds import Hold, Holds
from spark_core.records import tables
from spark_core.upkeep.purge_quarantine_batches import COMPARED, GOES, IN_USE, what_becomes
from spark_core.upkeep.quarantine_still_needed import _reached
from tests.support.written_run import NOW, hashes_of

COPIES = pa.record_batch({"address": ["data/a", "data/b"], "key": ["aside/a", "aside/b"]})


@pytest.mark.parametrize(
    ("needed", "outcome"),
    [
        ((), [GOES, GOES]),
        (("data/a",), [COMPARED, GOES]),
        (("aside/a",), [IN_USE, GOES]),
        (("aside/b", "data/a", "data/b"), [COMPARED, IN_USE]),
    ],
)
def test_a_copy_goes_only_if_nothing_refers_to_it_or_to_its_object(needed, outcome):
    assert what_becomes(COPIES, hashes_of(*needed), holds.NONE).tolist() == outcome


@pytest.mark.parametrize("held", ["data/b", "aside/b"])
def test_what_a_hold_names_stays_by_either_of_its_names(held):
    kept = Holds((Hold("one", "address", held, None, "ann", NOW, "a test"),))
    assert what_becomes(COPIES, hashes_of(), kept).tolist() == [GOES, IN_USE]


def _bucket(*, names=(), committed=(), staged=(), by_policy=()):
    rows = {
        "names": names,
        tables.COMMITTED_ADDRESSES.name: committed,
        tables.UNCOMMITTED_ADDRESSES.name: staged,
        "by_policy": by_policy,
    }
    return {
        name: pa.table({"address_hash": pa.array(some, pa.int64())}) for name, some in rows.items()
    }


def test_what_commits_reach_and_what_is_staged_is_needed_and_the_rest_is_not():
    found = _reached(_bucket(names=[1, 2, 3, 3], committed=[2, 2, 9], staged=[3])).receipt
    assert (found.reached.tolist(), found.by_policy.tolist()) == ([2, 3], [])
    assert found.came == {
        "names": 4,
        tables.COMMITTED_ADDRESSES.name: 3,
        tables.UNCOMMITTED_ADDRESSES.name: 1,
        "by_policy": 0,
    }


def test_what_a_policy_took_is_told_apart_and_only_if_something_reaches_it():
    found = _reached(_bucket(names=[1, 2, 3], committed=[2, 3], by_policy=[1, 2])).receipt
    assert (found.reached.tolist(), found.by_policy.tolist()) == ([3], [2])


def test_a_bucket_without_names_reaches_nothing():
    found = _reached(_bucket(committed=[2], staged=[3], by_policy=[4])).receipt
    assert not np.concatenate([found.reached, found.by_policy]).size
