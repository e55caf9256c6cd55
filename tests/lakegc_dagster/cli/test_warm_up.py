"""`lakegc warm-up`: compiled loops, and an archive of Spark's classes that is whole, or none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from spark_core.cli import warm_up
from spark_core.cli.main import main
from spark_core.errors import LakegcError
from spark_core.spark.class_archive import class_archive

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lakegc"


@pytest.fixture
def collected(monkeypatch):
    """Count the small collections, each of which writes an archive."""
    made = []

    def collect(options):
        made.append(options)
        Path(options.split()[0].partition("=")[2]).write_bytes(b"classes" * len(made))

    monkeypatch.setattr(warm_up, "_collect", collect)
    return made


def _warm_up(*words):
    answer = CliRunner().invoke(main, ["warm-up", *words])
    return answer.exit_code, answer.output


def test_it_makes_an_archive_once(cache, collected):
    for _ in range(2):
        code, output = _warm_up()
        assert code == 0
        assert f"ready    {class_archive().path}" in output
    assert len(collected) == 1
    assert _warm_up("--again")[0] == 0
    assert len(collected) == 2
    assert list(cache.iterdir()) == [class_archive().path]


def test_an_archive_that_others_can_write_is_made_anew(cache, collected):
    _warm_up()
    class_archive().path.chmod(0o666)
    assert _warm_up()[0] == 0
    assert len(collected) == 2
    assert class_archive().options


def test_a_collection_that_fails_leaves_no_archive_and_says_why(cache, monkeypatch):
    def fail(_options):
        raise LakegcError("the small collection failed: no room")

    monkeypatch.setattr(warm_up, "_collect", fail)
    code, output = _warm_up()
    assert code == 1
    assert "the small collection failed: no room" in output
    assert list(cache.iterdir()) == []


def test_a_place_that_others_can_write_is_refused_before_anything_starts(cache, collected):
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    code, output = _warm_up()
    assert code == 2
    assert f"others may write {cache}" in output
    assert collected == []


def test_loops_are_compiled_although_the_archive_is_there(cache, collected, monkeypatch):
    _warm_up()
    compiled = []
    monkeypatch.setattr(warm_up, "compile_loops", lambda: compiled.append(True))
    code, output = _warm_up()
    assert (code, compiled, len(collected)) == (0, [True], 1)
    assert "ready    compiled loops" in output


MARKS = """
import sys
from pathlib import Path
from numba.core import event
from spark_core.cli.warm_up import compile_loops
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


@pytest.mark.deep
def test_java_maps_what_a_real_collection_left(cache, tmp_path):
    script = "from spark_core.cli.main import main; main(['warm-up'])"
    env = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    [made] = cache.iterdir()
    assert made == class_archive().path
    assert made.stat().st_size > 50_000_000
    start = (
        "from spark_core.spark.session import spark_config, start_session\n"
        "chosen = {'spark.driver.extraJavaOptions': '-Xlog:class+load'}\n"
        "start_session(spark_config(master='local[1]', extra=chosen)).range(10).count()"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", start], capture_output=True, text=True, check=True
    ).stdout
    spark = [
        line
        for line in loaded.splitlines()
        if " org.apache.spark." in line and "Lambda" not in line
    ]
    mapped = [line for line in spark if "shared objects file (top)" in line]
    assert len(mapped) > len(spark) / 2
