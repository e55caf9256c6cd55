"""Failures of the remote stores as the project's errors; equal failures read alike in all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from spark_core.errors import (
    LakegcError,
    NotFoundError,
    ObjectExistsError,
    PermissionDeniedError,
    SettingsError,
    TransientError,
)

# The error, what was found, and the next step.
Explanation: TypeAlias = tuple[type[LakegcError], str, str]

EXISTS: Explanation = (
    ObjectExistsError,
    "there is such an object already, and it was left as it is",
    "Another writer was first.",
)
ABSENT: Explanation = (
    NotFoundError,
    "the store has no such object",
    "Look whether it was moved or deleted.",
)


@dataclass(frozen=True)
class StoreFailure:
    """The parts of a failure that may be shown.

    Bodies and texts of failures hold signatures, tokens and URLs that are keys by themselves.

    Attributes:
        status: HTTP status; None when no answer came.
        code: The store's own code, in one word, or the kind of failure.
    """

    status: int | None
    code: str = ""

    def __str__(self) -> str:
        return " ".join(
            filter(None, [f"HTTP {self.status}" if self.status else "no answer", self.code])
        )


@dataclass(frozen=True)
class ClientWords:
    """How the clients of a store fail.

    Attributes:
        errors: The errors that they raise.
        failure_of: Reads the parts of an error.
        explain: Chooses the message by the parts and the action.
    """

    errors: tuple[type[Exception], ...]
    failure_of: Callable[[Exception], StoreFailure]
    explain: Callable[[Exception, Any, str], Explanation]


def refused(failure: StoreFailure, step: str) -> Explanation:
    """Report that the store said no, and would say so again."""
    return PermissionDeniedError, f"the store refuses ({failure})", step


def not_taken(failure: StoreFailure, step: str) -> Explanation:
    """Report that the request is not one for this store."""
    return SettingsError, f"the store does not take the request as it was sent ({failure})", step


def no_answer(
    failure: StoreFailure, step: str = "Look at the endpoint and the network, and run again."
) -> Explanation:
    """Report that the store could not, and was asked more than once."""
    return (
        TransientError,
        f"the store did not answer or could not now ({failure}), also when asked again",
        step,
    )


def no_place(what: str, endpoint: str = "the endpoint") -> Explanation:
    """Report that there is no such bucket or container."""
    return (
        SettingsError,
        f"there is no such {what}",
        f"Look at the storage namespace and {endpoint}.",
    )
