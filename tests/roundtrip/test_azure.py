"""A recorded repository, marked and swept in an Azure container."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from spark_core import tables
from spark_core.lakefs import LakeFSServer
from spark_core.model import RunKey
from spark_core.run import Environment, RunOptions, open_run
from spark_core.storage.probes import PROBE_FOLDER
from tests.support import azurite, golden
from tests.support.clock import FakeClock
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.recorded_server import RecordedServer
from tests.support.sandbox_runs import SMALL

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(azurite.why_not() is not None, reason=str(azurite.why_not())),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with azurite.azurite(tmp_path_factory.mktemp("azurite")) as running:
        yield running


def test_a_recorded_repository_is_marked_and_swept_exactly_in_azure(server, tmp_path, spark):
    container, path = server.container(), "lake/ns/"
    root = golden.unpack("s3-features", tmp_path)
    where = azurite.uri(container, path)
    moment = golden.expected("s3-features")["retention"][0]
    with RecordedServer("s3-features", root, storage_namespace=where) as recorded:
        files = [file for file in root.rglob("*") if file.is_file()]
        with ThreadPoolExecutor(8) as pool:
            list(
                pool.map(
                    lambda file: container.upload_blob(f"{path}{file.relative_to(root)}", file.read_bytes()), files
                )
            )
        before = set(container.list_blob_names())
        clock = FakeClock(recorded.now + timedelta(seconds=2))
        environment = Environment(
            server=LakeFSServer(recorded.options(), clock=clock),
            store_options=server.options(),
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
        # The server's scan does not know every spelling of an account's address.
        assert run.load(tables.UNCOMMITTED_ADDRESSES).manifest.facts["from_diffs"] > 0
        assert sweep_only(run) == dict.fromkeys(expected, "deleted")
    own = {name for name in container.list_blob_names() if "/run_id=2" in name or PROBE_FOLDER in name}
    assert set(container.list_blob_names()) - own == before - {f"{path}{address}" for address in expected}
