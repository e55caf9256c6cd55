"""Entries of ranges in numbers: what is written is read back, and nothing else passes for it."""

import random
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest

from spark_core import lakegc_keys, schemas
from spark_core.addresses.namespace import Namespace
from spark_core.errors import CorruptTableError
from spark_core.index import entry_numbers as indexed
from spark_core.index.entry_numbers import (
    IN_DATA,
    MD5,
    IndexTargets,
    Kept,
    Spans,
    are_md5s,
    digests,
)
from spark_core.index.indexed_ranges import IndexedRanges, tree
from spark_core.index.saved import Saved
from spark_core.records import reading, writing
from spark_core.storage import StoreOptions, open_store

RANGES = {"few": 3, "none": 0, "many": 11, "one": 1}


def _entries(count, seed):
    dice = random.Random(seed)
    rows = [
        {
            "address": f"{dice.choice(['data/a', 's3://b'])}/{seed}/{number}",
            "address_hash": dice.getrandbits(62),
            "size_bytes": dice.randrange(99),
            "checksum": f"{dice.getrandbits(128):032x}",
        }
        for number in range(count)
    ]
    schema = pa.schema(
        [
            ("address", pa.string()),
            ("address_hash", pa.int64()),
            ("size_bytes", pa.int64()),
            ("checksum", pa.string()),
        ]
    )
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def _row(name):
    return {"range_id": name, "count": RANGES[name], "min_key": name.encode()}


def _store(folder):
    (folder / "repo").mkdir()
    namespace = Namespace.parse("local://repo", server_path="/bs")
    return open_store(namespace, StoreOptions(local_path=str(folder)))


@pytest.fixture
def world(monkeypatch, tmp_path):
    """An index of a few ranges in several files: the store, and what a run would save of it."""
    monkeypatch.setattr(indexed, "_ROWS_OF_A_FILE", 4)
    store, kept = _store(tmp_path), Kept()
    for seed, some in enumerate((["few", "none"], ["many"], ["one"])):
        batches = [_entries(RANGES[name], f"{seed}{name}") for name in some]
        kept.add([_row(name) for name in some], pa.concat_batches(batches))
    targets = IndexTargets.of(store, "a" * 32)
    written = indexed.write(targets, 7, kept)
    return store, kept, written.parts


def _named(parts, name):
    return [part for part in parts if part.key.startswith(f"{lakegc_keys.INDEX}{name}-")]


def _table(store, parts):
    batches = [
        batch
        for part in _named(parts, "ranges")
        for batch in reading.read_part(store, schemas.INDEXED_RANGES, part)
    ]
    return pa.Table.from_batches(batches)


def _spans(table, part, *names):
    some = [
        row
        for row in table.to_pylist()
        if row["file"] == part.key and (not names or row["range_id"] in names)
    ]
    return Spans.of(pa.Table.from_pylist(some, table.schema), np.arange(len(some)))


def test_each_range_lies_in_one_file_and_comes_back_as_it_was(world):
    store, kept, parts = world
    table = _table(store, parts)
    assert {row["range_id"]: row["count"] for row in table.to_pylist()} == RANGES
    files = {part.key: part for part in _named(parts, "entries")}
    assert len(files) == 3
    whole = pa.Table.from_batches(kept.entries)
    found = {}
    for part in files.values():
        spans = _spans(table, part)
        for entries, owners in indexed.read_ranges(store, part, spans):
            for number, name in enumerate(spans.range_ids):
                found[name] = entries.filter(pa.array(owners == number))
    rows = pa.Table.from_batches([found[name] for name in ("few", "none", "many", "one")])
    assert rows.equals(whole)


def test_single_ranges_of_a_file_are_read_without_the_others(world):
    store, _, parts = world
    table = _table(store, parts)
    part = next(part for part in _named(parts, "entries") if part.rows == 3)
    assert list(indexed.read_ranges(store, part, _spans(table, part, "none"))) == []
    part = next(part for part in _named(parts, "entries") if part.rows == 11)
    ((entries, owners),) = indexed.read_ranges(store, part, _spans(table, part, "many"))
    assert (entries.num_rows, set(owners)) == (11, {0})


@pytest.mark.parametrize(
    "change",
    [
        {"first_row": 1},
        {"digest": 5},
        {"count": 2},
        {"count": 4},
        {"outside": 9},
        {"min_key": b"another"},
    ],
)
def test_a_range_of_which_anything_is_not_as_it_was_is_refused_by_name(world, change):
    store, _, parts = world
    table = _table(store, parts)
    part = next(part for part in _named(parts, "entries") if part.rows == 3)
    rows = [{**row, **change} for row in table.to_pylist() if row["range_id"] == "few"]
    spans = Spans.of(pa.Table.from_pylist(rows, table.schema), [1])
    with pytest.raises(CorruptTableError, match="the entries of range few are not those"):
        list(indexed.read_ranges(store, part, spans))


@pytest.mark.parametrize("count", [0, -1])
def test_a_range_that_is_said_to_have_no_entries_had_none(world, count):
    store, _, parts = world
    rows = _table(store, parts).to_pylist()
    changed = [{**row, "count": count} if row["range_id"] == "few" else row for row in rows]
    target = IndexTargets.of(store, "b" * 32).ranges
    batch = pa.RecordBatch.from_pylist(changed, schema=schemas.INDEXED_RANGES)
    written = writing.write_parts(target, 0, iter((batch,)))
    with pytest.raises(CorruptTableError, match="the entries of range few are not those"):
        IndexedRanges.of(store, _saved(ranges=written.parts, entries=parts))


def test_a_digest_depends_on_every_number_of_entries_and_rows_and_not_on_the_order():
    said = {"range_id": "x", "count": 5, "min_key": b"a", "outside": 1}

    def digest(entries, **other):
        return digests(entries, pa.Table.from_pylist([{**said, **other}])).tolist()

    rows = indexed.in_numbers(_entries(5, "x"))
    whole = digest(rows)
    assert digest(rows.take(pa.array([4, 2, 0, 1, 3]))) == whole
    for other in ({"range_id": "y"}, {"min_key": b"b"}, {"outside": 0}):
        assert digest(rows, **other) != whole
    for number in range(rows.num_columns):
        column = rows.column(number).to_numpy().copy()
        column[2] ^= 1
        columns = [*rows.columns]
        columns[number] = pa.array(column)
        assert digest(pa.record_batch(columns, schema=rows.schema)) != whole
    assert digest(rows.slice(0, 4), count=4) != whole


def test_flags_say_where_an_object_lies_and_what_a_checksum_is():
    rows = pa.RecordBatch.from_pydict(
        {
            "address": ["data/a/b", "data/a/c", "s3://else/where"],
            "address_hash": [1, 2, 3],
            "size_bytes": [1, 2, 3],
            "checksum": ["0" * 32, "0" * 31 + "-", "f" * 32],
        }
    )
    assert indexed.in_numbers(rows).column("flags").to_pylist() == [IN_DATA | MD5, IN_DATA, MD5]


def test_an_md5_has_32_small_hexadecimal_digits():
    texts = ["0123456789abcdef" * 2, "0123456789ABCDEF" * 2, "g" * 32, "", None, "0" * 33, "ü" * 16]
    column = pa.array(["x", *texts, "a" * 32]).slice(1)
    assert are_md5s(column).tolist() == [True, *[False] * 6, True]


def test_what_is_known_of_an_index_are_ranges_once_and_metaranges_whose_ranges_are_known(world):
    store, _, parts = world
    trees = pa.concat_batches(
        [
            tree("whole", pa.array(["many", "few"])),
            tree("empty", pa.array([], pa.string())),
            tree("lacking", pa.array(["few", "unread"])),
        ]
    )
    target = IndexTargets.of(store, "b" * 32).trees
    written = writing.write_parts(target, 0, iter((trees,)))
    ranges = _named(parts, "ranges")
    known = IndexedRanges.of(
        store, _saved(trees=written.parts, ranges=[*ranges, *ranges], entries=parts)
    )
    assert sorted(known.ranges["range_id"].to_pylist()) == sorted(RANGES)
    names = known.ranges["range_id"].to_pylist()
    assert {id_: [names[row] for row in rows] for id_, rows in known.trees.items()} == {
        "whole": ["many", "few"],
        "empty": [],
    }
    assert known.places(pa.array(["one", "other"])).tolist() == [names.index("one"), -1]


@pytest.mark.parametrize(
    ("column", "value"), [("range_ids", ["many"]), ("metarange_id", "another")]
)
def test_a_metarange_with_the_ranges_of_another_is_refused_by_name(world, column, value):
    store, _, parts = world
    whole = tree("whole", pa.array(["many", "few"]))
    at = whole.schema.get_field_index(column)
    field = whole.schema.field(at)
    other = whole.set_column(at, field, pa.array([value], field.type))
    name = other["metarange_id"][0]
    target = IndexTargets.of(store, "b" * 32).trees
    written = writing.write_parts(target, 0, iter((other,)))
    saved = _saved(trees=written.parts, ranges=_named(parts, "ranges"), entries=parts)
    with pytest.raises(CorruptTableError, match=f"the ranges of metarange {name} are not those"):
        IndexedRanges.of(store, saved)


def _saved(**files):
    said = dict.fromkeys([each.name for each in fields(Saved)], ())
    return Saved(**{**said, **{name: tuple(some) for name, some in files.items()}})
