"""The server's own work for a collection: its list of commits, its scan of staged entries, its refs dump.

Each runs on the server for seconds to minutes; what is refused here is an end
that cannot be told from an empty result.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_core.errors import IncompleteReadError, TransientError
from spark_core.lakefs.answers import Body, unreadable
from spark_core.lakefs.calls import UNKNOWN_REPOSITORY, Answer, Call
from spark_core.lakefs.transport import Transport
from spark_core.lakefs.values import PreparedCommits, PreparedUncommitted, RefsDump

if TYPE_CHECKING:
    # Imported where a call is made: executors import this package, and never call the server.
    from lakefs_sdk.api.internal_api import InternalApi
    from lakefs_sdk.api_response import ApiResponse

# What the server says of a repository without rules, in a task's error and in the 404 of the sync call.
NO_RULES = "get gc rules: not found"
_BRANCH_GONE = "branch not found"


class TaskLostError(TransientError):
    """The server process that worked on a task is gone: the task has to be submitted again."""


class BranchDeletedError(IncompleteReadError):
    """A branch was deleted while the server scanned it: the scan has to be made again."""


def prepare_commits(transport: Transport, repository_id: str) -> PreparedCommits | None:
    """Let the server list the commits that it retains.

    The asynchronous call comes first, since the synchronous one lasts as long as
    the work and answers 400 on a store that cannot presign. A server without
    it answers 404 (500 before v1.75), then the synchronous one is used. The
    reference job takes a 404 there for "no rules" and marks every object; here
    only the server's own words for it count.

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
    call = _prepare_call("prepare_commits", repository_id, "retention:PrepareGarbageCollectionCommits")
    poll = _prepare_call("prepare_commits_status", repository_id, "retention:PrepareGarbageCollectionCommits")
    done = _finished(
        transport,
        _Task(
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
        raise _task_failed(transport, poll, message)
    return PreparedCommits(done.part("result").run_id())


def _prepare_commits_synchronously(
    transport: Transport, internal: InternalApi, repository_id: str
) -> PreparedCommits | None:
    call = _prepare_call("prepare_commits_sync", repository_id, "retention:PrepareGarbageCollectionCommits")
    answer = transport.call(
        call, internal.prepare_garbage_collection_commits_with_http_info, repository_id, expected=(400, 404)
    )
    if answer.status == 404:
        if answer.message == NO_RULES:
            return None
        raise transport.failures.of(call, answer)
    if answer.status == 400:
        return PreparedCommits(_second_document(transport, call, answer).run_id())
    return PreparedCommits(Body.of(call, answer).run_id())


def _second_document(transport: Transport, call: Call, answer: Answer) -> Body:
    """Read the answer behind the error: a store that cannot presign makes the server send both (11.22)."""
    text = answer.body.decode("utf-8", errors="replace").strip()
    decoder = json.JSONDecoder()
    try:
        first, end = decoder.raw_decode(text)
        second, rest = decoder.raw_decode(text[end:].lstrip())
    except ValueError:
        raise transport.failures.of(call, answer) from None
    if "presigned" not in str(first) or text[end:].lstrip()[rest:].strip():
        raise transport.failures.of(call, answer)
    return Body(call, second)


def prepare_uncommitted(transport: Transport, repository_id: str) -> PreparedUncommitted:
    """Let the server scan every branch's staged entries, page by page to the last one.

    Raises:
        IncompleteReadError: If the scan repeats a token (it makes no progress),
            changes its run id, has no end, or loses its token.
        BranchDeletedError: If the branch that it stood on was deleted.

    References:
        `lakefs-facts` 5.4, 11.26-11.29.
    """
    from lakefs_sdk.api.internal_api import InternalApi
    from lakefs_sdk.models.prepare_gc_uncommitted_request import PrepareGCUncommittedRequest

    internal = InternalApi(transport.client)
    call = _prepare_call("prepare_uncommitted", repository_id, "retention:PrepareGarbageCollectionUncommitted")
    tokens: set[str] = set()
    token, run_id, pages, pages_with_data = "", "", 0, 0
    while True:
        request = PrepareGCUncommittedRequest(continuation_token=token) if token else PrepareGCUncommittedRequest()
        answer = transport.call(
            call,
            internal.prepare_garbage_collection_uncommitted_with_http_info,
            repository_id,
            request,
            expected=(400, 404),
        )
        body = Body.of(call, _page(transport, call, answer, pages))
        pages += 1
        if run_id and body.run_id() != run_id:
            raise _broken_scan(call, f"page {pages} belongs to run {body.run_id()}, the pages before to {run_id}")
        run_id = body.run_id()
        pages_with_data += bool(body.optional_text("gc_uncommitted_location"))
        token = body.optional_text("continuation_token")
        if not token:
            return PreparedUncommitted(run_id, pages, pages_with_data)
        if token in tokens:
            raise _broken_scan(call, f"page {pages} repeats a continuation token, so the scan makes no progress")
        tokens.add(token)
        if pages >= transport.options.max_pages:
            raise _broken_scan(call, f"it did not end within max_pages = {transport.options.max_pages}")


def _page(transport: Transport, call: Call, answer: Answer, pages_before: int) -> Answer:
    if answer.status == 404 and answer.message == _BRANCH_GONE:
        raise BranchDeletedError(
            f"{call.subject}: a branch was deleted while the server scanned it, and rows that it had already found may be "
            "lost",
            "Run again when no branch is being deleted.",
        )
    if answer.status == 400 and pages_before:
        raise _broken_scan(call, f"the server refused its own token of page {pages_before}")
    if answer.status >= 400:
        raise transport.failures.of(call, answer)
    return answer


def _broken_scan(call: Call, what: str) -> IncompleteReadError:
    return IncompleteReadError(
        f"{call.subject}: {what}; staged objects beyond that are unknown and would look unreachable",
        "Look at the server's load and `ugc.prepare_interval`, and run again.",
    )


def dump_refs(transport: Transport, repository_id: str) -> RefsDump:
    """Let the server dump all commits, branches and tags as tables.

    The asynchronous dump reads commits first, so that a branch may point at a
    commit that it does not hold; whoever reads it has to look for that.

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
    done = _finished(
        transport,
        _Task(
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
        return _refs(Body.of(call, transport.call(call, internal.dump_refs_with_http_info, repository_id)))
    if done.optional_text("error"):
        raise _task_failed(transport, poll, done.text("error"))
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


def _has_no_such_route(transport: Transport, call: Call, submitted: Answer) -> bool:
    """Tell a server without the asynchronous call from one without the repository."""
    if submitted.status == 404 and submitted.message == UNKNOWN_REPOSITORY:
        raise transport.failures.of(call, submitted)
    return submitted.status in (404, 500)


@dataclass(frozen=True)
class _Task:
    """Work that the server does by itself: how it is submitted and asked for.

    Attributes:
        submit: The call that hands it in.
        submitting: Its method of the SDK; takes the repository.
        poll: The call that asks for it.
        polling: Its method of the SDK; takes the repository and the task's id.
        done: Name of the field that says whether it is done.
    """

    submit: Call
    submitting: Callable[..., ApiResponse]
    poll: Call
    polling: Callable[..., ApiResponse]
    done: str


def _finished(transport: Transport, task: _Task, repository_id: str) -> Body | None:
    """Submit a task and wait for its end; once more if the server lost it in a restart.

    Returns:
        What the server says of the finished task; None if it has no such call.
    """
    deadline = transport.clock.monotonic() + transport.options.prepare_deadline.total_seconds()
    for last in (False, True):
        submitted = transport.call(task.submit, task.submitting, repository_id, expected=(404, 500))
        if _has_no_such_route(transport, task.submit, submitted):
            return None
        task_id = Body.of(task.submit, submitted).text("id")
        try:
            return _wait(transport, task, repository_id, task_id, deadline, may_be_lost=not last)
        except TaskLostError:
            if last:
                raise
    raise AssertionError  # the second round above either returned or raised


def _wait(
    transport: Transport, task: _Task, repository_id: str, task_id: str, deadline: float, *, may_be_lost: bool
) -> Body:
    """Ask for a task until it is done, at growing intervals, up to the deadline.

    Raises:
        TaskLostError: If the server does not know it, or (only if it `may_be_lost`)
            was away meanwhile and it has not moved since. Work that a process took
            with it stays unfinished for ever without a sign (`lakefs-facts` 11.25),
            and slow work looks the same, so that is a guess to be made once.
    """
    clock, options, call = transport.clock, transport.options, task.poll
    pause = options.first_poll.total_seconds()
    updates: list[Any] = []
    outages = transport.outages
    while True:
        answer = transport.call(call, task.polling, repository_id, task_id, expected=(404,))
        if answer.status == 404:
            raise TaskLostError(
                f"{call.subject}: the server no longer knows the task that it was given ({transport.failures.shown(answer.message)})",
                "It was probably restarted: run again.",
            )
        body = Body.of(call, answer)
        if body.flag(task.done):
            return body
        updated = body.optional_text("update_time")
        if may_be_lost and transport.outages > outages and updated in updates:
            raise TaskLostError(
                f"{call.subject}: the server was away while it worked on the task, which has not moved since {updated}",
                "It was probably restarted: run again.",
            )
        if updated not in updates:
            updates.append(updated)
        if clock.monotonic() + pause > deadline:
            moved = f"last at {updated}" if len(updates) > 1 else f"never after {updated}"
            raise TransientError(
                f"{call.subject}: the task is not done within prepare_deadline = {options.prepare_deadline} and "
                f"reported progress {moved}",
                "A task whose server process was restarted stays like "
                "this for ever: run again; if the repository is very large, raise prepare_deadline.",
            )
        clock.sleep(pause)
        pause = min(2 * pause, options.longest_poll.total_seconds())


def _task_failed(transport: Transport, call: Call, message: str) -> TransientError | IncompleteReadError:
    if not message:
        return unreadable(call, "a failed task without a reason")
    return TransientError(
        f"{call.subject}: the server's task failed ({transport.failures.shown(message)})",
        "Look at the server's log and run again.",
    )
