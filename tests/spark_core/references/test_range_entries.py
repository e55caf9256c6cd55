"""What a task leaves out of the committed addresses because it has seen it.

Nothing that anybody needs.
"""

from collections import Counter
from itertools import permutations
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.addresses.namespace import Namespace
from spark_core.errors import CorruptTableError
from spark_core.index.entry_numbers import Kept
from spark_core.references import range_entries
from spark_core.references.range_entries import read_entries, read_hashes, read_ranges
from spark_core.references.shared_ranges import RANGES

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


def _prepared(monkeypatch, ranges, order, *, newest=None):
    """The reader of ranges, and the rows that name them; `None` among ranges cannot be read."""

    def read_range(data, **_):
        if ranges[data] is None:
            raise CorruptTableError(data, 0, "broken")
        return ranges[data]

    monkeypatch.setattr(range_entries.graveler, "read_range", read_range)
    reader = SimpleNamespace(
        store=SimpleNamespace(requests=Counter(), tells_content=True),
        namespace=Namespace.parse("s3://bucket/repo"),
        threads=1,
        read=lambda name: name,
        name=str,
    )
    rows = [
        {
            "range_id": name,
            "count": 0 if ranges[name] is None else ranges[name].num_rows,
            "min_key": b"",
            "is_head": name != "old",
            "is_retained": newest is None,
            "newest": None if newest is None else newest[name],
            "why": f"of {name}",
            "times": 1,
        }
        for name in order
    ]
    return reader, pa.Table.from_pylist(rows, RANGES)


def _read(monkeypatch, ranges, order, **wanted):
    reader, named = _prepared(monkeypatch, ranges, order)
    figures = Counter()
    found = [
        row for batch in read_ranges(reader, named, figures, **wanted) for row in batch.to_pylist()
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


def _mixed():
    """Ranges of heads and of others, with entries outside, twice, and none."""
    elsewhere = "s3://elsewhere/photo.jpg"
    return {
        "one": _entries((b"p", OWN, RELATIVE, 3, "c"), (b"q", elsewhere, FULL, 4, "d")),
        "old": _entries((b"r", elsewhere, FULL, 4, "d"), (b"s", f"{OWN}1", RELATIVE, 5, "e")),
        "empty": _entries(),
        "last": _entries((b"p", OWN, RELATIVE, 3, "c"), (b"t", f"{OWN}2", RELATIVE, 6, "f")),
    }


def test_ranges_that_are_read_together_give_what_each_gives_alone(monkeypatch):
    ranges, told = _mixed(), []
    for most in (0, 60, 2**22):
        monkeypatch.setattr(range_entries, "_GROUP_BYTES", most)
        kept = Kept()
        found, figures = _read(monkeypatch, ranges, ranges, saying_why=True, kept=kept)
        told.append((found, dict(figures), kept.ranges, _whole(kept)))
    assert told[0] == told[1] == told[2]
    found, figures, kept_ranges, numbers = told[0]
    assert [(row["head_path"], row["why"]) for row in found] == [
        (b"p", "of one"),
        (b"q", "of one"),
        (None, "of old"),
        (b"t", "of last"),
    ]
    assert figures == {
        "ranges": 4,
        "entries": 6,
        "head_ranges": 3,
        "addresses": 5,
        "left_out": 1,
    }
    assert [row["range_id"] for row in kept_ranges] == list(ranges)
    # What the index keeps of a range does not depend on who has it, or on what came before.
    assert [(row["count"], row["outside"]) for row in kept_ranges] == [
        (2, 1),
        (2, 1),
        (0, 0),
        (2, 0),
    ]
    assert [row["size_bytes"] for row in numbers] == [3, 4, 4, 5, 3, 6]


def _whole(kept):
    return pa.Table.from_batches(kept.entries).to_pylist()


def test_a_range_of_expired_commits_that_cannot_be_read_is_alone_left_out(monkeypatch):
    """One is damaged, one holds an address that is refused; those read with them stay."""
    ranges = {
        "before": _entries((b"a", OWN, RELATIVE, 3, "c")),
        "damaged": None,
        "refused": _entries((b"b", f"{OWN}1", RELATIVE, 3, "c"), (b"c", "", RELATIVE, 3, "c")),
        "behind": _entries((b"d", f"{OWN}2", RELATIVE, 3, "c")),
    }
    newest = {name: number for number, name in enumerate(ranges)}
    for read, wanted in (
        (read_entries, [(b"a", newest["before"]), (b"d", newest["behind"])]),
        (read_hashes, [(None, None)] * 2),
    ):
        reader, named = _prepared(monkeypatch, ranges, ranges, newest=newest)
        figures = Counter()
        kept = Kept()
        batches = read(reader, named, figures, kept=kept)
        found = [row for batch in batches for row in batch.to_pylist()]
        assert [(row["path"], row["newest"]) for row in found] == wanted
        assert figures["unread"] == 2
        assert [row["range_id"] for row in kept.ranges] == ["before", "behind"]


@pytest.mark.parametrize("read", [read_hashes, read_entries])
def test_what_entries_of_expired_commits_say_of_an_object_stays_apart_where_it_differs(
    monkeypatch, read
):
    ranges = {
        "one": _entries((b"p", OWN, RELATIVE, 3, "c")),
        "same": _entries((b"p", OWN, RELATIVE, 3, "c")),
        "size": _entries((b"p", OWN, RELATIVE, 4, "c")),
        "checksum": _entries((b"p", OWN, RELATIVE, 3, "d")),
    }
    reader, named = _prepared(monkeypatch, ranges, ranges, newest=dict.fromkeys(ranges, 0))
    found = [row for batch in read(reader, named, Counter()) for row in batch.to_pylist()]
    one, other = (hashed(pa.array([text]))[0].as_py() for text in "cd")
    assert sorted((row["size_bytes"], row["checksum"]) for row in found) == sorted(
        [(3, one), (4, one), (3, other)]
    )
    assert len({row["address_hash"] for row in found}) == 1
