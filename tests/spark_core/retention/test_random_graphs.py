"""The retention decision on thousands of random commit graphs, against the documented rule.

The oracle is plain dictionaries and sets: it walks every line to its end,
and shares nothing with the engine, neither the walk nor its model.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from spark_core.model import Branch, Commit, Refs, RetentionRules, Tag
from spark_core.retention import DEFAULT_RULE, retained_commits, sole_keepers

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MARGINS = (timedelta(0), timedelta(hours=1))
BRANCHES = ("main", "dev", "rel", "b1", "b2", "b3", "b4", "b5", "b6", "b7")

# Graphs tried in the default tests and in the deep ones; each against both margins.
GRAPHS, DEEP_GRAPHS = 400, 100_000


@dataclass(frozen=True)
class Graph:
    """A commit graph in plain values.

    Attributes:
        parents: Commit -> its parents in order.
        version: Commit -> version: 0 has its main parent last.
        created: Commit -> when it was made.
        heads: Branch -> commit.
        tags: Tag -> commit.
        default: Days of branches without a rule.
        days: Days by branch.
        margin: Taken off every threshold.
    """

    parents: dict[str, list[str]]
    version: dict[str, int]
    created: dict[str, datetime]
    heads: dict[str, str]
    tags: dict[str, str]
    default: int
    days: dict[str, int]
    margin: timedelta

    @property
    def refs(self) -> Refs:
        """The graph as the engine reads it."""
        return Refs(
            {
                name: Commit(
                    name,
                    tuple(self.parents[name]),
                    self.created[name],
                    f"m{name}",
                    self.version[name],
                )
                for name in self.parents
            },
            tuple(Branch(*at) for at in self.heads.items()),
            tuple(Tag(*at) for at in self.tags.items()),
        )

    def main(self, name: str) -> str | None:
        parents = self.parents[name]
        return None if not parents else parents[0] if self.version[name] else parents[-1]

    def threshold(self, branch: str | None) -> datetime:
        days = self.default if branch is None else self.days.get(branch, self.default)
        return NOW - timedelta(days=days) - self.margin

    def lines(self) -> list[tuple[str, str | None]]:
        """Where a line of main parents begins: at a branch, or at a commit that none leads to."""
        led_to = {self.main(name) for name in self.parents} | set(self.heads.values())
        return [(commit, branch) for branch, commit in self.heads.items()] + [
            (name, None) for name in self.parents if name not in led_to
        ]


def random_graph(chance: Random, margin: timedelta) -> Graph:
    """Make a graph of up to 16 commits, with merges, several roots and dates at every threshold.

    It has any number of branches and of lines without a branch.
    """
    names = [
        f"{chance.randrange(16**4):04x}{number:x}" for number in range(chance.randrange(1, 17))
    ]
    days = {branch: chance.randrange(-1, 12) for branch in BRANCHES if chance.random() < 0.4}
    default = chance.randrange(12)
    parents: dict[str, list[str]] = {}
    created: dict[str, datetime] = {}
    # A line that goes on is more usual than a fork: from far back or from the commit just made.
    for at, name in enumerate(names):
        behind = [names[at - 1]] if at and chance.random() < 0.5 else []
        behind += chance.sample(names[:at], min(at, chance.choice([0, 0, 1, 1, 2])))
        parents[name] = list(dict.fromkeys(behind))
        limit = chance.choice([default, *days.values()])
        off = chance.choice(
            [timedelta(0), MICROSECOND, -MICROSECOND, timedelta(hours=1), -timedelta(hours=30)]
        )
        boundary = NOW - timedelta(days=limit) - chance.choice(MARGINS) + off
        anywhere = NOW - timedelta(days=chance.uniform(-2, 14))
        created[name] = boundary if chance.random() < 0.6 else anywhere
    some = chance.sample(BRANCHES, chance.randrange(1, len(BRANCHES) + 1))
    return Graph(
        parents=parents,
        version={name: chance.choice([0, 1, 1, 1]) for name in names},
        created=created,
        heads={branch: chance.choice(names) for branch in some},
        tags={tag: chance.choice(names) for tag in ("v1", "v2") if chance.random() < 0.3},
        default=default,
        days=days,
        margin=margin,
    )


def by_definition(graph: Graph) -> set[str]:
    """Return every head, and on every line each commit whose child is young.

    A young commit that begins a line without a branch is retained, too.
    """
    kept = set(graph.heads.values())
    for start, branch in graph.lines():
        threshold = graph.threshold(branch)
        if branch is None and graph.created[start] > threshold:
            kept.add(start)
        child = start
        while (parent := graph.main(child)) is not None:
            if graph.created[child] > threshold:
                kept.add(parent)
            child = parent
    return kept


def keepers_by_definition(graph: Graph) -> dict[str, set[str]]:
    """Return who keeps each commit that is kept, tags left out."""
    found: dict[str, set[str]] = {}
    for start, branch in graph.lines():
        name = DEFAULT_RULE if branch is None else f"branch {branch}"
        threshold = graph.threshold(branch)
        if branch is not None or graph.created[start] > threshold:
            found.setdefault(start, set()).add(name)
        child = start
        while (parent := graph.main(child)) is not None:
            if graph.created[child] > threshold:
                found.setdefault(parent, set()).add(name)
            child = parent
    return found


def as_a_server_walks(graph: Graph, lines: list[tuple[str, str | None]]) -> set[str]:
    """Return what the server's own steps retain when it takes the lines in this order.

    A line ends where a longer one passed.
    """
    passed: dict[str, datetime] = {}
    kept: set[str] = set()
    for start, branch in lines:
        threshold, before = graph.threshold(branch), graph.created[start]
        at: str | None = start
        if branch is not None:
            kept.add(start)
            passed[start] = threshold
            at = graph.main(start)
        while at is not None and not (at in passed and passed[at] <= threshold):
            if before > threshold:
                kept.add(at)
            passed[at] = threshold
            before, at = graph.created[at], graph.main(at)
    return kept


def require_right(graph: Graph, chance: Random) -> int:
    """Compare one graph; returns how many commits some order of the server's lost."""
    refs, rules = graph.refs, RetentionRules(graph.default, graph.days)
    found = {
        one.commit_id
        for one in retained_commits(refs, rules, NOW, clock_margin=graph.margin, tags_protect=False)
    }
    wanted = by_definition(graph)
    assert found == wanted, graph
    with_tags = {
        one.commit_id for one in retained_commits(refs, rules, NOW, clock_margin=graph.margin)
    }
    assert with_tags == wanted | set(graph.tags.values()), graph
    keepers = keepers_by_definition(graph)
    margin = {"clock_margin": graph.margin}
    alone = sole_keepers(refs, rules, NOW, also_kept=(), tags_protect=False, **margin)
    assert alone.keys() == keepers.keys() == wanted, graph
    for commit, names in keepers.items():
        assert alone[commit] == (min(names) if len(names) == 1 else None), graph
    for tag, commit in graph.tags.items():
        keepers.setdefault(commit, set()).add(f"tag {tag}")
    alone = sole_keepers(refs, rules, NOW, also_kept=(), **margin)
    for commit, names in keepers.items():
        assert alone[commit] == (min(names) if len(names) == 1 else None), graph
    last = len(graph.parents) % 4
    for branch, head in graph.heads.items():
        at = head
        for _ in range(last):
            if at is not None:
                keepers.setdefault(at, set()).add(f"branch {branch}")
                at = graph.main(at)
    alone = sole_keepers(refs, rules, NOW, also_kept=(), keep_last=last, **margin)
    assert alone.keys() == keepers.keys(), graph
    for commit, names in keepers.items():
        assert alone[commit] == (min(names) if len(names) == 1 else None), graph
    assert not any(sole_keepers(refs, None, NOW, also_kept=()).values())
    assert not any(sole_keepers(refs, rules, NOW, also_kept=set(graph.parents)).values())
    lost = 0
    lines = sorted(graph.lines(), key=lambda line: line[0])
    for _ in range(3):
        servers = as_a_server_walks(graph, lines)
        assert servers <= found, (graph, lines)
        lost += len(found - servers)
        chance.shuffle(lines)
    assert {one.commit_id for one in retained_commits(refs, None, NOW)} == set(graph.parents)
    return lost


def search(graphs: int, seed: int, record_property) -> None:
    chance, began = Random(seed), time.monotonic()
    lost = commits = kept = 0
    for number in range(graphs):
        graph = random_graph(chance, MARGINS[number % 2])
        lost += require_right(graph, chance)
        commits += len(graph.parents)
        kept += len(by_definition(graph))
    # Without these the comparison would say little: everything kept, nothing kept, or no order that
    # matters.
    assert lost > graphs / 100
    assert 0.2 < kept / commits < 0.9
    record_property(
        "figures",
        f"retention: {graphs} random graphs of {commits} commits, {kept} retained, seed {seed}, "
        f"in {time.monotonic() - began:.0f} s",
    )


def test_random_graphs_are_decided_as_the_rule_is_written(record_property):
    search(GRAPHS, Random().randrange(10**6), record_property)


@pytest.mark.deep
def test_many_random_graphs_are_decided_as_the_rule_is_written(record_property):
    search(DEEP_GRAPHS, Random().randrange(10**6), record_property)
