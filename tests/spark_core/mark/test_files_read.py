"""Which files of the server's scans were read to their end, told by what tasks count."""

import pytest

from spark_core.mark.uncommitted import _read_of


@pytest.mark.parametrize(
    ("counts", "files", "rows"),
    [
        ({"times a": 1, "rows a": 10, "times b": 1, "rows b": 3}, 2, 13),
        # A retried task reads a file again, whole, or has broken off in it: what it did not finish it does not count.
        ({"times a": 2, "rows a": 20, "times b": 1, "rows b": 3}, 2, 13),
        ({"times a": 1, "rows a": 10}, 1, 10),
        # A file without rows was read all the same.
        ({"times a": 1, "rows a": 10, "times b": 1}, 2, 10),
        ({}, 0, 0),
    ],
)
def test_a_file_counts_once_however_often_it_was_read_and_not_at_all_unread(counts, files, rows):
    assert _read_of(["a", "b"], counts) == (files, rows)
