"""Parameters with which the Pipes clients of Databricks, EMR and Glue start the entry.

Each function returns what the client's `run` takes; a launcher hands it on, with the extras:

    def on_glue(context, extras):
        asked = glue_job_run("lakegc")
        return client.run(context=context, extras=extras, start_job_run_params=asked)

    build_defs(settings, launcher=on_glue)

The machines need the engine and `dagster-pipes`, and the keys of server and store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What the entry's arguments say of where the context lies, and where messages go.
_MESSAGES, _CONTEXT = "--messages", "--context"


def databricks_task(
    entry: str, compute: Mapping[str, Any], libraries: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return the task for `PipesDatabricksClient.run`, to be read by `SubmitTask.from_dict`.

    Args:
        entry: Where Databricks finds a copy of `entry.py`: a path of the workspace, or of DBFS.
        compute: `existing_cluster_id`, or `new_cluster` with its description.
        libraries: What the cluster installs: the engine's wheel, and `dagster-pipes`.

    Examples:
        >>> task = databricks_task("dbfs:/lakegc/entry.py", {"existing_cluster_id": "1-2-abc"})
        >>> task["spark_python_task"]["parameters"]
        ['--context=dbfs', '--messages=dbfs']
    """
    arguments = [f"{_CONTEXT}=dbfs", f"{_MESSAGES}=dbfs"]
    return {
        "task_key": "lakegc",
        **compute,
        "libraries": [*libraries],
        "spark_python_task": {"python_file": entry, "parameters": arguments},
    }


def emr_job_flow(
    flow: Mapping[str, Any], entry: str, options: Sequence[str] = ()
) -> dict[str, Any]:
    """Return `run_job_flow_params` for `PipesEMRClient.run`, whose messages go through S3.

    Args:
        flow: The cluster, as `run_job_flow` of boto3 takes it: name, release, instances, roles. The
            last step of it is the entry.
        entry: Where the cluster finds a copy of `entry.py`, such as `s3://bucket/entry.py`.
        options: Options of `spark-submit`.
    """
    command = ["spark-submit", *options, entry, f"{_MESSAGES}=s3"]
    step = {
        "Name": "lakegc",
        "ActionOnFailure": "TERMINATE_CLUSTER",
        "HadoopJarStep": {"Jar": "command-runner.jar", "Args": command},
    }
    return {**flow, "Steps": [*flow.get("Steps", ()), step]}


def emr_containers_job_run(
    job: Mapping[str, Any], entry: str, options: Sequence[str] = ()
) -> dict[str, Any]:
    """Return `start_job_run_params` for `PipesEMRContainersClient.run`; messages go through S3.

    Args:
        job: The rest, as `start_job_run` of boto3 takes it: virtual cluster, role, release.
        entry: Where the job finds a copy of `entry.py`.
        options: Options of `spark-submit`.
    """
    driver = {
        "entryPoint": entry,
        "entryPointArguments": [f"{_MESSAGES}=s3"],
        "sparkSubmitParameters": " ".join(options),
    }
    if not options:
        del driver["sparkSubmitParameters"]
    return {"name": "lakegc", **job, "jobDriver": {"sparkSubmitJobDriver": driver}}


def glue_job_run(job_name: str, arguments: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return `start_job_run_params` for `PipesGlueClient.run`; context and messages go through S3.

    Args:
        job_name: A job of Glue whose script is a copy of `entry.py`.
        arguments: Further arguments of the job, such as `--additional-python-modules`.
    """
    return {
        "JobName": job_name,
        "Arguments": {**(arguments or {}), _CONTEXT: "s3", _MESSAGES: "s3"},
    }
