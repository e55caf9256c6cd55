"""The algorithm against a real server: vectors, random graphs, repositories, the docs' example."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_core.errors import RepositoryStateError
from spark_core.model import RetentionRules
from spark_core.retention import retained_commits
from tests.spark_core.retention.graphs import (
    NOW,
    as_the_server_walks,
    graph,
    recorded_refs,
    rules_of,
)
from tests.support.golden import DATA, REPOSITORIES, expected, server

EXACT = timedelta(0)
VECTORS: list[dict[str, Any]] = [
    vector
    for name in ("facts-4.5.json", "random.json")
    for vector in json.loads((DATA / "retention-vectors" / name).read_text())
    # Two hold only the server's "no rules": default 0 without branch rules is stored as none
    # (`lakefs-facts` 11.17).
    if "error" not in vector
]
ENTRIES = [
    pytest.param(name, index, id=f"{name}-{index}")
    for name in REPOSITORIES
    for index in range(len(expected(name).get("retention", [])))
    if name != "bare"
]


def ids(*args: Any, **options: Any) -> set[str]:
    return {retention.commit_id for retention in retained_commits(*args, **options)}


def repository_refs(name: str) -> Any:
    recorded = server(name)
    heads = {branch["id"]: branch["commit_id"] for branch in recorded["branches"]}
    tags = {tag["id"]: tag["commit_id"] for tag in recorded["tags"]}
    return recorded_refs(recorded["commits"], heads, tags)


def test_all_recorded_vectors_but_the_two_without_rules_are_there() -> None:
    assert len(VECTORS) == 32 + 120 - 2


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_every_vector_gives_the_servers_commits_and_those_it_lost_by_order(
    vector: dict[str, Any],
) -> None:
    refs = recorded_refs(vector["commits"], vector["branches"], vector["tags"])
    rules = rules_of(vector["rules"])
    now = datetime.fromtimestamp(vector["now_between"][1], UTC)
    ours = ids(refs, rules, now, clock_margin=EXACT, tags_protect=False)
    assert ours == set(vector["server_rows"]) | set(vector["mark_before_stop_extra"])
    assert as_the_server_walks(refs, rules, now) == set(vector["server_rows"])
    assert ids(refs, rules, now) >= ours


@pytest.mark.parametrize(("name", "index"), ENTRIES)
def test_every_recorded_repository_gives_the_servers_commits(name: str, index: int) -> None:
    entry = expected(name)["retention"][index]
    refs, rules = repository_refs(name), rules_of(entry["rules"])
    now = datetime.fromtimestamp(entry["now"], UTC)
    ours = ids(refs, rules, now, clock_margin=EXACT, tags_protect=False)
    assert ours == set(entry["retained_as_coded"]) | set(entry["retained_mark_before_stop_extra"])
    assert ids(refs, rules, now, clock_margin=EXACT) == ours | set(entry["tagged_extra"])
    if "server_rows" in entry:
        assert ours >= set(entry["server_rows"])


def test_a_bare_repository_refuses() -> None:
    entry = expected("bare")["retention"][0]
    with pytest.raises(RepositoryStateError, match="no commits"):
        retained_commits(repository_refs("bare"), rules_of(entry["rules"]), NOW)


def test_the_documents_example_on_2022_03_31() -> None:
    refs = repository_refs("docs-2022-03-31")
    rules = RetentionRules(14, {"main": 21, "dev": 7})
    now = datetime(2022, 3, 31, 7, 2, 38, tzinfo=UTC)
    days = {}
    for retention in retained_commits(refs, rules, now):
        commit = refs.commits[retention.commit_id]
        days[commit.creation_date.date().isoformat(), len(commit.parents)] = retention.reason
    assert days == {
        ("2022-03-09", 1): "main: its state 21 days before the mark",
        ("2022-03-12", 1): "main: within 21 days",
        ("2022-03-18", 1): "main: within 21 days",
        ("2022-03-23", 1): "head of dev",
        ("2022-03-24", 2): "main: within 21 days",
        ("2022-03-26", 1): "head of main",
    }


TWO_BRANCHES = "a:15 b:10(a) c:10(a) d:5(c) e:5(b) f:1(e)"
UPSTREAM = {
    "two branches": (TWO_BRANCHES, {"f": 7, "d": 3}, "b d e f"),
    "old heads": ("a:15 b:20 c:20(a) d:20(a)", {"b": 7, "c": 7, "d": 7}, "b c d"),
    "all commits active": (
        "a:5 b:4(a) c:3(b) d:2(b) e:1(b)",
        {"d": 15, "e": 7, "c": 2},
        "a b c d e",
    ),
    "merge": ("a:7 b:6(a) c:7 d:6(c,a)", {"b": 3, "d": 10}, "b c d"),
    "expired before": ("a:15 b:10(a) c:10(a) d:5(c) e:7(b) f:1(e)", {"f": 7, "d": 3}, "d e f"),
    "merge in history": (
        "e:21 d:20(e) f:19(e) c:18(e) b:17(d) a:4(c) g:4(b,e) h:3(a,f)",
        {"h": 14, "g": 7, "f": 7},
        "a b c f g h",
    ),
    "dangling and young": (f"{TWO_BRANCHES} g:8(c) h:7(g) i:4(h)", {"f": 7, "d": 3}, "b d e f h i"),
    "dangling and old": (f"{TWO_BRANCHES} g:8(c) h:7(g) i:6(h)", {"f": 7, "d": 3}, "b d e f"),
    "dangling from before": (
        "root:20 pre:20(root) e1:15(pre) b:10(e1) c:10(e1) d:5(c) e:8(b) f:1(e) g:10(root) h:6(g)",
        {"f": 7, "d": 3},
        "d e f",
    ),
    "head that is no leaf": (
        "root:20 x:14(root) head2:10(x) head1:9(head2)",
        {"head1": 9, "head2": 12},
        "head1 head2 x",
    ),
    "reached again": (
        (
            "ep1:8 ep2:8 e5:6(ep2) e4:7(ep1,ep2) e3:6(e5) e2:6(ep2) e1:7(e4) h1:1(e1) h2:1(e2) "
            "h3:1(e3)"
        ),
        {"h1": 5, "h2": 5, "h3": 5},
        "h1 h2 h3 e1 e2 e3",
    ),
}


@pytest.mark.parametrize("case", UPSTREAM)
def test_the_cases_of_the_servers_own_tests(case: str) -> None:
    commits, days, active = UPSTREAM[case]
    refs = graph(commits, branches={head: head for head in days})
    rules = RetentionRules(5, days)
    assert as_the_server_walks(refs, rules, NOW) == set(active.split())
    assert ids(refs, rules, NOW, clock_margin=EXACT) == set(active.split())


VERSION_0 = "A:9 B:8(A) X:9 M/0:1(X,B)"
FACTS = {
    "1": (LINE := "A:30 B:20(A) C:12(B) D:5(C)", {"main": "D"}, {"main": 10}, 99, "C D"),
    "2": ("A:20 B:10(A) C:3(B)", {"main": "C"}, {"main": 10}, 99, "B C"),
    "3": ("A:20 B:9.99(A) C:3(B)", {"main": "C"}, {"main": 10}, 99, "A B C"),
    "4": ("A:400 B:300(A)", {"main": "B"}, {}, 1, "B"),
    "5": ("A:2 B:1(A)", {"main": "B"}, {}, 0, "B"),
    "6a": ("A:9 B:8(A) X:2(A) M:1(B,X)", {"main": "M"}, {}, 5, "A B M X"),
    "6b": ("A:9 B:8(A) D:2(A) M:1(B,D)", {"main": "M"}, {}, 5, "A B D M"),
    "7": (
        "A:40 B:25(A) C:15(B) D:8(C)",
        {"main": "D", "rel": "C"},
        {"main": 10, "rel": 30},
        99,
        "A B C D",
    ),
    "8": ("A:20 B:12(A) C:6(B)", {"b1": "C", "b2": "C"}, {"b1": 7, "b2": 15}, 99, "A B C"),
    "9": ("R:30 M:2(R) X:9(R) Y:6(X)", {"main": "M"}, {}, 7, "M R X Y"),
    "10": ("R:30 M:2(R) X:9(R) Y:8(X)", {"main": "M"}, {}, 7, "M R"),
    "11": ("R:30 M:2(R) X:9(R) Y:8(X)", {"main": "M"}, {"gone": 365}, 7, "M R"),
    "13a": (VERSION_0, {"main": "M"}, {}, 5, "B M"),
    "13b": (VERSION_0.replace("/0", ""), {"main": "M"}, {}, 5, "M X"),
    "14": ("G:2 P:100(G) H:1(P)", {"main": "H"}, {"main": 7}, 99, "H P"),
    "15": ("R:500", {"main": "R"}, {}, 1, "R"),
    "16a": ("P:20 S1:12(P) S2:5(P)", {"b1": "S1", "b2": "S2"}, {}, 10, "P S1 S2"),
    "16b": ("P:20 S1:5(P) S2:12(P)", {"b1": "S1", "b2": "S2"}, {}, 10, "P S1 S2"),
    "17": ("P:20 S1:16(P) S2:5(P)", {"b1": "S1", "b2": "S2"}, {"b1": 3, "b2": 10}, 99, "P S1 S2"),
    "18": (
        "A:50 B:40(A) C:30(B) D:20(C) E:6(D)",
        {"main": "E", "old": "C"},
        {"main": 7, "old": 45},
        7,
        "A B C D E",
    ),
    "19a": ("A:12 B:9(A) C:3(B) D:4(B) E:1(A)", {"main": "E"}, {}, 5, "A B C D E"),
    "19b": ("A:12 B:9(A) C:3(B) D:4(B) 0:1(A)", {"main": "0"}, {}, 5, "0 A B C D"),
}


@pytest.mark.parametrize("number", FACTS)
def test_the_written_vectors_with_the_commits_that_order_cost_the_server(number: str) -> None:
    commits, heads, days, default, retained = FACTS[number]
    refs = graph(commits, branches=heads)
    assert ids(refs, RetentionRules(default, days), NOW, clock_margin=EXACT) == set(
        retained.split()
    )
