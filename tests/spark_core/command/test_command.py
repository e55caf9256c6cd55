"""`python -m spark_core` on a sandbox: what is deleted, what is said, and the exit code."""

import errno
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core.command import main
from spark_core.upkeep import house_keeping
from tests.support.upstream import upstream_scenario

pytestmark = pytest.mark.spark

GONE = {"file_2", "file_4", "file_5", "file_7", "file_9", "file_10"}
ROOT = Path(__file__).parents[3]

# Whatever is no part of a cluster's engine cannot be imported.
WITHOUT_DAGSTER = """
import sys
class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FORBIDDEN or name.startswith("dagster"):
            raise ModuleNotFoundError(f"{name} must not be imported here", name=name)
FORBIDDEN = {"lakegc_dagster", "rich", "click", "starlette", "uvicorn", "matplotlib", "cramjam"}
sys.meta_path.insert(0, Forbidden())
"""


class Place:
    """A sandbox with the upstream scenario, and a settings file for it."""

    def __init__(self, sandbox, folder, monkeypatch, mode="sweep"):
        self.sandbox = sandbox
        long_ago = datetime.now(UTC) - timedelta(minutes=1)
        self.story = upstream_scenario(sandbox, "repo", now=long_ago)
        self.env = {
            "LAKEGC_ACCESS_KEY_ID": sandbox.access_key_id,
            "LAKEGC_SECRET_ACCESS_KEY": sandbox.secret_access_key,
        }
        for name, value in self.env.items():
            monkeypatch.setenv(name, value)
        self.config = folder / "lakegc.toml"
        self.config.write_text(
            f'throwaway_repositories = ["repo"]\n[server]\nendpoint = "{sandbox.endpoint}"\n'
            f'[storage]\nlocal_path = "{sandbox.blockstore}"\n'
            "[defaults]\nmin_age_hours = 0.0003\nallow_unsafe_min_age = true\n"
            f'repository_cache_seconds = 0\nmode = "{mode}"\n[repositories.repo]\n'
        )

    def command(self, *words):
        return main([*words, "--config", str(self.config)])

    @property
    def gone(self):
        root = self.sandbox.blockstore / "repo"
        return {file.path for file in self.story.files if not (root / file.address).exists()}


@pytest.fixture
def place(spark, tmp_path, monkeypatch):
    with Sandbox(tmp_path / "sandbox") as sandbox:
        yield Place(sandbox, tmp_path, monkeypatch)


def test_a_mark_deletes_nothing_and_a_sweep_of_it_deletes_once(place, capsys):
    assert place.command("mark", "repo") == 0
    marked = capsys.readouterr().out
    key = re.search(r"^mark repo, run (\S+)$", marked, re.MULTILINE)[1]
    assert re.search(r"^  expired_addresses +6 rows", marked, re.MULTILINE)
    assert re.search(r"^report   \S+\.html$", marked, re.MULTILINE)
    assert f"next     sweep repo --run {key}" in marked
    assert place.gone == set()

    assert place.command("sweep", "lakefs://repo/", "--run", key) == 0
    assert place.gone == GONE
    assert "What the sweep did" in capsys.readouterr().out

    assert place.command("sweep", "repo", "--run", key) == 0
    again = capsys.readouterr()
    assert re.search(r"deleted +6 ", again.out), "it says what the first one did"
    assert again.err == ""
    assert place.sandbox.secret_access_key not in marked + again.out

    assert place.command("report", "repo", "--json") == 0
    assert json.loads(capsys.readouterr().out)["run"] == key


@pytest.mark.slow
def test_a_run_sweeps_where_the_mode_says_so(place, capsys):
    assert place.command("run") == 0
    assert place.gone == GONE
    said = capsys.readouterr().out
    assert re.search(r"^mark and sweep repo, run ", said, re.MULTILINE)
    assert re.search(r"^house    ", said, re.MULTILINE)


def test_the_mode_is_asked_before_a_mark_is_made_to_be_swept(place, capsys):
    place.config.write_text(place.config.read_text().replace('mode = "sweep"', 'mode = "mark"'))
    assert place.command("sweep", "repo", "--reference-mark", "ft6s0e1ksdufuaulm34g") == 3
    said = capsys.readouterr()
    assert "namespace_slices" not in said.out
    assert said.err.endswith("Nothing of repo was deleted.\n")


def test_a_run_that_nobody_made_is_no_report_and_no_sweep(place, capsys):
    for command in ("report", "sweep"):
        assert place.command(command, "repo", "--run", "2026-01-01T00-00-00Z") == 1
        assert "2026-01-01T00-00-00Z" in capsys.readouterr().err


def test_wrong_settings_and_a_wrong_name_are_one_sentence_and_exit_code_2(place, capsys):
    assert place.command("mark", "other") == 2
    assert capsys.readouterr().err.startswith("lakegc: settings: repository 'other' is not in ")
    assert place.command("sweep", "repo") == 2
    assert "no mark to sweep was named" in capsys.readouterr().err
    place.config.write_text("[server]\n")
    assert place.command("doctor") == 2
    assert "no server is named" in capsys.readouterr().err


def test_an_error_of_the_system_outside_a_run_is_a_sentence_too(
    place, capsys, monkeypatch, tmp_path
):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_bytes(b"no program")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert place.command("mark", "repo") == 1
    assert capsys.readouterr().err.startswith(
        f"lakegc: failed: {java} cannot be used (Exec format error). "
    )


def test_an_error_after_a_sweep_does_not_say_that_nothing_was_deleted(place, capsys, monkeypatch):
    def full(_run):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/full")

    monkeypatch.setattr(house_keeping, "after_run", full)
    assert place.command("run", "repo") == 1
    assert place.gone == GONE
    said = capsys.readouterr().err
    assert "/full cannot be used" in said
    assert said.endswith("What the sweep deleted stands.\n")


@pytest.mark.parametrize("words", [[], ["mark", "--run", "today"], ["mark", "repo/branch"]])
def test_wrong_usage_exits_with_2(words, capsys):
    assert main(words) == 2
    assert "usage: python -m spark_core" in capsys.readouterr().err


def test_the_doctor_says_of_each_thing_what_it_found(place, capsys):
    code = place.command("doctor", "repo")
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "repo"
    assert re.match(r"  ok +settings: repository: .*lakegc\.toml: repo, mode sweep", said[1])
    assert code == any(line.startswith("  FAILED") for line in said)


@pytest.mark.slow
def test_the_engine_needs_nothing_of_dagster_and_no_terminal_library(place):
    script = WITHOUT_DAGSTER + (
        "import pkgutil, importlib, spark_core\n"
        "for module in pkgutil.walk_packages(spark_core.__path__, 'spark_core.'):\n"
        "    if not module.name.endswith(('__main__', 'spark_daemon')):\n"
        "        importlib.import_module(module.name)\n"
        "from spark_core.command import main\n"
        f"sys.exit(main(['mark', 'repo', '--config', {str(place.config)!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^  expired_addresses +6 rows", done.stdout, re.MULTILINE)
