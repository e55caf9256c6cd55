"""After any history, a sweep leaves every reachable or young object as it was, and every other one gone.

The oracle knows nothing of the engine: it lists every commit and branch through
the server, and walks the history in plain Python sets.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from lakegc_dagster.sandbox import gc, merge, objects, refs, repositories
from lakegc_dagster.sandbox.errors import ApiError
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
RULES = {"main": 21, "dev": 7}
DEFAULT = 14
STEPS = 60


@dataclass
class History:
    """A repository that a seed makes, and what its commits were."""

    sandbox: object
    random: Random
    commits: dict = field(default_factory=dict)
    branches: list = field(default_factory=lambda: ["main"])
    tags: dict = field(default_factory=dict)

    def make(self):
        core = self.sandbox.core
        with core.lock:
            with self.sandbox.clock.at(NOW - timedelta(days=60)):
                repositories.create(core, "repo", "local://repo")
                root = core.head(core.repository("repo"), core.branch(core.repository("repo"), "main"))
                self._note(root)
            for step in range(STEPS):
                # The last steps are younger than the minimum age.
                age = timedelta(days=59) * (1 - step / STEPS) + timedelta(minutes=self.random.randrange(60))
                with self.sandbox.clock.at(NOW - age):
                    self._step()
            gc.set_rules(core, "repo", gc.Rules(DEFAULT, RULES))

    def _note(self, commit):
        self.commits[commit.id] = commit

    def _step(self):
        weights = {
            self._upload: 30,
            self._again: 8,
            self._remove: 8,
            self._commit: 25,
            self._branch: 5,
            self._merge: 5,
            self._revert: 4,
            self._drop_branch: 3,
            self._tag: 3,
            self._drop_tag: 1,
            self._reset: 3,
            self._hard_reset: 2,
            self._copy: 3,
        }
        (action,) = self.random.choices(list(weights), weights=list(weights.values()))
        try:
            action()
        except ApiError:
            # Nothing to commit, a conflict, a branch that is dirty: the server says no and nothing happens.
            return

    def _any_branch(self):
        return self.random.choice(self.branches)

    def _path(self):
        return f"dir/{self.random.randrange(8)}"

    def _upload(self):
        for _ in range(self.random.randrange(1, 4)):
            data = f"{self.random.random()}".encode()[: self.random.randrange(1, 9)]
            objects.upload(self.sandbox.core, "repo", self._any_branch(), self._path(), data)

    def _again(self):
        branch, path = self._any_branch(), self._path()
        _, data = objects.read(self.sandbox.core, "repo", branch, path)
        objects.upload(self.sandbox.core, "repo", branch, path, data)

    def _remove(self):
        objects.delete(self.sandbox.core, "repo", self._any_branch(), [self._path()])

    def _commit(self):
        self._note(refs.commit(self.sandbox.core, "repo", self._any_branch(), message="commit"))

    def _branch(self):
        name = self.random.choice(["dev", "topic", f"b{self.random.randrange(100)}"])
        source = self.random.choice([*self.branches, *self.commits])
        refs.create_branch(self.sandbox.core, "repo", name, source)
        self.branches.append(name)

    def _merge(self):
        self._note(merge.merge(self.sandbox.core, "repo", self._any_branch(), self._any_branch(), message="merge"))

    def _revert(self):
        commit = self.random.choice(list(self.commits))
        self._note(merge.revert(self.sandbox.core, "repo", self._any_branch(), commit, parent_number=1))

    def _drop_branch(self):
        branch = self._any_branch()
        if branch != "main":
            refs.delete_branch(self.sandbox.core, "repo", branch)
            self.branches.remove(branch)

    def _tag(self):
        name = f"t{self.random.randrange(20)}"
        self.tags[name] = refs.create_tag(self.sandbox.core, "repo", name, self.random.choice(list(self.commits))).id

    def _drop_tag(self):
        if self.tags:
            name = self.random.choice(list(self.tags))
            core = self.sandbox.core
            core.state.delete_tag(core.repository("repo").number, name)
            del self.tags[name]

    def _reset(self):
        objects.reset(self.sandbox.core, "repo", self._any_branch(), "reset")

    def _hard_reset(self):
        refs.hard_reset(self.sandbox.core, "repo", self._any_branch(), self.random.choice(list(self.commits)))

    def _copy(self):
        objects.copy(
            self.sandbox.core,
            "repo",
            self._any_branch(),
            self._path(),
            source_ref=self._any_branch(),
            source_path=self._path(),
        )


def _entries(run, ref):
    """Relative address of every entry that a ref shows."""
    after, found = "", set()
    while True:
        page = run.server.list_entries("repo", ref, after=after)
        found |= {run.namespace.relative_absolute(address) for _, address in page.entries}
        if not page.has_more:
            return found
        after = page.entries[-1][0]


def _main_parent(commit):
    return commit.parents[0] if commit.parents else None


def _retained(history, heads):
    """Every commit that some branch, or line without a branch, keeps: by definition, over all walks."""
    created = {id_: commit.as_commit().creation_date for id_, commit in history.commits.items()}
    main_parents = {_main_parent(commit) for commit in history.commits.values()}
    kept = set(heads.values()) | set(history.tags.values())
    starts = [(head, RULES.get(branch, DEFAULT), False) for branch, head in heads.items()]
    starts += [(id_, DEFAULT, True) for id_ in history.commits if id_ not in main_parents and id_ not in heads.values()]
    for start, days, dangling in starts:
        threshold = NOW - timedelta(days=days)
        if dangling and created[start] > threshold:
            kept.add(start)
        child = start
        while (parent := _main_parent(history.commits[child])) is not None:
            if created[child] > threshold:
                kept.add(parent)
            child = parent
    return kept


def _play(sandbox, spark, seed):
    history = History(sandbox, Random(seed))
    history.make()
    sandbox.clock.set(NOW + timedelta(seconds=1))
    run = open_sandbox_run(sandbox, "repo", spark, NOW, clock_margin=timedelta(0))
    heads = {branch.id: branch.commit_id for branch in run.server.branches("repo")}
    before = {key: run.store.read(key) for batch in run.store.list("data/") for key in batch["key"].to_pylist()}
    young = {
        row["key"]
        for batch in run.store.list("data/")
        for row in batch.to_pylist()
        if row["last_modified"] >= NOW - timedelta(hours=24)
    }
    alive = set().union(*(_entries(run, ref) for ref in [*heads, *_retained(history, heads)]))

    _, verdict, results = mark_and_conclude(run)
    assert verdict.passed, [result for result in results if not result.passed]
    outcomes = sweep_only(run)
    after = {key: run.store.read(key) for batch in run.store.list("data/") for key in batch["key"].to_pylist()}
    wanted = {key for key in before if key in alive or key in young}
    assert set(after) == wanted
    assert all(after[key] == before[key] for key in wanted)
    assert outcomes == dict.fromkeys(set(before) - wanted, "deleted")
    return len(outcomes)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_random_history_loses_nothing_alive_and_nothing_dead_stays(seed, sandbox, spark):
    assert _play(sandbox, spark, seed) > 0


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_random_histories_lose_nothing_alive_and_nothing_dead_stays(seed, sandbox, spark):
    _play(sandbox, spark, seed)
