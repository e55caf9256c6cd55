"""The whole pipeline on Spark executors that are processes of their own, without our package and without our credentials."""

import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from moto.s3.models import s3_backends

from spark_core.model import RunKey
from tests.support import golden
from tests.support.moto_s3 import moto_s3
from tests.support.recorded_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY, RecordedServer
from tests.support.spark_cluster import MASTER, SparkCluster

pytestmark = pytest.mark.spark

NAME = "s3-features"
AWS_SECRET = "driver+only/SECRET/of/the/store/000000000"

SETTINGS = """
throwaway_repositories = ["{name}"]
[server]
endpoint = "{server}"
[storage]
s3_endpoint = "{store}"
allow_http = true
max_retries = 1
[spark]
master = "{master}"
address_partitions = 2
[spark.config]
"spark.sql.codegen.wholeStage" = "false"
"spark.driver.maxResultSize" = "1m"
"spark.eventLog.enabled" = "true"
"spark.eventLog.compress" = "false"
"spark.eventLog.dir" = "file://{directory}/events"
"spark.ui.enabled" = "true"
"spark.ui.port" = "0"
[dagster]
home = "{directory}/dagster"
[repositories.{name}]
mode = "sweep"
min_age_hours = 0
allow_unsafe_min_age = true
clock_margin_minutes = 0
range_partitions = 2
table_parts = 2
repository_cache_seconds = 0
"""


@dataclass(frozen=True)
class Played:
    """What became of one run of the command line."""

    code: int
    said: str
    directory: Path
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
                keys[key].last_modified = datetime.fromtimestamp(recorded[key], UTC).replace(tzinfo=None)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    cluster = SparkCluster.made_in(directory / "machines")
    (directory / "events").mkdir()
    root = golden.unpack(NAME, directory)
    with moto_s3() as s3:
        bucket = s3.bucket()
        with RecordedServer(NAME, root, storage_namespace=f"s3://{bucket}") as server:
            _fill(s3, bucket, root)
            before = _keys(s3, bucket)
            settings = directory / "lakegc.toml"
            settings.write_text(
                SETTINGS.format(
                    name=NAME, server=server.endpoint, store=s3.endpoint, master=MASTER, directory=directory
                )
            )
            done = subprocess.run(
                [
                    Path(sys.executable).parent / "lakegc",
                    *("run", NAME, "--config", settings, "--run", str(RunKey.at(server.now + timedelta(minutes=1)))),
                ],
                env=cluster.environment(
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
        return Played(done.returncode, done.stdout + done.stderr, directory, before, _keys(s3, bucket))


def test_a_recorded_repository_is_swept_exactly_by_executors_that_had_neither_package_nor_credentials(swept):
    assert swept.code == 0, swept.said
    moment = golden.expected(NAME)["retention"][0]
    assert swept.before - swept.after == set(moment["expired_addresses"]["mark_before_stop_and_tags"])
    assert all(key.startswith("_lakefs/retention/gc/") for key in swept.after - swept.before)
