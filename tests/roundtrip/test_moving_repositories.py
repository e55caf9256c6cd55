"""Repositories that do not stand still while they are read: commits land in every dump, branches
come and go in every round.

None of it is a reason to refuse, and nothing that is alive is lost by it; nor is anything said of
commits that were not seen.
"""

from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import gc, objects, refs, repositories
from lakegc_dagster.sandbox.errors import not_found
from spark_core.errors import IncompleteReadError
from spark_core.fates import WhyMayGo
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.run import Environment, RunOptions, open_run
from spark_core.storage import StoreOptions
from tests.support.clock import FakeClock
from tests.support.pipeline import mark_and_conclude, mark_only, sweep_only
from tests.support.policy_page import policy
from tests.support.sandbox_runs import SMALL, open_sandbox_run
from tests.support.sandbox_users import add_user
from tests.support.stored_rows import rows_of

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
OLD = NOW - timedelta(days=10)
COLLECT, WALK = policy("lakefs", my_repo="repo"), policy("lakefs-walk", my_repo="repo")
READS_LOGS = {
    "effect": "allow",
    "action": ["fs:ReadBranch"],
    "resource": "arn:lakefs:fs:::repository/repo/branch/*",
}


class Restless:
    """A repository with old staged entries and old garbage, and somebody who commits, makes and
    deletes branches all the time.
    """

    def __init__(self, sandbox):
        self.sandbox, self.core, self.steps = sandbox, sandbox.core, 0
        self.branch = ""
        with self.core.lock, sandbox.clock.at(OLD):
            repositories.create(self.core, "repo", "local://repo")
            gc.set_rules(self.core, "repo", gc.Rules(1, {}))
            self.alive = [self.upload("main", "head", b"on the head")]
            self.commit("main")
            refs.create_branch(self.core, "repo", "dev", "main")
            refs.create_branch(self.core, "repo", "hidden", "main", hidden=True)
            self.garbage = self.upload("main", "staged", b"overwritten while it was staged")
            self.alive += [
                self.upload(branch, "staged", branch.encode())
                for branch in ("main", "dev", "hidden")
            ]
        sandbox.clock.set(NOW)

    def upload(self, branch, path, data):
        return objects.upload(self.core, "repo", branch, path, data).address

    def commit(self, branch):
        return refs.commit(self.core, "repo", branch, message=f"step {self.steps}").id

    def land(self, part):
        """Commit on two branches between the parts of a dump.

        At the end what was staged all along is on a head.
        """
        self.steps += 1
        for branch in ("main", "dev") if part == "commits" else ("hidden",):
            self.upload(branch, f"step-{self.steps}", b"%d" % self.steps)
            self.commit(branch)
        refs.create_tag(self.core, "repo", f"tag-{self.steps}", "main")

    def come_and_go(self, call):
        """Make a branch with something staged before each list of branches, and delete it before
        any is read.
        """
        with self.core.lock:
            if call == "list_branches" and not self.branch:
                self.steps += 1
                self.branch = f"ci-{self.steps}"
                refs.create_branch(self.core, "repo", self.branch, "main")
                self.upload(self.branch, "log", b"%d" % self.steps)
            elif call == "diff_branch" and self.branch:
                refs.delete_branch(self.core, "repo", self.branch)
                self.branch = ""

    def start(self):
        self.sandbox.behaviour.while_dumping = self.land
        self.sandbox.observe(self.come_and_go)


def _stored(run):
    return {key for batch in run.store.list("data/") for key in batch.column("key").to_pylist()}


def _lossy(monkeypatch):
    """Let the server's scan find nothing, as when a branch that it had come to is deleted
    (`lakefs-facts` 11.29).
    """
    monkeypatch.setattr(gc, "_staged_rows", lambda *_: iter(()))


def _broken_off(monkeypatch):
    """Let the server's scan end with the last branch that was deleted under it."""

    def prepare_uncommitted(*_):
        raise not_found("branch")

    monkeypatch.setattr(gc, "prepare_uncommitted", prepare_uncommitted)


@pytest.mark.parametrize("break_scan", [pytest.param(_lossy, marks=pytest.mark.deep), _broken_off])
def test_commits_in_every_dump_and_branches_that_come_and_go_end_neither_mark_nor_sweep(
    sandbox, spark, monkeypatch, break_scan
):
    restless = Restless(sandbox)
    break_scan(monkeypatch)
    restless.start()
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    marked, found, results = mark_and_conclude(run)
    assert found.passed, [result for result in results if not result.passed]
    assert marked.addresses(run) == [restless.garbage]
    staged, commits = (
        table.manifest.facts for table in (marked.tables.uncommitted, marked.tables.commits)
    )
    assert (staged["branches_read"], staged["branches_gone"], staged["branches_appeared"]) == (
        3,
        5,
        1,
    )
    assert commits["commits_beside_dump"] >= 2
    assert sandbox.requests["dump_submit"] == 1, "the first dump will do"
    assert sweep_only(run) == {restless.garbage: "deleted"}
    assert sandbox.requests["dump_submit"] == 2
    assert set(restless.alive) <= _stored(run)
    assert restless.garbage not in _stored(run)


def test_a_commit_in_every_dump_ends_no_mark(sandbox, spark):
    restless = Restless(sandbox)
    sandbox.behaviour.while_dumping = restless.land
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    marked = mark_only(run)
    assert marked.addresses(run) == [restless.garbage]
    assert sandbox.requests["dump_submit"] == 1


def _run_as(sandbox, document, spark, minutes=0):
    keys = add_user(sandbox, "lakegc", document).credentials
    now = NOW + timedelta(minutes=minutes)
    clock = FakeClock(now + timedelta(seconds=1))
    environment = Environment(
        server=LakeFSServer(
            ServerOptions(sandbox.endpoint, keys.access_key_id, keys.secret_access_key), clock=clock
        ),
        store_options=StoreOptions(local_path=str(sandbox.blockstore)),
        spark=lambda: spark,
        clock=clock,
    )
    return open_run(environment, "repo", RunKey.at(now), RunOptions(may_sweep=True, **SMALL))


@pytest.mark.deep
def test_who_may_read_no_log_is_told_so_when_commits_land_in_every_dump_and_not_before(
    sandbox, spark
):
    restless = Restless(sandbox)
    left = [2]

    def land(part):
        if part == "commits" and left[0]:
            left[0] -= 1
            restless.land(part)

    sandbox.behaviour.while_dumping = land
    marked = mark_only(_run_as(sandbox, COLLECT, spark))
    assert marked.tables.commits.manifest.facts["commits_beside_dump"] == 0
    assert sandbox.requests["dump_submit"] == 3, "nothing landed in the third"
    left[0] = 99
    with pytest.raises(
        IncompleteReadError, match=r"lacks a commit that landed.*fs:ReadBranch.*branch/\*"
    ):
        mark_only(_run_as(sandbox, COLLECT, spark, minutes=1))
    allowed = {**COLLECT, "statement": [*COLLECT["statement"], READS_LOGS]}
    marked = mark_only(_run_as(sandbox, allowed, spark, minutes=2))
    assert marked.tables.commits.manifest.facts["commits_beside_dump"] == 2


def _with_a_deleted_branch(sandbox):
    """An object that only a commit of a deleted branch has, past its days, and one that was never
    committed; by name.
    """
    core = sandbox.core
    with core.lock, sandbox.clock.at(OLD):
        repositories.create(core, "repo", "local://repo")
        gc.set_rules(core, "repo", gc.Rules(1, {}))
        refs.create_branch(core, "repo", "gone", "main")
        committed = objects.upload(core, "repo", "gone", "a", b"committed").address
        refs.commit(core, "repo", "gone", message="on a branch that goes")
        refs.delete_branch(core, "repo", "gone")
        overwritten = objects.upload(core, "repo", "main", "b", b"overwritten").address
        objects.upload(core, "repo", "main", "b", b"staged")
    sandbox.clock.set(NOW)
    return committed, overwritten


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (COLLECT, (WhyMayGo.ONLY_EXPIRED_COMMITS, WhyMayGo.NEVER_COMMITTED)),
        (WALK, (WhyMayGo.UNREACHABLE, WhyMayGo.UNREACHABLE)),
    ],
)
def test_where_commits_were_walked_no_reason_says_that_no_commit_had_an_object(
    sandbox, spark, document, words
):
    addresses = _with_a_deleted_branch(sandbox)
    marked = mark_only(_run_as(sandbox, document, spark))
    reasons = {row.address: row.reason for row in rows_of(marked.expired)}
    assert reasons == dict(zip(addresses, words, strict=True))
    assert marked.expired.manifest.facts["reasons_complete"] == (document is COLLECT)


@pytest.mark.parametrize("document", [COLLECT, WALK])
def test_a_commit_dated_in_milliseconds_is_retained_however_commits_are_read(
    sandbox, spark, document
):
    core = sandbox.core
    with core.lock, sandbox.clock.at(OLD):
        repositories.create(core, "repo", "local://repo")
        gc.set_rules(core, "repo", gc.Rules(1, {}))
        kept = objects.upload(
            core, "repo", "main", "a", b"of a commit with a date in milliseconds"
        ).address
        dated = refs.commit(core, "repo", "main", message="ms", date=int(OLD.timestamp() * 1000)).id
        objects.delete(core, "repo", "main", ["a"])
        refs.commit(core, "repo", "main", message="removed")
    with core.lock, sandbox.clock.at(NOW - timedelta(days=5)):
        objects.upload(core, "repo", "main", "b", b"newer")
        refs.commit(core, "repo", "main", message="newer")
    sandbox.clock.set(NOW)
    run = _run_as(sandbox, document, spark)
    marked = mark_only(run)
    assert kept not in marked.addresses(run)
    rows = {row.commit_id: row for row in rows_of(run.load(tables.RETAINED_COMMITS))}
    assert "lakegc" in rows[dated].retained_by
    assert rows[dated].created_at.year == 9999
