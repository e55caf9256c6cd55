"""`lakegc retention remove`, `restore` and `what-if` on a sandbox, without Spark."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox
from spark_core import lakegc_keys
from spark_core.cli.main import main
from tests.support.command_line import settings_on
from tests.support.sandbox_repository import SandboxRepository, SandboxServer

LOGS = "rules: [{filter: {prefix: main/logs/}, effect: remove, expiration: {weeks: 2}}]"
STAGED = """rules:
- filter: {prefix: main/inbox/}
  effect: remove
  expiration: {uncommitted: {weeks: 2}}
"""
BOTH = f"{LOGS[:-1]}, {{expiration: {{days: 60}}}}]"
SETTINGS = """\
[server]
endpoint = "{{endpoint}}"
[storage]
local_path = "{{blockstore}}"
[repositories.{name}]
policies = "sweep"
"""


class Place:
    """A sandbox with entries of 30 and 10 days, and the command line on it."""

    def __init__(self, sandbox, folder):
        now = datetime.now(UTC)
        with sandbox.clock.at(now - timedelta(days=30)):
            self.repository = SandboxRepository(SandboxServer.of(sandbox))
            self.commit("logs/old", "data/old")
        with sandbox.clock.at(now - timedelta(days=10)):
            self.commit("logs/young")
        self.sandbox, self.name, self.folder = sandbox, self.repository.name, folder
        self.env = settings_on(sandbox, folder, SETTINGS.format(name=self.name))

    def commit(self, *paths):
        for path in paths:
            self.repository.upload("main", path, path.encode())
        self.repository.commit("main")

    def retention(self, *words, policy=None, policies="sweep"):
        if policy is not None:
            file = self.folder / "policy.yml"
            file.write_text(policy)
            words = (*words, "--policy-file", str(file))
        switch = {f"LAKEGC__REPOSITORIES__{self.name.upper()}__POLICIES": policies}
        return CliRunner().invoke(main, ["retention", *words], env={**self.env, **switch})

    def confirm(self, digest, *words):
        words = ("confirm", self.name, "removal", "--digest", digest, *words)
        return CliRunner().invoke(main, words, env=self.env)

    def set(self, policy):
        """Set a policy; return its digest."""
        made = self.retention("set", self.name, policy=policy)
        assert made.exit_code == 0, made.output
        return re.search(r"digest ([0-9a-f]{64})", made.stdout)[1]

    def paths(self):
        return set(self.repository.entries("main"))


@pytest.fixture
def place(tmp_path):
    with Sandbox(tmp_path / "sandbox") as sandbox:
        yield Place(sandbox, tmp_path)


def test_entries_are_shown_confirmed_removed_and_brought_back(place):
    digest = place.set(LOGS)
    looked = place.retention("remove", place.name, "--dry-run", policies="off")
    assert looked.exit_code == 0, looked.output
    assert re.search(r"^1: main/logs/ +named +1 +8 bytes +0 +- +- *$", looked.stdout, re.MULTILINE)
    assert "rule 1 keeps 1 too young" in looked.stdout
    assert f"Nothing was changed. The policy is version 1, digest {digest}." in looked.stdout
    refused = place.retention("remove", place.name)
    assert refused.exit_code == 3
    assert f"lakegc confirm {place.name} removal --digest {digest[:12]}" in refused.stderr
    confirmed = place.confirm(digest[:12])
    assert confirmed.exit_code == 0, confirmed.output
    assert "may be carried out" in confirmed.stdout
    removed = place.retention("remove", place.name)
    assert removed.exit_code == 0, removed.output
    assert place.paths() == {"data/old", "logs/young"}
    assert "as long as there are no rules" in removed.stdout
    key = re.search(r"undo +lakegc retention restore \S+ (\S+)", removed.stdout)[1]
    undone = place.retention("restore", place.name, key)
    assert undone.exit_code == 0, undone.output
    assert "reverted" in undone.stdout
    assert "as long as there are no rules" in undone.stdout
    assert place.paths() == {"data/old", "logs/old", "logs/young"}
    again = place.retention("restore", place.name, key).stdout
    assert "reverted before" in again
    assert "as long as" not in again


def test_undo_says_until_when_the_rules_let_it(place):
    place.repository.rules(3, main=60)
    digest = place.set(LOGS)
    assert place.confirm(digest[:12]).exit_code == 0
    removed = place.retention("remove", place.name).stdout
    until = re.search(r"^1: main/logs/.* (\S+ \S+) *$", removed, re.MULTILINE)[1]
    merge = place.repository.call("GET", "/refs/main/commits", query={"amount": 1})["results"][0]
    kept = datetime.fromtimestamp(merge["creation_date"], UTC) + timedelta(days=60)
    assert until == f"{kept:%Y-%m-%d %H:%M}"
    key = re.search(r"undo +lakegc retention restore \S+ (\S+)", removed)[1]
    assert until in place.retention("restore", place.name, key).stdout


def test_undo_over_objects_that_are_gone_needs_a_decision_and_takes_the_lease(place):
    with place.sandbox.clock.at(datetime.now(UTC) - timedelta(days=20)):
        place.commit("logs/other")
    digest = place.set(LOGS)
    place.confirm(digest[:12])
    (lost,) = (
        each for each in place.sandbox.blockstore.rglob("*") if is_file_of(each, b"logs/old")
    )
    removed = place.retention("remove", place.name).stdout
    key = re.search(r"undo +lakegc retention restore \S+ (\S+)", removed)[1]
    lost.unlink()
    refused = place.retention("restore", place.name, key)
    assert refused.exit_code == 1
    assert "1 of its 2 entries has no object in the store any more" in refused.stdout
    assert place.paths() == {"data/old", "logs/young"}
    decided = place.retention("restore", place.name, key, "--what-is-there")
    assert decided.exit_code == 0, decided.output
    assert "in part" in decided.stdout
    assert place.paths() == {"data/old", "logs/other", "logs/young"}
    assert list(place.sandbox.blockstore.rglob(f"{lakegc_keys.LEASE}*/*"))


def is_file_of(path, data):
    return path.is_file() and path.read_bytes() == data


def test_a_policy_of_another_digest_and_one_of_which_objects_expire_is_not_confirmed(place):
    digest = place.set(BOTH)
    for given in ("0" * 12, digest[:11], ""):
        wrong = place.confirm(given)
        assert wrong.exit_code == 2
        assert "give at least 12 characters" in wrong.stderr
    expires = place.confirm(digest)
    assert expires.exit_code == 2
    assert "policy_is_confirmed" in expires.stderr
    assert place.confirm(digest, "--resets").exit_code == 0


def test_staged_entries_are_reset_after_their_own_confirmation(place):
    with place.sandbox.clock.at(datetime.now(UTC) - timedelta(days=20)):
        place.repository.upload("main", "inbox/old", b"x")
    digest = place.set(STAGED)
    place.confirm(digest)
    kept = place.retention("remove", place.name)
    assert "1 staged entries were not reset" in kept.stdout
    assert "inbox/old" in place.paths()
    said = place.confirm(digest, "--resets")
    assert "may reset staged entries" in said.stdout


def test_what_stops_a_rule_is_named_and_the_exit_code_says_so(place):
    digest = place.set(LOGS)
    place.confirm(digest)
    place.repository.upload("main", "data/draft", b"draft")
    stopped = place.retention("remove", place.name)
    assert stopped.exit_code == 1
    assert "something is staged on branch main, for instance at 'data/draft'" in stopped.stdout
    assert "No commit was made." in stopped.stdout


def test_the_setting_is_needed_and_named(place):
    digest = place.set(LOGS)
    place.confirm(digest)
    refused = place.retention("remove", place.name, policies="mark")
    assert refused.exit_code == 2
    assert 'Set policies = "sweep" for the repository' in refused.stderr


def test_what_if_of_rules_that_remove_needs_no_mark(place):
    told = place.retention("what-if", place.name, policy=LOGS)
    assert told.exit_code == 0, told.output
    assert re.search(r"^1: main/logs/ +named +1 +8 bytes", told.stdout, re.MULTILINE)
    assert place.paths() == {"data/old", "logs/old", "logs/young"}


def test_a_removal_that_nobody_made_is_told(place):
    refused = place.retention("restore", place.name, "2020-01-01T00-00-00Z")
    assert refused.exit_code == 1
    assert "there is no removal and no mark of branches 2020-01-01T00-00-00Z" in refused.stderr


def test_the_effects_of_a_policy_are_told_apart(place):
    place.set(BOTH)
    shown = place.retention("get", place.name).stdout
    assert "effect expire: an object goes from the store" in shown
    assert "effect remove: entries are removed by a commit" in shown
    place.set(LOGS)
    assert "effect expire" not in place.retention("get", place.name).stdout
