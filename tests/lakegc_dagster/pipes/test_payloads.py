"""The parameters are what the Pipes clients and the services' own models take.

The clients are imported by the tests that use them: that takes longer than all tests of most files,
and each process that runs tests loads this one.
"""

import json
import re
import runpy
import subprocess
import sys
from inspect import signature
from itertools import chain
from pathlib import Path

import boto3
import dagster as dg
import pytest
import responses
from botocore.stub import Stubber
from botocore.validate import validate_parameters
from dagster._core.workspace.autodiscovery import loadable_targets_from_python_file

from lakegc_dagster.pipes.launched import STEP
from lakegc_dagster.pipes.launchers import ENTRY
from lakegc_dagster.pipes.payloads import (
    databricks_task,
    emr_containers_job_run,
    emr_job_flow,
    glue_job_run,
)
from tests.lakegc_dagster.conftest import failure, new_key
from tests.lakegc_dagster.pipes.test_launched import place, run, shown  # noqa: F401 - a fixture
from tests.support.moto_s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, moto_s3

DOCS = Path(__file__).parents[3] / "docs"
# What each client asks of its service.
SERVICES = {
    "PipesEMRClient": ("emr", "RunJobFlow"),
    "PipesEMRContainersClient": ("emr-containers", "StartJobRun"),
    "PipesGlueClient": ("glue", "StartJobRun"),
}
FLOW = {
    "Name": "collector",
    "ReleaseLabel": "emr-7.13.0",
    "Applications": [{"Name": "Spark"}],
    "Instances": {"InstanceCount": 1, "MasterInstanceType": "m5.xlarge"},
    "JobFlowRole": "EMR_EC2_DefaultRole",
    "ServiceRole": "EMR_DefaultRole",
}
ARN = "arn:aws:emr-containers:us-east-1:123456789012:/virtualclusters/abc/jobruns/1"
JOB = {
    "virtualClusterId": "abc",
    "executionRoleArn": "arn:aws:iam::123456789012:role/lakegc",
    "releaseLabel": "emr-7.13.0-latest",
}
NEW = {"new_cluster": {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge"}}
EXISTING = {"existing_cluster_id": "1-2-abc"}
WORKSPACE = "https://my-workspace.cloud.databricks.com"


@pytest.fixture(scope="module")
def s3():
    with moto_s3() as server:
        yield server


@pytest.fixture
def aws(monkeypatch, s3):
    """The environment of a process on AWS whose S3 is the one of this machine."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    return s3


def reader(s3):
    from dagster_aws.pipes import PipesS3MessageReader

    return PipesS3MessageReader(bucket=s3.bucket(), client=s3.client(), interval=0.1)


class Glue:
    """Glue, as far as its client asks: it validates what it gets, and runs the script here."""

    def __init__(self):
        self.meta = boto3.client("glue").meta

    def start_job_run(self, **asked):
        model = self.meta.service_model.operation_model("StartJobRun")
        problems = validate_parameters(asked, model.input_shape)
        assert problems is None
        words = chain.from_iterable(asked["Arguments"].items())
        subprocess.run([sys.executable, str(ENTRY), "--JOB_NAME", "lakegc", *words], check=True)
        return {"JobRunId": "jr_1"}

    def get_job_run(self, **_asked):
        return {"JobRun": {"Id": "jr_1", "JobName": "lakegc", "JobRunState": "SUCCEEDED"}}


@pytest.mark.slow
def test_glue_gets_its_arguments_and_tells_through_s3_what_the_entry_did(place, aws):  # noqa: F811
    from dagster_aws.pipes import PipesGlueClient, PipesS3ContextInjector

    injector = PipesS3ContextInjector(bucket=aws.bucket(), client=aws.client())
    client = PipesGlueClient(injector, message_reader=reader(aws), client=Glue())

    def on_glue(context, extras):
        asked = glue_job_run("lakegc", {"--additional-python-modules": "dagster-pipes"})
        return client.run(context=context, extras=dict(extras), start_job_run_params=asked)

    ended = run(place, "mark", new_key(), launcher=on_glue)
    assert ended.success, failure(ended)
    assert {"expired_addresses", "verdict", "house_keeping"} <= set(shown(ended))


def started(client, **parameters):
    """Start something by a client in a step of Dagster, as an asset does."""

    @dg.asset
    def launched(context: dg.AssetExecutionContext):
        ended = client.run(context=context, extras={"lakegc": {}}, **parameters)
        return ended.get_materialize_result()

    with pytest.MonkeyPatch.context() as patch:
        # The seconds in which Dagster waits for messages of something that has ended.
        patch.setattr("dagster._core.pipes.utils.WAIT_FOR_LOGS_AFTER_EXECUTION_INTERVAL", 0)
        assert dg.materialize([launched]).success


def test_a_job_flow_is_what_emr_and_its_client_take(aws):
    from dagster_aws.pipes import PipesEMRClient

    emr = boto3.client("emr")
    asked = emr_job_flow(FLOW, "s3://bucket/entry.py", ["--deploy-mode", "cluster"])
    with Stubber(emr) as stub:
        stub.add_response("run_job_flow", {"JobFlowId": "j-1"})
        for state in ("RUNNING", "RUNNING", "TERMINATED", "TERMINATED"):
            described = {"Id": "j-1", "Name": "collector", "Status": {"State": state}}
            stub.add_response("describe_cluster", {"Cluster": described})
        client = PipesEMRClient(reader(aws), client=emr)
        client._read_application_logs = lambda *_: None
        started(client, run_job_flow_params=asked)
        stub.assert_no_pending_responses()
    (step,) = asked["Steps"]
    assert step["HadoopJarStep"]["Args"] == [
        "spark-submit", "--deploy-mode", "cluster", "s3://bucket/entry.py", "--messages=s3",
    ]  # fmt: skip
    # Where the client leaves what the entry begins with.
    assert "DAGSTER_PIPES_CONTEXT" in str(asked["Configurations"])


def test_a_job_run_is_what_emr_on_kubernetes_and_its_client_take(aws):
    from dagster_aws.pipes import PipesEMRContainersClient

    containers = boto3.client("emr-containers")
    options = ["--conf", "spark.executor.cores=2"]
    asked = emr_containers_job_run(JOB, "s3://bucket/entry.py", options)
    with Stubber(containers) as stub:
        begun = {"id": "1", "name": "lakegc", "arn": ARN, "virtualClusterId": "abc"}
        stub.add_response("start_job_run", begun)
        for _ in range(2):
            stub.add_response("describe_job_run", {"jobRun": {"id": "1", "state": "COMPLETED"}})
        client = PipesEMRContainersClient(client=containers, message_reader=reader(aws))
        started(client, start_job_run_params=asked)
        stub.assert_no_pending_responses()
    driver = asked["jobDriver"]["sparkSubmitJobDriver"]
    assert driver["entryPointArguments"] == ["--messages=s3"]
    assert driver["sparkSubmitParameters"] == "--conf spark.executor.cores=2"
    assert "DAGSTER_PIPES_CONTEXT" in str(asked["configurationOverrides"])


@pytest.fixture
def databricks():
    """A workspace that takes every task and says that it ended well; what was asked of it."""
    done = {"state": {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS"}}
    with responses.RequestsMock(assert_all_requests_are_fired=False) as service:
        service.post(re.compile(rf"{WORKSPACE}/api/2.\d/dbfs/"), json={})
        service.get(re.compile(rf"{WORKSPACE}/api/2.\d/dbfs/"), status=404, json={})
        service.post(re.compile(rf"{WORKSPACE}/api/2.\d/jobs/runs/submit"), json={"run_id": 1})
        service.get(re.compile(rf"{WORKSPACE}/api/2.\d/jobs/runs/get"), json={"run_id": 1, **done})
        yield service


@pytest.mark.parametrize("compute", [NEW, EXISTING])
def test_a_task_is_what_databricks_and_its_client_take(databricks, compute):
    from dagster_databricks import PipesDatabricksClient
    from dagster_databricks.pipes import PipesDbfsMessageReader
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service.jobs import SubmitTask

    asked = databricks_task("dbfs:/lakegc/entry.py", compute, [{"pypi": {"package": "lakegc"}}])
    # A word that the SDK does not know would be lost on the way.
    assert SubmitTask.from_dict(asked).as_dict() == asked
    workspace = WorkspaceClient(host=WORKSPACE, token="token")
    reader = PipesDbfsMessageReader(client=workspace, interval=0.1)
    client = PipesDatabricksClient(workspace, message_reader=reader, poll_interval_seconds=0.1)
    started(client, task=SubmitTask.from_dict(asked))
    (sent,) = [
        json.loads(call.request.body)
        for call in databricks.calls
        if call.request.url.endswith("/jobs/runs/submit")
    ]
    (task,) = sent["tasks"]
    parameters = task["spark_python_task"]["parameters"]
    assert parameters[:2] == ["--context=dbfs", "--messages=dbfs"]
    # Where the client leaves what the entry begins with.
    if compute is NEW:
        assert "DAGSTER_PIPES_CONTEXT" in task["new_cluster"]["spark_env_vars"]
    else:
        assert "--dagster-pipes-context" in parameters


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("dagster.md", "on_glue"),
        ("platforms/databricks.md", "on_databricks"),
        ("platforms/emr.md", "on_emr"),
        ("platforms/emr.md", "on_emr_containers"),
    ],
)
def test_a_page_shows_definitions_with_a_launcher_that_load(aws, tmp_path, monkeypatch, page, name):
    found = rf"```python\n(# {name}\.py\n.*?)```"
    (block,) = re.findall(found, (DOCS / page).read_text(), re.DOTALL)
    file = tmp_path / f"{name}.py"
    file.write_text(block)
    (tmp_path / "lakegc.toml").write_text(
        '[server]\nendpoint = "http://127.0.0.1:9"\n[repositories.one]\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABRICKS_HOST", WORKSPACE)
    monkeypatch.setenv("DATABRICKS_TOKEN", "token")
    (target,) = loadable_targets_from_python_file(str(file))
    dg.Definitions.validate_loadable(target.target_definition)
    job = target.target_definition.resolve_job_def("mark")
    assert set(job.graph.node_dict) == {STEP}
    assert handed_on(file, name, monkeypatch)


def handed_on(file, name, monkeypatch):
    """Let the launcher of a file hand its parameters to its client, and look at them there."""
    module = runpy.run_path(str(file))
    given = {}
    client = type(module["client"])
    run_of_client = client.run
    monkeypatch.setattr(client, "run", lambda _client, **words: given.update(words) or "ended")
    assert module[name]("the context", {"lakegc": {}}) == "ended"
    assert given.pop("context") == "the context"
    assert given.pop("extras") == {"lakegc": {}}
    ((word, asked),) = given.items()
    assert word in signature(run_of_client).parameters
    if client.__name__ == "PipesDatabricksClient":
        from databricks.sdk.service.jobs import SubmitTask

        return isinstance(asked, SubmitTask)
    service, operation = SERVICES[client.__name__]
    model = boto3.client(service).meta.service_model.operation_model(operation)
    tokens = dict.fromkeys(model.idempotent_members, "made by boto3")
    return validate_parameters({**tokens, **asked}, model.input_shape) is None
