"""Ranges end where the server ends them."""

from __future__ import annotations

import numpy as np

from lakegc_dagster.sandbox.tables.range_ends import ends_range, fnv1a_64


def test_the_range_splitting_hash_is_fnv1a():
    for text, wanted in (
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"foobar", 0x85944171F73967E8),
    ):
        assert int(fnv1a_64(np.frombuffer(text, np.uint8))) == wanted
    assert ends_range(b"a", 1)
    assert ends_range(b"a", 0xAF63DC4C8601EC8C)
    assert not ends_range(b"a", 0xAF63DC4C8601EC8B)
