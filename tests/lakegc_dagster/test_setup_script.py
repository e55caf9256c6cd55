"""Set-up: what it says when Java or Python does not fit, and that every version is pinned."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "cat", "dirname", "env", "head", "sed", "printf")


@pytest.fixture
def path(tmp_path):
    """A folder that is the whole PATH: the shell's tools, no Java, no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (folder / tool).symlink_to(found)
    return folder


def _program(folder, name, text):
    program = folder / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!{shutil.which('bash')}\n{text}\n")
    program.chmod(0o755)
    return program


def _set_up(path, tmp_path, **env):
    return subprocess.run(
        [ROOT / ".ci" / "setup", tmp_path / "venv"],
        env={"PATH": str(path), "HOME": str(tmp_path), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_without_java_it_says_so_and_how_to_get_one(path, tmp_path):
    answer = _set_up(path, tmp_path)
    assert answer.returncode == 2
    assert (
        "no `java` is on the PATH. Spark 4.3.0 needs Java 17 or newer; nothing was set up."
        in answer.stderr
    )
    assert "apt-get install openjdk-17-jre-headless" in answer.stderr
    assert not (tmp_path / "venv").exists()


def test_a_java_home_without_java_is_named(path, tmp_path):
    answer = _set_up(path, tmp_path, JAVA_HOME="/nowhere")
    assert answer.returncode == 2
    assert "JAVA_HOME is '/nowhere', and there is no bin/java in it" in answer.stderr


@pytest.mark.parametrize(
    "line", ['openjdk version "11.0.2" 2019-01-15', 'java version "1.8.0_201"', "no runtime here"]
)
def test_a_java_that_is_too_old_is_shown_as_it_answers(path, tmp_path, line):
    _program(path, "java", f"echo '{line}' >&2")
    answer = _set_up(path, tmp_path)
    assert answer.returncode == 2
    assert f"answers '{line}'. Spark 4.3.0 needs Java 17 or newer" in answer.stderr


def test_without_a_fitting_python_it_says_so_and_how_to_get_one(path, tmp_path):
    _program(path, "java", """echo 'openjdk version "21.0.1" 2023' >&2""")
    _program(path, "python3", "exit 1")
    answer = _set_up(path, tmp_path)
    assert answer.returncode == 2
    assert (
        "none of python3.11, python3.12, python3.13, python3 is a Python 3.11 to 3.13; nothing was "
        "set up" in answer.stderr
    )
    assert not (tmp_path / "venv").exists()


def test_an_environment_of_another_python_is_left_alone(path, tmp_path):
    _program(path, "java", """echo 'openjdk version "17.0.15" 2025' >&2""")
    _program(tmp_path / "venv" / "bin", "python", "[ $1 = --version ] && echo Python 3.9.2; exit 1")
    answer = _set_up(path, tmp_path)
    assert answer.returncode == 2
    assert "is Python 3.9.2, wanted 3.11 to 3.13; nothing was changed." in answer.stderr


def test_every_dependency_has_one_pinned_version_and_no_address():
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_]+", line) for line in lines)
    pinned = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    assert len(pinned) == len(lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {
        re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]+", each)[0]).lower()
        for each in project["dependencies"]
        + [each for extra in project["optional-dependencies"].values() for each in extra]
    }
    assert wanted - {project["name"]} <= pinned


@pytest.mark.parametrize(
    "target",
    [
        "help",
        "setup",
        "demo",
        "test",
        "test-deep",
        "bench",
        "test-live",
        "lint",
        "wheels",
        "format",
        "ui",
        "clean",
    ],
)
def test_make_lists_its_targets(target):
    answer = subprocess.run(
        ["make", "-C", ROOT], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert re.search(rf"make {target} +\S", answer.stdout)
