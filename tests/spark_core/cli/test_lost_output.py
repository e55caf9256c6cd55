"""What becomes of a command whose output nobody takes: its work ends as it would have ended."""

import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakegc_dagster.sandbox import Sandbox
from tests.support.command_line import settings_on
from tests.support.upstream import upstream_scenario

ROOT = Path(__file__).parents[3]
SETTINGS = """\
throwaway_repositories = ["repo"]
[server]
endpoint = "{endpoint}"
[storage]
local_path = "{blockstore}"
[defaults]
min_age_hours = 0.0003
allow_unsafe_min_age = true
repository_cache_seconds = 0
mode = "sweep"
quarantine = false
[repositories.repo]
"""


class Place:
    """A sandbox with the upstream scenario, and the program as a process on it."""

    def __init__(self, sandbox, folder):
        self.folder, self.sandbox = folder, sandbox
        long_ago = datetime.now(UTC) - timedelta(minutes=1)
        self.story = upstream_scenario(sandbox, "repo", now=long_ago)
        self.env = {
            **os.environ,
            **settings_on(sandbox, folder, SETTINGS),
            "PYTHONPATH": str(ROOT),
        }
        self.env.pop("COLUMNS", None)

    def run(self, *words, out, close="", **env):
        script = f"import os, sys\n{close}\nfrom spark_core.cli.main import main\nmain()"
        return subprocess.run(
            [sys.executable, "-c", script, *words],
            cwd=self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
            timeout=300,
            text=True,
        )

    def gone(self):
        root = self.sandbox.blockstore / "repo"
        return {file.path for file in self.story.files if not (root / file.address).exists()}


@pytest.fixture
def place(tmp_path):
    with Sandbox(tmp_path / "sandbox") as sandbox:
        yield Place(sandbox, tmp_path)


@pytest.fixture
def left():
    """The writing end of a pipe whose reader has left."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


# As Python begins where the shell's `>&-` closed it.
CLOSE = "os.close(1); sys.stdout = sys.__stdout__ = None"
GONE = {"file_2", "file_4", "file_5", "file_7", "file_9", "file_10"}


@pytest.mark.slow
def test_a_sweep_whose_reader_leaves_ends_and_says_on_stderr_what_was_done(place, left):
    answer = place.run("run", "repo", out=left)
    assert "Traceback" not in answer.stderr
    assert place.gone() == GONE
    assert answer.returncode == 0, answer.stderr
    assert re.search(r"swept    repo: 6 objects, \S+ \S+ were deleted \(", answer.stderr)
    assert "SystemExit" not in answer.stderr


@pytest.mark.slow
def test_a_sweep_with_a_closed_output_or_a_full_disk_ends_as_well(place):
    answer = place.run("mark", "repo", out=None, close=CLOSE)
    assert answer.returncode == 0, answer.stderr
    assert place.gone() == set()
    with Path("/dev/full").open("wb") as full:
        answer = place.run("run", "repo", out=full)
    assert place.gone() == GONE
    assert answer.returncode == 1
    assert "cannot be written (No space left on device)" in answer.stderr
    assert "6 objects" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_what_is_shown_before_any_work_is_dropped_without_a_traceback(place, left, word):
    assert place.run(word, out=left).stderr == ""
    closed = place.run(word, out=None, close=CLOSE)
    assert (closed.returncode, closed.stderr) == (0, "")
    with Path("/dev/full").open("wb") as full:
        answer = place.run(word, out=full)
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert "what the command shows cannot be written (No space left on device)" in line


def test_no_file_of_the_work_gets_the_number_of_a_closed_output(place):
    script = (
        "import os, sys\n"
        "from spark_core.output import exit_code_of\n"
        "work = lambda: os.write(2, str(os.open(os.devnull, os.O_RDONLY)).encode()) and None\n"
        "exit_code_of(work)"
    )
    answer = subprocess.run(
        ["bash", "-c", '"$0" -c "$1" <&- >&-', sys.executable, script],
        env=place.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert int(answer.stderr) > 2


def test_a_reader_that_left_a_command_that_only_looks_costs_nothing(place, left):
    answer = place.run("config", "show", out=left)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_an_output_that_does_not_wait_gets_everything(place):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    script = (
        "from spark_core.output import exit_code_of\nexit_code_of(lambda: print('x' * 1_000_000))"
    )
    with subprocess.Popen([sys.executable, "-c", script], env=place.env, stdout=writing) as shown:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert len(pipe.read()) == 1_000_001
        assert shown.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize("width", ["0", ""])
def test_a_width_of_0_is_no_width(place, width):
    """Both as a file and as a terminal that tells no width of its own."""
    answer = place.run("doctor", "repo", out=subprocess.PIPE, COLUMNS=width)
    wanted = place.run("doctor", "repo", out=subprocess.PIPE)
    assert "lakegc.toml" in wanted.stdout
    assert answer.stdout.count("\n") == wanted.stdout.count("\n")
    ours, theirs = pty.openpty()
    place.run("config", "show", out=theirs, COLUMNS=width)
    os.close(theirs)
    assert b"settings of" in os.read(ours, 10_000)
    os.close(ours)
