"""Random histories of plain dictionaries, and what a policy means in them, by its definition."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from spark_core.model import Branch, Commit, Refs
from spark_core.references.policies.canonical_names import Graph, lines, micros
from spark_core.references.policies.due import AT_HEAD, KEPT, RETAINED, Entry, Judge
from spark_core.references.policies.range_changes import CommitTables, compare, merged
from spark_core.references.policies.sightings import Sighting, gone_since

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
BUCKETS = 3


@dataclass
class World:
    """A repository as dictionaries: each commit has a tree of paths and addresses.

    `seen` has the moment of each stored run and the heads that it saw, None if it is damaged.
    """

    commits: dict[str, Commit] = field(default_factory=dict)
    trees: dict[str, dict[str, str]] = field(default_factory=dict)
    made_on: dict[str, str] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    seen: list[tuple[datetime, dict[str, str] | None]] = field(default_factory=list)
    written: dict[str, datetime] = field(default_factory=dict)
    now: datetime = BEGIN
    names: int = 0

    def __post_init__(self):
        self.commit("main", {}, [])

    def commit(self, branch, tree, parents, *, version=1):
        id_ = f"c{len(self.commits):03d}"
        stored = tuple(parents) if version else tuple(reversed(parents))
        self.commits[id_] = Commit(id_, stored, self.now, f"m-{id_}" if tree else "", version)
        self.trees[id_], self.made_on[id_] = dict(tree), branch
        self.heads[branch] = id_
        return id_

    def tree(self, branch):
        return dict(self.trees[self.heads[branch]])

    def upload(self, branch, path):
        address = f"data/a{len(self.written):03d}"
        self.written[address] = self.now
        self.commit(branch, {**self.tree(branch), path: address}, [self.heads[branch]])

    def copy(self, branch, path, to):
        tree = self.tree(branch)
        if path in tree:
            self.commit(branch, {**tree, to: tree[path]}, [self.heads[branch]])

    def remove(self, branch, path):
        tree = self.tree(branch)
        if tree.pop(path, None):
            self.commit(branch, tree, [self.heads[branch]])

    def branch(self, source):
        self.names += 1
        name = f"b{self.names}"
        self.heads[name] = self.heads[source]
        return name

    def delete(self, branch):
        if branch != "main":
            del self.heads[branch]

    def rename(self, branch):
        if branch != "main":
            self.branch(branch)
            self.delete(branch)

    def merge(self, source, into, *, version=1):
        if source != into:
            tree = {**self.tree(into), **self.tree(source)}
            self.commit(into, tree, [self.heads[into], self.heads[source]], version=version)

    def squash(self, source, into):
        if source != into:
            self.commit(into, {**self.tree(into), **self.tree(source)}, [self.heads[into]])

    def revert(self, branch):
        parents = self.commits[self.heads[branch]].parents
        if parents:
            self.commit(branch, self.trees[parents[0]], [self.heads[branch]])

    def cherry_pick(self, commit_id, branch):
        self.commit(branch, {**self.tree(branch), **self.trees[commit_id]}, [self.heads[branch]])

    def wait(self, days):
        self.now += days * DAY

    def run(self):
        self.seen.append((self.now, dict(self.heads)))

    # What follows is read by the engine.

    def refs(self):
        branches = tuple(Branch(name, id_) for name, id_ in self.heads.items())
        return Refs(dict(self.commits), branches, ())

    def graph(self):
        return Graph.of(self.refs())

    def lines(self, graph, order=()):
        return lines(
            graph,
            self.heads,
            default_branch="main",
            branch_order=order,
            seen=[heads for _, heads in self.seen if heads is not None],
        )

    def judge(self, policy, *, kept=(), retained=None, unreadable=(), order=(), margin=0):
        """Put together a judge and the entries of each address, as the engine does."""
        graph = self.graph()
        heads = set(self.heads.values())
        bits = [
            (AT_HEAD if id_ in heads else 0)
            | (RETAINED if retained is None or id_ in retained else 0)
            | (KEPT if id_ in kept else 0)
            for id_ in graph.ids
        ]
        gone = gone_since(graph, [Sighting(when, heads) for when, heads in self.seen])
        content: dict[str, dict[str, str]] = {}

        def ranges_of(metarange_id):
            id_ = metarange_id.removeprefix("m-")
            if id_ in unreadable:
                return None
            parts = defaultdict(dict)
            for path, address in self.trees[id_].items():
                parts[sum(path.encode()) % BUCKETS][path] = address
            found = {}
            for part in parts.values():
                range_id = repr(sorted(part.items()))
                content[range_id] = part
                found[range_id] = (range_id, len(part), min(part).encode())
            return found

        tables = [
            CommitTables(
                number,
                self.commits[id_].metarange_id,
                tuple(self.commits[parent].metarange_id for parent in self.commits[id_].parents),
                ""
                if self.commits[id_].main_parent is None
                else self.commits[self.commits[id_].main_parent].metarange_id,
                bits[number],
                int(gone.having[number]),
                int(gone.dropping[number]),
            )
            for number, id_ in enumerate(graph.ids)
        ]
        half = len(tables) // 2
        history = merged([compare(tables[half:], ranges_of), compare(tables[:half], ranges_of)])
        entries = defaultdict(lambda: defaultdict(list))
        for number, (range_id, _, _) in enumerate(history.ranges):
            for path, address in content[range_id].items():
                entries[address][path].append(number)
        judge = Judge(
            policy,
            graph,
            self.lines(graph, order),
            history.changes,
            history.unread,
            micros(self.now) - margin,
        )
        return judge, {
            address: [
                Entry(path.encode(), micros(self.written[address]), tuple(numbers))
                for path, numbers in sorted(paths.items())
            ]
            for address, paths in entries.items()
        }

    # The oracle: definitions, and no code of the engine.

    def ancestors(self, id_):
        found, left = set(), list(self.commits[id_].parents)
        while left:
            parent = left.pop()
            if parent not in found:
                found.add(parent)
                left += self.commits[parent].parents
        return found

    def introductions(self, path, address):
        have = {id_ for id_, tree in self.trees.items() if tree.get(path) == address}
        return {id_ for id_ in have if not self.ancestors(id_) & have}

    def line(self, branch):
        found, at = [], self.heads[branch]
        while at:
            found.append(at)
            parents = self.commits[at].parents
            main = parents and (parents[0] if self.commits[at].version else parents[-1])
            at = main or None
        return found

    def is_due(self, policy, owner_of, address, *, kept=()):
        """Say by the words of the document whether an object may go."""
        named = defaultdict(set)
        for id_, tree in self.trees.items():
            for path, one in tree.items():
                if one == address:
                    named[path].add(id_)
        if any(id_ in kept for ids in named.values() for id_ in ids):
            return False
        is_current = any(id_ in self.heads.values() for ids in named.values() for id_ in ids)
        gone = None if is_current else self.gone_since(set().union(*named.values()))
        for path in named:
            for id_ in self.introductions(path, address):
                owner = owner_of(id_)
                start = max(self.written[address], self.commits[id_].creation_date)
                since = None if gone is None else max(start, gone)
                ends = [
                    begin + rule.periods[action].length
                    for rule in policy.rules
                    if rule.is_enabled
                    and (
                        rule.branch is None or (rule.branch == owner and path.startswith(rule.path))
                    )
                    for action, begin in (("all", start), ("noncurrent", since))
                    if begin is not None and action in rule.periods
                ]
                if not ends or min(ends) > self.now:
                    return False
        return True

    def gone_since(self, have):
        """Tell which stored run was the first when no head showed an object any more, its last loss
        past; None: no run tells it.
        """
        mains = {c.id: c.main_parent for c in self.commits.values()}
        touched = [id_ for id_, main in mains.items() if id_ in have or main in have]
        known = max(self.commits[id_].creation_date for id_ in touched)
        found = None
        for when, heads in self.seen:
            if heads is None or have & set(heads.values()) or not set(heads.values()) <= set(mains):
                found = None
            elif found is None and when >= known:
                found = when
        return found
