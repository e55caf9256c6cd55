"""Rules that one call shows and another one knows nothing of, and users who may not dump."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from spark_core import lakegc_keys
from spark_core.errors import IncompleteReadError, PermissionDeniedError, RepositoryStateError
from spark_core.holds import Hold
from spark_core.lakefs import NoSuchCallError
from spark_core.model import Branch, Commit, RetentionRules, RunKey
from spark_core.records.figures import ListedFigures
from spark_core.references.retained_commits import retained_commits
from spark_core.run import RunOptions
from tests.support.figures import manifest_of
from tests.support.memory_store import MemoryStore

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def test_rules_that_are_gone_when_the_server_lists_the_commits_refuse():
    slices = SimpleNamespace(manifest=manifest_of(ListedFigures, table_prefix="_lakefs"))
    server = SimpleNamespace(
        retention_rules=lambda _repository: RetentionRules(7, {}),
        prepare_commits=lambda _repository: None,
    )
    run = SimpleNamespace(
        server=server,
        store=MemoryStore(),
        deciding_options={},
        repository=SimpleNamespace(id="repo"),
        earlier=[],
        begin=lambda _spec: None,
        require_same_instance=lambda _manifest: None,
        load=lambda _spec: slices,
    )
    with pytest.raises(IncompleteReadError, match=r"listed no commits.*run again"):
        retained_commits(run, SimpleNamespace(manifest=None))


class _Denied:
    """A run whose user may not dump; `keys_are_good` is the server's word to any other question."""

    def __init__(self, rules, *, keys_are_good=True, refusal=None):
        self.refusal = refusal or PermissionDeniedError("refs dump: 401")
        self.asked = []
        self.keys_are_good = keys_are_good
        self.rules = rules
        slices = SimpleNamespace(manifest=manifest_of(ListedFigures, table_prefix="_lakefs"))
        self.run = SimpleNamespace(
            server=self,
            store=MemoryStore(),
            deciding_options={},
            repository=SimpleNamespace(id="repo"),
            earlier=[],
            begin=lambda _spec: NOW,
            now=lambda: NOW,
            require_same_instance=lambda _manifest: None,
            load=lambda _spec: slices,
        )

    def retention_rules(self, _repository):
        return self.rules

    def prepare_commits(self, _repository):
        return SimpleNamespace(run_id="r")

    def dump_refs(self, _repository):
        raise self.refusal

    def repository(self, _repository):
        self.asked.append("repository")
        if not self.keys_are_good:
            raise PermissionDeniedError("description of repository repo: 401, check the keys")

    def branches(self, _repository):
        self.asked.append("branches")
        return []

    tags = branches


def test_without_rules_a_user_who_may_not_dump_is_told_the_three_actions():
    denied = _Denied(rules=None)
    with pytest.raises(
        PermissionDeniedError,
        match=r"no rules.*fs:ListTags, fs:ListBranches and fs:ListCommits.*repository/repo",
    ):
        retained_commits(denied.run, SimpleNamespace(manifest=None))
    assert denied.asked == ["repository"], "nothing is walked"


@pytest.mark.parametrize("rules", [None, RetentionRules(7, {})])
def test_keys_that_are_refused_everywhere_are_not_a_permission_lacking_for_the_dump(rules):
    denied = _Denied(rules, keys_are_good=False)
    with pytest.raises(
        PermissionDeniedError, match="description of repository repo: 401, check the keys"
    ):
        retained_commits(denied.run, SimpleNamespace(manifest=None))
    assert denied.asked == ["repository"]


def test_without_rules_a_server_that_cannot_dump_is_not_walked_either():
    denied = _Denied(rules=None, refusal=NoSuchCallError("refs dump: 404"))
    with pytest.raises(NoSuchCallError, match=r"the server has no such call.*no rules.*upgrade"):
        retained_commits(denied.run, SimpleNamespace(manifest=None))
    assert denied.asked == ["repository"]


def test_under_rules_a_server_that_cannot_dump_is_walked():
    denied = _Denied(rules=RetentionRules(7, {}), refusal=NoSuchCallError("refs dump: 404"))
    with pytest.raises(RepositoryStateError, match="refs hold no commits"):
        retained_commits(denied.run, SimpleNamespace(manifest=None))
    assert denied.asked == ["repository", "branches", "branches"]


def test_a_walk_that_finds_no_branch_refuses():
    denied = _Denied(rules=RetentionRules(7, {}))
    with pytest.raises(RepositoryStateError, match="refs hold no commits"):
        retained_commits(denied.run, SimpleNamespace(manifest=None))
    assert denied.asked == ["repository", "branches", "branches"]


def test_the_servers_list_comes_after_the_walk_so_a_branch_deleted_in_between_loses_nothing():
    head, lost = Commit("a" * 64, (), NOW, "1" * 64), "b" * 64
    lists = {"before": f"{head.id},false,{'1' * 64}\n", "after": f"{lost},false,{'2' * 64}\n"}

    class _Server(_Denied):
        def branches(self, _repository):
            self.asked.append("branches")
            return [Branch("main", head.id)]

        def tags(self, _repository):
            return []

        def log(self, _repository, _ref, *, first_page):
            return iter([head])

        def prepare_commits(self, _repository):
            return SimpleNamespace(run_id="after" if "branches" in self.asked else "before")

    server = _Server(RetentionRules(7, {}))
    server.run.store = SimpleNamespace(
        root="local://r/",
        list=lambda _prefix: iter(()),
        children=lambda _prefix: ([], None),
        written_at=MemoryStore().written_at,
        read=lambda key: (
            f"commit_id,expired,metarange_id\n{lists[key.split('run_id=')[1].split('/')[0]]}".encode()
        ),
    )
    server.run.key = RunKey.at(NOW)
    server.run.options = RunOptions()
    draft = retained_commits(server.run, SimpleNamespace(manifest=None))
    assert draft.content["commit_id"].to_pylist() == [head.id, lost]
    # What the file before the walk has and the one after it lacks was lost from that one: a line,
    # say, with its whole end.
    lists["before"], lists["after"] = lists["before"] + lists["after"], lists["before"]
    server.asked.clear()
    draft = retained_commits(server.run, SimpleNamespace(manifest=None))
    assert draft.content["commit_id"].to_pylist() == [head.id, lost]
    assert draft.content["retained_by"].to_pylist() == ["server+lakegc", "server"]
    lists["after"] += f"{lost},false,{'3' * 64}\n"
    server.asked.clear()
    with pytest.raises(IncompleteReadError, match=rf"commit {lost} has metarange "):
        retained_commits(server.run, SimpleNamespace(manifest=None))


def test_a_held_commit_that_nothing_leads_to_is_walked_from_and_retained():
    head, held = (
        Commit("a" * 64, (), NOW, "1" * 64),
        Commit("b" * 64, (), NOW - timedelta(days=900), "2" * 64),
    )

    class _Server(_Denied):
        def branches(self, _repository):
            return [Branch("main", head.id)]

        def tags(self, _repository):
            return []

        def log(self, _repository, ref, *, first_page):
            return iter([held if ref == held.id else head])

    server = _Server(RetentionRules(7, {}))
    server.run.key, server.run.options = RunKey.at(NOW), RunOptions()
    hold = Hold("audit", "commit", held.id, held.id, "ann", NOW, "")
    server.run.store.objects[lakegc_keys.hold_key("audit")] = hold.to_json()
    listed = f"commit_id,expired,metarange_id\n{head.id},false,{head.metarange_id}\n"
    server.run.store.objects["_lakefs/retention/gc/commits/run_id=r/commits.csv"] = listed.encode()
    draft = retained_commits(server.run, SimpleNamespace(manifest=None))
    assert draft.content.select(["commit_id", "reason", "retained_until"]).to_pylist() == [
        {"commit_id": head.id, "reason": "head of main", "retained_until": None},
        {
            "commit_id": held.id,
            "reason": f"hold audit: commit {held.id[:12]}",
            "retained_until": None,
        },
    ]
    assert draft.figures({}, Counter()).facts()["holds"] == [
        {"name": "audit", "kind": "commit", "value": held.id, "commit_id": held.id}
    ]
