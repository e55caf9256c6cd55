"""What a task leaves out of the committed addresses because it has seen it.

Nothing that anybody needs.
"""

from collections import Counter
from itertools import permutations
from types import SimpleNamespace

import pyarrow as pa

from spark_core import schemas
from spark_core.addresses.namespace import Namespace
from spark_core.mark import range_entries
from spark_core.mark.range_entries import read_ranges
from spark_core.mark.ranges import RANGES

OWN = "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag"
RELATIVE, FULL = 1, 2


def _entries(*rows):
    return pa.RecordBatch.from_pylist(
        [
            {
                "path": path,
                "address": address,
                "address_type": kind,
                "size_bytes": size,
                "checksum": checksum,
            }
            for path, address, kind, size, checksum in rows
        ],
        schema=schemas.RANGE_ENTRIES,
    )


def _read(monkeypatch, ranges, order):
    monkeypatch.setattr(range_entries.graveler, "read_range", lambda data, **_: ranges[data])
    reader = SimpleNamespace(
        store=SimpleNamespace(requests=Counter()),
        namespace=Namespace.parse("s3://bucket/repo"),
        threads=1,
        read=lambda name: name,
        name=str,
    )
    rows = [
        {
            "range_id": name,
            "count": 1,
            "min_key": b"",
            "is_head": name != "old",
            "is_retained": True,
            "why": None,
            "times": 1,
            "kept_times": 1,
        }
        for name in order
    ]
    figures = Counter()
    found = [
        row
        for batch in read_ranges(reader, pa.Table.from_pylist(rows, RANGES), figures)
        for row in batch.to_pylist()
    ]
    return found, figures


def test_an_entry_by_another_name_of_the_store_counts_beside_the_one_of_the_same_object(
    monkeypatch,
):
    """Both keep one object, but only behind the one outside may anything hide at any time."""
    ranges = {
        "inside": _entries((b"p", OWN, RELATIVE, 3, "c")),
        "outside": _entries((b"p", f"s3://access-point/repo/{OWN}", FULL, 3, "c")),
    }
    for order in permutations(ranges):
        found, _ = _read(monkeypatch, ranges, order)
        assert sorted((row["address"], row["is_live"]) for row in found) == [
            (OWN, True),
            (f"s3://access-point/repo/{OWN}", False),
        ]
        assert len({row["address_hash"] for row in found}) == 1


def test_what_differs_in_path_size_or_checksum_or_is_of_a_head_is_kept_and_all_else_left_out(
    monkeypatch,
):
    ranges = {
        "one": _entries((b"p", OWN, RELATIVE, 3, "c"), (b"q", OWN, RELATIVE, 3, "c")),
        "same": _entries((b"p", OWN, RELATIVE, 3, "c")),
        "size": _entries((b"p", OWN, RELATIVE, 4, "c")),
        "checksum": _entries((b"p", OWN, RELATIVE, 3, "d")),
        "old": _entries((b"p", OWN, RELATIVE, 3, "c"), (b"r", OWN, RELATIVE, 3, "c")),
    }
    for order in (list(ranges), list(ranges)[::-1]):
        found, figures = _read(monkeypatch, ranges, order)
        assert sorted(
            (row["head_path"] or b"", row["size_bytes"], row["checksum"] or "") for row in found
        ) == [
            (b"", 3, ""),
            (b"p", 3, "c"),
            (b"p", 3, "d"),
            (b"p", 4, "c"),
            (b"q", 3, "c"),
        ]
        assert (figures["addresses"], figures["left_out"]) == (7, 2)


def test_an_entry_is_left_out_only_for_one_with_the_hash_that_decides(monkeypatch):
    """Anybody can make two addresses of one hash.

    What they keep is told apart by the hash of what is kept.
    """
    monkeypatch.setattr(
        range_entries, "hashed", lambda values: pa.array([7] * len(values), pa.int64())
    )
    other = f"s3://elsewhere/{OWN[:-1]}0"
    ranges = {
        "made": _entries((b"p", other, FULL, 3, "c")),
        "old": _entries((b"p", OWN, RELATIVE, 3, "c")),
    }
    for order in permutations(ranges):
        found, figures = _read(monkeypatch, ranges, order)
        assert {row["address"] for row in found} == {OWN, other}
        assert figures["left_out"] == 0
        assert len({row["address_hash"] for row in found}) == 2
