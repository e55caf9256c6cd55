"""The task is what the Pipes client of Databricks takes; it needs `dagster-databricks`."""

import dagster as dg
import pytest

from lakegc_dagster.pipes.payloads import databricks_task

NEW = {"new_cluster": {"spark_version": "16.4.x-scala2.12", "node_type_id": "i3.xlarge"}}
EXISTING = {"existing_cluster_id": "1-2-abc"}
WAYS = ["--context=dbfs", "--messages=dbfs"]


@pytest.mark.parametrize("compute", [NEW, EXISTING])
def test_a_task_is_what_databricks_and_its_client_take(compute):
    jobs = pytest.importorskip(
        "databricks.sdk.service.jobs",
        reason="dagster-databricks is absent: in an environment of its own, install it and pytest, "
        "and run this file with `-c /dev/null --noconftest`",
    )
    from dagster_databricks import PipesDatabricksClient

    asked = databricks_task("dbfs:/lakegc/entry.py", compute, [{"pypi": {"package": "lakegc"}}])
    # A word that the SDK does not know would be lost on the way.
    assert jobs.SubmitTask.from_dict(asked).as_dict() == asked
    seen = {}

    @dg.asset
    def launched(context: dg.AssetExecutionContext) -> None:
        client = PipesDatabricksClient(client=None)
        with dg.open_pipes_session(
            context, dg.PipesEnvContextInjector(), dg.PipesTempFileMessageReader()
        ) as session:
            seen.update(
                client._enrich_submit_task_dict(
                    context=context, session=session, submit_task_dict=asked
                )
            )

    dg.materialize([launched], raise_on_error=False)
    parameters = seen["spark_python_task"]["parameters"]
    assert parameters[:2] == WAYS
    if compute is NEW:
        assert "DAGSTER_PIPES_CONTEXT" in seen["new_cluster"]["spark_env_vars"]
    else:
        assert "--dagster-pipes-context" in parameters
