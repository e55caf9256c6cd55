"""The whole pipeline on Spark executors that are processes of their own, without our package and
without our credentials.
"""

import json
import pickle
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from moto.s3.models import s3_backends

from spark_core.addresses.namespace import Namespace
from spark_core.model import RunKey
from spark_core.spark.cluster import package_sources, write_archive
from spark_core.storage import open_store
from tests.support import golden
from tests.support.connect_server import connect_server, is_wanted
from tests.support.moto_s3 import moto_s3
from tests.support.recorded_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY, RecordedServer
from tests.support.small_spark import SHORT_LIVED_JAVA
from tests.support.spark_cluster import MASTER, SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NAME = "s3-features"
# A shipped package is compiled anew in each of the many Python workers, minutes for a few rows;
# that its loops compile from a zip is tested beside them.
NO_JIT = "1"
AWS_SECRET = "driver+only/SECRET/of/the/store/000000000"

SETTINGS = """
throwaway_repositories = ["{name}"]
[server]
endpoint = "{server}"
[storage]
s3_endpoint = "{store}"
allow_http = true
max_retries = 1
{spark}
[dagster]
home = "{directory}/dagster"
[repositories.{name}]
mode = "sweep"
min_age_hours = 0
allow_unsafe_min_age = true
strangers = "collect"
quarantine = false
clock_margin_minutes = 0
repository_cache_seconds = 0
"""

SPARK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.buffer.pageSize": "1m",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.driver.extraJavaOptions": SHORT_LIVED_JAVA,
    "spark.executor.extraJavaOptions": SHORT_LIVED_JAVA,
    "spark.driver.maxResultSize": "1m",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    # As it is by itself from Spark 4 on.
    "spark.eventLog.rolling.enabled": "true",
}

SWEEP = """
import sys
from pathlib import Path
from spark_core.mark_and_sweep import collect
from spark_core.model import RunKey
from spark_core.run import open_run
from spark_core.settings import load_settings
from spark_core.settings.environment import open_environment
from spark_core.spark import exchange, placement
from spark_core.spark.output import OUTPUT

# The few rows of the test take the way of many.
placement.MOST_ROWS_OF_THE_DRIVER, exchange._ROWS_OF_A_CORE = 0, 1
settings = load_settings(Path(sys.argv[1]))
OUTPUT.keep_in(settings.dagster_home)
name, key = sys.argv[2], RunKey.parse(sys.argv[3])
run = open_run(open_environment(settings), name, key, settings.run_options(name))
done = collect(run, "mark_and_sweep")
print(done.checks)
sys.exit(None if done.error is None else str(done.error))
"""


@dataclass(frozen=True)
class Played:
    """What became of one run, in a process of its own."""

    code: int
    said: str
    directory: Path
    cluster: SparkCluster
    before: set[str]
    after: set[str]


def _keys(s3, bucket):
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {found["Key"] for page in pages for found in page.get("Contents", [])}


def _fill(s3, bucket, root):
    """Put a recorded namespace into a bucket, its objects as old as they were."""
    recorded = {address: modified for address, _, modified in golden.expected(NAME)["listing"]}
    keys = s3_backends["123456789012"]["aws"].buckets[bucket].keys
    for path in root.rglob("*"):
        if path.is_file():
            key = str(path.relative_to(root))
            s3.client().put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
            if key in recorded:
                keys[key].last_modified = datetime.fromtimestamp(recorded[key], UTC).replace(
                    tzinfo=None
                )


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    cluster = SparkCluster.made_in(directory / "machines")
    (directory / "events").mkdir()
    root = golden.unpack(NAME, directory)
    with _spark(directory, cluster) as spark, moto_s3() as s3:
        bucket = s3.bucket()
        with RecordedServer(NAME, root, storage_namespace=f"s3://{bucket}") as server:
            _fill(s3, bucket, root)
            before = _keys(s3, bucket)
            settings = directory / "lakegc.toml"
            settings.write_text(
                SETTINGS.format(
                    name=NAME,
                    server=server.endpoint,
                    store=s3.endpoint,
                    spark=spark,
                    directory=directory,
                )
            )
            key = str(RunKey.at(server.now + timedelta(minutes=1)))
            done = subprocess.run(
                [sys.executable, "-c", SWEEP, str(settings), NAME, key],
                env=cluster.environment(
                    NUMBA_DISABLE_JIT=NO_JIT,
                    AWS_ACCESS_KEY_ID="AKIADRIVERSENVIRONMENT",
                    AWS_SECRET_ACCESS_KEY=AWS_SECRET,
                    LAKEGC_ACCESS_KEY_ID=ACCESS_KEY_ID,
                    LAKEGC_SECRET_ACCESS_KEY=SECRET_ACCESS_KEY,
                ),
                cwd=directory,
                capture_output=True,
                text=True,
                check=False,
            )
        after = _keys(s3, bucket)
    return Played(done.returncode, done.stdout + done.stderr, directory, cluster, before, after)


@contextmanager
def _spark(directory, cluster):
    """The table `[spark]` of settings: the cluster's master, or a Connect server that has it."""
    conf = {**SPARK, "spark.eventLog.dir": f"file://{directory}/events"}
    if is_wanted():
        log, env = directory / "spark.log", cluster.environment(NUMBA_DISABLE_JIT=NO_JIT)
        with connect_server(log, master=MASTER, conf=conf, env=env) as address:
            yield f'[spark]\nmaster = "{address}"\n'
        return
    properties = "\n".join(f'"{name}" = "{value}"' for name, value in conf.items())
    yield f'[spark]\nmaster = "{MASTER}"\n[spark.config]\n{properties}\n'


@pytest.mark.deep
def test_executors_without_package_and_credentials_sweep_a_recorded_repository_exactly(
    swept,
):
    assert swept.code == 0, swept.said
    moment = golden.expected(NAME)["retention"][0]
    assert swept.before - swept.after == set(
        moment["expired_addresses"]["mark_before_stop_and_tags"]
    )
    assert all(key.startswith("_lakefs/retention/gc/") for key in swept.after - swept.before)


@pytest.mark.deep
def test_two_executors_worked_and_they_worked_with_what_was_shipped(swept):
    assert swept.code == 0, swept.said
    events = _events(swept)
    tasks = [
        event["Task Info"]["Executor ID"]
        for event in events
        if event["Event"] == "SparkListenerTaskEnd"
    ]
    assert {"0", "1"} <= set(tasks)
    assert len(list((swept.cluster.home / "work").glob("app-*/**/lakegc-*.zip"))) >= 2
    # Without it they would have found nothing: `prepare_cluster` has compared what they import with
    # the driver's sources.
    assert swept.cluster.run(
        "import importlib.util as u; print(u.find_spec('spark_core'), bool(u.find_spec('numba')))"
    ) == ("None True")


@pytest.mark.deep
def test_no_secret_is_in_anything_that_was_written_or_shown(swept):
    assert swept.code == 0, swept.said
    plans = [
        event for event in _events(swept) if "SparkListenerSQLExecutionStart" in event["Event"]
    ]
    assert any("MapInArrow" in event["physicalPlanDescription"] for event in plans)
    written = (
        path
        for path in swept.directory.rglob("*")
        if path.is_file() and "packages" not in path.parts
    )
    # An empty file and its checksum, which Spark renames when the application ends.
    searched = [path for path in written if "appstatus_" not in path.name]
    assert any(path.name == "spark.log" for path in searched)
    for secret in (AWS_SECRET, SECRET_ACCESS_KEY):
        assert secret not in swept.said
        found = [path for path in searched if secret.encode() in path.read_bytes()]
        assert not found


def _events(swept):
    """What Spark recorded for its history server, which shows it to whoever may look."""
    logs = [path for path in (swept.directory / "events").rglob("events_*") if path.is_file()]
    return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


USE_A_STORE = """
import pickle, sys
sys.path.insert(1, sys.argv[1])
store = pickle.loads(open(sys.argv[2], "rb").read())
print(store.read("there").decode())
"""


@pytest.mark.slow
def test_a_machine_without_credentials_can_use_a_store_only_if_it_brings_them(
    tmp_path, monkeypatch
):
    cluster = SparkCluster.made_in(tmp_path / "machines")
    archive = write_archive(package_sources())
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIADRIVERSENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", AWS_SECRET)
    with moto_s3() as s3:
        bucket = s3.bucket()
        s3.client().put_object(Bucket=bucket, Key="there", Body=b"read")
        own = {"s3_access_key_id": None, "s3_secret_access_key": None}
        for carry, said in (("auto", "read"), ("never", "no credentials for S3 were found")):
            store = open_store(
                Namespace.parse(f"s3://{bucket}"), s3.options(carry_credentials=carry, **own)
            )
            sent = tmp_path / carry
            sent.write_bytes(pickle.dumps(store))
            assert said in cluster.run(USE_A_STORE, str(archive), str(sent))
