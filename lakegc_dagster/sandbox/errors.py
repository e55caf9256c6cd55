"""The error answers of the sandbox, with the messages of the real server."""

from __future__ import annotations

from http import HTTPStatus


class ApiError(Exception):
    """An answer with a status of 400 or more.

    Args:
        status: HTTP status.
        message: Text of the answer's `message`.
        headers: Additional headers of the answer.
    """

    def __init__(
        self, status: HTTPStatus, message: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}


def not_found(what: str = "") -> ApiError:
    """Make a 404: `branch` gives "branch not found", the empty string gives "not found"."""
    return ApiError(HTTPStatus.NOT_FOUND, f"{what} not found".strip())


def bad_request(message: str) -> ApiError:
    """Make a 400: the request is not valid."""
    return ApiError(HTTPStatus.BAD_REQUEST, message)


def conflict(message: str) -> ApiError:
    """Make a 409: the request conflicts with what exists."""
    return ApiError(HTTPStatus.CONFLICT, message)


def read_only() -> ApiError:
    """Make a 403: the repository is read-only."""
    return ApiError(HTTPStatus.FORBIDDEN, "read-only repository")


def no_data(headers: dict[str, str] | None = None) -> ApiError:
    """Make a 410: the entry exists, but its object is not in the store."""
    return ApiError(HTTPStatus.GONE, "No data", headers)


def protected(what: str) -> ApiError:
    """Make a 403: a branch protection rule blocks it (`write` or `commit`)."""
    return ApiError(HTTPStatus.FORBIDDEN, f"cannot {what} to protected branch")


def aborted(event: str, run_id: str, why: str) -> ApiError:
    """Make a 412: an action of the repository refused an event."""
    return ApiError(
        HTTPStatus.PRECONDITION_FAILED, f"{event} hook aborted, run id '{run_id}': {why}"
    )
