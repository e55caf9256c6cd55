"""The server's own files: read exactly, or refused by name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.errors import (
    AddressError,
    CorruptTableError,
    IncompleteReadError,
    RepositoryStateError,
)
from spark_core.lakefs import (
    PreparedUncommitted,
    RefsDump,
    read_refs_dump,
    read_retained,
    read_uncommitted,
    uncommitted_files,
)
from spark_core.schemas import SERVER_UNCOMMITTED, STAGED_ADDRESSES
from spark_core.storage import ObjectStore, StoreOptions, open_store
from tests.support import golden

RUN_ID = "ft6rqqpksduakb446iv0"
COMMIT = "a" * 64
HEADER = "commit_id,expired,metarange_id\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    return tmp_path / "docs"


@pytest.fixture
def store(root: Path) -> ObjectStore:
    return open_store(
        Namespace.parse("local://docs", server_path="/bs"),
        StoreOptions(local_path=str(root.parent)),
    )


def opened(name: str, tmp_path: Path) -> ObjectStore:
    golden.unpack(name, tmp_path).rename(tmp_path / name)
    return open_store(
        Namespace.parse(f"local://{name}", server_path="/bs"),
        StoreOptions(local_path=str(tmp_path)),
    )


def write_csv(root: Path, text: str) -> None:
    path = root / f"_lakefs/retention/gc/commits/run_id={RUN_ID}/commits.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode())


@pytest.mark.parametrize(
    "name",
    golden.slow_where_large(["docs-2022-03-31", "merges", "unified", "many-ranges", "s3-features"]),
)
def test_the_servers_list_is_read_as_it_was_recorded(name: str, tmp_path: Path) -> None:
    store = opened(name, tmp_path)
    for entry in golden.expected(name)["retention"]:
        if "server_run_id" not in entry:
            continue
        table = read_retained(store, entry["server_run_id"])
        assert set(table["commit_id"].to_pylist()) == set(entry["server_rows"])
        commits = golden.expected(name)["commits"]
        for commit_id, metarange_id in zip(
            *(column.to_pylist() for column in table.columns), strict=True
        ):
            assert commits[commit_id]["metarange_id"] == metarange_id


def test_the_list_of_a_bare_repository_refuses(tmp_path: Path) -> None:
    entry = golden.expected("bare")["retention"][0]
    with pytest.raises(RepositoryStateError, match=r"retains no commit at all"):
        read_retained(opened("bare", tmp_path), entry["server_run_id"])


def test_a_first_commit_has_no_metarange(root: Path, store: ObjectStore) -> None:
    write_csv(root, f"{HEADER}{COMMIT},false,\n")
    assert read_retained(store, RUN_ID).to_pylist() == [{"commit_id": COMMIT, "metarange_id": ""}]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "the header is ''"),
        (f"commit_id,metarange_id\n{COMMIT},\n", "the header is 'commit_id,metarange_id'"),
        (f"\ufeff{HEADER}{COMMIT},false,\n", "the header is"),
        (HEADER.strip(), "no end"),
        (f"{HEADER}{COMMIT},false,{COMMIT}", "no end, so the file was cut off"),
        (f"{HEADER}{COMMIT},true,\n", "line 2 is"),
        (f"{HEADER}{COMMIT},False,\n", "line 2 is"),
        (f"{HEADER}{COMMIT},false,\n{COMMIT[:-1]},false,\n", "line 3 is"),
        (f"{HEADER}{COMMIT.upper()},false,\n", "line 2 is"),
        (f"{HEADER}{COMMIT},false,abc\n", "line 2 is"),
        (f"{HEADER}{COMMIT},false,{COMMIT},x\n", "line 2 is"),
        (f'{HEADER}"{COMMIT}",false,\n', "line 2 is"),
        (f"{HEADER}{COMMIT},false,\r\n", "line 2 is"),
        (f"{HEADER}\n{COMMIT},false,\n", "line 2 is ''"),
    ],
)
def test_a_list_of_another_form_refuses(
    root: Path, store: ObjectStore, text: str, match: str
) -> None:
    write_csv(root, text)
    with pytest.raises(CorruptTableError, match=rf"(?s)commits.csv.*{match}"):
        read_retained(store, RUN_ID)


def test_a_list_that_is_not_there_refuses(store: ObjectStore) -> None:
    with pytest.raises(
        IncompleteReadError, match=r"commits.csv is not in local://docs/, although the server said"
    ):
        read_retained(store, RUN_ID)


def test_the_list_is_looked_for_under_the_servers_prefix(root: Path, store: ObjectStore) -> None:
    write_csv(root, f"{HEADER}{COMMIT},false,\n")
    (root / "_lakefs").rename(root / "tables")
    assert read_retained(store, RUN_ID, "tables").num_rows == 1


PAGED = "ft6rop1ksdubaso5glv0"


@pytest.fixture
def paged(root: Path, store: ObjectStore) -> ObjectStore:
    shutil.copytree(
        golden.DATA / f"gc-files/paged/uncommitted/{PAGED}",
        root / f"_lakefs/retention/gc/uncommitted/{PAGED}",
    )
    return store


def test_a_file_of_which_fewer_rows_are_read_than_it_says_refuses(
    paged: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's answers tell no number of rows; the footer of each file does."""
    file = next(iter(uncommitted_files(paged, PreparedUncommitted(PAGED, 35, 6))))
    schema, rows = paged.parquet_footer(file)
    monkeypatch.setattr(type(paged), "parquet_footer", lambda *_: (schema, rows + 1))
    with pytest.raises(
        IncompleteReadError,
        match=rf"says that it has {rows + 1} rows, and {rows} were read; staged objects would",
    ):
        list(read_uncommitted(paged, file))


def test_every_file_of_a_scan_is_read(paged: ObjectStore) -> None:
    files = uncommitted_files(paged, PreparedUncommitted(PAGED, 35, 6))
    batches = [batch for file in files for batch in read_uncommitted(paged, file)]
    assert len(files) == 6
    assert {batch.schema for batch in batches} == {STAGED_ADDRESSES}
    assert sum(batch.num_rows for batch in batches) == 304
    assert batches[0].column("created_at")[0].as_py().timestamp() == 1795245717


def test_a_file_less_than_pages_that_wrote_one_refuses(paged: ObjectStore) -> None:
    with pytest.raises(IncompleteReadError, match=r"holds 6 files, 7 pages of the scan said"):
        uncommitted_files(paged, PreparedUncommitted(PAGED, 35, 7))


def test_a_repeated_page_may_have_written_a_second_file(paged: ObjectStore) -> None:
    assert len(uncommitted_files(paged, PreparedUncommitted(PAGED, 35, 5))) == 6


def test_a_scan_that_found_nothing_has_no_files(store: ObjectStore) -> None:
    assert uncommitted_files(store, PreparedUncommitted(RUN_ID, 1, 0)) == {}


def test_a_scan_that_claims_rows_without_any_file_refuses(store: ObjectStore) -> None:
    with pytest.raises(IncompleteReadError, match="holds 0 files, 1 pages"):
        uncommitted_files(store, PreparedUncommitted(RUN_ID, 2, 1))


@pytest.mark.parametrize(
    "name",
    golden.slow_where_large(
        ["unified", "merges", "sealed-tokens", "many-ranges", "hard-deleted", "s3-features"]
    ),
)
def test_the_recorded_rows_are_in_the_files(name: str, tmp_path: Path) -> None:
    store = opened(name, tmp_path)
    recorded = golden.expected(name)["prepare_uncommitted"]
    files = uncommitted_files(
        store, PreparedUncommitted(recorded["pages"][0]["run_id"], len(recorded["pages"]), 1)
    )
    rows = [
        row
        for file in files
        for batch in read_uncommitted(store, file)
        for row in batch.to_pylist()
    ]
    assert sorted([row["address"], int(row["created_at"].timestamp())] for row in rows) == sorted(
        recorded["rows"]
    )


def write_parquet(root: Path, schema: pa.Schema = SERVER_UNCOMMITTED, **columns: list[Any]) -> str:
    key = f"_lakefs/retention/gc/uncommitted/{RUN_ID}/uncommitted/dc0kd71ksdubaso5glvg"
    (root / key).parent.mkdir(parents=True)
    pq.write_table(pa.table(columns, schema=schema), root / key, compression="gzip")
    return key


def test_a_column_whose_name_is_no_text_refuses(root: Path, store: ObjectStore) -> None:
    key = write_parquet(root, physical_address=["data/a"], creation_date=[1])
    (root / key).write_bytes(
        (root / key).read_bytes().replace(b"physical_address", b"physical_\xe1ddress")
    )
    with pytest.raises(CorruptTableError, match=rf"{key}.*no sound Parquet file.*can't decode"):
        list(read_uncommitted(store, key))


def test_a_file_without_rows_is_fine(root: Path, store: ObjectStore) -> None:
    key = write_parquet(root, physical_address=[], creation_date=[])
    assert uncommitted_files(store, PreparedUncommitted(RUN_ID, 1, 1)) == {
        key: store.head(key).size_bytes
    }
    assert sum(batch.num_rows for batch in read_uncommitted(store, key)) == 0


TEXT, NUMBER = SERVER_UNCOMMITTED.field(0), SERVER_UNCOMMITTED.field(1)


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([TEXT.with_name("address"), NUMBER]),
        pa.schema([TEXT.with_type(pa.binary()), NUMBER]),
        pa.schema([TEXT.with_nullable(True), NUMBER]),
        pa.schema([TEXT, NUMBER.with_nullable(True)]),
        pa.schema([TEXT, NUMBER.with_type(pa.int32())]),
        pa.schema([TEXT]),
    ],
)
def test_other_columns_refuse_and_are_shown(
    root: Path, store: ObjectStore, schema: pa.Schema
) -> None:
    key = write_parquet(root, schema, **{name: [] for name in schema.names})
    with pytest.raises(
        CorruptTableError,
        match=r"wanted physical_address string required, creation_date int64 required.*up to 1\.84",
    ):
        list(read_uncommitted(store, key))


def test_columns_that_a_newer_server_adds_change_nothing(root: Path, store: ObjectStore) -> None:
    schema = pa.schema(
        [pa.field("storage", pa.string()), NUMBER, TEXT, pa.field("more", pa.list_(pa.int64()))]
    )
    columns = {
        "storage": ["a", None],
        "creation_date": [1, 2],
        "physical_address": ["data/a", "data/b"],
    }
    key = write_parquet(root, schema, **columns, more=[[1], None])
    rows = [row for batch in read_uncommitted(store, key) for row in batch.to_pylist()]
    assert [(row["address"], row["created_at"].timestamp()) for row in rows] == [
        ("data/a", 1),
        ("data/b", 2),
    ]


@pytest.mark.parametrize(
    "address", ["", "/data/x", "s3://bucket/ns/data/x", "local:///bs/docs/data/x", "data/\x00"]
)
def test_a_staged_address_that_is_not_relative_refuses(
    root: Path, store: ObjectStore, address: str
) -> None:
    key = write_parquet(root, physical_address=["data/a/b", address], creation_date=[1, 2])
    with pytest.raises(AddressError, match=r"is not relative to the namespace"):
        list(read_uncommitted(store, key))


def test_a_staged_address_outside_data_is_read(root: Path, store: ObjectStore) -> None:
    key = write_parquet(root, physical_address=["elsewhere/obj"], creation_date=[1])
    assert [batch.column("address").to_pylist() for batch in read_uncommitted(store, key)] == [
        ["elsewhere/obj"]
    ]


def test_a_date_that_is_no_instant_refuses(root: Path, store: ObjectStore) -> None:
    key = write_parquet(root, physical_address=["data/a"], creation_date=[2**62])
    with pytest.raises(CorruptTableError, match="a creation date is no instant"):
        list(read_uncommitted(store, key))


def test_a_file_that_went_away_refuses(store: ObjectStore) -> None:
    with pytest.raises(IncompleteReadError, match="although the server said that it wrote it"):
        list(read_uncommitted(store, "_lakefs/retention/gc/uncommitted/x/uncommitted/y"))


@pytest.mark.parametrize(
    "name",
    golden.slow_where_large(
        name for name in golden.REPOSITORIES if golden.server(name)["refs_dump"]
    ),
)
def test_a_dump_gives_every_commit_branch_and_tag(name: str, tmp_path: Path) -> None:
    recorded = golden.server(name)
    ids = recorded["refs_dump"]["refs"]
    dump = RefsDump(
        ids["commits_meta_range_id"], ids["branches_meta_range_id"], ids["tags_meta_range_id"]
    )
    refs = read_refs_dump(opened(name, tmp_path), dump)
    assert {commit.id: commit.metarange_id for commit in refs.commits.values()} == {
        commit["id"]: commit["meta_range_id"] for commit in recorded["commits"]
    }
    assert {branch.id: branch.commit_id for branch in refs.branches} == {
        branch["id"]: branch["commit_id"] for branch in recorded["branches"]
    }
    assert {tag.id: tag.commit_id for tag in refs.tags} == {
        tag["id"]: tag["commit_id"] for tag in recorded["tags"]
    }


def test_a_dump_whose_table_is_not_there_refuses(store: ObjectStore) -> None:
    with pytest.raises(IncompleteReadError, match=rf"_lakefs/{'0' * 64} is not in local://docs/"):
        read_refs_dump(store, RefsDump("0" * 64, "1" * 64, "2" * 64))
