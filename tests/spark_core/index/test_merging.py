"""Many small files of an index become few, and say the same."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_core import lakegc_keys, schemas
from spark_core.errors import CorruptTableError
from spark_core.index import merging
from spark_core.index.merging import Files, merged
from spark_core.records import reading, writing
from spark_core.records.manifest import Part
from spark_core.records.writing import Target
from spark_core.storage import ObjectStore
from tests.support.written_run import OLD, hash_of, written_run


@pytest.fixture
def store(tmp_path: Any) -> ObjectStore:
    found: ObjectStore = written_run(tmp_path, spark=None).run.store
    return found


def put(store: ObjectStore, name: str, schema: pa.Schema, rows: list[dict[str, Any]]) -> Part:
    target = Target(store, lakegc_keys.INDEX, writing.new_attempt(), schema, name=name)
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    (part,) = writing.write_parts(target, 0, iter([batch])).parts
    return part


def read(store: ObjectStore, schema: pa.Schema, parts: tuple[Part, ...]) -> list[dict[str, Any]]:
    batches = (batch for part in parts for batch in reading.read_part(store, schema, part))
    return [row for batch in batches for row in batch.to_pylist()]


def an_object(number: int) -> dict[str, Any]:
    address = f"data/s/{number:03}"
    return {
        "slice": "s",
        "address": address,
        "size_bytes": number,
        "last_modified": OLD,
        "checksum": None,
        "standing": "candidate",
        "address_hash": hash_of(address),
    }


def slices_of(store: ObjectStore, count: int) -> tuple[Part, ...]:
    schema = schemas.NAMESPACE_SLICES
    return tuple(
        put(store, "slices", schema, [an_object(2 * n), an_object(2 * n + 1)]) for n in range(count)
    )


def without(store: ObjectStore, part: Part, row: int) -> Part:
    left = put(store, "gone", schemas.LEFT_OUT_ROWS, [{"row": row}])
    return replace(part, rows=part.rows - 1, without=left)


def test_few_files_stay_as_they_are(store: ObjectStore) -> None:
    files = Files(slices=slices_of(store, 32))
    assert merged(store, files) == files


def test_many_small_files_of_slices_become_one_without_the_rows_that_do_not_count(
    store: ObjectStore,
) -> None:
    parts = slices_of(store, 33)
    parts = (without(store, parts[0], 1), *parts[1:])
    (part,) = merged(store, Files(slices=parts)).slices
    assert part.without is None
    assert (part.rows, part.key.startswith(f"{lakegc_keys.INDEX}slices-")) == (65, True)
    numbers = [row["size_bytes"] for row in read(store, schemas.NAMESPACE_SLICES, (part,))]
    assert numbers == [0, *range(2, 66)]
    # Other documents may name the old files.
    assert all(store.exists(one.key) for one in parts)


def test_large_files_are_not_written_again(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "_ROWS", 3)
    large = put(store, "slices", schemas.NAMESPACE_SLICES, [an_object(n) for n in range(900, 903)])
    found = merged(store, Files(slices=(*slices_of(store, 33), large))).slices
    assert large in found
    assert len(found) == 2


def test_a_damaged_file_ends_it(store: ObjectStore) -> None:
    parts = slices_of(store, 33)
    store.put(parts[5].key, b"PAR1")
    before = {key for batch in store.list(lakegc_keys.INDEX) for key in batch["key"].to_pylist()}
    with pytest.raises(CorruptTableError, match="sha256"):
        merged(store, Files(slices=parts))
    after = {key for batch in store.list(lakegc_keys.INDEX) for key in batch["key"].to_pylist()}
    assert after == before


def an_entry(number: int) -> dict[str, Any]:
    return {"address_hash": number, "size_bytes": number, "checksum": 0, "flags": 1}


def range_of(name: str, file: str, first: int, count: int) -> dict[str, Any]:
    whole = {
        "range_id": name,
        "count": count,
        "min_key": b"",
        "file": file,
        "first_row": first,
        "digest": 0,
    }
    return {field: whole.get(field, 0) for field in schemas.INDEXED_RANGES.names}


def entries_of(store: ObjectStore, parts: tuple[Part, ...]) -> dict[str, list[dict[str, Any]]]:
    return {part.key: read(store, schemas.INDEXED_ENTRIES, (part,)) for part in parts}


def said(store: ObjectStore, files: Files) -> dict[str, list[int]]:
    """Return the entries of each range, as a reader finds them."""
    entries = entries_of(store, files.entries)
    found = {}
    for row in read(store, schemas.INDEXED_RANGES, files.ranges):
        rows = entries.get(row["file"], [])[row["first_row"] : row["first_row"] + row["count"]]
        found[row["range_id"]] = [one["address_hash"] for one in rows]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("most", [50, 1_000_000])
def test_ranges_say_where_their_entries_lie_now(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Files of entries are merged up to so many rows; a large one stays where it is."""
    monkeypatch.setattr(writing, "MAX_PART_ROWS", most)
    monkeypatch.setattr(merging, "_ROWS", 40)
    dice, files, count = random.Random(7), Files(), 0
    for number in range(40):
        sizes = [dice.randrange(6) for _ in range(3)] if number else [30, 30, 0]
        entries = [an_entry(count + n) for n in range(sum(sizes))]
        count += sum(sizes)
        part = put(store, "entries", schemas.INDEXED_ENTRIES, entries) if entries else None
        name = "" if part is None else part.key
        firsts = [0, sizes[0], sizes[0] + sizes[1]]
        ranges = [
            range_of(f"{number}-{n}", name if size else "", first, size)
            for n, (size, first) in enumerate(zip(sizes, firsts, strict=True))
        ]
        files = Files(
            ranges=(*files.ranges, put(store, "ranges", schemas.INDEXED_RANGES, ranges)),
            entries=files.entries if part is None else (*files.entries, part),
        )
    before = said(store, files)
    after = merged(store, files)
    assert said(store, after) == before
    assert files.entries[0] in after.entries
    assert len(after.entries) < len(files.entries)
    assert sum(part.rows for part in after.entries) == count
    assert len(after.entries) == 2 or most == 50


def test_trees_and_ranges_are_merged_by_themselves(store: ObjectStore) -> None:
    trees = tuple(
        put(
            store,
            "trees",
            schemas.INDEXED_TREES,
            [{"metarange_id": str(n), "range_ids": [f"{n}-0", f"{n}-1"], "digest": n}],
        )
        for n in range(33)
    )
    entries = put(store, "entries", schemas.INDEXED_ENTRIES, [an_entry(n) for n in range(33)])
    ranges = tuple(
        put(store, "ranges", schemas.INDEXED_RANGES, [range_of(str(n), entries.key, n, 1)])
        for n in range(33)
    )
    files = Files(trees=trees, ranges=ranges, entries=(entries,))
    after = merged(store, files)
    assert after.entries == (entries,)
    assert [len(parts) for parts in (after.trees, after.ranges)] == [1, 1]
    assert read(store, schemas.INDEXED_TREES, after.trees) == read(
        store, schemas.INDEXED_TREES, trees
    )
    assert said(store, after) == said(store, files)
