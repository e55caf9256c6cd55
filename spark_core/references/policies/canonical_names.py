"""The canonical name of an object: the branch and the path under which it was committed.

An entry (path and address) is *introduced* by a commit that has it and none of whose ancestors has
it. Several commits can introduce one entry; each gives it a name. A commit belongs to a branch only
in two cases:

- The branch is the first of the operator's `branch_order` whose first-parent chain (main line) has
  the commit.
- The commit is on this main line alone, and a stored run saw the branch's head at an ancestor of it
  on that line, which was on this main line alone then and is now.

Otherwise the branch is undecided, and only a rule without a prefix takes the entry.

Why, and what the second case cannot see: `docs/decisions/words-of-policies.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from spark_core.errors import IncompleteReadError
from spark_core.jit import compiled
from spark_core.model import Refs

# The date of a commit without a credible one: later than any due date.
NEVER = np.iinfo(np.int64).max // 4

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NONE, _SEVERAL = -1, -2
# Masks of descendants that a process keeps; each has a byte for each commit.
_MASKS = 512


@compiled
def _mark_descendants(
    begins: NDArray[np.int64], parents: NDArray[np.int64], first: int, mask: NDArray[np.uint8]
) -> None:
    mask[first] = 1
    for commit in range(first + 1, mask.size):
        for at in range(begins[commit], begins[commit + 1]):
            if mask[parents[at]] == 1:
                mask[commit] = 1
                break


def warm_up() -> None:
    """Compile or load the loop before a policy is the first to need it."""
    _mark_descendants(np.zeros(2, np.int64), np.zeros(0, np.int64), 0, np.zeros(1, np.uint8))


@dataclass
class Graph:
    """The commits of a repository by number: each has a greater number than its parents.

    Attributes:
        ids: Commit ids.
        parents: Parents of all commits; in `begins` stands where those of a commit begin.
        begins: One more than there are commits.
        main: Main parent of each commit, -1 for none.
        dates: Microseconds since 1970; `NEVER` for a date that no calendar has.
    """

    ids: tuple[str, ...]
    parents: NDArray[np.int64]
    begins: NDArray[np.int64]
    main: NDArray[np.int64]
    dates: NDArray[np.int64]
    _masks: dict[int, NDArray[np.uint8]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, refs: Refs) -> Graph:
        """Number the commits of refs that are known to be whole.

        Raises:
            IncompleteReadError: If a parent is missing, or commits are their own ancestors.
        """
        waiting = {}
        children: dict[str, list[str]] = {id_: [] for id_ in refs.commits}
        for commit in refs.commits.values():
            waiting[commit.id] = len(set(commit.parents))
            for parent in set(commit.parents):
                if parent not in children:
                    raise IncompleteReadError(
                        f"commit {commit.id} has the parent {parent}, which was not read"
                    )
                children[parent].append(commit.id)
        ready = sorted((id_ for id_, count in waiting.items() if not count), reverse=True)
        ids: list[str] = []
        while ready:
            ids.append(ready.pop())
            for child in sorted(children[ids[-1]], reverse=True):
                waiting[child] -= 1
                if not waiting[child]:
                    ready.append(child)
        if len(ids) < len(refs.commits):
            raise IncompleteReadError("the commits that were read are their own ancestors")
        number = {id_: at for at, id_ in enumerate(ids)}
        commits = [refs.commits[id_] for id_ in ids]
        return cls(
            ids=tuple(ids),
            parents=np.array(
                [number[parent] for commit in commits for parent in commit.parents], np.int64
            ),
            begins=np.cumsum([0, *(len(commit.parents) for commit in commits)], dtype=np.int64),
            main=np.array(
                [-1 if c.main_parent is None else number[c.main_parent] for c in commits], np.int64
            ),
            dates=np.array(
                [micros(c.creation_date) if c.is_dated else NEVER for c in commits], np.int64
            ),
        )

    def __getstate__(self) -> dict[str, object]:
        """Leave out what a process can compute."""
        return {**self.__dict__, "_masks": {}}

    def parents_of(self, commit: int) -> list[int]:
        """Return the parents of a commit."""
        return [int(at) for at in self.parents[self.begins[commit] : self.begins[commit + 1]]]

    def line(self, head: int) -> Iterable[int]:
        """Yield the main line of a head, the head first."""
        while head >= 0:
            yield head
            head = int(self.main[head])

    def is_descendant(self, commit: int, of: int) -> bool:
        """Say whether a commit is another one or descends from it, by all parents."""
        if commit <= of:
            return commit == of
        mask = self._masks.get(of)
        if mask is None:
            if len(self._masks) >= _MASKS:
                self._masks.pop(next(iter(self._masks)))
            mask = self._masks[of] = np.zeros(len(self.ids), np.uint8)
            _mark_descendants(self.begins, self.parents, of, mask)
        return bool(mask[commit])

    def minimal(self, commits: Iterable[int]) -> tuple[int, ...]:
        """Return the commits that descend from no other of them, in order."""
        found: list[int] = []
        for commit in sorted(set(commits)):
            if not any(self.is_descendant(commit, of) for of in found):
                found.append(commit)
        return tuple(found)


@dataclass(frozen=True)
class Lines:
    """Which commit belongs to which branch.

    Attributes:
        branches: Names of the branches.
        owner: For each commit the number of its branch, -1 if that is undecided.
    """

    branches: tuple[str, ...]
    owner: NDArray[np.int64]

    def branch_of(self, commit: int) -> str | None:
        """Return the branch to which a commit belongs; None if it is undecided."""
        owner = int(self.owner[commit])
        return None if owner < 0 else self.branches[owner]


def lines(
    graph: Graph,
    heads: Mapping[str, str],
    *,
    default_branch: str,
    branch_order: Sequence[str],
    seen: Iterable[Mapping[str, str]],
) -> Lines:
    """Tell the branch of each commit; see the top of this module.

    The cost grows with commits times stored runs, not with branches.

    Args:
        graph: All commits.
        heads: Commit id of each branch's head.
        default_branch: The default branch.
        branch_order: Branches of which the operator vouches.
        seen: Heads that stored runs saw, by branch.
    """
    number = {id_: at for at, id_ in enumerate(graph.ids)}
    branches = tuple(sorted(heads))
    of_branch = {branch: at for at, branch in enumerate(branches)}
    now = [number[heads[branch]] for branch in branches]
    owner = np.full(len(graph.ids), _NONE, np.int64)
    ordered = [*(() if default_branch in branch_order else (default_branch,)), *branch_order]
    for branch in ordered:
        if branch in of_branch:
            for commit in graph.line(now[of_branch[branch]]):
                if owner[commit] != _NONE:
                    break
                owner[commit] = of_branch[branch]
    for branch, commit in _oldest_seen(graph, of_branch, now, number, seen).items():
        for above in graph.line(now[branch]):
            if above == commit:
                break
            if owner[above] == _NONE:
                owner[above] = branch
    return Lines(branches, owner)


def _oldest_seen(
    graph: Graph,
    of_branch: Mapping[str, int],
    now: Sequence[int],
    number: Mapping[str, int],
    seen: Iterable[Mapping[str, str]],
) -> dict[int, int]:
    """Return for a branch the oldest commit, its alone then and now, where a run saw its head."""
    alone_now = _alone(graph, list(enumerate(now)))
    oldest: dict[int, int] = {}
    for then in seen:
        if any(commit_id not in number for commit_id in then.values()):
            # Which main lines there were cannot be told any more.
            continue
        # Branches that are gone by now have numbers of their own.
        known = [
            (of_branch.get(branch, len(now) + at), number[commit_id])
            for at, (branch, commit_id) in enumerate(sorted(then.items()))
        ]
        alone_then = _alone(graph, known)
        for branch, commit in known:
            if branch < len(now) and alone_then[commit] == alone_now[commit] == branch:
                oldest[branch] = min(oldest.get(branch, commit), commit)
    return oldest


def micros(instant: datetime) -> int:
    """Return an instant as microseconds since 1970."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def _alone(graph: Graph, heads: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Return for each commit the only branch whose main line has it, else a negative number."""
    found = np.full(len(graph.ids), _NONE, np.int64)
    for branch, head in heads:
        found[head] = branch if found[head] in (_NONE, branch) else _SEVERAL
    for commit in range(len(found) - 1, -1, -1):
        below, mine = graph.main[commit], found[commit]
        if below >= 0 and mine != _NONE:
            found[below] = mine if found[below] in (_NONE, mine) else _SEVERAL
    return found
