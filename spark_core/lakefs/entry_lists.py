"""List the entries of a ref, and what differs between refs or is staged on a branch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from spark_core.lakefs.answer_types import DatedEntry, EntriesPage, Instants
from spark_core.lakefs.answers import unreadable
from spark_core.lakefs.server_calls import PAGE, ServerCalls
from spark_core.lakefs.transport import Transport


class EntryCalls(ServerCalls):
    """The calls about entries."""

    def __init__(self, transport: Transport) -> None:
        from lakefs_sdk.api.branches_api import BranchesApi
        from lakefs_sdk.api.objects_api import ObjectsApi
        from lakefs_sdk.api.refs_api import RefsApi

        from spark_core.lakefs.pages import PageReader, ShownChange, ShownEntry

        super().__init__(transport)
        self._objects = ObjectsApi(transport.client)
        self._differences = RefsApi(transport.client)
        self._staged = BranchesApi(transport.client)
        self._entries, self._changes = PageReader(ShownEntry), PageReader(ShownChange)

    def list_entries(self, repository_id: str, ref: str, *, after: str) -> EntriesPage:
        """List one page of a ref's entries, staged ones included, in order of path; one call.

        Args:
            repository_id: Repository name.
            ref: Branch, tag or commit.
            after: Lists only entries whose path sorts after this one; empty for the first page.

        Raises:
            NotFoundError: If the repository or the ref is not there.
        """
        call = self._on(repository_id, "list_objects", f"entries of {ref}", "fs:ListObjects")
        where: dict[str, Any] = {"after": after} if after else {}
        answer = self._transport.call(
            call,
            self._objects.list_objects_with_http_info,
            repository_id,
            ref,
            user_metadata=False,
            presign=False,
            amount=PAGE,
            **where,
        )
        page = self._entries.read(call, answer)
        entries = [(row.path, row.physical_address) for row in page.results]
        dates = Instants([row.mtime for row in page.results])
        has_more = page.pagination.has_more
        if has_more and not entries:
            raise unreadable(
                call, "a page without entries that has a next one, so the list has no end"
            )
        return EntriesPage(entries, has_more=has_more, dates=dates)

    def entries_under(
        self, repository_id: str, ref: str, prefix: str, *, first_page: int = PAGE
    ) -> Iterator[DatedEntry]:
        """List a ref's entries under a prefix of paths, by path; of a branch staged ones, too.

        Args:
            repository_id: Repository name.
            ref: Branch, tag or commit.
            prefix: Beginning of the paths; empty for all.
            first_page: As for `RefsCalls.log`.

        Raises:
            NotFoundError: If the repository or the ref is not there.
            IncompleteReadError: If the list cannot be read to its end.
        """
        call = self._on(repository_id, "list_objects", f"entries of {ref}", "fs:ListObjects")
        for body in self._listed(
            call,
            self._objects.list_objects_with_http_info,
            repository_id,
            ref,
            first_page=first_page,
            user_metadata=False,
            presign=False,
            **_under(prefix),
        ):
            yield DatedEntry(
                path=body.text("path"),
                physical_address=body.text("physical_address"),
                size_bytes=body.integer("size_bytes") if body.has("size_bytes") else 0,
                modified=body.any_instant("mtime"),
            )

    def diff_commits(
        self, repository_id: str, left: str, right: str, prefix: str
    ) -> Iterator[tuple[str, str]]:
        """List path and type (added, changed, removed) of what differs, from one ref to another.

        Args:
            repository_id: Repository name.
            left: The older side.
            right: The newer side.
            prefix: Beginning of the paths; empty for all.
        """
        call = self._on(
            repository_id,
            "diff_refs",
            f"differences from {left} to {right}",
            "fs:ListObjects",
        )
        for body in self._listed(
            call,
            self._differences.diff_refs_with_http_info,
            repository_id,
            left,
            right,
            type="two_dot",
            **_under(prefix),
        ):
            yield body.text("path"), body.text("type")

    def diff_branch(
        self, repository_id: str, branch: str, *, prefix: str = "", first_page: int = PAGE
    ) -> Iterator[tuple[str, str]]:
        """List path and type (added, changed, removed) of a branch's staged entries, by path.

        Args:
            repository_id: Repository name.
            branch: Name of the branch.
            prefix: Beginning of the paths; empty for all.
            first_page: As for `RefsCalls.log`.
        """
        call = self._on(
            repository_id,
            "diff_branch",
            f"uncommitted changes of branch {branch}",
            "fs:ListObjects",
        )
        pages = self._pages(
            call,
            self._changes,
            self._staged.diff_branch_with_http_info,
            repository_id,
            branch,
            first_page=first_page,
            **_under(prefix),
        )
        return chain.from_iterable([(row.path, row.type) for row in page] for page in pages)


def _under(prefix: str) -> dict[str, Any]:
    return {"prefix": prefix} if prefix else {}
