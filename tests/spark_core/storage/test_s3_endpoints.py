"""Whether two endpoints may lead to one store.

A number leads to any name, and a bare name to any domain.
"""

import pytest

from spark_core.storage.s3_endpoints import may_be_one_store


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://minio:9000", "http://10.0.0.5:9000"),
        ("http://127.0.0.1:9000", "http://0.0.0.0:9000"),
        ("http://minio:9000", "http://minio.storage.svc.cluster.local:9000"),
    ],
)
def test_two_ways_to_one_store_were_taken_for_two_stores(one, other):
    assert may_be_one_store(one, other)
    assert may_be_one_store(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://hot.example.com:9000", "http://cold.example.com:9000"),
        ("http://10.0.0.5:9000", "http://10.0.0.5:9001"),
        ("http://hot:9000", "http://cold.example.com:9000"),
    ],
)
def test_names_and_ports_that_differ_are_two_stores(one, other):
    assert not may_be_one_store(one, other)
