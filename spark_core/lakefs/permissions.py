"""Check the permissions for a mark's heavy calls, without making the server do their work.

The server checks the permission of a call before its arguments. So each check makes a call that
must fail: it asks for the state of a task that nobody started, or for the page after an invalid
token. If the server refuses the argument, the call is permitted.
"""

from __future__ import annotations

from spark_core.clocks import Clock, ClockReading, SystemClock
from spark_core.errors import SettingsError, TransientError
from spark_core.lakefs.answers import unreadable
from spark_core.lakefs.calls import UNKNOWN_ENDPOINT, Answer, Call
from spark_core.lakefs.options import ServerOptions
from spark_core.lakefs.transport import Transport

# Ids of tasks that nobody started. The first letters are the kind of the task.
_NO_COMMITS_TASK = "GCPC00000000000000000000"
_NO_DUMP_TASK = "DR00000000000000000000"
_NO_TOKEN = "lakegc asks for the permission only"  # noqa: S105 - no secret: the point is that it is none
_NOT_FOUND = "not found"
_NO_SUCH_TOKEN = "invalid continuation token"  # noqa: S105 - the server's words


class Permissions:
    """Asks one server about one user's permissions.

    Args:
        options: How to reach the server.
        clock: The clock for pauses and time limits.

    References:
        lakeFS `pkg/api/controller.go` v1.84: each handler authorizes before it looks at its
        arguments.
    """

    def __init__(self, options: ServerOptions, *, clock: Clock | None = None) -> None:
        from lakefs_sdk.api.health_check_api import HealthCheckApi
        from lakefs_sdk.api.internal_api import InternalApi
        from lakefs_sdk.api.repositories_api import RepositoriesApi

        self._transport = Transport(options, clock or SystemClock())
        self._internal = InternalApi(self._transport.client)
        self._repositories = RepositoriesApi(self._transport.client)
        self._health = HealthCheckApi(self._transport.client)

    @property
    def clock_reading(self) -> ClockReading | None:
        """The server's clock compared with this machine's."""
        return self._transport.clock_reading

    def require_lakefs(self) -> None:
        """Make sure that a lakeFS server answers; this call needs no keys.

        Raises:
            SettingsError: If something else answers.
            TransientError: If nothing answers.
        """
        call = Call("health", "health of the server", public=True)
        statuses = tuple(range(300, 500))
        answer = self._transport.call(
            call, self._health.health_check_with_http_info, expected=statuses
        )
        if answer.status != 204:
            raise SettingsError(
                f"{self._transport.options.endpoint} answers {answer.status} where a lakeFS "
                "server answers 204: it is no lakeFS server, or something in front of it answers",
                "Set endpoint to the server's own URL, without a path behind it, and with https "
                "where it wants that.",
            )

    def prepare_commits(self, repository_id: str) -> bool:
        """Check the permission for prepare_commits.

        Returns:
            False if the server has only the synchronous call, which cannot be checked.

        Raises:
            PermissionDeniedError: If it is not allowed.
        """
        call = self._call(
            "prepare_commits", repository_id, "retention:PrepareGarbageCollectionCommits"
        )
        answer = self._transport.call(
            call,
            self._internal.prepare_garbage_collection_commits_status_with_http_info,
            repository_id,
            _NO_COMMITS_TASK,
            expected=(404, 500),
        )
        return self._allowed(call, answer, 404, _NOT_FOUND)

    def prepare_uncommitted(self, repository_id: str) -> bool:
        """Check the permission for prepare_uncommitted; False if the server does not have it.

        Raises:
            PermissionDeniedError: If it is not allowed.
        """
        from lakefs_sdk.models.prepare_gc_uncommitted_request import PrepareGCUncommittedRequest

        call = self._call(
            "prepare_uncommitted", repository_id, "retention:PrepareGarbageCollectionUncommitted"
        )
        answer = self._transport.call(
            call,
            self._internal.prepare_garbage_collection_uncommitted_with_http_info,
            repository_id,
            PrepareGCUncommittedRequest(continuation_token=_NO_TOKEN),
            expected=(400, 404, 500),
        )
        return self._allowed(call, answer, 400, _NO_SUCH_TOKEN)

    def dump_refs(self, repository_id: str) -> bool:
        """Check the permission for the refs dump; False if the server does not have it.

        Raises:
            PermissionDeniedError: If it is not allowed.
        """
        call = self._call(
            "refs dump", repository_id, "fs:ListBranches, fs:ListTags and fs:ListCommits"
        )
        answer = self._transport.call(
            call,
            self._repositories.dump_status_with_http_info,
            repository_id,
            _NO_DUMP_TASK,
            expected=(404, 500),
        )
        return self._allowed(call, answer, 404, _NOT_FOUND)

    def _call(self, what: str, repository_id: str, action: str) -> Call:
        return Call(f"may {what}", f"permission for {what} of repository {repository_id}", action)

    def _allowed(self, call: Call, answer: Answer, status: int, message: str) -> bool:
        if (answer.status, answer.message) == (status, message):
            return True
        # Servers before 1.75 answer 500 to a call that they do not have.
        if answer.message == UNKNOWN_ENDPOINT or (answer.status == 404 and not answer.message):
            return False
        if answer.status == 500:
            raise TransientError(
                f"{call.subject}: the server answers 500 "
                f"({self._transport.errors.shown(answer.message)}), because it does not have "
                "this call (before version 1.75) or for a fault of its own",
                "Look at its version and log.",
            )
        if answer.status < 300:
            raise unreadable(call, "a result to a call that must fail")
        raise self._transport.errors.of_answer(call, answer)
