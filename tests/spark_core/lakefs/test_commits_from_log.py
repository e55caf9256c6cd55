"""The commit graph without a dump: all that a ref reaches, the same as in a dump, or refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.addresses.namespace import Namespace
from spark_core.errors import IncompleteReadError, NotFoundError, PermissionDeniedError
from spark_core.graveler import Timestamp
from spark_core.lakefs import LakeFSServer, complete_refs, read_refs_dump, walk_refs
from spark_core.model import Branch, Commit, Refs, Tag
from spark_core.retention import require_whole
from spark_core.storage import StoreOptions, open_store
from tests.support.examples import examples
from tests.support.golden import REPOSITORIES, SERVER_PATH, expected, slow_where_large
from tests.support.recorded_server import RecordedServer
from tests.support.recordings import recorded
from tests.support.scripted_server import Asked, ScriptedServer

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
LOCAL = [
    name
    for name in REPOSITORIES
    if name not in ("bare", "read-only")
    and expected(name)["storage_namespace"].startswith("local://")
]


def reached(refs: Refs) -> set[str]:
    """The commits that a branch or tag leads to, by the plain definition."""
    found: set[str] = set()
    waiting = [ref.commit_id for ref in (*refs.branches, *refs.tags)]
    while waiting:
        commit_id = waiting.pop()
        if commit_id not in found:
            found.add(commit_id)
            waiting += refs.commits[commit_id].parents
    return found


@pytest.mark.parametrize("name", slow_where_large(LOCAL))
def test_the_walk_finds_what_the_dump_has_as_far_as_anything_leads_there(
    name: str, tmp_path: Path
) -> None:
    with RecordedServer.unpacked(name, tmp_path) as recorded_server:
        server = LakeFSServer(recorded_server.options())
        namespace = Namespace.parse(
            recorded_server.repository["storage_namespace"], server_path=SERVER_PATH
        )
        store = open_store(namespace, StoreOptions(local_path=str(recorded_server.local_path)))
        dumped = read_refs_dump(store, server.dump_refs(name))
        walked = walk_refs(server, name)
    assert set(walked.branches) == set(dumped.branches)
    assert set(walked.tags) == set(dumped.tags)
    # The API gives whole seconds, the dump may hold more.
    dates = [
        {at.id: at.creation_date.replace(microsecond=0) for at in refs.commits.values()}
        for refs in (walked, dumped)
    ]
    for commit_id in reached(dumped):
        one, other = walked.commits[commit_id], dumped.commits[commit_id]
        assert (one.parents, one.metarange_id, one.version, one.generation) == (
            other.parents,
            other.metarange_id,
            other.version,
            other.generation,
        )
        assert dates[0][commit_id] == dates[1][commit_id]
    assert walked.commits.keys() == reached(dumped)


def test_some_recorded_repository_has_commits_that_nothing_leads_to(tmp_path: Path) -> None:
    with RecordedServer.unpacked("merges", tmp_path) as recorded_server:
        walked = walk_refs(LakeFSServer(recorded_server.options()), "merges")
    assert expected("merges")["commits"].keys() - walked.commits.keys(), (
        "else the test above compares too little"
    )


def _id(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def commit(name: str, *parents: str, **changes: Any) -> dict[str, Any]:
    shown = {
        "id": _id(name),
        "parents": [_id(parent) for parent in parents],
        "creation_date": 1_700_000_000,
        "meta_range_id": _id(f"metarange of {name}"),
        "version": 1,
        "generation": 1,
        "committer": "c",
        "message": "m",
    }
    return shown | changes


class Graph:
    """A server of a few commits, whose logs can be told to lie."""

    def __init__(
        self, branches: dict[str, str], logs: dict[str, Any], tags: dict[str, str] | None = None
    ) -> None:
        self.branches, self.tags, self.logs = branches, tags or {}, logs

    def __call__(self, asked: Asked) -> tuple[int, Any] | None:
        *_, kind, last = asked.path.split("/")
        if last in ("branches", "tags"):
            shown = self.branches if last == "branches" else self.tags
            results = [{"id": name, "commit_id": _id(at)} for name, at in shown.items()]
        elif last == "commits":
            names = {_id(name): name for name in self.logs}
            found = self.logs.get(names.get(kind, kind), (404, {"message": "not found"}))
            if isinstance(found, tuple):
                return found
            results = found
        else:
            return None
        return 200, {"results": results, "pagination": {"has_more": False, "next_offset": ""}}


def walked(client: Client, graph: Graph) -> tuple[Refs, ScriptedServer]:
    server, scripted = client({("GET", ".*"): graph})
    return walk_refs(server, "docs"), scripted


def test_a_branch_that_stands_on_known_commits_is_not_asked_about(client: Client) -> None:
    logs = {"main": [commit("b", "a"), commit("a")]}
    _, scripted = walked(
        client, Graph({"main": "b", "old": "a"}, logs, tags={"v1": "a", "v2": "b"})
    )
    assert [call.path for call in scripted.calls if call.path.endswith("/commits")] == [
        "/repositories/docs/refs/main/commits"
    ]


def test_a_log_is_left_where_it_meets_known_commits_and_short_pages_are_asked_for_there(
    client: Client,
) -> None:
    main = [commit("b", "a"), commit("a")]
    graph = Graph({"main": "b", "dev": "d"}, {"main": main, "dev": [commit("d", "b"), *main]})
    _, scripted = walked(client, graph)
    asked = [call.query for call in scripted.calls if call.path.endswith("/commits")]
    assert asked == [{"amount": "1000"}, {"amount": "100"}]


def test_a_commit_of_which_only_a_tag_knows_is_found(client: Client) -> None:
    logs = {"main": [commit("a")], "v1": [commit("t", "s"), commit("s")]}
    refs, _ = walked(client, Graph({"main": "a"}, logs, tags={"v1": "t"}))
    assert refs.commits.keys() == {_id("a"), _id("t"), _id("s")}


def test_a_branch_that_moved_on_and_one_that_vanished_are_read_at_the_commit_that_they_had(
    client: Client,
) -> None:
    logs = {
        "main": [commit("new", "a"), commit("a")],
        "head": [commit("head", "a"), commit("a")],
        "gone": (404, {"message": "branch not found"}),
        "was": [commit("was")],
    }
    refs, _ = walked(client, Graph({"main": "head", "gone": "was"}, logs))
    assert {_id("head"), _id("new"), _id("was")} <= refs.commits.keys()


def test_a_list_that_breaks_off_without_a_word_is_gone_on_with_by_the_parent_that_is_missing(
    client: Client,
) -> None:
    server, scripted = client({})
    page = recorded("observed-cherry-pick-404", 5)
    head, damaged = page.body["results"]
    (parent,) = damaged["parents"]
    assert page.body["pagination"]["next_offset"] == damaged["id"], (
        "the page ends where the cache is damaged"
    )

    def answers(asked: Asked) -> tuple[int, Any] | None:
        if asked.path.endswith("/branches"):
            results = [{"id": "main", "commit_id": head["id"]}]
        elif asked.path.endswith("/main/commits") and "after" not in asked.query:
            return 200, page.body
        elif asked.path.endswith(f"/{parent}/commits"):
            results = [{**commit("p"), "id": parent}]
        else:
            results = []
        return 200, {"results": results, "pagination": {"has_more": False, "next_offset": ""}}

    scripted.answer_with("GET", ".*", answers)
    assert walk_refs(server, "docs").commits.keys() == {head["id"], damaged["id"], parent}


@pytest.mark.parametrize("answer", [(404, {"message": "commit not found"}), [], [commit("other")]])
def test_a_commit_that_the_damaged_cache_hides_refuses(client: Client, answer: Any) -> None:
    graph = Graph({"main": "b"}, {"main": [commit("b", "a")], "a": answer})
    with pytest.raises(
        IncompleteReadError, match=rf"commit {_id('a')}.*After a cherry-pick.*fs:ListCommits"
    ):
        walked(client, graph)


@pytest.mark.parametrize(
    "change",
    [
        {"parents": []},
        {"meta_range_id": _id("another")},
        {"creation_date": 1_700_000_001},
        {"version": 0},
    ],
)
def test_a_commit_that_differs_between_two_answers_refuses(
    client: Client, change: dict[str, Any]
) -> None:
    main, dev = commit("b", "a"), commit("b", "a", **change)
    graph = Graph(
        {"main": "b", "dev": "d"},
        {"main": [main, commit("a")], "dev": [commit("d", "c"), dev, commit("c")]},
    )
    with pytest.raises(
        IncompleteReadError,
        match=rf"commit {_id('b')} .* differs between two answers.*never changes",
    ):
        walked(client, graph)


def test_words_that_a_cherry_pick_adds_to_a_commit_make_no_difference(client: Client) -> None:
    known = [commit("b", "a", metadata={}), commit("a")]
    again = [commit("d", "c"), commit("b", "a", metadata={"cherry-pick-origin": "x"}), commit("c")]
    refs, _ = walked(client, Graph({"main": "b", "dev": "d"}, {"main": known, "dev": again}))
    assert len(refs.commits) == 4


@pytest.mark.parametrize(
    ("lacking", "action"), [("/tags", "fs:ListTags"), ("/main/commits", "fs:ReadBranch")]
)
def test_a_walk_that_is_not_permitted_either_names_the_action(
    client: Client, lacking: str, action: str
) -> None:
    graph = Graph({"main": "a"}, {"main": [commit("a")]})

    def guarded(asked: Asked) -> tuple[int, Any] | None:
        return (
            (401, {"message": "insufficient permissions"})
            if asked.path.endswith(lacking)
            else graph(asked)
        )

    server, _ = client({("GET", ".*"): guarded})
    with pytest.raises(PermissionDeniedError, match=action):
        walk_refs(server, "docs")


@pytest.mark.parametrize(
    "date", [1_700_000_000_000, 10**18, -(10**13)], ids=["milliseconds", "later", "earlier"]
)
def test_a_commit_with_an_impossible_date_is_clamped_as_in_a_dump(
    client: Client, date: int
) -> None:
    graph = Graph({"main": "b"}, {"main": [commit("b", "a", creation_date=date), commit("a")]})
    refs, _ = walked(client, graph)
    assert refs.commits[_id("b")].creation_date == Timestamp(date).instant()
    assert refs.commits[_id("b")].creation_date.year == (9999 if date > 0 else 1)


def known(*names: str, **branches: str) -> Refs:
    """A dump of a chain of commits, and of branches whose heads it may lack."""
    commits = {
        _id(name): Commit(
            _id(name),
            tuple(_id(parent) for parent in names[at - 1 : at]) if at else (),
            # A dump has parts of a second that no log tells.
            datetime.fromtimestamp(1_700_000_000, UTC).replace(microsecond=123_456),
            _id(f"metarange of {name}"),
            generation=at + 1,
        )
        for at, name in enumerate(names)
    }
    return Refs(commits, tuple(Branch(name, _id(at)) for name, at in branches.items()), ())


def completed(client: Client, graph: Graph, dumped: Refs) -> tuple[Refs, list[str]]:
    server, scripted = client({("GET", ".*"): graph})
    found = complete_refs(server, "docs", dumped)
    return found, [call.path.split("/")[4] for call in scripted.calls]


def test_a_dump_that_lacks_nothing_costs_no_call(client: Client) -> None:
    found, asked = completed(client, Graph({}, {}), known("a", "b", main="b", old="a"))
    assert found == known("a", "b", main="b", old="a")
    assert asked == []


def test_heads_that_landed_while_the_dump_was_made_are_read_from_the_logs_of_their_branches(
    client: Client,
) -> None:
    main = [commit("e", "d"), commit("d", "c"), commit("c", "b"), commit("b", "a"), commit("a")]
    dev = [commit("x", "b"), commit("b", "a"), commit("a")]
    found, asked = completed(
        client,
        Graph({}, {"main": main, "dev": dev}),
        known("a", "b", main="d", dev="x", old="b", same="x"),
    )
    # The head has moved on since: what lies above the dump's does no harm.
    assert found.commits.keys() == {_id(name) for name in "abcdex"}
    assert asked == ["main", "dev"]
    assert found.branches == known("a", "b", main="d", dev="x", old="b", same="x").branches
    assert found.commits[_id("b")].creation_date.microsecond, "what the dump has stays as it has it"


def test_a_head_that_was_reset_away_meanwhile_is_read_by_its_own_id(client: Client) -> None:
    graph = Graph(
        {},
        {
            "main": [commit("a")],
            "gone": (404, {"message": "branch not found"}),
            "c": [commit("c", "a")],
        },
    )
    found, asked = completed(client, graph, known("a", main="c", gone="c"))
    assert found.commits.keys() == {_id("a"), _id("c")}
    assert asked == ["main", "gone", _id("c")]


def test_a_tag_that_a_dump_names_without_its_commit_is_followed_too(client: Client) -> None:
    dumped = replace(known("a", main="a"), tags=(Tag("v1", _id("t")),))
    found, asked = completed(client, Graph({}, {"v1": [commit("t", "a"), commit("a")]}), dumped)
    assert found.commits.keys() == {_id("a"), _id("t")}
    assert asked == ["v1"]


def test_a_parent_that_landed_with_its_child_while_commits_were_dumped_is_read_too(
    client: Client,
) -> None:
    whole = known("a", "b", "c", main="c")
    torn = replace(whole, commits={id_: at for id_, at in whole.commits.items() if id_ != _id("b")})
    found, asked = completed(client, Graph({}, {"b": [commit("b", "a"), commit("a")]}), torn)
    assert found.commits.keys() == whole.commits.keys()
    assert asked == [_id("b")]


@pytest.mark.parametrize(
    "answer", [(404, {"message": "commit not found"}), [], [commit("other", "a")]]
)
def test_a_head_that_the_damaged_cache_hides_completes_no_dump(client: Client, answer: Any) -> None:
    graph = Graph({}, {"main": [commit("a")], "c": answer})
    with pytest.raises(IncompleteReadError, match=rf"commit {_id('c')}.*After a cherry-pick"):
        completed(client, graph, known("a", main="c"))


def test_a_commit_that_differs_between_the_dump_and_a_log_refuses(client: Client) -> None:
    logs = {
        "main": [commit("d", "c"), commit("c", "b"), commit("b", "a", meta_range_id=_id("another"))]
    }
    torn = replace(known("a", "b", main="d"), commits=known("a", "b").commits)
    found, _ = completed(client, Graph({}, {"main": logs["main"][:2]}), torn)
    assert _id("c") in found.commits
    logs["main"][1] = commit("c", "b", "z")
    with pytest.raises(
        IncompleteReadError, match=rf"commit {_id('b')} .* differs between two answers"
    ):
        completed(client, Graph({}, logs), torn)


class Unsteady:
    """Answers like a server with logs that break off, moving branches and a damaged cache."""

    def __init__(
        self, commits: dict[str, Commit], branches: dict[str, str], tags: dict[str, str]
    ) -> None:
        self.all, self.heads, self.tagged = commits, branches, tags
        self.moved: dict[str, str | None] = {}
        self.breaks_off: dict[str, int] = {}
        self.damaged: dict[str, str | None] = {}

    def branches(self, _repository: str) -> list[Branch]:
        return [Branch(*at) for at in self.heads.items()]

    def tags(self, _repository: str) -> list[Tag]:
        return [Tag(*at) for at in self.tagged.items()]

    def log(self, _repository: str, ref: str, *, first_page: int) -> Iterator[Commit]:
        assert first_page in (100, 1000)
        start = (
            self.damaged.get(ref, ref)
            if ref in self.all
            else self.moved.get(ref, (self.heads | self.tagged)[ref])
        )
        if start is None:
            raise NotFoundError(f"{ref} not found")
        found = [self.all[commit_id] for commit_id in sorted(self._reached(start), reverse=True)]
        yield from found[: self.breaks_off.get(ref, len(found))]

    def _reached(self, start: str) -> set[str]:
        refs = Refs(self.all, (Branch("x", start),), ())
        return reached(refs)


@st.composite
def unsteady(draw: st.DrawFn) -> Unsteady:
    """Up to a dozen commits named so that children sort behind their parents."""
    size = draw(st.integers(1, 12))
    names = [f"{number:064x}" for number in range(size)]
    commits = {}
    for at, name in enumerate(names):
        parents = draw(st.lists(st.sampled_from(names[:at]), max_size=2, unique=True)) if at else []
        commits[name] = Commit(
            name, tuple(parents), datetime(2026, 1, 1, tzinfo=UTC), f"{at + 100:064x}"
        )
    some = st.sampled_from(names)
    server = Unsteady(
        commits,
        draw(st.dictionaries(st.sampled_from(["main", "dev", "rel"]), some, min_size=1)),
        draw(st.dictionaries(st.sampled_from(["v1", "v2"]), some)),
    )
    server.moved = draw(st.dictionaries(st.sampled_from(sorted(server.heads)), st.none() | some))
    anything = st.sampled_from([*server.heads, *server.tagged, *names])
    server.breaks_off = draw(st.dictionaries(anything, st.integers(0, 3)))
    server.damaged = draw(st.dictionaries(some, st.none() | some, max_size=2))
    return server


@given(unsteady(), st.data())
@settings(max_examples=examples(20, 150), deadline=None)
def test_whatever_a_dump_lacks_it_is_completed_to_a_whole_graph_or_refused(
    server: Unsteady, data: st.DataObject
) -> None:
    refs = Refs(server.all, tuple(server.branches("")), tuple(server.tags("")))
    dropped = data.draw(st.sets(st.sampled_from(sorted(server.all))))
    torn = replace(refs, commits={id_: at for id_, at in server.all.items() if id_ not in dropped})
    try:
        found = complete_refs(cast("LakeFSServer", server), "docs", torn)
    except IncompleteReadError:
        assert server.damaged or server.breaks_off, "nothing stood in the way"
        return
    require_whole(replace(found, branches=found.branches or (Branch("x", min(found.commits)),)))
    assert torn.commits.keys() | reached(refs) <= found.commits.keys() <= server.all.keys()
    assert (found.branches, found.tags) == (torn.branches, torn.tags)


@given(unsteady())
@settings(max_examples=examples(20, 150), deadline=None)
def test_whatever_the_server_does_the_graph_is_whole_or_refused(server: Unsteady) -> None:
    wanted = reached(Refs(server.all, tuple(server.branches("")), tuple(server.tags(""))))
    try:
        refs = walk_refs(cast("LakeFSServer", server), "docs")
    except IncompleteReadError:
        assert server.damaged or server.breaks_off, "nothing stood in the way"
        return
    assert wanted <= refs.commits.keys()
    assert all(refs.commits[commit_id] == server.all[commit_id] for commit_id in refs.commits)
    assert {
        parent for commit in refs.commits.values() for parent in commit.parents
    } <= refs.commits.keys()
