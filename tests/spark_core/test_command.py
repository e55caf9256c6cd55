"""`spark_core.command.main`, which files of operators call: it returns the exit code."""

import sys
from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core.command import main
from tests.support.command_line import WITH_REPO, settings_in_environment
from tests.support.upstream import upstream_scenario


@pytest.mark.parametrize(
    ("words", "code"), [(["--version"], 0), ([], 2), (["mark", "--run", "today"], 2)]
)
def test_what_needs_no_server_returns_its_exit_code(words, code):
    assert main(words) == code


def test_the_words_of_the_process_are_taken_and_a_file_ends_with_its_code(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["lakegc_job.py", "doctor", "repo/branch"])
    assert main() == 2


def test_a_refusal_and_a_report_return_their_exit_codes(tmp_path, monkeypatch, capsys):
    with Sandbox(tmp_path / "sandbox") as sandbox:
        upstream_scenario(sandbox, "repo", now=datetime.now(UTC) - timedelta(minutes=1))
        config = settings_in_environment(sandbox, tmp_path, monkeypatch, WITH_REPO)
        assert main(["config", "show", "--config", str(config)]) == 0
        assert main(["report", "repo", "--config", str(config)]) == 1
        assert "was never marked" in capsys.readouterr().err
        key = ["--run", "2026-01-01T00-00-00Z", "--config", str(config)]
        assert main(["sweep", "repo", *key]) == 3
