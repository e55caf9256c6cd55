"""The answers of the sandbox that are not successes, with the words of the real server."""

from __future__ import annotations

from http import HTTPStatus


class ApiError(Exception):
    """An answer with a status of 400 or more.

    Args:
        status: HTTP status.
        message: Text of the answer's `message`.
        headers: Further headers of the answer.
    """

    def __init__(self, status: HTTPStatus, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}


def not_found(what: str = "") -> ApiError:
    """Say that a thing does not exist: `branch` gives "branch not found", nothing gives "not found"."""
    return ApiError(HTTPStatus.NOT_FOUND, f"{what} not found".strip())


def bad_request(message: str) -> ApiError:
    """Say that the request cannot be served as it is."""
    return ApiError(HTTPStatus.BAD_REQUEST, message)


def conflict(message: str) -> ApiError:
    """Say that the request collides with what is there."""
    return ApiError(HTTPStatus.CONFLICT, message)


def read_only() -> ApiError:
    """Refuse a write to a read-only repository."""
    return ApiError(HTTPStatus.FORBIDDEN, "read-only repository")


def no_data(headers: dict[str, str] | None = None) -> ApiError:
    """Say that the entry is there and its object is not in the store."""
    return ApiError(HTTPStatus.GONE, "No data", headers)
