"""A listing that goes backwards is found, wherever its pages are cut; one in the order of bytes never is."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core.errors import IncompleteReadError
from spark_core.storage.order import InOrder, in_order

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


def pages(keys, cuts):
    edges = [0, *sorted(cut for cut in cuts if cut <= len(keys)), len(keys)]
    return [
        pa.record_batch([pa.array(keys[begin:end], pa.string())], ["key"]) for begin, end in itertools.pairwise(edges)
    ]


@given(keys=st.lists(names, max_size=12), cuts=st.sets(st.integers(0, 12)))
def test_only_strictly_ascending_bytes_pass_however_they_are_cut(keys, cuts):
    encoded = [key.encode() for key in keys]
    batches = pages(keys, cuts)
    if all(left < right for left, right in itertools.pairwise(encoded)):
        assert list(in_order(iter(batches), "s3://bucket/ns/data/")) == batches
        return
    with pytest.raises(IncompleteReadError, match="s3://bucket/ns/data/ is not in order"):
        list(in_order(iter(batches), "s3://bucket/ns/data/"))


def test_the_two_names_are_told():
    order = InOrder("s3://bucket/ns/")
    order.require(["a", "b"])
    order.require([])
    with pytest.raises(IncompleteReadError, match="'b' came after 'b'"):
        order.require(["b", "c"])
