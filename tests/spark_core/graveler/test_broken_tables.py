"""Anything broken or unknown in a table is refused, by name and offset; nothing is half read."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_dagster.sandbox.tables import write_metarange, write_range, write_refs_dump
from lakegc_dagster.sandbox.tables.ranges import write_records
from lakegc_dagster.sandbox.tables.table_builder import TableBuilder
from spark_core.errors import CorruptTableError, RefusedError
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
)
from spark_core.graveler.commits import (
    decode_commit,
    decode_pointer,
    dump_properties,
    encode_commit,
    encode_pointer,
)
from spark_core.graveler.encoded_entries import encode_entry, encode_value
from spark_core.graveler.loops import buffers, stored_blocks
from spark_core.graveler.wire import ReadFile, bytes_field, message_field, uvarint, varint_field
from spark_core.model import Branch, Tag
from tests.spark_core.graveler.forge import Forgery, block, handle, plain
from tests.support.examples import examples

SET = b"\x01" + bytes(7)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def entry(path, **changes):
    values = {
        "path": path,
        "address": "data/slice/" + path.decode("latin-1"),
        "address_type": 1,
        "size_bytes": 3,
        "checksum": "c" * 32,
        "last_modified": NOON,
        "content_type": "text/plain",
        "metadata": {"k": "v"},
    }
    return Entry(**{**values, **changes})


SMALL = write_range([entry(b"a/1"), entry(b"a/2"), entry(b"b")])


@pytest.fixture(scope="module")
def small():
    """What SMALL says; read when a test wants it, since the first reading compiles the decoder."""
    return read_range(SMALL.data, name="small")


def refuses(data, text, *, reader=read_range, **arguments):
    with pytest.raises(CorruptTableError) as caught:
        reader(data, name="the-file", **arguments)
    assert text in str(caught.value)
    assert str(caught.value).startswith("the-file")
    assert "Compare the file with the server's copy" in caught.value.next_step
    return caught.value


def forged(data=SMALL.data, **changes):
    forgery = Forgery.of(data)
    for name, value in changes.items():
        setattr(forgery, name, value)
    return forgery


def with_records(records, *, count=None, properties=None, restarts=1):
    """A range of raw (shared, key bytes with trailer, value)."""
    forgery = forged(blocks=[block(records, restarts)])
    number = len(records) if count is None else count
    forgery.properties |= {"count": b"%d" % number, "rocksdb.num.entries": uvarint(number)}
    keys, key = [], b""
    for shared, unshared, _ in records:
        key = key[:shared] + unshared
        keys.append(key[:-8])
    forgery.properties |= {"min_key": keys[0], "max_key": keys[-1], **(properties or {})}
    return forgery.data()


def with_payload(payload, identity=b"i" * 32):
    return with_records([(0, b"k" + SET, encode_value(identity, payload))])


GOOD_PAYLOAD = encode_entry(entry(b"k"))


def test_a_forged_table_of_good_parts_is_read(small):
    assert [len(one) for one in Forgery.of(SMALL.data).blocks] == [SIZE]
    assert read_range(forged().data(), name="forged").equals(small)
    assert read_range(with_payload(GOOD_PAYLOAD), name="forged").num_rows == 1


def test_every_flipped_byte_of_a_range_refuses():
    for position in range(len(SMALL.data)):
        for flip in (0x01, 0x80, 0xFF):
            broken = bytearray(SMALL.data)
            broken[position] ^= flip
            with pytest.raises(CorruptTableError, match="broken"):
                read_range(bytes(broken), name="broken")


def test_every_flipped_byte_of_a_metarange_refuses():
    data = write_metarange([SMALL]).data
    for position in range(len(data)):
        broken = bytearray(data)
        broken[position] ^= 0x10
        with pytest.raises(CorruptTableError, match="broken"):
            read_metarange(bytes(broken), name="broken")


def test_every_truncation_refuses():
    for length in range(len(SMALL.data)):
        with pytest.raises(CorruptTableError, match="cut"):
            read_range(SMALL.data[:length], name="cut")
        with pytest.raises(CorruptTableError, match="cut"):
            read_range(SMALL.data[length + 1 :], name="cut")


def test_bytes_before_or_behind_the_table_refuse():
    refuses(SMALL.data + b"\0", "magic number")
    refuses(b"\0" + SMALL.data, "checksum")
    refuses(SMALL.data + SMALL.data, "tile the file")


@pytest.mark.parametrize("magic", ["57fb808b247547db", "f09faab3f09faab3", "f7cff485b741e289"])
def test_another_magic_number_refuses(magic):
    error = refuses(
        forged(magic=bytes.fromhex(magic)).data(), f"magic number {magic}, wanted f7cff485b741e288"
    )
    assert error.offset == len(forged().data()) - 8


@pytest.mark.parametrize("version", [0, 1, 3, 2**31])
def test_another_format_version_refuses(version):
    refuses(forged(version=version).data(), f"format version {version}, wanted 2")


@pytest.mark.parametrize("kind", [0, 2, 3, 255])
def test_another_checksum_type_refuses(kind):
    refuses(forged(checksum_type=kind).data(), f"checksum type {kind}, wanted 1 (CRC32C)")


@pytest.mark.parametrize(
    ("handles", "text"),
    [
        (handle(0, 10) + handle(0, 10) + b"\x01", "behind what belongs there"),
        (handle(10**6, 10) + handle(0, 10), "block handle (1000000, 10) reaches out of the"),
        (handle(2**64 - 1, 2**64 - 1) + handle(0, 10), f"({2**64 - 1}, {2**64 - 1}) reaches out"),
        (handle(0, 2**63 - 1) + handle(0, 10), "reaches out of the"),
        (b"\xff" * 40, "a varint is longer than its number needs or than 64 bits"),
        (b"\x80" * 9 + b"\x02", "a varint is longer than its number needs or than 64 bits"),
    ],
)
def test_a_footer_with_impossible_handles_refuses(handles, text):
    refuses(forged(handles=handles).data(), text)


@pytest.mark.parametrize("kind", [2, 4, 7, 255])
def test_an_unknown_block_type_refuses(kind):
    error = refuses(
        forged(kinds=[kind]).data(), f"block type {kind}, wanted 0 (plain) or 1 (snappy)"
    )
    assert error.offset == len(Forgery.of(SMALL.data).blocks[0])


def snappy_range(raw):
    return forged(blocks=[raw], kinds=[1]).data()


def test_a_snappy_block_that_claims_too_much_refuses(small):
    good = Forgery.of(SMALL.data).blocks[0]
    pressed = bytes(cramjam.snappy.compress_raw(good))
    assert read_range(snappy_range(pressed), name="pressed").equals(small)
    refuses(
        snappy_range(uvarint(2**32 - 1) + pressed[2:]),
        "claims to be larger than snappy can make it",
    )
    refuses(
        snappy_range(b"\xff" * 9 + b"\x01" + pressed[2:]),
        "claims to be larger than snappy can make it",
    )
    refuses(snappy_range(uvarint(len(good) + 1) + pressed[2:]), "does not decompress")
    refuses(snappy_range(uvarint(len(good) - 1) + pressed[2:]), "does not decompress")
    refuses(snappy_range(pressed[:-1]), "does not decompress")
    refuses(snappy_range(b"\x80\x80"), "a varint that runs past the end")
    refuses(snappy_range(b""), "a varint that runs past the end")


def _decompressed(raw):
    file = np.frombuffer(raw, np.uint8)
    size, position = buffers.read_uvarint(file, 0, len(raw))
    if position < 0 or not 0 <= size <= 22 * len(raw):
        return None
    buffer = np.empty(size, np.uint8)
    is_sound = stored_blocks.decompress(file, position, len(raw), buffer, 0, size)
    return buffer.tobytes() if is_sound else None


def _decompressed_by_the_library(raw):
    try:
        return bytes(cramjam.snappy.decompress_raw(raw))
    except cramjam.DecompressionError:
        return None


_PIECE = st.binary(max_size=90) | st.text("ab", max_size=9).map(str.encode)
_TAGS = st.sampled_from([0, 1, 2, 3, 0xF0, 0xF4, 0xF8, 0xFC, 0xFF])


@settings(max_examples=examples(150, 3000), deadline=None)
@given(
    st.lists(st.tuples(_PIECE, st.sampled_from([1, 2, 40])), max_size=8),
    st.lists(st.tuples(st.integers(0, 10**6), _TAGS | st.integers(0, 255)), max_size=3),
)
def test_a_compressed_block_is_read_and_refused_as_by_the_library(pieces, changes):
    data = b"".join(piece * times for piece, times in pieces)
    raw = bytearray(cramjam.snappy.compress_raw(data))
    assert _decompressed(bytes(raw)) == data
    for position, byte in changes:
        raw[position % len(raw)] = byte
    assert _decompressed(bytes(raw)) == _decompressed_by_the_library(bytes(raw))


def test_a_compressed_metaindex_refuses():
    refuses(
        forged(metaindex_kind=1).data(), "the metaindex block is compressed, wanted a plain one"
    )


@pytest.mark.parametrize(
    ("metaindex", "text"),
    [
        ({}, "names nothing, wanted rocksdb.properties"),
        (
            {b"rocksdb.range_del": handle(0, 1)},
            "names b'rocksdb.range_del', wanted rocksdb.properties",
        ),
        (
            {b"pebble.value_index": handle(0, 1), b"rocksdb.properties": handle(0, 1)},
            "b'pebble.value_index', b'rocks",
        ),
        ({b"rocksdb.properties": b""}, "a varint runs past the end"),
        ({b"rocksdb.properties": handle(0, 1) + b"\0"}, "behind what belongs there"),
    ],
)
def test_another_metaindex_refuses(metaindex, text):
    refuses(forged(metaindex=metaindex).data(), text)


# Of the only block of SMALL; a number, since reading the block here would compile the decoder.
SIZE = 395


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ([(0, b"z", handle(0, SIZE) + b"\0")], "does not hold exactly one block handle"),
        ([(0, b"z", b"\0")], "a varint that runs past the end"),
        (
            [(0, b"z", b"\xff" * 10 + b"\x01")],
            "a varint longer than its number needs or than 64 bits",
        ),
        ([(0, b"z", handle(0, SIZE + 1))], "tile the file"),
        ([(0, b"z", handle(2**63, SIZE))], "reaches out of the"),
        ([(0, b"z", handle(0, 2**40))], "reaches out of the"),
        ([(1, b"z", handle(0, SIZE))], "shares more bytes than the key before it has"),
        ([(0, b"y", handle(0, SIZE)), (0, b"z", handle(0, SIZE))], "tile the file"),
        ([], "tile the file"),
    ],
)
def test_a_broken_index_refuses(index, text):
    refuses(forged(index=index).data(), text)


def test_an_index_that_lost_a_block_refuses():
    big = write_range([entry(b"%05d" % i) for i in range(200)])
    forgery = Forgery.of(big.data)
    assert len(forgery.blocks) > 2
    offset, handles = 0, []
    for payload in forgery.blocks:
        handles.append(handle(offset, len(payload)))
        offset += len(payload) + 5
    entries = [(0, b"key%08d" % i, one) for i, one in enumerate(handles)]
    forgery.index = entries[:1] + entries[2:]
    refuses(forgery.data(), "the blocks do not tile the file")
    forgery.index = [entries[1], entries[0], *entries[2:]]
    refuses(forgery.data(), "does not name the data blocks in file order")
    forgery.index = None
    forgery.properties["rocksdb.num.data.blocks"] = uvarint(len(handles) + 1)
    refuses(forgery.data(), "property rocksdb.num.data.blocks says")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"type": b"rages"}, "property `type` is 'rages', wanted `ranges` or `metaranges`"),
        ({"type": b"metaranges"}, "property `type` is `metaranges`, wanted `ranges`"),
        ({"type": None}, "property `type` is None, wanted text"),
        ({"entity": b"commit"}, "it holds records of `commit` (property `entity`), wanted objects"),
        ({"count": b"2"}, "property `count` says 2, property rocksdb.num.entries 3"),
        ({"count": b"-3"}, "property `count` is '-3', wanted a decimal number"),
        ({"count": b"3.0"}, "wanted a decimal number"),
        ({"count": b"\xb3"}, "wanted text"),
        ({"count": None}, "property `count` is None"),
        ({"count": b"9" * 30}, "wanted a decimal number"),
        (
            {"count": b"2", "rocksdb.num.entries": b"\x02"},
            "more records than the `count` property says",
        ),
        (
            {"count": b"4", "rocksdb.num.entries": b"\x04"},
            "the file holds 3 records, property `count` says 4",
        ),
        (
            {"count": b"999999", "rocksdb.num.entries": uvarint(999999)},
            "more records than its blocks can hold",
        ),
        ({"rocksdb.num.entries": b"\x83"}, "a varint runs past the end"),
        ({"rocksdb.num.entries": None}, "a varint runs past the end"),
        ({"min_key": b"a/0"}, "property `min_key` is b'a/0', the records say b'a/1'"),
        ({"max_key": b"c"}, "property `max_key` is b'c', the records say b'b'"),
        ({"min_key": None}, "property `min_key` is None"),
        (
            {"rocksdb.comparator": b"rev"},
            "rocksdb.comparator is b'rev', wanted b'leveldb.BytewiseComparator'",
        ),
        ({"rocksdb.deleted.keys": b"\x01"}, "rocksdb.deleted.keys"),
        ({"rocksdb.num.range-deletions": b"\x01"}, "rocksdb.num.range-deletions"),
        ({"rocksdb.merge.operands": b"\x01"}, "rocksdb.merge.operands"),
        (
            {"rocksdb.filter.policy": b"bloom"},
            "belongs to a table format that lakeFS does not write",
        ),
        (
            {"pebble.num.value-blocks": b"\x01"},
            "belongs to a table format that lakeFS does not write",
        ),
        (
            {"rocksdb.block.based.table.index.type": b"\x01\0\0\0"},
            "index type 01000000, wanted 0 or 2",
        ),
        ({"rocksdb.block.based.table.index.type": b"\0"}, "index type 00, wanted 0 or 2"),
        ({"rocksdb.block.based.table.index.type": None}, "index type missing"),
    ],
)
def test_wrong_properties_refuse(changes, text):
    forgery = forged()
    for key, value in changes.items():
        if value is None:
            del forgery.properties[key]
        else:
            forgery.properties[key] = value
    refuses(forgery.data(), text)


def test_a_single_level_index_that_claims_two_levels_refuses():
    forgery = forged()
    forgery.properties["rocksdb.block.based.table.index.type"] = b"\x02\0\0\0"
    refuses(forgery.data(), "found")


def test_the_metaranges_count_must_agree(small):
    assert read_range(SMALL.data, name="small", expected_count=3).equals(small)
    refuses(SMALL.data, "the range holds 3 entries, its metarange says 4", expected_count=4)


def test_the_content_must_have_the_expected_id(small):
    other = write_range([entry(b"a/1"), entry(b"a/2", address="data/slice/other"), entry(b"b")])
    assert read_range(SMALL.data, name="small", expected_id=SMALL.id).equals(small)
    refuses(
        other.data, f"its content has the id {other.id}, wanted {SMALL.id}", expected_id=SMALL.id
    )
    metarange = write_metarange([SMALL])
    read_metarange(metarange.data, name="mr", expected_id=metarange.id)
    refuses(metarange.data, f"wanted {SMALL.id}", reader=read_metarange, expected_id=SMALL.id)


VALUE = encode_value(b"i" * 32, GOOD_PAYLOAD)


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([(0, b"a" + b"\x00" + bytes(7), VALUE)], "not a plain SET"),  # a deletion
        ([(0, b"a" + b"\x02" + bytes(7), VALUE)], "not a plain SET"),  # a merge
        ([(0, b"a" + b"\x01\x01" + bytes(6), VALUE)], "not a plain SET"),  # a sequence number
        ([(0, b"a" + bytes(6), VALUE)], "without its own 8-byte trailer"),
        ([(0, b"b" + SET, VALUE), (0, b"a" + SET, VALUE)], "not greater than the one before it"),
        ([(0, b"a" + SET, VALUE), (0, b"a" + SET, VALUE)], "not greater than the one before it"),
        ([(0, b"ab" + SET, VALUE), (1, SET, VALUE)], "not greater than the one before it"),
        ([(0, b"ab" + SET, VALUE), (11, b"c" + SET, VALUE)], "shares more bytes"),
        ([(1, b"a" + SET, VALUE)], "shares more bytes"),
    ],
)
def test_records_that_lakefs_does_not_write_refuse(records, text):
    refuses(with_records(records), text)


def test_a_key_that_shares_the_trailer_of_the_one_before_it_is_rebuilt():
    table = read_range(with_records([(0, b"a" + SET, VALUE), (3, b"z" + SET, VALUE)]), name="odd")
    assert table["path"].to_pylist() == [b"a", b"a\x01\x00z"]


def test_keys_out_of_order_across_blocks_refuse():
    forgery = forged(blocks=[block([(0, b"b" + SET, VALUE)]), block([(0, b"a" + SET, VALUE)])])
    forgery.properties |= {
        "count": b"2",
        "rocksdb.num.entries": b"\x02",
        "rocksdb.num.data.blocks": b"\x02",
        "min_key": b"b",
        "max_key": b"a",
    }
    refuses(forgery.data(), "not greater than the one before it")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "list of restarts does not fit"),
        (b"\x01\0\0\0", "list of restarts does not fit"),
        (bytes(8), "list of restarts does not fit"),
        (bytes(4) + b"\xff\xff\xff\xff", "list of restarts does not fit"),
        (b"\x00\x7f\x00a" + bytes(4) + b"\x01\0\0\0", "a key longer than the rest of its block"),
        (b"\x00\x01\x7fa" + bytes(4) + b"\x01\0\0\0", "a value longer than the rest of its block"),
        (
            b"\x00" + b"\xff" * 9 + b"\x01\x00a" + bytes(4) + b"\x01\0\0\0",
            "a key longer than the rest",
        ),
        (
            b"\x00\x01" + b"\xff" * 9 + b"\x01a" + bytes(4) + b"\x01\0\0\0",
            "a value longer than the rest",
        ),
        (b"\xff" * 9 + b"\x01\x01\x00a" + bytes(4) + b"\x01\0\0\0", "shares more bytes"),
        (
            b"\xff" * 11 + bytes(4) + b"\x01\0\0\0",
            "a varint longer than its number needs or than 64 bits",
        ),
        (
            b"\xff" * 9 + b"\x02" + bytes(4) + b"\x01\0\0\0",
            "a varint longer than its number needs or than 64 bits",
        ),
        (b"\x80\x80" + bytes(4) + b"\x01\0\0\0", "a varint that runs past the end"),
        (b"\x80\x00" + bytes(4) + b"\x01\0\0\0", "a varint longer than its number needs"),
    ],
)
def test_broken_blocks_refuse(raw, text):
    forgery = forged(blocks=[raw])
    forgery.properties |= {
        "count": b"0",
        "rocksdb.num.entries": b"\x00",
        "min_key": b"",
        "max_key": b"",
    }
    refuses(forgery.data(), text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", "a varint that runs past the end"),
        (b"\x01", "a negative length in a value"),
        (b"\xff" * 9 + b"\x01", "a negative length in a value"),
        (b"\xfe" + b"\xff" * 8 + b"\x01", "runs past the value's end"),
        (b"\x40" + b"i" * 31, "runs past the value's end"),
        (b"\x40" + b"i" * 32, "a varint that runs past the end"),
        (b"\x40" + b"i" * 32 + b"\x03", "a negative length in a value"),
        (b"\x40" + b"i" * 32 + b"\x04a", "runs past the value's end"),
        (VALUE + b"\0", "bytes after the data of a value"),
        (encode_value(b"i" * 31, GOOD_PAYLOAD), "has 31 bytes, wanted 32"),
        (encode_value(b"", GOOD_PAYLOAD), "has 0 bytes, wanted 32"),
    ],
)
def test_broken_values_refuse(value, text):
    refuses(with_records([(0, b"k" + SET, value)]), text)


ADDRESS = bytes_field(1, b"data/x")


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"", "an entry without an address"),
        (encode_entry(entry(b"k", address="")), "an entry without an address"),
        (message_field(1, b""), "an entry without an address"),
        (bytes_field(1, b"data/\xff"), "the address of b'k' is not UTF-8"),
        (ADDRESS + bytes_field(4, b"\xc0\x80"), "the e_tag of b'k' is not UTF-8"),
        (ADDRESS + varint_field(6, 3), "an address_type other than 0, 1 and 2"),
        (ADDRESS + varint_field(6, -1), "an address_type other than 0, 1 and 2"),
        (ADDRESS + varint_field(8, 1), "an unknown protobuf field number"),
        (ADDRESS + bytes_field(15, b"x"), "an unknown protobuf field number"),
        (ADDRESS + bytes_field(16, b"x"), "an unknown protobuf field number"),
        (ADDRESS + uvarint(2**64 - 8), "an unknown protobuf field number"),
        (ADDRESS + b"\x00\x01", "an unknown protobuf field number"),
        (varint_field(1, 5), "a wire type that it does not have"),
        (ADDRESS + bytes_field(3, b"5"), "a wire type that it does not have"),
        (ADDRESS + bytes_field(6, b"\x01"), "a wire type that it does not have"),
        (ADDRESS + b"\x19" + bytes(8), "a wire type that it does not have"),  # fixed64
        (ADDRESS + b"\x1d" + bytes(4), "a wire type that it does not have"),  # fixed32
        (ADDRESS + b"\x0b\x0c", "a wire type that it does not have"),  # a group
        (ADDRESS + ADDRESS, "may occur only once, twice"),
        (ADDRESS + varint_field(3, 5) + varint_field(3, 6), "may occur only once, twice"),
        (ADDRESS + b"\x22\x05abc", "longer than its message"),
        (ADDRESS + b"\x22" + b"\xff" * 9 + b"\x01", "longer than its message"),
        (ADDRESS + b"\x18\x80", "a varint that runs past the end"),
        (
            ADDRESS + b"\x18" + b"\x80" * 10 + b"\x01",
            "a varint longer than its number needs or than 64 bits",
        ),
        (ADDRESS + b"\x80", "a varint that runs past the end"),
        (ADDRESS + message_field(2, varint_field(3, 1)), "an unknown protobuf field number"),
        (ADDRESS + message_field(2, bytes_field(1, b"1")), "a wire type that it does not have"),
        (ADDRESS + message_field(2, b"\x08"), "a varint that runs past the end"),
        (
            ADDRESS + message_field(5, bytes_field(1, b"a") + bytes_field(1, b"b")),
            "may occur only once, twice",
        ),
        (ADDRESS + message_field(5, varint_field(2, 1)), "a wire type that it does not have"),
        (ADDRESS + b"\x2a\x04\x0a\x09ab", "longer than its message"),
    ],
)
def test_broken_entries_refuse(payload, text):
    refuses(with_payload(payload), text)
    with pytest.raises(CorruptTableError, match=r"^the-file: entry b'k': "):
        decode_entry(payload, path=b"k", name="the-file")


def test_entries_as_old_and_new_servers_write_them_are_read():
    least = read_range(with_payload(ADDRESS), name="least").to_pylist()
    assert least == [
        {"path": b"k", "address": "data/x", "address_type": 0, "size_bytes": 0, "checksum": ""}
    ]
    explicit = ADDRESS + uvarint(3 << 3) + b"\0" + uvarint(6 << 3) + b"\0" + message_field(2, b"")
    assert read_range(with_payload(explicit), name="explicit").to_pylist() == least
    twice = ADDRESS + message_field(5, b"") + message_field(5, bytes_field(1, b"k"))
    assert read_range(with_payload(twice), name="metadata").to_pylist() == least


CHECKED = "lakegc knows the fields up to lakeFS 1.84"


@pytest.mark.parametrize("number", [8, 15, 16, 3000])
def test_a_new_field_of_an_entry_or_a_range_refuses_and_says_which_and_what_was_checked(number):
    """It could say that the object lies elsewhere, or that there is another one."""
    data = with_payload(ADDRESS + bytes_field(number, b"x"))
    error = refuses(data, f"an unknown protobuf field number, {number}, in Entry: {CHECKED}")
    assert "use a lakegc that knows it" in str(error)
    with pytest.raises(CorruptTableError, match=f"unknown field {number}: {CHECKED}"):
        decode_entry(ADDRESS + bytes_field(number, b"x"))
    row = (b"b", ID, range_data(b"a", b"b") + bytes_field(number, b"x"))
    refuses(
        metarange_of(row), f"field number, {number}, in RangeData: {CHECKED}", reader=read_metarange
    )


SOURCE = ReadFile("dump", "record")
NEW_FIELDS = [
    pytest.param(varint_field(100, 7), id="varint"),
    pytest.param(bytes_field(100, b"new"), id="bytes"),
    pytest.param(uvarint(100 << 3 | 1) + bytes(8), id="fixed64"),
    pytest.param(uvarint(100 << 3 | 5) + bytes(4), id="fixed32"),
    pytest.param(bytes_field(100, b"twice") * 2, id="twice"),
]


@pytest.mark.parametrize("new", NEW_FIELDS)
def test_a_new_field_of_a_commit_a_branch_or_a_tag_changes_nothing(new):
    """The known fields say all that matters, so a newer server must not end every mark."""
    commit = CommitRecord(
        "me", "m", Timestamp(1), "f" * 64, {"k": "v"}, ("a" * 64, "b" * 64)
    ).with_id()
    for payload in (encode_commit(commit) + new, new + encode_commit(commit)):
        assert decode_commit(payload, SOURCE) == commit
    for pointer, entity in ((Branch("main", "c" * 64), "branch"), (Tag("v1", "c" * 64), "tag")):
        assert decode_pointer(new + encode_pointer(pointer), entity, SOURCE) == (
            pointer.id,
            pointer.commit_id,
        )


@pytest.mark.parametrize(
    ("new", "text"),
    [
        (b"\x00\x01", "unknown field 0"),
        (uvarint(100 << 3 | 3), "field 100 has wire type 3, which no lakeFS writes"),
        (uvarint(100 << 3 | 1) + bytes(7), "field 100 ends 1 bytes behind its message"),
        (uvarint(100 << 3 | 2) + b"\x05abc", "field 100 ends 2 bytes behind its message"),
        (uvarint(100 << 3) + b"\x80", "a varint runs past the end"),
        (varint_field(2, 1), "field 2 has wire type 0, wanted 2"),
    ],
)
def test_a_new_field_that_is_broken_refuses_all_the_same(new, text):
    with pytest.raises(CorruptTableError, match=text):
        decode_pointer(encode_pointer(Branch("main", "c" * 64)) + new, "branch", SOURCE)


def test_a_commit_of_a_version_that_is_not_known_refuses():
    """The server counts it up when the meaning of parents changes, as from 0 to 1."""
    commit = CommitRecord("me", "m", Timestamp(1), "f" * 64, version=2).with_id()
    dump = write_refs_dump(commits=[commit], branches=[], tags=[])
    files = {table.id: table.data for table in dump.files}
    with pytest.raises(CorruptTableError, match=r"it has version 2, .*up to 1\.84 writes, 0 and 1"):
        read_commit_records(files.__getitem__, dump.commits_metarange_id)


def test_the_offset_names_the_place_in_the_file():
    data = with_payload(ADDRESS + varint_field(8, 1))
    error = refuses(data, "an unknown protobuf field number")
    assert data[error.offset : error.offset + 2] == varint_field(8, 1)
    big = [(0, b"k%03d" % i + SET, VALUE) for i in range(99)]
    records = [*big, (0, b"z" + SET, encode_value(b"i" * 32, ADDRESS + varint_field(8, 1)))]
    raw = block(records)
    forgery = forged(blocks=[bytes(cramjam.snappy.compress_raw(raw))], kinds=[1])
    forgery.properties |= {
        "count": b"100",
        "rocksdb.num.entries": uvarint(100),
        "min_key": b"k000",
        "max_key": b"z",
    }
    error = refuses(
        forgery.data(),
        f"(at byte {raw.rindex(varint_field(8, 1))} of the block that is compressed here)",
    )
    assert error.offset == 0


def test_the_error_survives_the_way_from_an_executor():
    error = refuses(SMALL.data[:-1], "magic number")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.offset) == (CorruptTableError, str(error), error.offset)
    assert isinstance(copy, RefusedError)


def range_data(low, high, size=5, count=1):
    return (
        bytes_field(1, low) + bytes_field(2, high) + varint_field(3, size) + varint_field(4, count)
    )


def metarange_of(*rows):
    builder = TableBuilder({"type": "metaranges"})
    for key, identity, payload in rows:
        builder.add(key, encode_value(identity, payload))
    return builder.finish().data


ID = b"0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([(b"b", ID[:-1], range_data(b"a", b"b"))], "wanted 64 lower-case hex digits"),
        ([(b"b", ID.upper(), range_data(b"a", b"b"))], "wanted 64 lower-case hex digits"),
        ([(b"b", b"../" + ID[3:], range_data(b"a", b"b"))], "wanted 64 lower-case hex digits"),
        ([(b"b", ID + b"\n", range_data(b"a", b"b"))], "wanted 64 lower-case hex digits"),
        ([(b"b", ID, range_data(b"a", b"c"))], "says that its last key is b'c'"),
        ([(b"b", ID, range_data(b"c", b"b"))], "begins at b'c'"),
        (
            [(b"b", ID, range_data(b"a", b"b")), (b"d", ID, range_data(b"b", b"d"))],
            "the one before it ends at b'b'",
        ),
        ([(b"b", ID, range_data(b"a", b"b", count=-1))], "a number too large for 63 bits"),
        ([(b"b", ID, range_data(b"a", b"b", size=2**63))], "a number too large for 63 bits"),
        (
            [(b"b", ID, range_data(b"a", b"b") + varint_field(5, 1))],
            "an unknown protobuf field number",
        ),
        ([(b"b", ID, range_data(b"a", b"b") + varint_field(4, 1))], "may occur only once, twice"),
        ([(b"b", ID, varint_field(1, 1))], "a wire type that it does not have"),
    ],
)
def test_broken_metaranges_refuse(rows, text):
    refuses(metarange_of(*rows), text, reader=read_metarange)


def test_one_kind_of_table_does_not_pass_for_another():
    metarange = write_metarange([SMALL])
    refuses(metarange.data, "property `type` is `metaranges`, wanted `ranges`")
    refuses(SMALL.data, "property `type` is `ranges`, wanted `metaranges`", reader=read_metarange)
    dump = write_refs_dump(commits=[], branches=[Branch("main", "c" * 64)], tags=[])
    files = {table.id: table.data for table in dump.files}
    refuses(
        files[dump.branches_metarange_id], "it holds records of `branch`", reader=read_metarange
    )
    branches = next(table for table in dump.files if table.count == 1 and table.min_key == b"main")
    assert read_records(branches.data, name="any").keys.to_pylist() == [b"main"]


def test_a_metarange_of_objects_does_not_pass_for_a_dump():
    _, ranges = write_records(
        [(b"main", encode_value(b"c", b""))], properties=dump_properties("branch")
    )
    refuses(ranges[0].data, "it holds records of `branch` (property `entity`), wanted objects")


@settings(max_examples=examples(60, 300), deadline=None)
@given(st.data())
def test_any_bytes_behind_fitting_checksums_are_refused_or_read_whole(data):
    """Changed bytes in blocks of a good table give an error or a valid batch, never a crash."""
    forgery = Forgery.of(WIDE.data)
    raw = [bytearray(one) for one in forgery.blocks]
    for _ in range(data.draw(st.integers(1, 4))):
        target = data.draw(st.sampled_from(raw))
        position = data.draw(st.integers(0, len(target) - 1))
        target[position] = data.draw(
            st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)
        )
    forgery.blocks = [bytes(one) for one in raw]
    try:
        batch = read_range(forgery.data(), name="hostile")
    except CorruptTableError:
        return
    batch.validate(full=True)
    assert batch.num_rows == WIDE.count


WIDE = write_range([entry(b"path/%03d" % i, metadata={"m": "v" * i}) for i in range(40)])


def test_the_identity_does_not_know_the_address():
    assert entry_identity(entry(b"a", address="data/1")) == entry_identity(
        entry(b"b", address="data/2")
    )
    assert plain({}) == bytes(4) + b"\x01\0\0\0"
