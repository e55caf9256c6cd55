"""Make and delete branches on the server."""

from __future__ import annotations

from spark_core.errors import LakegcError, RepositoryStateError
from spark_core.lakefs import LakeFSServer
from spark_core.lakefs.answers import unreadable
from spark_core.lakefs.branch_reads import is_absent_branch
from spark_core.lakefs.calls import READ_ONLY, Answer, Call

_DEFAULT_BRANCH = "cannot delete repository default branch"
# A name or commit that the server does not take; a name in use; a hook that refuses.
_REFUSED = (400, 409, 412)


class BranchRefusedError(LakegcError):
    """The server or one of its hooks refuses to make or delete this branch; others may go on."""


class BranchWrites:
    """Changes the branches of one server's repositories.

    lakeFS deletes a protected branch as any other: protection is about writes and commits. Whoever
    calls `delete` has looked before.

    Args:
        server: The server; these calls are counted with its others.

    References:
        lakeFS 71a45eeb1 `pkg/graveler/graveler.go`: `DeleteBranch`, `CreateBranch`.
    """

    def __init__(self, server: LakeFSServer) -> None:
        from lakefs_sdk.api.branches_api import BranchesApi

        self._transport = server.transport
        self._branches = BranchesApi(server.transport.client)

    def create(self, repository_id: str, branch: str, commit_id: str, *, hidden: bool) -> bool:
        """Make a branch at a commit.

        Args:
            repository_id: Repository name.
            branch: Its name.
            commit_id: Full id of the commit.
            hidden: Whether it is hidden from lists.

        Returns:
            False if the name is taken, by a branch or a tag.

        Raises:
            BranchRefusedError: If the server or a hook refuses it.
            NotFoundError: If there is no such repository or commit.
            RepositoryStateError: If the repository is read-only.
        """
        from lakefs_sdk.models.branch_creation import BranchCreation

        call = Call(
            "create_branch",
            f"making branch {branch} of repository {repository_id}",
            "fs:CreateBranch",
        )
        answer = self._transport.call(
            call,
            self._branches.create_branch_with_http_info,
            repository_id,
            BranchCreation(name=branch, source=commit_id, hidden=hidden),
            expected=(*_REFUSED, 403),
        )
        if answer.status == 409:
            return False
        if answer.status >= 300:
            raise self._refusal(call, answer)
        made = answer.body.decode(errors="replace").strip()
        if made != commit_id:
            raise unreadable(call, f"commit {made[:80]!r} although {commit_id} was asked for")
        return True

    def delete(self, repository_id: str, branch: str) -> bool:
        """Delete a branch, and what is staged on it.

        The call is not repeated: after a lost answer, a second one could delete a branch that
        somebody made anew.

        Returns:
            False if there is no such branch.

        Raises:
            BranchRefusedError: If the server or a hook refuses it.
            RepositoryStateError: If the repository is read-only.
        """
        call = Call(
            "delete_branch",
            f"deleting branch {branch} of repository {repository_id}",
            "fs:DeleteBranch",
            repeatable=False,
        )
        answer = self._transport.call(
            call,
            self._branches.delete_branch_with_http_info,
            repository_id,
            branch,
            expected=(*_REFUSED, 403, 404),
        )
        if answer.status == 404 and is_absent_branch(answer):
            return False
        if answer.status >= 300:
            raise self._refusal(call, answer)
        return True

    def _refusal(self, call: Call, answer: Answer) -> LakegcError:
        words = self._transport.errors.shown(answer.message)
        if answer.status == 403 and answer.message == READ_ONLY:
            return RepositoryStateError(
                f"{call.subject}: the server says that it is a {words}", "Make it writable."
            )
        if answer.status in _REFUSED or answer.message.startswith(_DEFAULT_BRANCH):
            return BranchRefusedError(
                f"{call.subject}: the server refuses it with {answer.status} ({words})",
                "Look at what it says, and at its hooks (`lakectl actions runs list`).",
            )
        return self._transport.errors.of_answer(call, answer)
