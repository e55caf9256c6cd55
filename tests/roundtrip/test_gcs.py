"""A recorded repository, moved to Google Cloud Storage, marked and swept on an emulator."""

from datetime import timedelta

import pytest

from spark_core.lakefs import LakeFSServer
from spark_core.model import RunKey
from spark_core.run import Environment, RunOptions, open_run
from spark_core.storage.probes import PROBE_FOLDER
from tests.support import golden
from tests.support.clock import FakeClock
from tests.support.gcs_emulator import gcs_emulator, why_not
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.recorded_server import RecordedServer
from tests.support.sandbox_runs import SMALL

pytestmark = [pytest.mark.spark, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]


@pytest.fixture(scope="module")
def gcs():
    with gcs_emulator() as server:
        yield server


def _keys(bucket):
    return {blob.name for blob in bucket.list_blobs()}


def test_a_recorded_repository_on_gcs_is_marked_and_swept_exactly(gcs, tmp_path, spark):
    bucket = gcs.bucket()
    root = golden.unpack("s3-features", tmp_path)
    moment = golden.expected("s3-features")["retention"][0]
    with RecordedServer("s3-features", root, storage_namespace=f"gs://{bucket.name}/lake/ns") as recorded:
        for path in root.rglob("*"):
            if path.is_file():
                bucket.blob(f"lake/ns/{path.relative_to(root)}").upload_from_string(path.read_bytes())
        before = _keys(bucket)
        clock = FakeClock(recorded.now + timedelta(seconds=2))
        environment = Environment(
            server=LakeFSServer(recorded.options(), clock=clock),
            store_options=gcs.options(),
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
        assert expected
        assert marked.addresses(run) == expected
        assert verdict.passed, [result for result in results if not result.passed]
        assert sweep_only(run) == dict.fromkeys(expected, "deleted")
    written = {key for key in _keys(bucket) if "/run_id=2" in key or PROBE_FOLDER in key}
    assert _keys(bucket) - written == before - {f"lake/ns/{address}" for address in expected}
