"""Why the server refuses a write: known by the status and the words of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from spark_core.errors import RepositoryStateError

Reason = Literal["staged", "conflict", "hook", "protected", "nothing", "exists", "default_branch"]
# Statuses that say why a write is refused; a lacking permission is another matter.
REFUSALS = (400, 403, 409, 412)


class WriteRefusedError(RepositoryStateError):
    """The server understood a write and refused it for the state that the repository is in.

    Attributes:
        reason: `staged`: the branch has uncommitted changes. `conflict`: both sides changed a path.
            `hook`: an action of the repository refused it. `protected`: a branch protection rule
            refused it. `nothing`: there is nothing to change. `exists`: there is a branch of that
            name. `default_branch`: it cannot be deleted.
    """

    reason: Reason = "conflict"


NEXT_STEPS: Mapping[Reason, str] = {
    "staged": "Commit or reset what is staged on the branch.",
    "conflict": "Somebody changed the same paths: look at the branch.",
    "hook": "Look at the repository's actions, which refused it.",
    "protected": "Look at the repository's branch protection rules.",
    "nothing": "There is nothing to change.",
    "exists": "Look at that branch; delete it if nobody needs it.",
    "default_branch": "The default branch of a repository cannot be deleted.",
}


def reason_of(status: int, message: str) -> Reason | None:
    """Tell why the server refuses, by its status and its words."""
    if status == 412:
        return "hook"
    words: list[tuple[int, str, Reason]] = [
        (403, "protected branch", "protected"),
        (403, "default branch", "default_branch"),
        (400, "default branch", "default_branch"),
        (400, "dirty branch", "staged"),
        (400, "no changes", "nothing"),
        (409, "not unique", "exists"),
    ]
    for of_status, some, reason in words:
        if status == of_status and some in message:
            return reason
    # The answer to a merge with a conflict has no message.
    return "conflict" if status == 409 else None
