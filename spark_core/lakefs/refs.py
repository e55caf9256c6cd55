"""List the branches and tags of a repository, and the commits that a ref reaches."""

from __future__ import annotations

from collections.abc import Iterator

from spark_core.did_you_mean import did_you_mean
from spark_core.errors import NotFoundError
from spark_core.graveler.table_format import COMMIT_VERSIONS, LAKEFS_CHECKED
from spark_core.lakefs.answer_types import LoggedCommit
from spark_core.lakefs.answers import Body, unreadable
from spark_core.lakefs.calls import Call
from spark_core.lakefs.server_calls import PAGE, ServerCalls
from spark_core.lakefs.transport import Transport
from spark_core.model import Branch, Commit, Tag


class NoSuchRefError(NotFoundError):
    """The server knows no ref of a name; what is known elsewhere may still answer a question."""


class RefsCalls(ServerCalls):
    """The calls about branches, tags and commits."""

    def __init__(self, transport: Transport) -> None:
        from lakefs_sdk.api.branches_api import BranchesApi
        from lakefs_sdk.api.refs_api import RefsApi
        from lakefs_sdk.api.tags_api import TagsApi

        super().__init__(transport)
        self._branches = BranchesApi(transport.client)
        self._refs = RefsApi(transport.client)
        self._tags = TagsApi(transport.client)

    def branches(self, repository_id: str) -> list[Branch]:
        """List every branch, hidden ones too."""
        call = self._on(repository_id, "list_branches", "branches", "fs:ListBranches")
        listed = self._listed(
            call, self._branches.list_branches_with_http_info, repository_id, show_hidden=True
        )
        return [Branch(body.text("id"), body.text("commit_id")) for body in listed]

    def tags(self, repository_id: str) -> list[Tag]:
        """List every tag."""
        call = self._on(repository_id, "list_tags", "tags", "fs:ListTags")
        listed = self._listed(call, self._tags.list_tags_with_http_info, repository_id)
        return [Tag(body.text("id"), body.commit_id("commit_id")) for body in listed]

    def log(self, repository_id: str, ref: str, *, first_page: int = PAGE) -> Iterator[Commit]:
        """List the commits that a ref reaches through any parent, newest first.

        Each answer is a whole commit, with the id that the branch or a child names. The
        call for one commit answers from a cache that may be damaged (`lakefs-facts`
        11.42), so commits are read from the log where there is no dump.

        Args:
            repository_id: Repository name.
            ref: Branch, tag or commit.
            first_page: Number of commits on the first page; each further page is ten times as long,
                up to the server's limit.

        Raises:
            NotFoundError: If the ref is not there.
            IncompleteReadError: If an answer is not as documented.
        """
        call = self._on(
            repository_id, "log_commits", f"commits that {ref} reaches", "fs:ReadBranch"
        )
        listed = self._listed(
            call,
            self._refs.log_commits_with_http_info,
            repository_id,
            ref,
            first_page=min(first_page, PAGE),
        )
        for body in listed:
            yield _commit(call, body)

    def main_line(
        self, repository_id: str, ref: str, *, first_page: int = PAGE
    ) -> Iterator[LoggedCommit]:
        """List the commits that a ref reaches through main parents alone, newest first.

        Args:
            repository_id: Repository name.
            ref: Branch, tag or commit; a branch's own head comes first.
            first_page: As for `log`.

        Raises:
            NotFoundError: If the ref is not there.
            IncompleteReadError: If a commit is not the main parent of the one before it: the server
                does not know such a list.
        """
        call = self._on(
            repository_id, "log_commits", f"main line of commits of {ref}", "fs:ReadBranch"
        )
        listed = self._listed(
            call,
            self._refs.log_commits_with_http_info,
            repository_id,
            ref,
            first_page=min(first_page, PAGE),
            first_parent=True,
        )
        wanted: str | None = ""
        for body in listed:
            commit = _commit(call, body)
            if wanted not in ("", commit.id):
                raise unreadable(call, f"commit {commit.id} where {wanted} was expected")
            wanted = commit.main_parent
            yield LoggedCommit(commit, body.texts_by_key("metadata"))
        if wanted:
            raise unreadable(call, f"no commit where {wanted} was expected")


def no_such_ref(
    server: RefsCalls, repository_id: str, ref: str, kind: str = "branch, tag or commit"
) -> NoSuchRefError:
    """Return the error for a ref that a server does not know, with the name next to it.

    Args:
        server: The server.
        repository_id: Repository name.
        ref: What was written.
        kind: What it could be, in words with `branch` and `tag`.
    """
    names = [each.id for each in server.branches(repository_id)] if "branch" in kind else []
    names += [each.id for each in server.tags(repository_id)] if "tag" in kind else []
    some = ", ".join(sorted(names)[:10]) or "none"
    return NoSuchRefError(
        f"{repository_id} has no {kind} {ref}",
        did_you_mean(ref, names) or f"There are: {some}{', ...' if names[10:] else ''}.",
    )


def _commit(call: Call, body: Body) -> Commit:
    version = body.integer("version")
    if version not in COMMIT_VERSIONS:
        raise unreadable(
            call,
            f"a commit of version {version}, which may change which parent is the main "
            f"one (lakeFS up to {LAKEFS_CHECKED} writes 0 and 1)",
        )
    return Commit(
        id=body.commit_id("id"),
        parents=tuple(body.commit_ids("parents")),
        # The client sets it. A date in milliseconds, for instance, is beyond any calendar.
        creation_date=body.any_instant("creation_date"),
        metarange_id=body.table_id("meta_range_id") if body.text("meta_range_id") else "",
        version=version,
        generation=body.integer("generation") if body.has("generation") else 0,
    )
