"""A night of lakegc in Airflow, in two ways: keep the DAG that fits and take the other out.

`lakegc_on_spark` submits the engine to the Spark cluster of the connection `spark_default`, where
`lakegc-engine` is installed. `lakegc_in_kubernetes` runs it in a pod of its own. The login and the
password of the connection `lakefs` are the keys of a lakeFS user.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG

# Each try makes a mark of its own: a mark that broke off is never taken up by another.
NIGHTLY = {
    "start_date": datetime(2026, 1, 1, tzinfo=UTC),
    "catchup": False,
    "max_active_runs": 1,
    "default_args": {"retries": 1, "retry_delay": timedelta(minutes=20)},
}
KEYS = {
    "LAKEGC_ACCESS_KEY_ID": "{{ conn.lakefs.login }}",
    "LAKEGC_SECRET_ACCESS_KEY": "{{ conn.lakefs.password }}",
}

with DAG("lakegc_on_spark", schedule="0 2 * * *", **NIGHTLY):
    SparkSubmitOperator(
        task_id="run",
        application=str(Path(__file__).with_name("run_engine.py")),
        application_args=["run", "my-repo", "--config", "/etc/lakegc/lakegc.toml"],
        conf={"spark.task.maxFailures": "4", "spark.speculation": "false"},
        env_vars=KEYS,
        name="lakegc",
    )

with DAG("lakegc_in_kubernetes", schedule="0 2 * * *", **NIGHTLY):
    KubernetesPodOperator(
        task_id="run",
        name="lakegc",
        namespace="lakegc",
        image="registry.example.com/lakegc:0.1.0",
        cmds=["python", "-m", "spark_core"],
        arguments=["run", "my-repo", "--config", "/etc/lakegc/lakegc.toml"],
        env_vars=KEYS,
        get_logs=True,
        on_finish_action="delete_succeeded_pod",
    )
