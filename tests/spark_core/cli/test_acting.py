"""What commands that change a repository print with `--json`: one shape, by its schema."""

import json

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from lakegc_dagster.sandbox import Sandbox, repositories
from spark_core.cli import act_document
from spark_core.cli.main import main
from tests.support.command_line import WITH_REPO, settings_on

ACTING = (
    "confirm", "restore", "hold add", "hold remove", "rules set", "rules delete", "retention set",
    "retention delete", "retention remove", "retention restore", "certificate",
    "erase", "retention branches mark", "retention branches delete",
)  # fmt: skip


@pytest.fixture(scope="module")
def act(tmp_path_factory):
    """Runs a command with `--json`; returns its document, which keeps to the schema."""
    folder = tmp_path_factory.mktemp("acting")
    schema = Draft202012Validator(json.loads(act_document.FILE.read_text()))
    with Sandbox(folder / "sandbox") as sandbox:
        with sandbox.core.lock:
            repositories.create(sandbox.core, "repo", "local://repo")
        env = settings_on(sandbox, folder, WITH_REPO)

        def run(*words):
            answer = CliRunner().invoke(main, [*words, "--json"], env=env)
            document = json.loads(answer.stdout)
            assert list(schema.iter_errors(document)) == []
            assert document["exit_code"] == answer.exit_code
            assert document["repository"] == "repo"
            return document

        run.env = env
        yield run


def test_what_was_done_is_told_by_name(act):
    added = act("hold", "add", "repo", "audit", "--branch", "main", "--why", "auditors")
    assert added["command"] == "hold add"
    assert added["problem"] is None
    held = added["result"]
    assert (held["kind"], held["value"], held["why"]) == ("branch", "main", "auditors")
    assert held["is_there"] is True
    assert act("hold", "remove", "repo", "audit")["result"] == {**held, "is_there": False}
    rules = act("rules", "set", "repo", "--default", "9", "--branch", "main=7", "--yes")["result"]
    assert rules == {"default_days": 9, "branches": [{"branch": "main", "days": 7}]}
    assert act("rules", "delete", "repo")["result"] == {"default_days": None, "branches": []}


def test_an_error_is_told_with_its_kind_and_the_exit_code(act):
    lost = act("hold", "remove", "repo", "nobody")
    assert lost["exit_code"] != 0
    assert lost["result"] is None
    assert lost["problem"]["kind"].endswith("Error")
    assert "nobody" in lost["problem"]["message"]
    unknown = act("restore", "repo", "2026-11-20T02-00-00Z")
    assert unknown["problem"]["kind"] == "NotFoundError"


def test_an_erasure_is_told_by_its_steps(act):
    way = act("erase", "repo", "--path", "people/")["result"]
    assert (way["objects"], way["left"], way["steps"]) == (0, 0, [])


@pytest.mark.parametrize("command", ACTING)
def test_every_command_that_changes_a_repository_has_it(command):
    answer = CliRunner().invoke(main, [*command.split(), "--help"])
    assert "--json" in answer.output
    assert "Print one JSON object" in answer.output


def leaves(command, *names):
    for name, each in command.commands.items():
        yield from (
            leaves(each, *names, name)
            if hasattr(each, "commands")
            else [(" ".join((*names, name)), each)]
        )


# These print something else that programs read, or act on nothing.
WITHOUT = {
    "demo", "init", "metrics", "notify", "retention what-if",
    "ui", "verify", "warm-up",
}  # fmt: skip


def test_what_has_no_json_is_named():
    found = {
        name
        for name, command in leaves(main)
        if not any("--json" in option.opts for option in command.params)
    }
    assert found == WITHOUT


def test_lists_are_told_to_programs_too(act, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text('{"rules": [{"expiration": {"days": 3}}]}')
    act("retention", "set", "repo", "--policy-file", str(policy))
    act("hold", "add", "repo", "audit", "--branch", "main")
    (held,) = listed(act, "hold", "list", "repo")
    assert (held["name"], held["kind"], held["value"]) == ("audit", "branch", "main")
    (version,) = listed(act, "retention", "get", "repo", "--history")
    assert version["version"] == 1
    assert version["policy"]["rules"][0]["expiration"] == {"all": {"days": 3}}


def listed(act, *words):
    return json.loads(CliRunner().invoke(main, [*words, "--json"], env=act.env).stdout)


def test_the_documented_schema_is_that_of_the_code():
    """After a change: `python -m spark_core.cli.act_document`."""
    assert act_document.FILE.read_text() == act_document.schema_text()
