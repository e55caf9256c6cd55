"""What the writer writes, the reader reads back; sizes at which the format changes are crossed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakegc_dagster.sandbox.tables import (
    write_metarange,
    write_range,
    write_refs_dump,
    write_tables,
)
from lakegc_dagster.sandbox.tables.table_builder import TableBuilder
from spark_core.errors import CorruptTableError
from spark_core.graveler import (
    CommitRecord,
    Entry,
    Timestamp,
    decode_entry,
    entry_identity,
    read_commit_records,
    read_metarange,
    read_range,
    read_records,
    read_refs,
)
from spark_core.graveler.encoded_entries import encode_entry
from spark_core.graveler.identity import TableHash
from spark_core.graveler.loops import buffers, statuses
from spark_core.graveler.loops.record_values import read_length
from spark_core.graveler.wire import ReadFile, read_uvarint, svarint, uvarint
from spark_core.model import Branch, Tag
from tests.support.examples import examples

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
INT64 = st.integers(-(2**63), 2**63 - 1)
# Prefixes and bytes at the edge of the key compression (01 begins a key's trailer) occur often
# enough.
PATHS = st.binary(max_size=12) | st.builds(
    lambda parts, tail: b"".join(parts) + tail,
    st.lists(
        st.sampled_from([b"a", b"a\x01", b"\x00", b"\x01" + bytes(7), b"\xff", b"dir/"]), max_size=6
    ),
    st.binary(max_size=3) | st.just(b"long" * 400),
)
ENTRIES = st.dictionaries(
    PATHS,
    st.builds(
        Entry,
        path=st.just(b""),
        address=TEXT.filter(bool),
        address_type=st.integers(0, 2),
        size_bytes=st.sampled_from([0, 1, 127, 128, 2**31, -1]) | INT64,
        checksum=TEXT,
        last_modified=st.datetimes(timezones=st.just(UTC)),
        content_type=TEXT,
        metadata=st.dictionaries(TEXT, TEXT, max_size=3),
        last_modified_nanos=st.integers(0, 999),
    ),
    max_size=40,
)


def at(path, entry):
    return Entry(**{**entry.__dict__, "path": path})


def sorted_entries(by_path):
    return [at(path, by_path[path]) for path in sorted(by_path)]


def read_back(table):
    records = read_records(table.data, name=table.id)
    return [
        decode_entry(payload, path=key)
        for key, payload in zip(records.keys.to_pylist(), records.payloads.to_pylist(), strict=True)
    ]


def entry(path, address=None):
    return Entry(path, address or f"data/{path.hex()}", 1, 1, "c" * 32, NOON)


@settings(max_examples=examples(25, 150), deadline=None)
@given(ENTRIES)
@example({})
@example(
    {
        b"": entry(b"", "data/x"),
        b"\x01" + bytes(7): entry(b"", "data/y"),
        b"\x01" + bytes(8): entry(b"", "z"),
    }
)
def test_entries_come_back_as_they_were_written(by_path):
    entries = sorted_entries(by_path)
    table = write_range(entries)
    batch = read_range(table.data, name=table.id, expected_count=len(entries), expected_id=table.id)
    assert batch.to_pylist() == [
        {
            "path": one.path,
            "address": one.address,
            "address_type": one.address_type,
            "size_bytes": one.size_bytes,
            "checksum": one.checksum,
        }
        for one in entries
    ]
    assert read_back(table) == entries
    assert [list(one.metadata) for one in read_back(table)] == [
        list(one.metadata) for one in entries
    ]
    records = read_records(table.data, name=table.id)
    assert records.identities.to_pylist() == [entry_identity(one) for one in entries]


@settings(max_examples=examples(12, 50), deadline=None)
@given(ENTRIES, st.integers(1, 9), st.sampled_from([300, 2000, 20 << 20]))
def test_a_commit_in_many_ranges_comes_back_whole_and_in_order(by_path, raggedness, size):
    entries = sorted_entries(by_path)
    metarange, ranges = write_tables(entries, max_range_size_bytes=size, raggedness=raggedness)
    described = read_metarange(metarange.data, name="mr", expected_id=metarange.id).to_pylist()
    files = {table.id: table.data for table in ranges}
    assert [row["range_id"] for row in described] == [table.id for table in ranges]
    assert sum(row["count"] for row in described) == len(entries)
    paths = [
        path
        for row in described
        for path in read_range(files[row["range_id"]], name="r", expected_count=row["count"])[
            "path"
        ].to_pylist()
    ]
    assert paths == sorted(by_path)
    for row in described:
        assert row["min_key"] <= row["max_key"]


@pytest.mark.parametrize("count", [1, 15, 16, 17, 31, 32, 33, 400])
def test_restarts_of_the_key_compression_do_not_show(count):
    entries = [entry(b"same/prefix/%04d" % i) for i in range(count)]
    assert read_range(write_range(entries).data, name="r")["path"].to_pylist() == [
        one.path for one in entries
    ]


@pytest.mark.parametrize("size", [1, 1500, 3900, 4096, 5000, 70_000])
def test_long_paths_give_a_two_level_index_that_is_read(size):
    entries = [entry(b"p" * size + b"%03d" % i, f"data/{i}") for i in range(60)]
    table = write_range(entries)
    kind = read_records(table.data, name="r").properties["rocksdb.block.based.table.index.type"]
    assert kind[0] == (0 if size == 1 else 2)
    assert read_range(table.data, name="r")["path"].to_pylist() == [one.path for one in entries]


def test_a_range_of_many_blocks_has_the_engines_numbers_right():
    entries = [entry(b"%06d" % i, f"data/{i * 7919 % 100_003:032x}") for i in range(5000)]
    table = write_range(entries)
    properties = read_records(table.data, name="r").properties
    source = ReadFile("r", "number")
    assert read_uvarint(properties["rocksdb.num.entries"], 0, source)[0] == 5000
    assert read_uvarint(properties["rocksdb.raw.key.size"], 0, source)[0] == 5000 * (6 + 8)
    assert int(properties["estimated_size_bytes"]) == table.estimated_size_bytes
    assert 0.9 < table.estimated_size_bytes / len(table.data) < 1.1
    named = TableHash({"type": "ranges"})
    for one in entries:
        data = encode_entry(one)
        named.add(one.path, b"\x40" + entry_identity(one) + svarint(len(data)) + data)
    assert table.id == named.id()


def test_keys_out_of_order_are_not_written():
    with pytest.raises(ValueError, match="keys must ascend strictly: b'a' after b'b'"):
        write_range([entry(b"b"), entry(b"a")])
    with pytest.raises(ValueError, match="keys must ascend strictly: b'a' after b'a'"):
        write_tables([entry(b"a"), entry(b"a")], raggedness=1)
    low, high = write_range([entry(b"a")]), write_range([entry(b"b")])
    with pytest.raises(ValueError, match="keys must ascend strictly"):
        write_metarange([high, low])


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1))
@example(0)
@example(127)
@example(128)
@example(2**63)
@example(2**64 - 1)
def test_varints_have_one_form_in_both_languages(number):
    encoded = uvarint(number)
    buffer = np.frombuffer(encoded, np.uint8)
    value, position = buffers.read_uvarint(buffer, 0, len(encoded))
    assert (value % 2**64, position) == (number, len(encoded))
    assert read_uvarint(encoded, 0, ReadFile("t", "n")) == (number, len(encoded))
    assert buffers.read_uvarint(buffer, 0, len(encoded) - 1)[1] == -statuses.CUT_VARINT
    longer = encoded[:-1] + bytes([encoded[-1] | 0x80, 0])
    assert (
        buffers.read_uvarint(np.frombuffer(longer, np.uint8), 0, len(longer))[1]
        == -statuses.LONG_VARINT
    )
    with pytest.raises(CorruptTableError, match="longer than its number needs"):
        read_uvarint(longer, 0, ReadFile("t", "n"))


@pytest.mark.parametrize(
    ("number", "size", "wanted"),
    [
        (0, 0, (0, 1)),
        (3, 3, (3, 1)),
        (3, 2, (0, -statuses.BEYOND_VALUE)),
        (32, 32, (32, 1)),
        (64, 64, (64, 2)),
        (2**62, 9, (0, -statuses.BEYOND_VALUE)),
        (-1, 9, (0, -statuses.NEGATIVE_LENGTH)),
        (-(2**63), 9, (0, -statuses.NEGATIVE_LENGTH)),
    ],
)
def test_lengths_are_zig_zag_never_negative_and_never_beyond_their_value(number, size, wanted):
    value = svarint(number) + bytes(size)
    assert read_length(np.frombuffer(value, np.uint8), 0, len(value)) == wanted


def test_lengths_of_32_and_64_are_written_as_the_server_writes_them():
    assert (svarint(32), svarint(64)) == (b"\x40", b"\x80\x01")


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 999_999_999))
@example(-1, 999_999_999)
@example(253402300799, 999_999_999)
@example(253402300800, 0)
@example(-62135596800, 0)
@example(-62135596801, 0)
@example(2**63 - 1, 0)
@example(-(2**63), 0)
def test_instants_beyond_a_calendar_are_clamped_and_all_others_exact(seconds, nanos):
    stamp = Timestamp(seconds, nanos)
    assert Timestamp.decode(stamp.encode(), ReadFile("t", "stamp")) == stamp
    instant = stamp.instant()
    if seconds > 253402300799:
        assert instant == datetime.max.replace(tzinfo=UTC)
    elif seconds < -62135596800:
        assert instant == datetime.min.replace(tzinfo=UTC)
    else:
        assert Timestamp.of(instant, nanos % 1000) == stamp


def test_an_instant_without_a_timezone_is_not_written():
    with pytest.raises(ValueError, match="timezone"):
        Timestamp.of(datetime(2026, 1, 1))  # noqa: DTZ001 - the case under test


COMMITS = st.lists(
    st.builds(
        CommitRecord,
        committer=TEXT,
        message=TEXT,
        creation_date=st.builds(
            Timestamp, st.integers(-(2**62), 2**62), st.integers(0, 999_999_999)
        ),
        metarange_id=st.sampled_from(["", "f" * 64]),
        metadata=st.dictionaries(TEXT, TEXT, max_size=3),
        parents=st.lists(TEXT, max_size=3).map(tuple),
        version=st.integers(0, 1),
        generation=st.integers(0, 2**31 - 1),
    ).map(CommitRecord.with_id),
    max_size=20,
    unique_by=lambda commit: commit.id,
)


@settings(max_examples=examples(12, 60), deadline=None)
@given(COMMITS, st.sets(TEXT.filter(bool), max_size=5))
def test_refs_come_back_as_they_were_written(commits, names):
    branches = [Branch(name, "b" * 64) for name in names]
    tags = [Tag(name, "d" * 64) for name in names]
    dump = write_refs_dump(commits=commits, branches=branches, tags=tags, raggedness=3)
    files = {table.id: table.data for table in dump.files}
    refs = read_refs(
        files.__getitem__,
        commits_metarange_id=dump.commits_metarange_id,
        branches_metarange_id=dump.branches_metarange_id,
        tags_metarange_id=dump.tags_metarange_id,
    )
    assert refs.commits == {commit.id: commit.as_commit() for commit in commits}
    assert set(refs.branches) == set(branches)
    assert set(refs.tags) == set(tags)
    assert read_commit_records(files.__getitem__, dump.commits_metarange_id) == sorted(
        commits, key=lambda commit: commit.id
    )


def test_a_dump_whose_range_is_missing_is_not_an_empty_one():
    commit = CommitRecord("me", "m", Timestamp(1), "f" * 64).with_id()
    dump = write_refs_dump(commits=[commit], branches=[], tags=[])
    files = {table.id: table.data for table in dump.files}
    (range_id,) = read_records(files[dump.commits_metarange_id], name="mr").identities.to_pylist()
    del files[range_id.decode()]
    with pytest.raises(KeyError):
        read_commit_records(files.__getitem__, dump.commits_metarange_id)


def test_the_time_does_not_lose_its_nanoseconds():
    one = Entry(
        b"a", "data/a", 1, 1, "c", NOON + timedelta(microseconds=1), last_modified_nanos=999
    )
    assert Timestamp(int(NOON.timestamp()), 1999).encode() in encode_entry(one)
    assert decode_entry(encode_entry(one), path=b"a") == one


def test_an_empty_table_is_read_and_has_empty_keys():
    table = TableBuilder({"type": "ranges"}).finish()
    records = read_records(table.data, name="empty")
    assert (len(records.keys), records.properties["min_key"], records.properties["count"]) == (
        0,
        b"",
        b"0",
    )
    assert read_range(table.data, name="empty", expected_count=0).num_rows == 0
    assert read_metarange(write_metarange([]).data, name="empty").num_rows == 0
