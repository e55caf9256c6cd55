"""What docs/engine.md and deploy/airflow show: the notebook runs, the DAG's words are known."""

import ast
import re
import runpy
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest

from lakegc_dagster.sandbox import Sandbox
from tests.support.command_line import WITH_REPO, parsed, settings_in_environment
from tests.support.upstream import upstream_scenario

ROOT = Path(__file__).parents[2]
AIRFLOW = ROOT / "deploy" / "airflow"
PAGE = (ROOT / "docs" / "engine.md").read_text()


@pytest.mark.spark
def test_the_lines_for_a_notebook_mark_a_repository(spark, tmp_path, monkeypatch, capsys):
    (lines,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(lines[lines.index("settings = ") :].splitlines()) <= 10
    monkeypatch.chdir(tmp_path)
    with Sandbox(tmp_path / "sandbox") as sandbox:
        upstream_scenario(sandbox, "repo", now=datetime.now(UTC) - timedelta(minutes=1))
        settings_in_environment(sandbox, tmp_path, monkeypatch, WITH_REPO)
        exec(compile(lines.replace("my-repo", "repo"), "engine.md", "exec"), {})
    assert re.search(r"^\d+ objects?, ", capsys.readouterr().out, re.MULTILINE)


def test_the_command_lines_of_the_page_are_known():
    shown = re.findall(r"(?:^|/)lakegc ([a-z][^#>\n]*)", PAGE, re.MULTILINE)
    assert len(shown) == 5
    for words in shown:
        parsed(words.split())


def _calls(operator):
    tree = ast.parse((AIRFLOW / "lakegc_dag.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == operator:
            yield {each.arg: each.value for each in node.keywords}


def test_airflow_starts_command_lines_that_are_known():
    (submit,), (pod,) = _calls("SparkSubmitOperator"), _calls("KubernetesPodOperator")
    for words in (submit["application_args"], pod["arguments"]):
        assert parsed(ast.literal_eval(words))["repositories"] == ("my-repo",)
    assert ast.literal_eval(pod["cmds"]) == ["python", "-m", "spark_core"]
    assert "run_engine.py" in ast.unparse(submit["application"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(AIRFLOW / "run_engine.py"), run_name="__main__")
    assert ended.value.code == 2  # it has parsed the words of this test's own process


@pytest.mark.skipif(
    find_spec("airflow") is None,
    reason="apache-airflow is not installed; in an environment that has it and its providers for "
    "Spark and Kubernetes: python deploy/airflow/lakegc_dag.py",
)
def test_airflow_loads_both_dags():
    made = runpy.run_path(str(AIRFLOW / "lakegc_dag.py"))
    assert made["NIGHTLY"]["max_active_runs"] == 1
