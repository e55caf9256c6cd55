"""Why the work of a removal rule ends without a merge, and what then became of the rule."""

from __future__ import annotations

from spark_core.branches.removal.record import State
from spark_core.branches.removal.refused import WriteRefusedError
from spark_core.errors import RefusedError


class StoppedError(RefusedError):
    """The work of a rule ends without a merge.

    Attributes:
        became: What became of the rule.
    """

    became: State = "failed"

    @classmethod
    def of(cls, became: State, found: str, next_step: str = "") -> StoppedError:
        """Make the end of a rule's work."""
        error = cls(found, next_step)
        error.became = became
        return error


def became_of(refused: WriteRefusedError) -> State:
    """Tell what became of a rule whose write the server refused."""
    match refused.reason:
        case "staged" | "conflict" | "hook" | "protected":
            return refused.reason
        case _:
            return "failed"


def words_of_staged(branch: str, path: str) -> str:
    """Say that something is staged on a branch."""
    return (
        f"something is staged on branch {branch}, for instance at {path[:200]!r}, and such a "
        "branch takes no merge"
    )
