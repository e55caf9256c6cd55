"""Let the server list its retained commits, scan staged entries, and dump its refs.

Each runs on the server for seconds to minutes. An end that cannot be told from an empty result is
refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from spark_core.errors import IncompleteReadError
from spark_core.lakefs.answer_types import PreparedCommits, PreparedUncommitted, RefsDump
from spark_core.lakefs.answers import Body
from spark_core.lakefs.calls import Answer, Call
from spark_core.lakefs.server_tasks import ServerTask, finished, task_failed
from spark_core.lakefs.transport import Transport

if TYPE_CHECKING:
    # Imported where a call is made: executors import this package, and never call the server.
    from lakefs_sdk.api.internal_api import InternalApi

# The server's words for a repository without rules, in a task's error and in the 404 of the
# synchronous call.
NO_RULES = "get gc rules: not found"
_BRANCH_GONE = "branch not found"


class BranchDeletedError(IncompleteReadError):
    """A branch was deleted while the server scanned it, and the scan must be repeated."""


def prepare_commits(transport: Transport, repository_id: str) -> PreparedCommits | None:
    """Let the server list the commits that it retains.

    The asynchronous call comes first, because the synchronous one lasts as long
    as the work and answers 400 on a store that cannot presign. A server without
    the asynchronous call answers 404 (500 before v1.75), and then the synchronous
    one is used. The reference job reads a 404 there as "no rules" and marks every
    object; here only the server's own words for "no rules" count.

    Returns:
        None if the repository has no rules.

    Raises:
        NotFoundError: If there is no such repository.
        TransientError: If the task fails, is lost twice, or is not done by the deadline.

    References:
        `lakefs-facts` 5.3, 6.3, 11.20-11.22, 11.25.
    """
    from lakefs_sdk.api.internal_api import InternalApi

    internal = InternalApi(transport.client)
    call = _prepare_call(
        "prepare_commits", repository_id, "retention:PrepareGarbageCollectionCommits"
    )
    poll = _prepare_call(
        "prepare_commits_status", repository_id, "retention:PrepareGarbageCollectionCommits"
    )
    done = finished(
        transport,
        ServerTask(
            submit=call,
            submitting=internal.prepare_garbage_collection_commits_async_with_http_info,
            poll=poll,
            polling=internal.prepare_garbage_collection_commits_status_with_http_info,
            done="completed",
        ),
        repository_id,
    )
    if done is None:
        return _prepare_commits_synchronously(transport, internal, repository_id)
    if done.has("error"):
        message = done.part("error").optional_text("message")
        if message == NO_RULES:
            return None
        raise task_failed(transport, poll, message)
    return PreparedCommits(done.part("result").run_id())


def _prepare_commits_synchronously(
    transport: Transport, internal: InternalApi, repository_id: str
) -> PreparedCommits | None:
    call = _prepare_call(
        "prepare_commits_sync", repository_id, "retention:PrepareGarbageCollectionCommits"
    )
    answer = transport.call(
        call,
        internal.prepare_garbage_collection_commits_with_http_info,
        repository_id,
        expected=(400, 404),
    )
    if answer.status == 404:
        if answer.message == NO_RULES:
            return None
        raise transport.errors.of_answer(call, answer)
    if answer.status == 400:
        return PreparedCommits(_second_document(transport, call, answer).run_id())
    return PreparedCommits(Body.of(call, answer).run_id())


def _second_document(transport: Transport, call: Call, answer: Answer) -> Body:
    """Read the answer after the error: without presigning, the server sends both (11.22)."""
    text = answer.body.decode("utf-8", errors="replace").strip()
    decoder = json.JSONDecoder()
    try:
        first, end = decoder.raw_decode(text)
        second, rest = decoder.raw_decode(text[end:].lstrip())
    except ValueError:
        raise transport.errors.of_answer(call, answer) from None
    if "presigned" not in str(first) or text[end:].lstrip()[rest:].strip():
        raise transport.errors.of_answer(call, answer)
    return Body(call, second)


def prepare_uncommitted(transport: Transport, repository_id: str) -> PreparedUncommitted:
    """Let the server scan every branch's staged entries, page by page to the last one.

    Raises:
        IncompleteReadError: If the scan repeats a token, so that it makes no progress,
            changes its run id, has no end, or loses its token.
        BranchDeletedError: If the branch that was being scanned is deleted.

    References:
        `lakefs-facts` 5.4, 11.26-11.29.
    """
    from lakefs_sdk.api.internal_api import InternalApi
    from lakefs_sdk.models.prepare_gc_uncommitted_request import PrepareGCUncommittedRequest

    internal = InternalApi(transport.client)
    call = _prepare_call(
        "prepare_uncommitted", repository_id, "retention:PrepareGarbageCollectionUncommitted"
    )
    tokens: set[str] = set()
    token, run_id, pages, pages_with_data = "", "", 0, 0
    while True:
        asked = {"continuation_token": token} if token else {}
        answer = transport.call(
            call,
            internal.prepare_garbage_collection_uncommitted_with_http_info,
            repository_id,
            PrepareGCUncommittedRequest(**asked),
            expected=(400, 404),
        )
        body = Body.of(call, _page(transport, call, answer, pages))
        pages += 1
        if run_id and body.run_id() != run_id:
            raise _broken_scan(
                call, f"page {pages} belongs to run {body.run_id()}, the pages before to {run_id}"
            )
        run_id = body.run_id()
        pages_with_data += bool(body.optional_text("gc_uncommitted_location"))
        token = body.optional_text("continuation_token")
        if not token:
            return PreparedUncommitted(run_id, pages, pages_with_data)
        if token in tokens:
            raise _broken_scan(
                call, f"page {pages} repeats a continuation token, so the scan makes no progress"
            )
        tokens.add(token)
        if pages >= transport.options.max_pages:
            raise _broken_scan(
                call, f"it did not end within max_pages = {transport.options.max_pages}"
            )


def _page(transport: Transport, call: Call, answer: Answer, pages_before: int) -> Answer:
    if answer.status == 404 and answer.message == _BRANCH_GONE:
        raise BranchDeletedError(
            f"{call.subject}: a branch was deleted while the server scanned it, and rows that it "
            "had already found may be lost",
            "Run again when no branch is being deleted.",
        )
    if answer.status == 400 and pages_before:
        raise _broken_scan(call, f"the server refused its own token of page {pages_before}")
    if answer.status >= 400:
        raise transport.errors.of_answer(call, answer)
    return answer


def _broken_scan(call: Call, what: str) -> IncompleteReadError:
    return IncompleteReadError(
        f"{call.subject}: {what}; staged objects beyond that are unknown and would look "
        "unreachable",
        "Look at the server's load and `ugc.prepare_interval`, and run again.",
    )


def dump_refs(transport: Transport, repository_id: str) -> RefsDump:
    """Let the server dump all commits, branches and tags as tables.

    The asynchronous dump reads commits first, so a branch may point at a commit
    that is not in the dump. The caller must check for that.

    Raises:
        PermissionDeniedError: If the user may not list tags, branches and commits.
        TransientError: If the task fails, is lost twice, or is not done by the deadline.

    References:
        `lakefs-facts` 3.3.
    """
    from lakefs_sdk.api.internal_api import InternalApi
    from lakefs_sdk.api.repositories_api import RepositoriesApi

    repositories = RepositoriesApi(transport.client)
    action = "fs:ListTags, fs:ListBranches and fs:ListCommits"
    call = Call("dump_refs", f"refs dump of repository {repository_id}", action)
    poll = Call("dump_refs_status", f"refs dump of repository {repository_id}", action)
    done = finished(
        transport,
        ServerTask(
            submit=call,
            submitting=repositories.dump_submit_with_http_info,
            poll=poll,
            polling=repositories.dump_status_with_http_info,
            done="done",
        ),
        repository_id,
    )
    if done is None:
        call = Call("dump_refs_sync", f"refs dump of repository {repository_id}", action)
        internal = InternalApi(transport.client)
        return _refs(
            Body.of(call, transport.call(call, internal.dump_refs_with_http_info, repository_id))
        )
    if done.optional_text("error"):
        raise task_failed(transport, poll, done.text("error"))
    return _refs(done.part("refs"))


def _refs(body: Body) -> RefsDump:
    return RefsDump(
        commits_metarange_id=body.table_id("commits_meta_range_id"),
        branches_metarange_id=body.table_id("branches_meta_range_id"),
        tags_metarange_id=body.table_id("tags_meta_range_id"),
    )


def _prepare_call(name: str, repository_id: str, action: str) -> Call:
    what = "prepare_uncommitted" if name == "prepare_uncommitted" else "prepare_commits"
    return Call(name, f"{what} of repository {repository_id}", action)
