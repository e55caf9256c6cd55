"""Small files that never change are asked for once while a run is marked, and else each time."""

import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.storage import StoreOptions, open_store, small_files
from spark_core.storage.small_files import SmallFiles


@pytest.fixture
def store(tmp_path):
    (tmp_path / "repo").mkdir()
    namespace = Namespace.parse("local://repo", server_path="/bs")
    return open_store(namespace, StoreOptions(local_path=str(tmp_path)))


def test_a_small_file_is_read_once_while_a_run_is_marked_and_else_each_time(store):
    store.put("a", b"one")
    for reads, begin_or_end in (
        (2, None),
        (1, store.small_files.begin),
        (2, store.small_files.end),
    ):
        if begin_or_end is not None:
            begin_or_end()
        before = store.requests["read"]
        assert [store.read_unchanging("a") for _ in range(2)] == [b"one"] * 2
        assert store.requests["read"] - before == reads


def test_the_date_of_a_small_file_brings_its_bytes_while_a_run_is_marked(store):
    store.put("a", b"one")
    written = store.head("a").last_modified
    assert store.written_at("a") == written
    assert store.small_files.get("a") is None
    store.small_files.begin()
    assert store.written_at("a") == written
    before = store.requests.copy()
    assert store.read_unchanging("a") == b"one"
    assert store.requests == before


def test_a_small_parquet_file_is_read_once_for_its_end_and_its_rows(store):
    rows = pa.record_batch({"a": [1, 2]})
    with store.open_sink("a") as sink:
        pq.write_table(pa.Table.from_batches([rows]), sink)
    for reads, begin in ((2, lambda: None), (1, store.small_files.begin)):
        begin()
        before = store.requests["read"]
        assert store.parquet_footer("a") == (rows.schema, 2)
        assert pa.Table.from_batches(store.read_parquet("a")).to_pydict() == {"a": [1, 2]}
        assert store.requests["read"] - before == reads


def test_a_large_file_is_read_each_time(store, monkeypatch):
    monkeypatch.setattr(small_files, "LARGEST", 2)
    store.put("a", b"one")
    store.small_files.begin()
    for _ in range(2):
        store.read_unchanging("a")
    assert store.requests["read"] == 2
    # It is remembered if the first reader says that it will be read again.
    for _ in range(2):
        store.read_unchanging("a", again=True)
    assert store.requests["read"] == 3


def test_other_readers_see_what_the_store_has(store):
    store.put("a", b"one")
    store.small_files.begin()
    store.read_unchanging("a")
    store.put("a", b"two")
    assert store.read("a") == b"two"
    # A task of an executor remembers nothing.
    assert pickle.loads(pickle.dumps(store)).read_unchanging("a") == b"two"


def test_what_was_used_longest_ago_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(small_files, "MOST", 8)
    files = SmallFiles()
    files.begin()
    files.keep("a", b"123")
    files.keep("b", b"456")
    files.keep("b", b"4567")
    assert files.get("a") == b"123"
    files.keep("c", b"89")
    assert [files.get(key) for key in "abc"] == [b"123", None, b"89"]
    files.begin()
    assert files.get("a") is None
