"""A recorded S3 repository, marked and swept on a server that lists as a directory bucket does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_core.storage.s3 import store as s3_store
from tests.support.directory_bucket import UnorderedBucketStore
from tests.support.moto_s3 import moto_s3
from tests.support.moved_repository import collected_exactly

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_a_repository_in_a_directory_bucket_is_marked_and_swept_exactly(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_store, "S3Store", UnorderedBucketStore)
    with moto_s3() as server:
        bucket, client = server.bucket(), server.client()

        def names() -> set[str]:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
            keys = {found["Key"] for page in pages for found in page.get("Contents", [])}
            return {key.removeprefix("lake/ns/") for key in keys}

        run = collected_exactly(
            f"s3://{bucket}/lake/ns",
            server.options(),
            tmp_path,
            spark,
            put=lambda key, data: client.put_object(Bucket=bucket, Key=f"lake/ns/{key}", Body=data),
            names=names,
        )
        assert isinstance(run.store, UnorderedBucketStore)
