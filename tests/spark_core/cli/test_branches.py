"""`lakegc retention branches` on a sandbox: mark, confirm, delete, restore, and what it says."""

import json
import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox, objects, refs, repositories
from spark_core.cli.main import main
from spark_core.run import Run
from tests.support.command_line import WITH_REPO, settings_in_environment

POLICY = """branch_lifecycle:
  policies:
    - {branches: [dev-*], max_inactivity_days: 30}
    - {branches: ["tmp-?"], max_age_days: 7, max_inactivity_days: 1}
  keep: [dev-keep]
  undo_days: 14
"""


@pytest.fixture
def sandbox(tmp_path):
    with Sandbox(tmp_path / "sandbox") as running:
        long_ago = datetime.now(UTC) - timedelta(days=100)
        with running.core.lock, running.clock.at(long_ago):
            repositories.create(running.core, "repo", "local://repo")
            for name in ("dev-1", "dev-2", "dev-keep"):
                refs.create_branch(running.core, "repo", name, "main")
                objects.upload(running.core, "repo", name, "a", name.encode())
                refs.commit(running.core, "repo", name, message="work")
        yield running


@pytest.fixture
def retention(sandbox, tmp_path, monkeypatch):
    config = settings_in_environment(sandbox, tmp_path, monkeypatch, WITH_REPO)
    file = tmp_path / "policy.yml"

    def say(*words, policy=None, group=("retention",)):
        if policy is not None:
            file.write_text(policy)
            words = (*words, "--policy-file", str(file))
        return CliRunner().invoke(main, [*group, *words, "--config", str(config)])

    assert say("set", "repo", policy=POLICY).exit_code == 0
    return say


def heads(sandbox):
    number = sandbox.core.repository("repo").number
    return {branch.id: branch.commit_id for branch in sandbox.core.state.branches(number)}


def confirm(retention, key, *words):
    return retention("confirm", "repo", "branches", "--run", key, *words, group=())


def marked(retention):
    shown = retention("branches", "mark", "lakefs://repo/")
    assert shown.exit_code == 0, shown.output
    return re.search(r"confirm repo branches --run (\S+)", shown.stdout)[1], shown.stdout


def test_the_policy_is_shown_with_its_policies_for_branches(retention):
    shown = retention("get", "repo").stdout
    assert "Stale branches of repo" in shown
    assert "dev-*" in shown
    assert "branches go never with staged entries" in shown
    assert "can be made again for 14 days; never dev-keep" in shown
    assert "reading them answers 410" not in shown
    assert "2 for stale branches" in retention("get", "repo", "--history").stdout


def test_branches_are_marked_confirmed_deleted_and_made_again(retention, sandbox):
    before = heads(sandbox)
    key, shown = marked(retention)
    assert "2 of 4 branches may go, by version 1 of the policy. None is deleted." in shown
    assert "it is the default branch" in shown
    assert "`keep` names it (dev-keep)" in shown
    assert "more than 30 days ago" in shown
    refused = retention("branches", "delete", "repo", key)
    assert (refused.exit_code, heads(sandbox)) == (2, before)
    assert "was not confirmed" in refused.stderr
    confirmed = confirm(retention, key)
    assert (confirmed.exit_code, heads(sandbox)) == (0, before)
    assert "dev-1, dev-2" in confirmed.stdout
    assert f"next     lakegc retention branches delete repo {key}" in confirmed.stdout
    deleted = retention("branches", "delete", "repo", key)
    assert deleted.exit_code == 0, deleted.output
    assert deleted.stdout.count(" deleted ") == 2
    until = f"{datetime.now(UTC) + timedelta(days=14):%Y-%m-%d}"
    assert until in deleted.stdout
    assert set(heads(sandbox)) == {"main", "dev-keep"}
    # A mark is named by its second.
    time.sleep(1)
    later = retention("branches", "mark", "repo").stdout
    assert f"deleted  dev-1: until {until}" in later
    assert f"lakegc retention restore repo {key} --branch dev-1" in later
    undone = retention("restore", "repo", key)
    assert undone.exit_code == 0, undone.output
    assert undone.stdout.count("made again") >= 2
    assert heads(sandbox) == before


def test_one_branch_is_confirmed_and_undone_by_name(retention, sandbox):
    before = heads(sandbox)
    key, _ = marked(retention)
    assert confirm(retention, key, "--branch", "dev-2").exit_code == 0
    assert retention("branches", "delete", "repo", key).exit_code == 0
    assert set(before) - set(heads(sandbox)) == {"dev-2"}
    wrong = retention("restore", "repo", key, "--branch", "dev-1")
    assert wrong.exit_code == 1
    assert "did not delete dev-1; it deleted: dev-2" in wrong.stderr
    both = retention("restore", "repo", key, "--branch", "dev-2", "--what-is-there")
    assert both.exit_code == 2
    assert "--branch is of deleted branches" in both.stderr
    entries = retention("restore", "repo", key, "--what-is-there")
    assert entries.exit_code == 1
    assert f"there is no removal {key}" in entries.stderr
    undone = retention("restore", "repo", key, "--branch", "dev-2")
    assert (undone.exit_code, heads(sandbox)) == (0, before)


def test_a_branch_that_stays_after_all_makes_the_command_fail(retention, sandbox):
    key, _ = marked(retention)
    confirm(retention, key)
    with sandbox.core.lock:
        objects.upload(sandbox.core, "repo", "dev-1", "b", b"new")
    deleted = retention("branches", "delete", "repo", key)
    assert deleted.exit_code == 1
    assert "it has staged entries (b)" in " ".join(deleted.stdout.split())
    assert set(heads(sandbox)) == {"main", "dev-1", "dev-keep"}


@pytest.mark.timeout(60)
def test_a_hook_file_whose_patterns_can_be_tried_in_many_ways_hangs_nothing(retention, sandbox):
    name = "dev-" + "a" * 116 + "b"
    hook = b'on:\n  pre-merge:\n    branches: ["' + b"*a" * 9 + b'"]\n'
    with sandbox.core.lock, sandbox.clock.at(datetime.now(UTC) - timedelta(days=100)):
        refs.create_branch(sandbox.core, "repo", name, "main")
        objects.upload(sandbox.core, "repo", "main", "_lakefs_actions/check.yaml", hook)
        refs.commit(sandbox.core, "repo", "main", message="hooks")
    shown = retention("branches", "mark", "repo")
    assert shown.exit_code == 0, shown.output
    assert "3 of 5 branches may go" in shown.stdout


def test_a_mark_shows_how_to_end_the_hold_of_a_branch_whose_days_are_over(retention, monkeypatch):
    key, _ = marked(retention)
    assert confirm(retention, key, "--branch", "dev-1").exit_code == 0
    assert retention("branches", "delete", "repo", key).exit_code == 0
    # A second is a mark's name.
    time.sleep(1)
    later, _ = marked(retention)
    assert confirm(retention, later, "--branch", "dev-2").exit_code == 0
    monkeypatch.setattr(Run, "now", lambda _run: datetime.now(UTC) + timedelta(days=10))
    assert retention("branches", "delete", "repo", later).exit_code == 0
    monkeypatch.setattr(Run, "now", lambda _run: datetime.now(UTC) + timedelta(days=15))
    line = r"over     dev-1: its days are over: lakegc (hold remove repo \S+)"
    time.sleep(1)
    again = retention("branches", "mark", "repo")
    found = re.search(line, again.stdout)
    assert found is not None, again.output
    assert f"UTC: lakegc retention restore repo {later} --branch dev-2\n" in again.stdout
    assert retention(*found[1].split(), group=()).exit_code == 0
    time.sleep(1)
    assert re.search(line, retention("branches", "mark", "repo").stdout) is None


@pytest.mark.parametrize(
    "words",
    [
        ("repo",),
        ("delete", "repo"),
        ("mark", "repo", "--branch", "dev-1"),
        ("restore", "repo", "yesterday"),
    ],
)
def test_what_is_no_such_command_is_a_usage_error(retention, sandbox, words):
    before = heads(sandbox)
    assert retention("branches", *words).exit_code == 2
    assert heads(sandbox) == before


def test_each_step_is_told_to_programs(retention):
    def told(*words):
        return json.loads(retention(*words, "--json").stdout)

    marked = told("branches", "mark", "repo")
    assert {each["branch"]: each["goes"] for each in marked["result"]["branches"]} == {
        "dev-1": True, "dev-2": True, "dev-keep": False, "main": False,
    }  # fmt: skip
    key = marked["result"]["mark"]
    assert marked["next_step"] == f"lakegc confirm repo branches --run {key}"
    confirmed = confirm(retention, key, "--json")
    assert json.loads(confirmed.stdout)["result"]["found"] == "dev-1, dev-2"
    deleted = told("branches", "delete", "repo", key)["result"]["branches"]
    assert [each["outcome"] for each in deleted] == ["deleted", "deleted"]
    restored = told("restore", "repo", key, "--branch", "dev-1")["result"]["branches"]
    assert [(each["branch"], each["until"]) for each in restored] == [("dev-1", None)]


def test_without_the_section_the_command_says_how_to_set_one(retention):
    assert retention("set", "repo", policy="rules: [{expiration: {days: 3}}]").exit_code == 0
    refused = retention("branches", "mark", "repo")
    assert refused.exit_code == 1
    assert "has no policy for branches" in refused.stderr
    assert "branch_lifecycle" in refused.stderr
