"""What a store keeps of the objects that are deleted in it, as far as it says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AfterDeletion:
    """The answer of a store about its versions and its soft delete.

    Attributes:
        keeps: Whether it keeps deleted objects: False if it was read that it does not, None if
            nobody knows.
        words: What was read, or why nobody knows; one sentence.
    """

    keeps: bool | None
    words: str
