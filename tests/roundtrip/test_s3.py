"""A recorded S3 repository, marked and swept on an S3 server."""

import pytest

from spark_core.spark import placement
from tests.support.moto_s3 import moto_s3
from tests.support.moved_repository import collected_exactly

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def s3():
    with moto_s3() as server:
        yield server


def _keys(s3, bucket):
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {found["Key"] for page in pages for found in page.get("Contents", [])}


# Whole runs on S3 in the default tests: those of the cluster and of the policies.
@pytest.mark.deep
@pytest.mark.parametrize("prefix", ["lake/ns", "lake/ns/", ""])
def test_a_recorded_s3_repository_is_marked_and_swept_exactly(
    prefix, s3, tmp_path, spark, monkeypatch
):
    # Executors read the tables, as they do those that are larger.
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    bucket, client = s3.bucket(), s3.client()
    at = f"{prefix.rstrip('/')}/" if prefix else ""
    collected_exactly(
        f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}",
        s3.options(),
        tmp_path,
        spark,
        put=lambda key, data: client.put_object(Bucket=bucket, Key=f"{at}{key}", Body=data),
        names=lambda: {key.removeprefix(at) for key in _keys(s3, bucket)},
    )
