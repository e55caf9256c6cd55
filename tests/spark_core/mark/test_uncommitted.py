"""Staged entries on their way to Spark: what is many does not stay with the driver."""

import pyarrow as pa
import pytest

from spark_core import schemas
from spark_core.errors import CorruptTableError
from spark_core.mark.uncommitted import _Diffs
from spark_core.namespace import Namespace
from spark_core.storage import StoreOptions, open_store

pytestmark = pytest.mark.spark


def _batch(*addresses):
    rows = [{"address": address, "created_at": None} for address in addresses]
    return pa.RecordBatch.from_pylist(rows, schema=schemas.UNCOMMITTED_ADDRESSES)


def test_a_branch_that_was_committed_meanwhile_costs_no_row_of_those_behind_it(spark, tmp_path):
    store = open_store(Namespace.parse("local://repo", server_path="/bs"), StoreOptions(local_path=str(tmp_path)))
    diffs = _Diffs(store, "folder/")
    for lot in ("ab", "", "c", "", "", "de"):
        diffs.keep(_batch(*lot))
    assert sorted(row.address for row in diffs.frame(spark).collect()) == list("abcde")


def test_rows_of_diffs_beyond_the_limit_are_put_down_read_back_checked_and_taken_away(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("spark_core.mark.uncommitted.HELD", 3)
    store = open_store(Namespace.parse("local://repo", server_path="/bs"), StoreOptions(local_path=str(tmp_path)))
    diffs = _Diffs(store, "folder/")
    for lot in ("ab", "cd", "ef", "gh", "i"):
        diffs.keep(_batch(*lot))
    files = sorted((tmp_path / "repo/folder").iterdir())
    assert len(files) == 2
    assert all(file.name.startswith("_diffs-") for file in files), "out of Parquet readers' sight"
    frame = diffs.frame(spark)
    assert sorted(row.address for row in frame.collect()) == list("abcdefghi")
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[:-9] + b"x" + whole[-8:])
    with pytest.raises(Exception, match=CorruptTableError.__name__):
        frame.collect()
    diffs.close()
    assert not any((tmp_path / "repo/folder").iterdir())
