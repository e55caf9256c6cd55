"""The script that installs the Azure emulator says what is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / ".ci" / "install-azurite"
TOOLS = ("bash", "dirname", "env", "sed", "tail", "mkdir")


@pytest.fixture
def path(tmp_path):
    """A folder that is the whole PATH: the shell's tools, no Node.js."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool))
    return folder


def program(folder, name, text):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!{shutil.which('bash')}\n{text}\n")
    file.chmod(0o755)


def install(path, target):
    environment = {"PATH": str(path), "HOME": os.environ.get("HOME", "/")}
    return subprocess.run(
        [SCRIPT, target], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_without_npm_it_says_so_and_that_the_tests_are_skipped(path, tmp_path):
    answer = install(path, tmp_path / "here")
    assert answer.returncode == 2
    assert "there is no `npm` on the PATH" in answer.stderr
    assert "tests of the Azure backend that need a server are skipped" in answer.stderr
    assert not (tmp_path / "here").exists()


def test_an_old_node_is_named(path, tmp_path):
    program(path, "npm", "exit 1")
    program(path, "node", "echo v16.1.0")
    answer = install(path, tmp_path / "here")
    assert answer.returncode == 2
    assert "found v16.1.0, wanted 18 or newer; nothing was installed" in answer.stderr


def test_an_install_that_leaves_nothing_behind_is_an_error(path, tmp_path):
    program(path, "npm", "exit 0")
    program(path, "node", "echo v20.0.0")
    answer = install(path, tmp_path / "here")
    assert answer.returncode == 2
    assert "azurite-blob is not there" in answer.stderr


def test_what_is_there_in_the_right_version_is_not_installed_again(path, tmp_path):
    program(tmp_path / "here/node_modules/.bin", "azurite-blob", "echo 3.35.0")
    answer = install(path, tmp_path / "here")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "is there already (3.35.0)" in answer.stdout
