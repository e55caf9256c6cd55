"""What other rules would free, as the kernel of one bucket adds it up; no Spark."""

from __future__ import annotations

import pyarrow as pa

from spark_core.explain.what_if import CANDIDATES
from spark_core.explain.what_if.entries import HASHES, schema
from spark_core.explain.what_if.freed import free, of_all_buckets

BRANCHES = ["(no branch)", "dev", "main"]
SOLES = ["branch dev", "tag v1", ""]
# Of each entry: hash, folder, under how many of two rules it is retained, number of its keeper, and
# the two numbers of who keeps it alone.
ENTRIES = [
    (1, "a/", 2, 3 * 7 + 2, 1, 3),
    (1, "a/", 2, 3 * 7 + 2, 2, 2),
    (2, "b/", 1, 3 * 5 + 1, 1, 3),
    (2, "a/", 0, 3 * 4 + 2, 0, 0),
    (3, "b/", 0, 3 * 3 + 0, 2, 2),
    (3, "b/", 0, 3 * 3 + 0, 3, 1),
    (9, "c/", 0, 3 * 2 + 0, 0, 0),
]
ASKED = [("level_0", 0), ("level_0", 1), ("level_0", -1)]


def bucket(*, staged=(), deleted=()):
    """Objects 1 to 5, each of as many bytes; nothing refers to 4 and 5."""
    columns = [pa.array(list(values)) for values in zip(*ENTRIES, strict=True)]
    return {
        "candidates": pa.table([pa.array(range(1, 6)), pa.array(range(1, 6))], schema=CANDIDATES),
        "staged": pa.table([pa.array(staged, pa.int64())], schema=HASHES),
        "deleted": pa.table([pa.array(deleted, pa.int64())], schema=HASHES),
        "entries": pa.table(columns, schema=schema(1)),
    }


def freed(**others):
    """Return what each answer frees, and what is deleted already."""
    told = free(ASKED, BRANCHES, SOLES, bucket(**others)).receipt
    return of_all_buckets(["", "", ""], [told]), told.swept


def test_an_object_is_free_under_the_rules_that_retain_none_of_its_entries():
    (strictest, looser, never), swept = freed()
    assert swept == (0, 0)
    assert (looser.objects, looser.size_bytes) == (4, 14)
    assert (strictest.objects, strictest.size_bytes) == (3, 12)
    assert (never.objects, never.size_bytes) == (2, 9)
    assert looser.by_prefix == (("(never committed)", 2, 9), ("b/", 1, 3), ("a/", 1, 2))
    assert looser.by_branch == (("(never committed)", 2, 9), ("(no branch)", 1, 3), ("dev", 1, 2))


def test_what_is_staged_is_not_free_and_what_is_deleted_is_told_apart():
    (_, looser, never), swept = freed(staged=[4, 3], deleted=[5, 9, 3])
    assert swept == (2, 8)
    assert (looser.objects, never.objects) == (1, 0)


def test_what_one_alone_keeps_has_no_commit_that_another_or_several_keep():
    """Object 1 has commits of two, 3 one of several; an expired commit of 2 keeps nothing."""
    told = free(ASKED, BRANCHES, SOLES, bucket()).receipt
    assert told.alone.groups == (("branch dev", 1, 2),)
    assert free(ASKED, BRANCHES, SOLES, bucket(staged=[2])).receipt.alone.groups == ()
