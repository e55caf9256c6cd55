"""`lakegc rules` on a sandbox server.

What is set is what the server has, and slips are pointed out.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox, repositories
from spark_core.cli import rules as cli_rules
from spark_core.cli.main import main
from spark_core.lakefs import LONGEST_RETENTION_DAYS
from tests.support.command_line import settings_in_environment

LAKEGC = "from spark_core.cli.main import main; main()"
ABSENT = (
    "There is no branch named mian: such a rule does nothing until there is one. "
    "Did you mean main?\n"
)


def test_the_limit_of_days_is_the_engines_own():
    assert cli_rules.LONGEST_DAYS == LONGEST_RETENTION_DAYS


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    with Sandbox(tmp_path_factory.mktemp("sandbox")) as running:
        with running.core.lock:
            repositories.create(running.core, "repo", "local://repo")
            repositories.create(running.core, "frozen", "local://frozen", read_only=True)
            # Read-only ones are made over what is there.
            (running.blockstore / "frozen").mkdir()
        yield running


@pytest.fixture
def config(sandbox, tmp_path, monkeypatch):
    server = '[server]\nendpoint = "{endpoint}"\n'
    return settings_in_environment(sandbox, tmp_path, monkeypatch, server)


@pytest.fixture
def rules(config):
    def run(*words):
        words = (*words, "--yes") if words[0] == "set" else words
        return CliRunner().invoke(main, ["rules", *words, "--config", str(config)])

    yield run
    run("delete", "repo")


def test_rules_that_are_set_are_shown_as_the_server_has_them(rules):
    answer = rules("set", "repo", "--default", "14", "--branch", "main=21")
    assert answer.exit_code == 0, answer.output
    lines = [line.split() for line in answer.stdout.splitlines()]
    assert ["(every", "other", "branch)", "14"] in lines
    assert ["main", "21"] in lines
    assert rules("get", "repo").stdout == answer.stdout


def test_the_last_commits_that_stay_are_part_of_the_rules(rules, monkeypatch):
    said = "The last 3 commits of each branch stay whatever their age (keep_last = 3"
    assert said not in rules("set", "repo", "--default", "14").stdout
    monkeypatch.setenv("LAKEGC__REPOSITORIES__REPO__KEEP_LAST", "3")
    assert said in " ".join(rules("get", "repo").stdout.split())


def test_a_rule_for_a_branch_that_does_not_exist_is_pointed_out(rules):
    answer = rules("set", "repo", "--default", "14", "--branch", "main=21", "--branch", "mian=3")
    assert answer.exit_code == 0
    assert answer.stderr == ABSENT
    assert rules("get", "repo").stderr == ABSENT


def test_a_branch_that_does_not_exist_is_pointed_out_before_the_rules_are_set(config):
    words = ("set", "repo", "--default", "14", "--branch", "mian=3", "--config", str(config))
    answer = CliRunner().invoke(main, ["rules", *words], input="n\n")
    assert answer.exit_code == 1
    assert ABSENT in answer.stderr
    now = CliRunner().invoke(main, ["rules", "get", "repo", "--config", str(config)])
    assert "has no rules" in now.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rules set repo --default 14", "Nothing was changed; --yes goes on without asking."),
        ("init --lakectl none.yaml --config new.toml", "no server is named"),
    ],
)
def test_a_closed_standard_input_answers_no_question(config, words, said):
    answer = subprocess.run(
        ["sh", "-c", f"{sys.executable} -c '{LAKEGC}' {words} <&-"],
        cwd=config.parent,
        env={**os.environ, "PYTHONPATH": str(Path(cli_rules.__file__).parents[2])},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in answer.stderr
    assert said in answer.stderr
    assert answer.returncode == (1 if "rules" in words else 2)


def test_a_branch_name_may_hold_an_equals_sign(rules):
    answer = rules("set", "repo", "--default", "14", "--branch", "a=b=3")
    assert "There is no branch named a=b:" in answer.stderr


@pytest.mark.parametrize("days", ["0", "36500"])
def test_the_ends_of_the_range_of_days_are_accepted(rules, days):
    assert rules("set", "repo", "--default", days, "--branch", f"main={days}").exit_code == 0


@pytest.mark.parametrize("days", ["-1", "36501", "4294967301", "1.5", "many", ""])
def test_days_out_of_range_are_refused_and_nothing_is_changed(rules, days):
    assert rules("set", "repo", "--default", "14").exit_code == 0
    before = rules("get", "repo").stdout
    for words in (("--default", days), ("--default", "7", "--branch", f"main={days}")):
        answer = rules("set", "repo", *words)
        assert answer.exit_code == 2
        assert "Invalid value" in answer.stderr
    assert rules("get", "repo").stdout == before


def test_a_branch_named_twice_is_refused(rules):
    answer = rules("set", "repo", "--default", "14", "--branch", "main=1", "--branch", "main=2")
    assert answer.exit_code == 2
    assert "a branch is named twice" in answer.stderr


def test_no_rules_is_said_to_keep_every_commit(rules):
    rules("set", "repo", "--default", "14")
    answer = rules("delete", "repo")
    assert answer.exit_code == 0
    assert (
        "has no rules: every commit keeps its objects, and only uncommitted garbage goes"
        in answer.stdout
    )


@pytest.mark.parametrize("words", [("get",), ("delete",), ("set", "--default", "1")])
def test_a_repository_that_does_not_exist_is_named(rules, words):
    command, *options = words
    answer = rules(command, "absent", *options)
    assert answer.exit_code == 1
    assert "absent" in answer.stderr
    assert "Traceback" not in answer.output


def test_a_read_only_repository_says_so(rules):
    answer = rules("set", "frozen", "--default", "1")
    assert answer.exit_code == 3
    assert "read-only" in answer.stderr


def test_wrong_keys_say_what_to_do_and_show_no_secret(rules, monkeypatch):
    monkeypatch.setenv("LAKEGC_SECRET_ACCESS_KEY", "not-the-secret-of-anybody")
    answer = rules("get", "repo")
    assert answer.exit_code == 1
    assert "401" in answer.stderr
    assert "not-the-secret-of-anybody" not in answer.output


def test_missing_keys_say_where_they_come_from(rules, monkeypatch):
    monkeypatch.delenv("LAKEGC_ACCESS_KEY_ID")
    monkeypatch.delenv("LAKEGC_SECRET_ACCESS_KEY")
    answer = rules("get", "repo")
    assert answer.exit_code == 2
    assert "LAKEGC_ACCESS_KEY_ID and LAKEGC_SECRET_ACCESS_KEY are not set" in answer.stderr


def test_a_server_that_does_not_answer_is_named(config):
    config.write_text('[server]\nendpoint = "http://127.0.0.1:9"\n')
    answer = CliRunner().invoke(main, ["rules", "get", "repo", "--config", str(config)])
    assert answer.exit_code == 1
    assert "127.0.0.1:9" in answer.stderr
    assert "Traceback" not in answer.output


def test_rules_go_to_a_file_and_come_back(rules, tmp_path):
    assert rules("get", "repo", "--json").stdout == "null\n"
    rules("set", "repo", "--default", "14", "--branch", "main=21", "--branch", "a=b=3")
    written = rules("get", "repo", "--json").stdout
    file = tmp_path / "rules.json"
    file.write_text(written.replace("21", "22"))
    answer = rules("set", "repo", "-f", str(file))
    assert answer.exit_code == 0, answer.output
    assert rules("get", "repo", "--json").stdout == file.read_text()


@pytest.mark.parametrize(
    "words", [(), ("-f", "x.json", "--default", "1"), ("-f", "x.json", "--branch", "main=1")]
)
def test_rules_come_from_a_file_or_from_options(rules, words):
    answer = rules("set", "repo", *words)
    assert answer.exit_code == 2
    assert "either --file, or --default" in answer.output


def test_a_branch_alone_leaves_the_other_rules(rules):
    answer = rules("set", "repo", "--branch", "main=3")
    assert (answer.exit_code, "--default must say" in answer.stderr) == (2, True)
    rules("set", "repo", "--default", "14", "--branch", "main=21", "--branch", "a=9")
    rules("set", "repo", "--branch", "main=3")
    found = rules("get", "repo", "--json").stdout
    assert json.loads(found) == {
        "default_retention_days": 14,
        "branches": [
            {"branch_id": "a", "retention_days": 9},
            {"branch_id": "main", "retention_days": 3},
        ],
    }


@pytest.mark.parametrize(("said", "days"), [("y\n", 3), ("n\n", 14), ("", 14)])
def test_what_would_change_is_shown_and_asked(rules, config, said, days):
    rules("set", "repo", "--default", "14")
    words = ["rules", "set", "repo", "--default", "3", "--config", str(config)]
    answer = CliRunner().invoke(main, words, input=said)
    lines = [line.split() for line in answer.stdout.splitlines()]
    assert ["(every", "other", "branch)", "14", "3"] in lines
    assert "What they would let go is not known" in answer.stdout
    assert answer.exit_code == (0 if days == 3 else 1)
    assert ("Nothing was changed" in answer.stderr) == (days == 14)
    found = rules("get", "repo", "--json").stdout
    assert json.loads(found)["default_retention_days"] == days
