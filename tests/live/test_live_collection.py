"""A small collection on a real lakeFS server; `make test-live` runs it where the environment names one.

LAKEGC_LIVE_ENDPOINT        URL of the server
LAKEGC_LIVE_NAMESPACE       where repositories may be made, like s3://bucket/lakegc-live or local://lakegc-live
LAKEGC_ACCESS_KEY_ID, LAKEGC_SECRET_ACCESS_KEY
LAKEGC_LIVE_LOCAL_PATH      for a local blockstore: where this machine sees it
LAKEGC_LIVE_SERVER_PATH     ... and where the server does, when that differs
LAKEGC_LIVE_S3_ENDPOINT     for an S3-compatible store; its keys come from the AWS environment
"""

import os
import time
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from lakefs_sdk.api.commits_api import CommitsApi
from lakefs_sdk.api.objects_api import ObjectsApi
from lakefs_sdk.api.repositories_api import RepositoriesApi
from lakefs_sdk.api_client import ApiClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.models.commit_creation import CommitCreation
from lakefs_sdk.models.repository_creation import RepositoryCreation

from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.model import RunKey
from spark_core.run import Environment, RunOptions, open_run
from spark_core.storage import StoreOptions
from tests.support.pipeline import mark_and_conclude, sweep_only

WANTED = ("LAKEGC_LIVE_ENDPOINT", "LAKEGC_LIVE_NAMESPACE", "LAKEGC_ACCESS_KEY_ID", "LAKEGC_SECRET_ACCESS_KEY")
MISSING = [name for name in WANTED if not os.environ.get(name)]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"needs a lakeFS server: set {', '.join(MISSING)} (their meaning: tests/live/test_live_collection.py)",
    ),
]


class Live:
    """A repository of its own on the server."""

    def __init__(self):
        endpoint = os.environ["LAKEGC_LIVE_ENDPOINT"].removesuffix("/").removesuffix("/api/v1")
        self.options = ServerOptions(
            endpoint, os.environ["LAKEGC_ACCESS_KEY_ID"], os.environ["LAKEGC_SECRET_ACCESS_KEY"]
        )
        client = ApiClient(
            Configuration(
                host=f"{endpoint}/api/v1",
                username=self.options.access_key_id,
                password=self.options.secret_access_key,
            )
        )
        self.repositories, self.objects, self.commits = RepositoriesApi(client), ObjectsApi(client), CommitsApi(client)
        self.name = f"lakegc-live-{uuid.uuid4().hex[:12]}"
        namespace = f"{os.environ['LAKEGC_LIVE_NAMESPACE'].rstrip('/')}/{self.name}"
        self.repositories.create_repository(RepositoryCreation(name=self.name, storage_namespace=namespace))

    def upload(self, scratch, path, data):
        file = scratch / "upload"
        file.write_bytes(data)
        return self.objects.upload_object(self.name, "main", path, content=str(file)).physical_address

    def run(self, spark):
        environment = Environment(
            server=LakeFSServer(self.options),
            store_options=StoreOptions(
                local_path=os.environ.get("LAKEGC_LIVE_LOCAL_PATH"),
                s3_endpoint=os.environ.get("LAKEGC_LIVE_S3_ENDPOINT"),
                allow_http=os.environ.get("LAKEGC_LIVE_S3_ENDPOINT", "").startswith("http://"),
            ),
            spark=lambda: spark,
            server_path=os.environ.get("LAKEGC_LIVE_SERVER_PATH"),
        )
        options = RunOptions(may_sweep=True, min_age=timedelta(0), allow_unsafe_min_age=True)
        return open_run(environment, self.name, RunKey.at(datetime.now(UTC)), options)


@pytest.fixture
def live():
    made = Live()
    yield made
    made.repositories.delete_repository(made.name)


def test_a_collection_takes_what_nothing_reaches_and_nothing_else(live, spark, tmp_path):
    live.upload(tmp_path, "committed", b"committed")
    live.commits.commit(live.name, "main", CommitCreation(message="one"))
    live.upload(tmp_path, "staged", b"staged")
    dropped = live.upload(tmp_path, "dropped", b"dropped")
    live.objects.delete_object(live.name, "main", "dropped")
    # A run key is a whole second, and an object written in that very second is too young.
    time.sleep(2)

    run = live.run(spark)
    address = run.namespace.relative_absolute(dropped)
    marked, verdict, _ = mark_and_conclude(run)
    assert verdict.passed, verdict.checks
    assert marked.addresses(run) == [address]

    assert sweep_only(run) == {address: "deleted"}
    assert live.objects.get_object(live.name, "main", "committed") == b"committed"
    assert live.objects.get_object(live.name, "main", "staged") == b"staged"
    assert not run.store.exists(address)

    time.sleep(1)
    again, verdict, _ = mark_and_conclude(live.run(spark))
    assert verdict.passed
    assert again.addresses(run) == []
