"""A command imports what it uses, and the engine's wheel has the same command line as lakegc."""

import ast
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core.cli.groups import TASKS
from tests.support.command_line import WITH_REPO, settings_on
from tests.support.upstream import upstream_scenario

# Runs a command in a process of its own and says which modules it had imported at its end.
_SCRIPT = """\
import atexit, sys
atexit.register(lambda: print("\\n" + " ".join(sys.modules)))
class Missing:
    def find_spec(self, name, *_):
        if name == "lakegc_dagster":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
if sys.argv.pop(1) == "engine":
    sys.meta_path.insert(0, Missing())
from spark_core.cli.main import main
main(prog_name="lakegc")
"""


def lakegc(*words, package="lakegc", code=0):
    """Run a command where a package is installed; return what it shows, and what it imported."""
    answer = subprocess.run(
        [sys.executable, "-c", _SCRIPT, package, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        check=False,
    )
    assert answer.returncode == code, answer.stderr
    shown, _, imported = answer.stdout.rstrip().rpartition("\n")
    return shown + answer.stderr, set(imported.split())


def test_the_version_needs_no_more_than_click():
    _, imported = lakegc("--version")
    ours = {name for name in imported if name.startswith(("spark_core", "lakegc_dagster"))}
    assert ours <= {
        "spark_core",
        "spark_core.cli",
        "spark_core.cli.groups",
        "spark_core.cli.main",
        "spark_core.errors",
        "spark_core.output",
        "spark_core.plain_text",
    }
    assert not {"rich", "pydantic", "json", "urllib3"} & imported


@pytest.mark.parametrize("command", [["ui"], ["demo", "--every"]])
def test_where_the_engine_is_alone_a_command_of_lakegc_says_what_to_install(command):
    said, _ = lakegc(*command, package="engine", code=2)
    assert "here is lakegc's engine alone. Install the package `lakegc`" in said


def test_the_help_of_the_engine_names_every_command():
    said, _ = lakegc("--help", package="engine")
    assert " ".join(said.split()).count("here is lakegc's engine alone") == 2
    named = set(re.findall(r"^  ([a-z][a-z-]*)  ", said, re.MULTILINE))
    assert named == {name for names in TASKS.values() for name in names}


def test_a_sandbox_of_the_demo_is_not_served_by_the_engine_alone(tmp_path):
    (tmp_path / ".made-by-lakegc-demo").touch()
    (tmp_path / "lakegc.toml").write_text('[server]\nendpoint = "http://127.0.0.1:1"\n')
    words = ["rules", "get", "lakegc-demo", "--config", tmp_path / "lakegc.toml"]
    said, _ = lakegc(*words, package="engine", code=2)
    assert "Install the package `lakegc`" in said


ROOT = Path(__file__).parents[2]
ON_DEMAND = [
    file
    for package in ("spark_core", "lakegc_dagster")
    for file in sorted((ROOT / package).rglob("__init__.py"))
    if "on_demand(" in file.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("file", ON_DEMAND, ids=lambda file: file.parent.name)
def test_names_on_demand_are_those_that_readers_see(file):
    (guard,) = (
        node
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.If)
    )
    package = ".".join(file.parent.relative_to(ROOT).parts)
    seen = {
        (each.module.removeprefix(f"{package}."), name.name)
        for each in guard.body
        for name in each.names
    }
    (call,) = (node for node in ast.walk(guard) if isinstance(node, ast.Call))
    told = ast.literal_eval(call.args[1])
    assert {(module, name) for module, names in told.items() for name in names.split()} == seen


# What looks at runs asks the server where the repository lies, and reads documents of the store.
NOT_WITHOUT_WORK = {"dagster", "pandas", "pyspark", "matplotlib"}
NOT_TO_LOOK = {
    *NOT_WITHOUT_WORK,
    "numba",
    "spark_core.checks.every_check",
    "spark_core.explain",
    "spark_core.graveler.blocks",
    "spark_core.mark",
    "spark_core.mark_and_sweep",
    "spark_core.sweep",
}
NOT_TO_READ_A_FILE = {*NOT_TO_LOOK, "lakefs_sdk", "spark_core.lakefs.transport", "pyarrow"}


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """A repository with a mark; what its command had imported."""
    folder = tmp_path_factory.mktemp("lean")
    with Sandbox(folder / "sandbox") as sandbox, pytest.MonkeyPatch.context() as changed:
        upstream_scenario(sandbox, "repo", now=datetime.now(UTC) - timedelta(minutes=1))
        for name, value in settings_on(sandbox, folder, WITH_REPO).items():
            changed.setenv(name, value)
        yield lakegc("mark", "repo")


def test_a_small_mark_starts_neither_spark_nor_dagster_and_needs_no_pandas(marked):
    said, imported = marked
    assert "this process" in said
    assert not NOT_WITHOUT_WORK & imported


@pytest.mark.parametrize("command", ["runs", "status", "report"])
def test_who_looks_at_runs_imports_no_decoder_no_spark_no_mark_and_no_check(marked, command):
    said, imported = lakegc(command, "repo")
    assert "repo" in said
    assert not NOT_TO_LOOK & imported


@pytest.mark.parametrize(
    ("words", "code"), [(["config", "show"], 0), (["verify", "no-such-file.json"], 2)]
)
def test_who_reads_a_file_imports_nothing_that_asks_a_server(marked, words, code):
    _, imported = lakegc(*words, code=code)
    assert not NOT_TO_READ_A_FILE & imported


def test_a_frame_can_still_be_had_where_pandas_was_left_out():
    script = (
        "from spark_core.without_pandas import leave_pandas_out as f; f(); f(); import sys; "
        "import pyarrow as pa; rows = pa.table({'a': [1]}); print('pandas' in sys.modules); "
        "print(len(rows.to_pandas()))"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["False", "1"]
