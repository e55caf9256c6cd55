"""The loops are compiled ahead; `lakegc warm-up` of 0.1.0 does that alone, and warns."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from spark_core import compile_loops
from spark_core.cli.main import main

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("words", [[], ["--again"]])
def test_the_command_of_0_1_0_compiles_the_loops_and_warns_once_that_it_goes(monkeypatch, words):
    compiled = []
    monkeypatch.setattr(compile_loops, "compile_loops", lambda: compiled.append(True))
    monkeypatch.setenv("JAVA_HOME", "/there/is/none")
    answer = CliRunner().invoke(main, ["warm-up", *words])
    assert (answer.exit_code, compiled, answer.stdout) == (0, [True], "")
    [warning] = answer.stderr.splitlines()
    assert "`lakegc warm-up` goes with the next version" in warning
    assert "`python -m spark_core.compile_loops`" in warning


MARKS = """
import sys
from pathlib import Path
from numba.core import event
from spark_core.compile_loops import compile_loops
from tests.support.example_names import a_marked_repository

class Compiled(event.Listener):
    def on_start(self, found):
        loop = found.data["dispatcher"].py_func
        if loop.__module__.startswith("spark_core."):
            print(loop.__qualname__)

    def on_end(self, found):
        pass

if sys.argv[2] == "compiles":
    compile_loops()
event.register("numba:compile", Compiled())
with a_marked_repository(Path(sys.argv[1])):
    pass
"""


@pytest.mark.slow
def test_a_mark_after_it_compiles_nothing(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "loops")}
    for number, word in enumerate(["compiles", "loads"]):
        lake = tmp_path / str(number)
        lake.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", MARKS, str(lake), word],
            env=env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == []
