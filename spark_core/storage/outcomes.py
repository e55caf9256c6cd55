"""What a deletion says of each key, and whom it asks before each request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Outcome = Literal["deleted", "already_gone", "changed", "refused", "failed"]

# Those of what is not in its place any more.
GONE: tuple[Outcome, ...] = ("deleted", "already_gone")
NOT_DELETED: tuple[Outcome, ...] = ("refused", "failed")


@dataclass(frozen=True)
class DeleteOutcome:
    """What happened to one key of a deletion.

    Attributes:
        key: As it was given.
        outcome: What the store answered. `deleted`; `already_gone` if the store tells that apart;
            `changed` if the object is not the one that was looked at, and stays; `refused` if the
            deletion is not allowed (a permission, a lock, expired credentials), or if lakegc did
            not ask because the key cannot be named safely; `failed` if the store could not or did
            not confirm, also when asked again.
        error: The reason, for `refused` and `failed`.
    """

    key: str
    outcome: Outcome
    error: str | None = None

    @property
    def is_gone(self) -> bool:
        """Whether the key has no object any more."""
        return self.outcome in GONE


Outcomes: TypeAlias = list[DeleteOutcome]


class Pace:
    """What a store asks before each request of a deletion; here, one that never waits."""

    def __call__(self) -> None:
        """Wait until the request may be sent; an error of it ends the deletion."""

    def busy(self, keys: int | None = None) -> None:
        """Learn that the store could not take some keys of the last request; None: all of them."""


unpaced = Pace()
