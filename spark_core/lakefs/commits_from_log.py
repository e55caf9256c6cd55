"""Read commits from the log, along their parents, down to commits that are already known.

This reads the whole graph where there is no refs dump. It also reads the commits that a dump lacks
because they landed while the dump was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from spark_core.errors import IncompleteReadError, NotFoundError
from spark_core.lakefs.server import LakeFSServer
from spark_core.model import Branch, Commit, Refs, Tag

# Most branches differ from those walked before by a few commits. The first branch is read in the
# longest pages that the server allows.
_SHORT_PAGE = 100
_LONG_PAGE = 1_000


def walk_refs(server: LakeFSServer, repository_id: str, *, also: Iterable[str] = ()) -> Refs:
    """Read every commit that a branch, hidden or not, or a tag reaches.

    A dump holds more: this does not find commits that nothing leads to any more,
    such as those of deleted branches. The caller must take them from the server's
    own list.

    The graph is whole when it holds each branch's and tag's commit and every parent
    of every commit in it. Only that ends the walk, not the end of a list. The server
    continues a list after a commit that it looks up in its cache, and after a
    cherry-pick that look-up can lead elsewhere, where the list is empty.

    Args:
        server: The server.
        repository_id: Repository name.
        also: More commit ids to begin at, such as those under a hold.

    Returns:
        The commits that are reached, all branches and all tags.

    Raises:
        IncompleteReadError: If a commit cannot be reached, or is not the same in two answers.
        PermissionDeniedError: If the user may not list branches or tags, or read a branch's log.

    References:
        `lakefs-facts` 11.42; lakeFS v1.84 pkg/graveler/ref/commit_iterator.go, resolve_ref.go.
    """
    branches, tags = server.branches(repository_id), server.tags(repository_id)
    refs: list[Branch | Tag] = [*branches, *tags]
    walk = _Walk(server, repository_id)
    for ref in refs:
        if ref.commit_id not in walk.commits:
            walk.follow_name(ref.id)
    # Heads of branches that moved or vanished since they were listed, and commits missing from a
    # list that broke off.
    named = {ref.commit_id for ref in refs}.union(also)
    while left := walk.missing | (named - walk.commits.keys()):
        walk.follow_commit(min(left))
    return Refs(walk.commits, tuple(branches), tuple(tags))


def complete_refs(server: LakeFSServer, repository_id: str, refs: Refs) -> Refs:
    """Add the commits that a dump lacks although its heads, tags or parents name them.

    An asynchronous dump reads commits first and branches and tags last, so every
    commit that lands in between is missing from it (`lakefs-facts` 3.3). First the
    log of the branch or tag that names the commit is read, down to the first known
    commit. Only then the log of the commit by its id is read, because the server may
    answer about another commit (11.42); an answer counts only by its own id. Branches
    and tags stay as the dump has them; the next reading sees those that moved since.

    This makes one or two calls for each head that the dump lacks.

    Args:
        server: The server.
        repository_id: Repository name.
        refs: The refs of a dump.

    Returns:
        The same refs with the commits added; some may have landed after the dump.

    Raises:
        IncompleteReadError: If a commit cannot be reached, or is not the one that the dump has.
        PermissionDeniedError: If the user may not read a log.
    """
    walk = _Walk(server, repository_id, refs.commits)
    pointers: list[Branch | Tag] = [*refs.branches, *refs.tags]
    for pointer in pointers:
        if pointer.commit_id not in walk.commits:
            walk.follow_name(pointer.id)
    named = {pointer.commit_id for pointer in pointers}
    named.update(parent for commit in refs.commits.values() for parent in commit.parents)
    while left := walk.missing | (named - walk.commits.keys()):
        walk.follow_commit(min(left))
    return Refs(walk.commits, refs.branches, refs.tags)


class _Walk:
    """The known part of the graph, and the parents that it still lacks."""

    def __init__(
        self, server: LakeFSServer, repository_id: str, known: Mapping[str, Commit] | None = None
    ) -> None:
        self._server = server
        self._repository_id = repository_id
        self.commits: dict[str, Commit] = dict(known or {})
        self.missing: set[str] = set()

    def follow_name(self, ref: str) -> None:
        """Add the commits that a branch or tag reaches."""
        try:
            self._follow(ref)
        except NotFoundError:
            # It was deleted since it was listed. The commit that it named is then read by its id.
            return

    def follow_commit(self, commit_id: str) -> None:
        """Add a commit and the commits that it reaches.

        Raises:
            IncompleteReadError: If the server does not know it, or answers about another commit.
        """
        try:
            self._follow(commit_id)
        except NotFoundError as error:
            raise self._unreached(commit_id, error.found) from error
        if commit_id not in self.commits:
            raise self._unreached(commit_id, "the server answered about other commits")

    def _follow(self, ref: str) -> None:
        page = _SHORT_PAGE if self.commits else _LONG_PAGE
        for commit in self._server.log(self._repository_id, ref, first_page=page):
            self._add(commit)
            if not self.missing:
                return

    def _add(self, commit: Commit) -> None:
        known = self.commits.setdefault(commit.id, commit)
        if _comparable(known) != _comparable(commit):
            raise IncompleteReadError(
                f"commit {commit.id} of repository {self._repository_id} differs between two "
                f"answers of the server ({known} and {commit}), and a commit never changes",
                "Run again; if it stays, give the user fs:ListCommits, so that the commits are "
                "read from a dump, and report the server's version.",
            )
        self.missing.discard(commit.id)
        self.missing.update(parent for parent in commit.parents if parent not in self.commits)

    def _unreached(self, commit_id: str, why: str) -> IncompleteReadError:
        return IncompleteReadError(
            f"commit {commit_id} of repository {self._repository_id} is named by a branch, a tag, "
            f"a hold or another commit, and cannot be read ({why}); its objects would look "
            "unreachable",
            "After a cherry-pick the server answers so for some ten minutes: run again later, or "
            "give the user fs:ListCommits, so that the commits are read from a dump.",
        )


def _comparable(commit: Commit) -> Commit:
    """Return only what both a log and a dump hold: whole seconds, and no field of new servers."""
    return replace(commit, creation_date=commit.creation_date.replace(microsecond=0), generation=0)
