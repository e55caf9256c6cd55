"""Read commits by the log: along the parents, to what is known already.

The whole graph where there is no refs dump, and what a dump lacks because it landed while the dump was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from spark_core.errors import IncompleteReadError, NotFoundError
from spark_core.lakefs.server import LakeFSServer
from spark_core.model import Branch, Commit, Refs, Tag

# Most branches differ from those walked before by a few commits; the first one is read in the longest pages there are.
_SHORT_PAGE = 100
_LONG_PAGE = 1_000


def walk_refs(server: LakeFSServer, repository_id: str, *, also: Iterable[str] = ()) -> Refs:
    """Read every commit that a branch, hidden or not, or a tag reaches.

    A dump holds more: commits that nothing leads to any more, such as those of
    deleted branches, are not found here. Whoever uses the result has to take
    them from the server's own list.

    The graph counts as whole once it holds each branch's and tag's commit and
    every parent of every commit in it. Only that ends the walk, not the end of a
    list: the server goes on behind a commit that it looks up in its cache, and
    after a cherry-pick that look-up can lead elsewhere, where the list is empty.

    Args:
        server: The server.
        repository_id: Repository name.
        also: Commit ids to begin at besides, such as those that somebody holds.

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
    # Branches that moved or vanished since they were listed, and what a list that broke off left out.
    named = {ref.commit_id for ref in refs}.union(also)
    while left := walk.missing | (named - walk.commits.keys()):
        walk.follow_commit(min(left))
    return Refs(walk.commits, tuple(branches), tuple(tags))


def complete_refs(server: LakeFSServer, repository_id: str, refs: Refs) -> Refs:
    """Add to a dump the commits that its heads, tags and parents name and that it lacks.

    An asynchronous dump reads commits first and branches and tags last, so each
    commit that lands in between is missing from it (`lakefs-facts` 3.3), and
    more than one where it takes long. The log of the branch or tag that names
    one is asked, down to the first known commit, and only then the log of the
    commit by its id, which may be answered about another commit (11.42); an
    answer counts only by the id that it has itself. Branches and tags stay as
    the dump has them: those that moved since are the next reading's.

    The calls are one or two for each head that the dump lacks.

    Args:
        server: The server.
        repository_id: Repository name.
        refs: As a dump has them.

    Returns:
        The same with the commits added; commits that landed after the dump may be among them.

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
    """The graph as far as it is known, and the parents that it still lacks."""

    def __init__(self, server: LakeFSServer, repository_id: str, known: Mapping[str, Commit] | None = None) -> None:
        self._server = server
        self._repository_id = repository_id
        self.commits: dict[str, Commit] = dict(known or {})
        self.missing: set[str] = set()

    def follow_name(self, ref: str) -> None:
        """Add what a branch or tag reaches."""
        try:
            self._follow(ref)
        except NotFoundError:
            # Deleted since it was listed: the commit that it named then is asked for by its own id.
            return

    def follow_commit(self, commit_id: str) -> None:
        """Add what a commit reaches, itself first.

        Raises:
            IncompleteReadError: If the server does not know it, or answers with another one.
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
        if _as_told(known) != _as_told(commit):
            raise IncompleteReadError(
                f"commit {commit.id} of repository {self._repository_id} differs between two answers of the server ({known} "
                f"and {commit}), and a commit never changes",
                "Run again; if it stays, give the user "
                "fs:ListCommits, so that the commits are read from a dump, and report the server's version.",
            )
        self.missing.discard(commit.id)
        self.missing.update(parent for parent in commit.parents if parent not in self.commits)

    def _unreached(self, commit_id: str, why: str) -> IncompleteReadError:
        return IncompleteReadError(
            f"commit {commit_id} of repository {self._repository_id} is named by a branch, a tag, a hold or another commit, and cannot "
            f"be read ({why}); its objects would look unreachable",
            "After a cherry-pick the server "
            "answers so for some ten minutes: run again later, or give the user fs:ListCommits, so that the commits are "
            "read from a dump.",
        )


def _as_told(commit: Commit) -> Commit:
    """Return a commit as both a log and a dump tell it: in whole seconds, and without what only new servers tell."""
    return replace(commit, creation_date=commit.creation_date.replace(microsecond=0), generation=0)
