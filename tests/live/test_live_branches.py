"""Stale branches on a real server: what it answers, and that they go and come back as they were."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_core.branches.stale import delete_branches, make_again, marked, server_patterns
from spark_core.branches.stale.branch_writes import BranchRefusedError, BranchWrites
from spark_core.model import RunKey
from spark_core.references.policies import versions
from spark_core.references.policies.parsing import parse
from spark_core.run import RunOptions, open_run
from tests.support.clock import LaterClock

# The only commit is so young that the shortest period keeps it. So the run stands for later.
LATER = timedelta(days=40)
DOCUMENT = (
    b'{"branch_lifecycle": {"policies": [{"branches": ["dev-*"], "max_inactivity_days": 30}]}}'
)


@pytest.fixture
def opened(repository, server):
    """Open runs that stand for later instants."""
    seconds = 0

    def run():
        nonlocal seconds
        seconds += 1
        environment = replace(server.environment(None), clock=LaterClock(LATER))
        # A key never lies ahead of the clock.
        key = RunKey.at(datetime.now(UTC) + LATER - timedelta(hours=1, seconds=-seconds))
        return open_run(environment, repository.name, key, RunOptions())

    versions.store_version(run(), parse(DOCUMENT, name="policy"), who="live")
    return run


def branch(repository, name, source="main"):
    repository.call("POST", "/branches", data={"name": name, "source": source})


def heads(repository):
    return {
        row["id"]: row["commit_id"]
        for row in repository.call("GET", "/branches", query={"amount": 1000})["results"]
    }


def test_confirmed_branches_go_and_come_back_with_their_bytes(repository, opened):
    repository.upload("main", "a", b"main")
    repository.commit("main")
    for name in ("dev-1", "dev-staged", "other"):
        branch(repository, name)
    repository.upload("dev-1", "b", b"of dev-1")
    repository.commit("dev-1")
    repository.upload("dev-staged", "c", b"staged")
    before = heads(repository)
    made = marked.mark(opened(), who="live")
    whys = {row.branch: row.why for row in made.branches}
    assert [row.branch for row in made.going.values()] == ["dev-1"], whys
    assert "it has staged entries (c)" in whys["dev-staged"]
    marked.confirm(opened(), made.key, who="live")
    (gone,) = delete_branches.delete(opened(), made.key, who="live")
    assert gone.outcome == "deleted"
    assert set(before) - set(heads(repository)) == {"dev-1"}
    (back,) = make_again.undo(opened(), made.key, who="live")
    assert back.outcome == "made again"
    assert heads(repository) == before
    answer = repository.ask("GET", "/refs/dev-1/objects", query={"path": "b"})
    assert answer.body == b"of dev-1"


def test_what_protects_a_branch_is_read_as_the_server_tells_it(repository, opened):
    branch(repository, "dev-safe")
    branch(repository, "dev-hooked")
    branch(repository, "dev-source")
    rules = [{"pattern": "dev-s?fe"}]
    repository.call("PUT", "/settings/branch_protection", data=rules)
    hook = b"name: check it\non: {pre-merge: {branches: [dev-hooked]}}\nhooks: []\n"
    repository.upload("main", "_lakefs_actions/check.yaml", hook)
    repository.commit("main")
    pull = {"title": "x", "source_branch": "dev-source", "destination_branch": "main"}
    opened_pull = repository.ask("POST", "/pulls", data=pull)
    whys = {row.branch: row.why for row in marked.mark(opened(), who="live").branches}
    assert whys["dev-safe"] == "the server protects it (dev-s?fe)"
    assert "_lakefs_actions/check.yaml on branch main" in whys["dev-hooked"]
    if opened_pull.status == 201:
        assert "from dev-source into main is open" in whys["dev-source"]


def test_a_protected_branch_is_deleted_by_the_server_and_the_default_branch_is_not(
    repository, opened
):
    """So lakegc alone keeps a protected one."""
    branch(repository, "safe")
    repository.protect("safe")
    writes = BranchWrites(opened().server)
    assert writes.delete(repository.name, "safe") is True
    assert writes.delete(repository.name, "safe") is False
    with pytest.raises(BranchRefusedError, match="default branch"):
        writes.delete(repository.name, "main")


def test_a_branch_is_made_once(repository, opened):
    head = heads(repository)["main"]
    writes, reads = BranchWrites(opened().server), opened().server.branch_reads
    assert writes.create(repository.name, "new", head, hidden=True) is True
    assert writes.create(repository.name, "new", head, hidden=True) is False
    assert reads.head(repository.name, "new") == head
    assert reads.head(repository.name, "nobody") is None
    assert "new" not in reads.visible(repository.name)


NAMES = ("a", "b", "ab", "a-b", "dev-1", "dev-12", "prod-1", "Dev-1", "A")
PATTERNS = (
    "*",
    "**",
    "a*",
    "?",
    "dev-?",
    "dev-[0-9]",
    "[ab]",
    "[a-b]*",
    "[!a]",
    "[^a]",
    "a?b",
    "{a,dev-*}",
    "{dev,prod}-{1,2}",
    "dev-\\d",
    "d\\ev-1",
    "a,b",
    "{a,{b,A}}",
)


def require_same(said, seen, is_in_doubt):
    """A pattern that the server reads in an unexpected way is in doubt, which keeps a branch."""
    assert said == (dict.fromkeys(NAMES) if is_in_doubt else seen)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_protection_rule_names_the_branches_that_the_server_protects(make, pattern):
    # Each has its own repository, since the server remembers rules.
    repository = make()
    for name in NAMES:
        repository.branch(name)
    repository.call("PUT", "/settings/branch_protection", data=[{"pattern": pattern}])
    answers = {
        name: repository.ask("POST", f"/branches/{name}/commits", data={"message": ""}).status
        for name in NAMES
    }
    assert set(answers.values()) <= {400, 403}
    said = {name: server_patterns.protects(pattern, name) for name in NAMES}
    require_same(said, {name: status == 403 for name, status in answers.items()}, pattern == "[^a]")


# A pattern of stars alone runs for every branch, and so names none.
HOOK_PATTERNS = [*(pattern for pattern in PATTERNS if pattern.strip("*")), "[a]*", "*-*"]


@pytest.mark.parametrize("pattern", HOOK_PATTERNS)
def test_a_hook_names_the_branches_that_it_runs_for(make, pattern):
    repository = make()
    action = (
        "name: refuse\non:\n  pre-commit:\n    branches: ["
        + json.dumps(pattern)
        + "]\nhooks:\n  - id: no\n    type: lua\n    properties: {script: 'error(\"no\")'}\n"
    )
    answers = {}
    for name in NAMES:
        repository.branch(name)
        repository.upload(name, "_lakefs_actions/refuse.yaml", action.encode())
        data = {"message": ""}
        answers[name] = repository.ask("POST", f"/branches/{name}/commits", data=data).status
    assert set(answers.values()) <= {201, 412}, answers
    said = {name: server_patterns.hook_names(pattern, name) for name in NAMES}
    require_same(said, {name: status == 412 for name, status in answers.items()}, pattern == "[!a]")
