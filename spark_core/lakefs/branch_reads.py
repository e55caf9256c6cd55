"""Ask the server what speaks for a branch: protection, pull requests, hooks, staged entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from spark_core.errors import NotFoundError, RepositoryStateError
from spark_core.json_and_toml import read_json
from spark_core.lakefs.answers import Body, unreadable
from spark_core.lakefs.calls import UNKNOWN_REPOSITORY, Answer, Call
from spark_core.lakefs.failures import NoSuchCallError
from spark_core.lakefs.transport import Transport

# lakeFS runs the hooks of the files below it (71a45eeb1 `pkg/catalog/actions_source.go`).
ACTIONS = "_lakefs_actions/"
_READ_BRANCH = "fs:ReadBranch"
_LIST_BRANCHES = "fs:ListBranches"


@dataclass(frozen=True)
class Pull:
    """An open pull request."""

    id: str
    source: str
    destination: str


@dataclass(frozen=True, order=True)
class ActionFile:
    """A file with hooks; files of equal checksum and size have equal content."""

    path: str
    checksum: str
    size_bytes: int


@dataclass(frozen=True)
class StagedEntry:
    """A staged entry.

    Attributes:
        path: Its path.
        change: `added`, `changed` or `removed`.
        written: When it was written, in whole seconds; None for a removed one, which has no date.
        checksum: Its checksum; empty for a removed one.
    """

    path: str
    change: str
    written: datetime | None
    checksum: str


class BranchReads:
    """Asks one server about branches; each call is counted with the others of the server.

    Args:
        transport: Makes the calls.
        listed: Reads a list page by page, as `LakeFSServer` does.
    """

    def __init__(self, transport: Transport, listed: Callable[..., Iterator[Body]]) -> None:
        from lakefs_sdk.api.branches_api import BranchesApi
        from lakefs_sdk.api.objects_api import ObjectsApi
        from lakefs_sdk.api.pulls_api import PullsApi
        from lakefs_sdk.api.repositories_api import RepositoriesApi

        self._transport = transport
        self._listed = listed
        self._branches = BranchesApi(transport.client)
        self._objects = ObjectsApi(transport.client)
        self._pulls = PullsApi(transport.client)
        self._repositories = RepositoriesApi(transport.client)

    def visible(self, repository_id: str) -> set[str]:
        """Return the branches that are not hidden; one call for each thousand."""
        call = _call("list_branches", "branches that are not hidden", repository_id, _LIST_BRANCHES)
        rows = self._listed(
            call, self._branches.list_branches_with_http_info, repository_id, show_hidden=False
        )
        return {body.text("id") for body in rows}

    def head(self, repository_id: str, branch: str) -> str | None:
        """Return the commit that a branch stands on now; None if there is no such branch."""
        call = _call("get_branch", f"branch {branch}", repository_id, _READ_BRANCH)
        answer = self._transport.call(
            call,
            self._branches.get_branch_with_http_info,
            repository_id,
            branch,
            expected=(404,),
        )
        if answer.status == 404:
            if is_absent_branch(answer):
                return None
            raise self._transport.errors.of_answer(call, answer)
        body = Body.of(call, answer)
        if body.text("id") != branch:
            raise unreadable(call, f"branch {body.text('id')!r} although {branch!r} was asked for")
        return body.commit_id("commit_id")

    def protection_patterns(self, repository_id: str) -> tuple[str, ...]:
        """Return the patterns of protected branches.

        Raises:
            NoSuchCallError: If the server is too old to tell them.
        """
        call = _call(
            "get_branch_protection_rules",
            "branch protection rules",
            repository_id,
            "branches:GetBranchProtectionRules",
        )
        answer = self._transport.call(
            call, self._repositories.get_branch_protection_rules_with_http_info, repository_id
        )
        try:
            rules = read_json(answer.body)
        except ValueError:
            raise unreadable(call, "something that is no JSON") from None
        if not isinstance(rules, list):
            raise unreadable(call, f"{type(rules).__name__} instead of a list")
        return tuple(sorted(Body(call, rule).text("pattern") for rule in rules))

    def open_pulls(self, repository_id: str) -> list[Pull]:
        """Return the open pull requests; none if the server has no pull requests at all."""
        call = _call(
            "list_pull_requests", "open pull requests", repository_id, "pr:ListPullRequests"
        )
        rows = self._listed(
            call, self._pulls.list_pull_requests_with_http_info, repository_id, status="open"
        )
        try:
            return [
                Pull(body.text("id"), body.text("source_branch"), body.text("destination_branch"))
                for body in rows
                if body.text("status") == "open"
            ]
        except NoSuchCallError:
            return []

    def action_files(self, repository_id: str, ref: str) -> list[ActionFile]:
        """Return the files with hooks of a commit or branch."""
        call = _call("list_objects", f"hook files of {ref}", repository_id, "fs:ListObjects")
        rows = self._listed(
            call,
            self._objects.list_objects_with_http_info,
            repository_id,
            ref,
            prefix=ACTIONS,
            user_metadata=False,
            presign=False,
        )
        found = [
            ActionFile(body.text("path"), body.text("checksum"), body.integer("size_bytes"))
            for body in rows
        ]
        if not all(file.path.startswith(ACTIONS) for file in found):
            raise unreadable(call, f"paths that do not begin with {ACTIONS}")
        return found

    def content(self, repository_id: str, ref: str, path: str) -> bytes:
        """Read an object of a commit or branch.

        Raises:
            RepositoryStateError: If the entry is there, and its object is not.
        """
        call = _call("get_object", f"{path} of {ref}", repository_id, "fs:ReadObject")
        answer = self._transport.call(
            call,
            self._objects.get_object_with_http_info,
            repository_id,
            ref,
            path,
            expected=(410,),
        )
        if answer.status == 410:
            raise RepositoryStateError(
                f"{call.subject}: the entry is there, and its object is gone",
                "Delete the entry, or write the file again.",
            )
        return answer.body

    def staged(self, repository_id: str, branch: str, path: str, change: str) -> StagedEntry | None:
        """Read the date of a staged entry; None if it is no longer there.

        Args:
            repository_id: Repository name.
            branch: The branch.
            path: Its path.
            change: Its type, as the branch's difference says.
        """
        if change == "removed":
            return StagedEntry(path, change, None, "")
        call = _call("stat_object", f"{path} of branch {branch}", repository_id, "fs:ReadObject")
        try:
            answer = self._transport.call(
                call,
                self._objects.stat_object_with_http_info,
                repository_id,
                branch,
                path,
                user_metadata=False,
                presign=False,
            )
        except NotFoundError:
            return None
        body = Body.of(call, answer)
        return StagedEntry(path, change, body.any_instant("mtime"), body.text("checksum"))


def is_absent_branch(answer: Answer) -> bool:
    """Say whether an answer 404 speaks of the branch, not of the repository or the call."""
    message = answer.message
    return message != UNKNOWN_REPOSITORY and message.endswith("branch not found")


def _call(name: str, what: str, repository_id: str, action: str) -> Call:
    return Call(name, f"{what} of repository {repository_id}", action)
