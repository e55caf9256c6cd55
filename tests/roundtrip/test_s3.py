"""A recorded S3 repository, marked and swept on an S3 server."""

from datetime import timedelta

import pytest

from spark_core.lakefs import LakeFSServer
from spark_core.model import RunKey
from spark_core.run import Environment, RunOptions, open_run
from tests.support import golden
from tests.support.clock import FakeClock
from tests.support.moto_s3 import moto_s3
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.recorded_server import RecordedServer
from tests.support.sandbox_runs import SMALL

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def s3():
    with moto_s3() as server:
        yield server


def _keys(s3, bucket):
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {found["Key"] for page in pages for found in page.get("Contents", [])}


@pytest.mark.parametrize("prefix", ["lake/ns", pytest.param("lake/ns/", marks=pytest.mark.deep), ""])
def test_a_recorded_s3_repository_is_marked_and_swept_exactly(prefix, s3, tmp_path, spark):
    bucket = s3.bucket()
    root = golden.unpack("s3-features", tmp_path)
    where = f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
    at = f"{prefix.rstrip('/')}/" if prefix else ""
    moment = golden.expected("s3-features")["retention"][0]
    with RecordedServer("s3-features", root, storage_namespace=where) as recorded:
        for path in root.rglob("*"):
            if path.is_file():
                s3.client().put_object(Bucket=bucket, Key=f"{at}{path.relative_to(root)}", Body=path.read_bytes())
        before = _keys(s3, bucket)
        clock = FakeClock(recorded.now + timedelta(seconds=2))
        environment = Environment(
            server=LakeFSServer(recorded.options(), clock=clock),
            store_options=s3.options(),
            spark=lambda: spark,
            clock=clock,
        )
        options = RunOptions(
            may_sweep=True,
            min_age=timedelta(days=-36_500),
            allow_unsafe_min_age=True,
            clock_margin=timedelta(0),
            **SMALL,
        )
        run = open_run(environment, "s3-features", RunKey.at(recorded.now), options)
        marked, verdict, results = mark_and_conclude(run)
        expected = sorted(moment["expired_addresses"]["mark_before_stop_and_tags"])
        assert marked.addresses(run) == expected
        assert verdict.passed, [result for result in results if not result.passed]
        assert sweep_only(run) == dict.fromkeys(expected, "deleted")
    own = ("/retention/gc/probe/", "/run_id=2")
    written = {key for key in _keys(s3, bucket) if any(mark in key for mark in own)}
    assert _keys(s3, bucket) - written == before - {f"{at}{address}" for address in expected}
