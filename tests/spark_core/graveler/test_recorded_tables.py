"""The reader and writer against every table that a real server wrote."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakegc_dagster.sandbox.tables import (
    write_metarange,
    write_range,
    write_refs_dump,
    write_tables,
)
from lakegc_dagster.sandbox.tables.table_builder import TableBuilder
from spark_core import schemas
from spark_core.errors import CorruptTableError
from spark_core.graveler import (
    END_BYTES,
    Timestamp,
    commit_id,
    decode_entry,
    entry_identity,
    is_metarange,
    read_commit_records,
    read_metarange,
    read_range,
    read_records,
    read_refs,
)
from spark_core.graveler.encoded_entries import encode_entry, encode_value
from spark_core.graveler.identity import TableHash
from spark_core.model import Branch, Tag
from tests.support import golden

HASHED = ("type", "entity", "schema_name", "schema_definition")
LOCAL = "local://"
# How the server of many-ranges was set.
SMALL_RANGES = {"max_range_size_bytes": 16384, "raggedness": 150}


def files_of(tables, type_, *, objects=True):
    for repository, files in tables.items():
        for name, data in files.items():
            table = read_records(data, name=name)
            if (
                table.properties["type"] == type_.encode()
                and ("entity" not in table.properties) == objects
            ):
                yield repository, name, data, table


def rows(data, name):
    table = read_records(data, name=name)
    return [
        decode_entry(payload, path=key, name=name)
        for key, payload in zip(table.keys.to_pylist(), table.payloads.to_pylist(), strict=True)
    ]


def shown_address(repository, entry):
    """Return the address as the expectation has it: relative in the namespace, else a URI."""
    if entry.address_type == 1:
        return entry.address
    address = entry.address
    namespace = golden.server(repository)["repository"]["storage_namespace"].rstrip("/") + "/"
    for inside in (namespace, LOCAL + golden.SERVER_PATH + "/" + namespace.removeprefix(LOCAL)):
        if address.startswith(inside):
            return address.removeprefix(inside)
    return address


def with_paths(row):
    """An expected row with the recorded paths in place of the placeholders."""
    paths = {
        "<BLOCKSTORE>": golden.SERVER_PATH,
        "<EXTERNAL>": golden.SERVER_PATH.removesuffix("bs") + "ext",
    }
    for placeholder, path in paths.items():
        row = [
            value.replace(placeholder, path) if isinstance(value, str) else value for value in row
        ]
    return row


def shown(repository, entry):
    return [
        entry.path.decode(),
        shown_address(repository, entry),
        entry.size_bytes,
        entry.checksum,
        int(entry.last_modified.timestamp()),
        entry.content_type or "application/octet-stream",
        dict(entry.metadata) or None,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("repository", golden.slow_where_large(golden.REPOSITORIES))
def test_every_metarange_holds_what_the_server_listed(repository, tables):
    files, expected = tables[repository], golden.expected(repository)
    for metarange_id, indexes in expected["metaranges"].items():
        if metarange_id == "":
            assert indexes == []
            continue
        ranges = read_metarange(files[metarange_id], name=metarange_id, expected_id=metarange_id)
        assert ranges.schema == schemas.METARANGE_RANGES
        entries = []
        for described in ranges.to_pylist():
            data = files[described["range_id"]]
            batch = read_range(
                data,
                name=described["range_id"],
                expected_count=described["count"],
                expected_id=described["range_id"],
            )
            assert batch.schema == schemas.RANGE_ENTRIES
            batch.validate(full=True)
            whole = rows(data, described["range_id"])
            assert batch.to_pylist() == [
                {
                    "path": entry.path,
                    "address": entry.address,
                    "address_type": entry.address_type,
                    "size_bytes": entry.size_bytes,
                    "checksum": entry.checksum,
                }
                for entry in whole
            ]
            assert (described["min_key"], described["max_key"]) == (whole[0].path, whole[-1].path)
            entries += whole
        listed = sorted(
            (with_paths(expected["entry_table"][i]) for i in indexes),
            key=lambda row: row[0].encode(),
        )
        assert [shown(repository, entry) for entry in entries] == [row[:7] for row in listed]
        assert all(
            entry.address == row[7]
            for entry, row in zip(entries, listed, strict=True)
            if len(row) > 7
        )


@pytest.mark.slow
def test_the_recorded_repositories_cover_what_the_reader_must_know(tables):
    ranges = list(files_of(tables, "ranges"))
    kinds = {table.properties["rocksdb.block.based.table.index.type"][0] for *_, table in ranges}
    address_types = {
        entry.address_type for _, name, data, _ in ranges for entry in rows(data, name)
    }
    assert kinds == {0, 2}
    assert address_types == {1, 2}
    assert len(ranges) > 100
    assert any(len(table.keys) == 0 for *_, table in files_of(tables, "metaranges"))


def test_every_recorded_file_is_written_again_byte_for_byte(tables):
    for files in tables.values():
        for name, data in files.items():
            table = read_records(data, name=name)
            builder = TableBuilder(
                {key: table.properties[key].decode() for key in HASHED if key in table.properties}
            )
            for key, identity, payload in zip(
                table.keys.to_pylist(),
                table.identities.to_pylist(),
                table.payloads.to_pylist(),
                strict=True,
            ):
                builder.add(key, encode_value(identity, payload))
            written = builder.finish()
            assert written.id == name
            assert written.data == data


@pytest.mark.slow
def test_entries_written_again_give_the_servers_range_byte_for_byte(tables):
    for _, name, data, table in files_of(tables, "ranges"):
        entries = rows(data, name)
        assert [encode_entry(entry) for entry in entries] == table.payloads.to_pylist()
        assert [entry_identity(entry) for entry in entries] == table.identities.to_pylist()
        written = write_range(entries)
        assert (written.id, written.data) == (name, data)
        assert written.count == len(entries)


@pytest.mark.slow
def test_ranges_written_again_give_the_servers_metarange_byte_for_byte(tables):
    for repository, name, data, _ in files_of(tables, "metaranges"):
        described = read_metarange(data, name=name).to_pylist()
        ranges = [
            write_range(rows(tables[repository][row["range_id"]], row["range_id"]))
            for row in described
        ]
        assert [(r.id, r.min_key, r.max_key, r.estimated_size_bytes, r.count) for r in ranges] == [
            tuple(row.values()) for row in described
        ]
        written = write_metarange(ranges)
        assert (written.id, written.data) == (name, data)


def test_entries_are_cut_into_the_servers_ranges(tables):
    # The first commit was written in one go by a server with small ranges; later ones keep ranges
    # of earlier ones.
    files, expected = tables["many-ranges"], golden.expected("many-ranges")
    metarange_id = next(id_ for id_, indexes in expected["metaranges"].items() if indexes)
    described = read_metarange(files[metarange_id], name=metarange_id).to_pylist()
    entries = [
        entry for row in described for entry in rows(files[row["range_id"]], row["range_id"])
    ]
    metarange, ranges = write_tables(entries, **SMALL_RANGES)
    assert len(ranges) == 20
    assert [table.id for table in ranges] == [row["range_id"] for row in described]
    assert metarange.id == metarange_id


def dump_of(repository):
    return golden.server(repository)["refs_dump"]["refs"]


WITH_DUMP = [
    name for name in golden.REPOSITORIES if (golden.server(name).get("refs_dump") or {}).get("done")
]


@pytest.mark.parametrize("repository", WITH_DUMP)
def test_a_refs_dump_holds_the_commits_branches_and_tags_of_the_api(repository, tables):
    server, dump = golden.server(repository), dump_of(repository)
    fetch = tables[repository].__getitem__
    refs = read_refs(
        fetch,
        commits_metarange_id=dump["commits_meta_range_id"],
        branches_metarange_id=dump["branches_meta_range_id"],
        tags_metarange_id=dump["tags_meta_range_id"],
    )
    whole = {
        commit.id: commit for commit in read_commit_records(fetch, dump["commits_meta_range_id"])
    }
    for commit in server["commits"]:
        record = whole[commit["id"]]
        assert (
            record.committer,
            record.message,
            dict(record.metadata),
            record.creation_date.seconds,
        ) == (
            commit["committer"],
            commit["message"],
            commit["metadata"],
            commit["creation_date"],
        )
        read = refs.commits[commit["id"]]
        assert (read.id, list(read.parents), read.metarange_id, read.version, read.generation) == (
            commit["id"],
            commit["parents"],
            commit["meta_range_id"],
            commit["version"],
            commit["generation"],
        )
        assert read.creation_date.replace(microsecond=0) == datetime.fromtimestamp(
            commit["creation_date"], UTC
        )
    assert {commit["id"] for commit in server["commits"]} <= set(refs.commits)
    assert [(branch.id, branch.commit_id) for branch in refs.branches] == [
        (branch["id"], branch["commit_id"]) for branch in server["branches"]
    ]
    assert [(tag.id, tag.commit_id) for tag in refs.tags] == [
        (tag["id"], tag["commit_id"]) for tag in server["tags"]
    ]


@pytest.mark.parametrize("repository", WITH_DUMP)
def test_a_refs_dump_written_again_is_the_servers_byte_for_byte(repository, tables):
    dump = dump_of(repository)
    fetch = tables[repository].__getitem__
    commits = read_commit_records(fetch, dump["commits_meta_range_id"])
    refs = read_refs(
        fetch,
        commits_metarange_id=dump["commits_meta_range_id"],
        branches_metarange_id=dump["branches_meta_range_id"],
        tags_metarange_id=dump["tags_meta_range_id"],
    )
    assert all(commit.with_id() == commit for commit in commits)
    written = write_refs_dump(
        commits=reversed(commits),
        branches=refs.branches[::-1],
        tags=refs.tags[::-1],
        **(SMALL_RANGES if repository == "many-ranges" else {}),
    )
    assert written[:3] == (
        dump["commits_meta_range_id"],
        dump["branches_meta_range_id"],
        dump["tags_meta_range_id"],
    )
    for table in written.files:
        assert table.data == tables[repository][table.id]


def test_the_constants_of_the_servers_own_tests():
    table = TableHash({})
    table.add(b"key", b"value")
    assert table.id() == "1f60902cb44890618d61597673a62e44cf526f5991d9db687141218985fe60b8"
    moment = Timestamp.of(datetime(2021, 1, 24, 15, 10, 12, tzinfo=UTC))
    assert (
        commit_id(
            committer="some-committer",
            message="I just committed",
            metarange_id="123456789987654321",
            creation_date=moment.seconds,
            metadata={"sdkjvcnbkjndsc": "asnjkdl", "sdkafjnb": "1234"},
            parents=["132456987153687sdfsdf", "1324569csfvdkjhcsdkjc"],
        )
        == "f1a106bbeb12d3eb54418d6000f4507501d289d0d0879dcce6f4d31425587df1"
    )


def test_an_empty_dump_is_three_tables_without_ranges():
    written = write_refs_dump(
        commits=[], branches=[Branch("main", "c" * 64)], tags=[Tag("v1", "c" * 64)]
    )
    files = {table.id: table.data for table in written.files}
    refs = read_refs(
        files.__getitem__,
        commits_metarange_id=written.commits_metarange_id,
        branches_metarange_id=written.branches_metarange_id,
        tags_metarange_id=written.tags_metarange_id,
    )
    assert (refs.commits, refs.branches, refs.tags) == (
        {},
        (Branch("main", "c" * 64),),
        (Tag("v1", "c" * 64),),
    )


@pytest.mark.parametrize("end", [END_BYTES, 0])
def test_the_end_of_a_table_tells_a_metarange_of_objects_from_all_others(tables, end):
    told = {True: 0, False: 0}
    for name, data in ((name, data) for files in tables.values() for name, data in files.items()):
        properties = read_records(data, name=name).properties
        is_objects = properties["type"] == b"metaranges" and "entity" not in properties
        read = data[-(end or len(data)) :]
        assert is_metarange(read, len(data), name=name) is is_objects
        told[is_objects] += 1
    assert min(told.values()) > 10


def test_an_end_without_the_properties_tells_nothing(tables):
    _, name, data, _ = next(files_of(tables, "ranges"))
    assert is_metarange(data[-100:], len(data), name=name) is None
    with pytest.raises(CorruptTableError):
        is_metarange(data[:-1], len(data) - 1, name=name)
