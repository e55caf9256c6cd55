"""A listing that goes backwards is found, wherever its pages are cut.

One in the order of bytes never is.
"""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core.errors import IncompleteReadError
from spark_core.storage.listing_order import InOrder

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


def pages(keys, cuts):
    edges = [0, *sorted(cut for cut in cuts if cut <= len(keys)), len(keys)]
    return [pa.array(keys[begin:end], pa.string()) for begin, end in itertools.pairwise(edges)]


def require(found):
    order = InOrder("s3://bucket/ns/data/")
    for page in found:
        order.require(page)


@given(keys=st.lists(names, max_size=12), cuts=st.sets(st.integers(0, 12)))
def test_only_strictly_ascending_bytes_pass_however_they_are_cut(keys, cuts):
    encoded = [key.encode() for key in keys]
    if all(left < right for left, right in itertools.pairwise(encoded)):
        require(pages(keys, cuts))
        return
    with pytest.raises(IncompleteReadError, match="s3://bucket/ns/data/ is not in order"):
        require(pages(keys, cuts))


def test_the_two_names_are_told():
    order = InOrder("s3://bucket/ns/")
    order.require(["a", "b"])
    order.require([])
    with pytest.raises(IncompleteReadError, match="'b' came after 'b'"):
        order.require(["b", "c"])
