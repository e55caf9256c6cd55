"""The commit graph: whether it is whole, in which order it is walked, and what refs point at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from spark_core.errors import IncompleteReadError, RepositoryStateError
from spark_core.model import Branch, Refs, Tag


def require_whole(refs: Refs) -> None:
    """Refuse a graph that is empty or lacks a commit that something in it names.

    If a commit lands while the refs are being dumped, the dump may lack the head of
    a branch. Reading again solves that.

    Raises:
        RepositoryStateError: If there is no commit or no branch at all.
        IncompleteReadError: If a parent, head or tagged commit is missing.
    """
    for what, found in (("commits", len(refs.commits)), ("branches", len(refs.branches))):
        if found == 0:
            raise RepositoryStateError(
                f"the repository's refs hold no {what}, at least one was expected: it is bare, "
                "being deleted, or was not read",
                "Look at the repository on the server and run again if it lives.",
            )
    named = [(branch.commit_id, f"the head of branch {branch.id}") for branch in refs.branches]
    named += [(tag.commit_id, f"the commit of tag {tag.id}") for tag in refs.tags]
    for commit_id, role in named:
        if commit_id not in refs.commits:
            raise _missing(commit_id, role, refs)
    for commit in refs.commits.values():
        for parent in commit.parents:
            if parent not in refs.commits:
                raise _missing(parent, f"a parent of {commit.id}", refs)


def _missing(commit_id: str, role: str, refs: Refs) -> IncompleteReadError:
    return IncompleteReadError(
        f"commit {commit_id}, {role}, is not among the {len(refs.commits)} commits that were read",
        "A commit made while the refs were being dumped looks like this: run again; if it is "
        "still missing, the repository is damaged.",
    )


def children_first(refs: Refs, position: dict[str, int]) -> list[int]:
    """Order the commits so that each comes after all of its children.

    Raises:
        IncompleteReadError: If the graph has a cycle.
    """
    parents = [[position[parent] for parent in commit.parents] for commit in refs.commits.values()]
    children_left = [0] * len(parents)
    for own in parents:
        for parent in own:
            children_left[parent] += 1
    order = [at for at, left in enumerate(children_left) if left == 0]
    # The list grows while it is read. It is the queue, and at the end the order.
    for at in order:
        for parent in parents[at]:
            children_left[parent] -= 1
            if children_left[parent] == 0:
                order.append(parent)
    if len(order) < len(parents):
        stuck = min(commit_id for commit_id, at in position.items() if children_left[at])
        raise IncompleteReadError(
            f"commit {stuck} is among its own ancestors or above such a commit: the commit graph "
            "has a cycle, which no lakeFS repository has",
            "Read the refs dump again; if it stays, the repository is damaged.",
        )
    return order


def names_by_commit(refs: Iterable[Branch | Tag]) -> dict[str, list[str]]:
    """Group the names of refs by the commit they point at, sorted."""
    names: dict[str, list[str]] = defaultdict(list)
    for ref in sorted(refs, key=lambda ref: ref.id):
        names[ref.commit_id].append(ref.id)
    return dict(names)


def last_commits(refs: Refs, heads: Mapping[str, Sequence[str]], count: int) -> dict[str, str]:
    """Return the last commits of every branch, and whose each of them is; a branch counts once.

    Branches are followed side by side, each one main parent further at a time, and end where
    another one was before: it follows the same line no later. So no commit is visited twice.
    """
    found: dict[str, str] = {}
    line = {commit_id: names[0] for commit_id, names in sorted(heads.items(), key=itemgetter(1))}
    for _ in range(count):
        found.update(line)
        parents = ((refs.commits[commit_id].main_parent, name) for commit_id, name in line.items())
        line = dict[str, str]()
        for parent, name in parents:
            if parent is not None and parent not in found:
                line.setdefault(parent, name)
        if not line:
            break
    return found
