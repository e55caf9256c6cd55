"""Let the server work on a task of its own, and wait for the end of it.

An end that cannot be told from an empty result is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_core.errors import IncompleteReadError, TransientError
from spark_core.lakefs.answers import Body, unreadable
from spark_core.lakefs.calls import UNKNOWN_REPOSITORY, Answer, Call
from spark_core.lakefs.transport import Transport

if TYPE_CHECKING:
    # Imported where a call is made: executors import this package, and never call the server.
    from lakefs_sdk.api_response import ApiResponse


class TaskLostError(TransientError):
    """The server process that worked on a task is gone, and the task must be submitted again."""


@dataclass(frozen=True)
class ServerTask:
    """How an asynchronous task of the server is submitted and polled.

    Attributes:
        submit: The call that submits it.
        submitting: The SDK method of that call; takes the repository.
        poll: The call that reads its state.
        polling: The SDK method of that call; takes the repository and the task's id.
        done: Name of the field that says whether it is done.
    """

    submit: Call
    submitting: Callable[..., ApiResponse]
    poll: Call
    polling: Callable[..., ApiResponse]
    done: str


def finished(transport: Transport, task: ServerTask, repository_id: str) -> Body | None:
    """Submit a task and wait for its end; submit it once more if the server lost it in a restart.

    Returns:
        The server's answer about the finished task; None if the server has no such call.
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


def _has_no_such_route(transport: Transport, call: Call, submitted: Answer) -> bool:
    """Tell a server without the asynchronous call from one without the repository."""
    if submitted.status == 404 and submitted.message == UNKNOWN_REPOSITORY:
        raise transport.errors.of_answer(call, submitted)
    return submitted.status in (404, 500)


def _wait(
    transport: Transport,
    task: ServerTask,
    repository_id: str,
    task_id: str,
    deadline: float,
    *,
    may_be_lost: bool,
) -> Body:
    """Poll a task until it is done, at growing intervals, up to the deadline.

    Raises:
        TaskLostError: If the server does not know the task. If it `may_be_lost`, also
            when the server was away meanwhile and the task has not moved since. A
            task whose process died stays unfinished for ever without a sign
            (`lakefs-facts` 11.25). Slow work looks the same, so this guess is made
            only once.
        TransientError: If the task is not done by the deadline.
    """
    clock, options, call = transport.clock, transport.options, task.poll
    pause = options.first_poll.total_seconds()
    updates: list[Any] = []
    outages = transport.outages
    while True:
        # Few tasks are done at once, so a question at once would be one call more.
        clock.sleep(pause)
        answer = transport.call(call, task.polling, repository_id, task_id, expected=(404,))
        if answer.status == 404:
            raise TaskLostError(
                f"{call.subject}: the server no longer knows the task that it was given "
                f"({transport.errors.shown(answer.message)})",
                "It was probably restarted: run again.",
            )
        body = Body.of(call, answer)
        if body.flag(task.done):
            return body
        updated = body.optional_text("update_time")
        if may_be_lost and transport.outages > outages and updated in updates:
            raise TaskLostError(
                f"{call.subject}: the server was away while it worked on the task, which has not "
                f"moved since {updated}",
                "It was probably restarted: run again.",
            )
        if updated not in updates:
            updates.append(updated)
        pause = min(2 * pause, options.longest_poll.total_seconds())
        if clock.monotonic() + pause > deadline:
            moved = f"last at {updated}" if len(updates) > 1 else f"never after {updated}"
            raise TransientError(
                f"{call.subject}: the task is not done within prepare_deadline = "
                f"{options.prepare_deadline} and reported progress {moved}",
                "A task whose server process was restarted stays like this for ever: run again; "
                "if the repository is very large, raise prepare_deadline.",
            )


def task_failed(
    transport: Transport, call: Call, message: str
) -> TransientError | IncompleteReadError:
    """Return the error for a task that ended with an error of its own."""
    if not message:
        return unreadable(call, "a failed task without a reason")
    return TransientError(
        f"{call.subject}: the server's task failed ({transport.errors.shown(message)})",
        "Look at the server's log and run again.",
    )
