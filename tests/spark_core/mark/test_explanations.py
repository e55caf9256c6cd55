"""Objects that may go meet the entries of expired commits: a kernel, without Spark."""

import pyarrow as pa
import pytest

from spark_core.addresses.address_hashes import hashed
from spark_core.fates import WhyMayGo
from spark_core.mark import explanations
from spark_core.references.expired_entries import ENTRIES

_WORDS = pa.schema([ENTRIES.field(name) for name in ("address_hash", "path", "newest")])


def _bucket(sizes, entries, never=()):
    reasons = [WhyMayGo.NEVER_COMMITTED if address in never else "another" for address in sizes]
    columns = [list(sizes), list(sizes.values()), reasons]
    objects = pa.record_batch(columns, schema=explanations._WITH_REASON)
    addresses, paths, newest = zip(*entries, strict=True)
    columns = [hashed(pa.array(addresses)), pa.array(paths, pa.binary()), newest]
    return {
        "objects": pa.Table.from_batches(explanations._hashed(iter([objects]))),
        "entries": pa.table(columns, schema=_WORDS),
    }


def _found(bucket, tasks=1):
    sent = explanations._met(tasks, bucket).rows
    rows = pa.concat_tables(sent.values()).to_pylist() if sent else []
    return sent.keys(), {row.pop("address"): tuple(row.values()) for row in rows}


def test_the_commit_that_was_kept_last_counts_and_the_first_of_its_paths_names_the_object():
    bucket = _bucket(
        {"data/a": 7, "data/b": 8, "data/never-committed": 9},
        [
            ("data/a", b"old", 2),
            ("data/a", b"q", 1),
            ("data/a", b"p", 1),
            ("data/a", b"p", 3),
            ("data/b", b"\xff", 0),
            ("data/retained", b"r", 0),
        ],
    )
    assert _found(bucket)[1] == {"data/a": (7, b"p", 1, 2), "data/b": (8, b"\xff", 0, 0)}


def test_what_a_commit_had_and_no_entry_explains_is_counted():
    sizes = {"data/explained": 1, "data/not": 2, "data/nor": 4, "data/never": 8}
    bucket = _bucket(sizes, [("data/explained", b"p", 0)], never=["data/never"])
    assert explanations._met(1, bucket).receipt == (2, 6)
    bucket = _bucket({"data/never": 8}, [("data/other", b"p", 0)], never=["data/never"])
    assert explanations._met(1, bucket).receipt == (0, 0)


def test_entries_that_were_read_without_paths_explain_nothing():
    assert _found(_bucket({"data/a": 7}, [("data/a", None, None)])) == (set(), {})


@pytest.mark.parametrize("tasks", [1, 3])
def test_objects_are_shared_out_among_all_tasks(tasks):
    sizes = {f"data/{number}": number for number in range(50)}
    numbers, found = _found(_bucket(sizes, [(address, b"p", 0) for address in sizes]), tasks)
    assert numbers == set(range(tasks))
    assert found.keys() == sizes.keys()
