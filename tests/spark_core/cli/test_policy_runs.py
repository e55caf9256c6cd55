"""A retention policy from the command line: what it would take, and what a mark says of it."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox
from spark_core.cli.main import main
from tests.support.command_line import settings_on
from tests.support.sandbox_repository import SandboxRepository, SandboxServer

pytestmark = pytest.mark.spark

LOGS = "rules: [{filter: {prefix: main/logs/}, expiration: {weeks: 2}}]"
ALL = "rules: [{filter: {prefix: main/logs/}, expiration: {days: 1}}, {expiration: {days: 60}}]"


SETTINGS = """\
[server]
endpoint = "{{endpoint}}"
[storage]
local_path = "{{blockstore}}"
[defaults]
mode = "sweep"
repository_cache_seconds = 0
[repositories.{name}]
"""
ONLY = ("--policies", "only")


class Place:
    """A sandbox with objects of 30, 10 and 0 days, and the command line on it."""

    def __init__(self, sandbox, folder):
        now = datetime.now(UTC)
        with sandbox.clock.at(now - timedelta(days=30)):
            self.repository = SandboxRepository(SandboxServer.of(sandbox))
            self.commit("main", "logs/old", "data/old")
        with sandbox.clock.at(now - timedelta(days=10)):
            self.commit("main", "logs/young")
        self.name, self.folder = self.repository.name, folder
        self.env = settings_on(sandbox, folder, SETTINGS.format(name=self.name))

    def commit(self, branch, *paths):
        for path in paths:
            self.repository.upload(branch, path, path.encode())
        self.repository.commit(branch)

    def lakegc(self, *words, policy=None, policies="off"):
        if policy is not None:
            file = self.folder / "policy.yml"
            file.write_text(policy)
            words = (*words, "--policy-file", str(file))
        switch = {f"LAKEGC__REPOSITORIES__{self.name.upper()}__POLICIES": policies}
        return CliRunner().invoke(main, words, env={**self.env, **switch})


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    with Sandbox(folder / "sandbox") as sandbox:
        yield Place(sandbox, folder)


@pytest.fixture(scope="module")
def marked(place):
    """The answer of a mark that looks at no policy, although there is one."""
    assert place.lakegc("retention", "set", place.name, policy=LOGS).exit_code == 0
    return place.lakegc("run", place.name)


@pytest.mark.slow
def test_a_policy_that_nobody_switched_on_is_not_looked_at(place, marked):
    assert marked.exit_code == 0, marked.output
    assert "policy" not in marked.stdout


def test_what_if_shows_what_a_policy_would_take_by_rule_and_branch(place, marked):
    before = place.repository.data()
    told = place.lakegc("retention", "what-if", place.name, policy=ALL)
    assert told.exit_code == 0, told.output
    assert re.search(r"^1: main/logs/ +main +2 +18 bytes$", told.stdout, re.MULTILINE)
    assert re.search(r"^2: \(everywhere\) +- +0 +0 bytes$", told.stdout, re.MULTILINE)
    assert re.search(r"Rule 1, the\s+largest\s[^R]*main/logs/young[^R]*main/logs/old", told.stdout)
    assert "The policy would name 2 objects (18 bytes); 3 names were placed" in told.stdout
    assert place.repository.data() == before
    # Only the policy that was set before is stored.
    assert "version 1" in place.lakegc("retention", "get", place.name).stdout


def test_what_if_needs_a_mark(place, marked):
    told = place.lakegc(
        "retention", "what-if", place.name, "--run", "2020-01-01T00-00-00Z", policy=ALL
    )
    assert told.exit_code == 1
    assert "there is no run 2020-01-01T00-00-00Z" in told.stderr


@pytest.mark.slow
def test_a_run_shows_what_the_policy_names_and_deletes_none_of_it(place, marked):
    before = place.repository.data()
    run = place.lakegc("run", place.name, policies="mark")
    assert run.exit_code == 0, run.output
    assert re.search(r"^1: main/logs/ +main +1 +8 bytes$", run.stdout, re.MULTILINE)
    assert "main/logs/old" in run.stdout
    assert "names 1 object" in run.stdout
    assert place.repository.data() == before
    assert "main/logs/old" in place.lakegc("report", place.name).stdout
    assert place.repository.get("main", "logs/old") == b"logs/old"


REMOVES = """\
rules:
- {filter: {prefix: main/logs/}, effect: remove, expiration: {weeks: 2}}
- {expiration: {days: 60}}
"""


def test_what_if_shows_what_rules_remove_apart_from_what_expires(place, marked):
    told = place.lakegc("retention", "what-if", place.name, policy=REMOVES)
    assert told.exit_code == 0, told.output
    expires, _, removed = told.stdout.partition("Would be removed from")
    assert "main/logs/" not in expires
    assert re.search(r"^2: \(everywhere\) +- +0 +0 bytes$", expires, re.MULTILINE)
    assert re.search(r"^1: main/logs/ +named +1 +8 bytes", removed, re.MULTILINE)
    assert re.search(r"Rule 1, the largest entries\s[^R]*logs/old", removed)
    assert "rule 1 keeps 1 too young" in removed


@pytest.mark.parametrize("command", ["mark", "run"])
@pytest.mark.parametrize(
    ("policies", "step"),
    [("off", 'Set `policies = "mark"` to see'), ("mark", "shows what its retention policy names")],
)
def test_policies_only_is_refused_where_the_settings_let_a_policy_take_nothing(
    place, command, policies, step
):
    refused = place.lakegc(command, place.name, *ONLY, policies=policies)
    assert refused.exit_code == 2
    assert f'the settings of {place.name} say `policies = "{policies}"`' in refused.stderr
    assert step in refused.stderr


def test_a_mark_of_the_reference_job_takes_nothing_by_a_policy(place):
    refused = place.lakegc(
        "mark", place.name, *ONLY, "--reference-mark", "ft6s0e1ksdufuaulm34g", policies="sweep"
    )
    assert refused.exit_code == 2
    assert "Give --reference-mark or --policies, not both" in refused.stderr


@pytest.mark.slow
def test_policies_only_takes_what_a_confirmed_policy_names_and_leaves_all_else(place, marked):
    place.repository.write_unlinked("main", "data/lost", b"never linked")
    before = place.repository.data()
    waiting = place.lakegc("run", place.name, *ONLY, policies="sweep")
    assert waiting.exit_code == 0, waiting.output
    (confirm,) = re.findall(r"`lakegc (confirm \S+ policy_is_confirmed --run \S+)`", waiting.stdout)
    assert place.repository.data() == before
    confirmed = place.lakegc(*confirm.split(), policies="sweep")
    assert confirmed.exit_code == 0, confirmed.output
    assert "confirmed by" in confirmed.stdout
    assert "version 1 of the retention policy" in confirmed.stdout
    old = place.repository.stat("main", "logs/old")["physical_address"]
    run = place.lakegc("run", place.name, *ONLY, policies="sweep")
    assert run.exit_code == 0, run.output
    assert "policy rule 1: all, 14 days, on main/logs/" in run.stdout
    shown = " ".join(
        place.lakegc("runs", place.name, "--last", "1", policies="sweep").stdout.split()
    )
    assert "swept optimized, policies" in shown
    shown = " ".join(place.lakegc("status", place.name, policies="sweep").stdout.split())
    assert "runs that take only what policies name: last good mark 20" in shown
    assert (
        place.repository.ask("GET", "/refs/main/objects", query={"path": "logs/old"}).status == 410
    )
    gone = before - place.repository.data()
    assert len(gone) == 1
    assert old.endswith(gone.pop())
    assert place.repository.get("main", "logs/young") == b"logs/young"
    told = place.lakegc("explain", place.name, f"lakefs://{place.name}/main/logs/old")
    assert told.exit_code == 0, told.output
    alone = place.lakegc("explain", f"lakefs://{place.name}/main/logs/old")
    assert alone.stdout == told.stdout, "a whole path names the repository"
    assert "deleted: run" in told.stdout
    assert "logs/old, committed on main: policy rule 1: all, 14 days" in told.stdout
    by_address = place.lakegc("explain", place.name, old)
    assert by_address.stdout == told.stdout, "its address names the same object"
