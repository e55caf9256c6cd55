"""Change a repository on the server: branches, entries, commits, merges and reverts.

Only what can be sent twice without harm is repeated. After a lost answer to any other call nobody
knows whether it took effect: it ends with a `TransientError`, and the caller looks. Bodies are
mappings, of which lakefs-sdk makes its models.

References:
    lakeFS `pkg/api/controller.go` and `pkg/graveler/graveler.go`, commit 71a45eeb1. Branch
    protection refuses staged writes and commits, and lets merges and reverts through. A rule is
    enforced up to six seconds after it was set (`pkg/graveler/settings/manager.go`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_core.branches.removal.refused import (
    NEXT_STEPS,
    REFUSALS,
    Reason,
    WriteRefusedError,
    reason_of,
)
from spark_core.errors import (
    LakegcError,
    NotFoundError,
    PermissionDeniedError,
    RepositoryStateError,
)
from spark_core.lakefs import LakeFSServer
from spark_core.lakefs.answers import Body
from spark_core.lakefs.calls import Answer, Call

# Paths of one call; the server takes no more.
MOST_PATHS = 1_000


class Writes:
    """The writing calls of one server.

    Args:
        server: The server; these calls are counted with its others.
    """

    def __init__(self, server: LakeFSServer) -> None:
        from lakefs_sdk.api.branches_api import BranchesApi
        from lakefs_sdk.api.commits_api import CommitsApi
        from lakefs_sdk.api.objects_api import ObjectsApi
        from lakefs_sdk.api.refs_api import RefsApi

        self._transport = server.transport
        client = server.transport.client
        self._branches = BranchesApi(client)
        self._commits = CommitsApi(client)
        self._objects = ObjectsApi(client)
        self._refs = RefsApi(client)

    def create_branch(self, repository_id: str, name: str, source: str) -> str:
        """Make a branch.

        Args:
            repository_id: Repository name.
            name: Name of the new branch.
            source: A commit id, or another ref.

        Returns:
            The commit that it begins on.

        Raises:
            WriteRefusedError: If there is a branch of that name.
            NotFoundError: If there is no such source.
        """
        call = Call(
            "create_branch",
            f"making branch {name} of repository {repository_id}",
            "fs:CreateBranch",
            repeatable=False,
        )
        answer = self._done(
            call,
            self._branches.create_branch_with_http_info,
            repository_id,
            {"name": name, "source": source},
        )
        return answer.body.decode(errors="replace").strip()

    def delete_branch(self, repository_id: str, name: str) -> bool:
        """Delete a branch; return False if there is none.

        Raises:
            WriteRefusedError: If it is the default branch, or a hook refuses.
        """
        call = Call(
            "delete_branch",
            f"deleting branch {name} of repository {repository_id}",
            "fs:DeleteBranch",
        )
        try:
            self._done(call, self._branches.delete_branch_with_http_info, repository_id, name)
        except NotFoundError:
            return False
        return True

    def delete_entries(self, repository_id: str, branch: str, paths: Sequence[str]) -> None:
        """Stage the deletion of entries on a branch.

        The server answers alike for a path that is not there, and for a branch that is not: the
        commit tells.

        Args:
            repository_id: Repository name.
            branch: Name of the branch.
            paths: At most `MOST_PATHS`.

        Raises:
            WriteRefusedError: If a branch protection rule refuses.
            RepositoryStateError: If some of them could not be deleted.
        """
        if not 0 < len(paths) <= MOST_PATHS:
            raise ValueError(f"{len(paths)} paths, wanted 1 to {MOST_PATHS}")
        call = Call(
            "delete_objects",
            f"deleting {len(paths)} entries of branch {branch} of repository {repository_id}",
            "fs:DeleteObject",
        )
        answer = self._done(
            call,
            self._objects.delete_objects_with_http_info,
            repository_id,
            branch,
            {"paths": list(paths)},
        )
        wrong = Body.of(call, answer).optional_parts("errors")
        if wrong:
            raise self._refused_paths(call, wrong)

    def _refused_paths(self, call: Call, wrong: Sequence[Body]) -> LakegcError:
        """Return the error for paths that the server did not delete."""
        status, message = wrong[0].integer("status_code"), wrong[0].text("message")
        which = f"; {len(wrong)} in all, for instance {wrong[0].optional_text('path')[:200]!r}"
        reason = reason_of(status, message)
        if reason is not None:
            return self._refused(call, reason, message, which)
        found = f"{call.subject}: the server answered {status} to some paths"
        found += f" ({self._transport.errors.shown(message)}){which}"
        if status in (401, 403):
            return PermissionDeniedError(found, f"Needed: the action {call.action} on each path.")
        return RepositoryStateError(found, "Look at the server's log, and run again.")

    def reset_entry(self, repository_id: str, branch: str, path: str) -> None:
        """Undo what is staged at one path of a branch; it cannot come back.

        Raises:
            WriteRefusedError: If a branch protection rule refuses.
        """
        # After a lost answer something else may be staged there.
        call = Call(
            "reset_branch",
            f"resetting a staged entry of branch {branch} of repository {repository_id}",
            "fs:RevertBranch",
            repeatable=False,
        )
        self._done(
            call,
            self._branches.reset_branch_with_http_info,
            repository_id,
            branch,
            {"type": "object", "path": path},
        )

    def commit(
        self, repository_id: str, branch: str, message: str, metadata: Mapping[str, str]
    ) -> str:
        """Commit what is staged on a branch; return the commit's id.

        Raises:
            WriteRefusedError: If nothing is staged, or a hook or a protection rule refuses.
        """
        call = Call(
            "commit",
            f"committing branch {branch} of repository {repository_id}",
            "fs:CreateCommit",
            repeatable=False,
        )
        answer = self._done(
            call,
            self._commits.commit_with_http_info,
            repository_id,
            branch,
            {"message": message, "metadata": dict(metadata)},
        )
        return Body.of(call, answer).commit_id("id")

    def merge(
        self,
        repository_id: str,
        source: str,
        branch: str,
        message: str,
        metadata: Mapping[str, str],
    ) -> str:
        """Merge a ref into a branch, where no path is changed on both sides.

        Returns:
            Id of the merge commit; its first parent is the branch's former head.

        Raises:
            WriteRefusedError: If both sides changed a path, the branch has staged changes, there is
                nothing to merge, or a hook refuses.
        """
        call = Call(
            "merge_into_branch",
            f"merging {source} into branch {branch} of repository {repository_id}",
            "fs:CreateCommit",
            repeatable=False,
        )
        answer = self._done(
            call,
            self._refs.merge_into_branch_with_http_info,
            repository_id,
            source,
            branch,
            merge={"message": message, "metadata": dict(metadata)},
        )
        return Body.of(call, answer).commit_id("reference")

    def revert_merge(
        self,
        repository_id: str,
        branch: str,
        commit_id: str,
        message: str,
        metadata: Mapping[str, str],
    ) -> None:
        """Undo a merge on the branch that it was made on, by a new commit.

        Args:
            repository_id: Repository name.
            branch: Name of the branch.
            commit_id: The merge.
            message: Message of the new commit. Servers that do not know it write their own.
            metadata: Metadata of the new commit, likewise.

        Raises:
            WriteRefusedError: If a path was changed since, the branch has staged changes, there is
                nothing to undo, or a hook refuses.
        """
        call = Call(
            "revert_branch",
            f"reverting commit {commit_id} on branch {branch} of repository {repository_id}",
            "fs:RevertBranch",
            repeatable=False,
        )
        self._done(
            call,
            self._branches.revert_branch_with_http_info,
            repository_id,
            branch,
            {
                "ref": commit_id,
                "parent_number": 1,
                "commit_overrides": {"message": message, "metadata": dict(metadata)},
            },
        )

    def _done(self, call: Call, ask: Callable[..., Any], *arguments: Any, **more: Any) -> Answer:
        """Make a call, and return the answer of a server that did it.

        Raises:
            WriteRefusedError: If it refused for the state of the repository.
        """
        answer = self._transport.call(call, ask, *arguments, **more, expected=REFUSALS)
        if answer.status < 300:
            return answer
        reason = reason_of(answer.status, answer.message)
        if reason is None:
            raise self._transport.errors.of_answer(call, answer)
        raise self._refused(call, reason, answer.message)

    def _refused(
        self, call: Call, reason: Reason, message: str, which: str = ""
    ) -> WriteRefusedError:
        shown = self._transport.errors.shown(message)
        found = f"{call.subject}: the server refused it" + (f" ({shown})" if shown else "") + which
        error = WriteRefusedError(found, NEXT_STEPS[reason])
        error.reason = reason
        return error
