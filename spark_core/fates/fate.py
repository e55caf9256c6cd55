"""The fates: what can become of an object, in the order in which it is decided."""

from __future__ import annotations

from enum import StrEnum

from spark_core.fates.sentences import SENTENCES


class Fate(StrEnum):
    """What becomes of a listed object; the first that holds.

    `TAKEN_BY_POLICY` comes first, though only for an object of which the policy judged every name
    to be due, and that no hold keeps, nor its name or age, nor a branch that answers from it or
    could not be asked. What is not collected anyway comes before what branches answer, since nobody
    need be asked about it.

    Example:
        >>> Fate("committed").sentence
        'a retained commit reaches it'
        >>> [fate.value for fate in Fate if fate.may_go]
        ['taken_by_policy', 'expired']
    """

    TAKEN_BY_POLICY = "taken_by_policy"
    COMMITTED = "committed"
    STAGED = "staged"
    HELD = "held"
    UNSAFE_NAME = "unsafe_name"
    YOUNG = "young"
    UPLOADING = "uploading"
    STRANGER = "stranger"
    INHERITED = "inherited"
    LEFT_TO_OTHERS = "left_to_others"
    NOT_NAMED = "not_named"
    READ_BY_BRANCH = "read_by_branch"
    MAY_HIDE = "may_hide"
    # "expired" is what tables and reports store for it. In the code only commits, by their rules,
    # and leases and tokens, by their times, expire.
    UNREFERENCED = "expired"

    @property
    def sentence(self) -> str:
        """What it means, in words for people."""
        return SENTENCES[self.value]

    def with_cause(self, cause: str) -> str:
        """Return the sentence, and what the mark stored as the cause of one object's fate.

        Args:
            cause: `why` of the table `fates`, which is the sentence where there is nothing to add.

        Example:
            >>> Fate.HELD.with_cause("hold q3: path reports/**")
            'held by name: hold q3: path reports/**'
        """
        # That a branch reads it is stored as the sentence with the branch's path.
        is_whole = self is Fate.READ_BY_BRANCH or cause == self.sentence
        return cause if is_whole else f"{self.sentence}: {cause}"

    @property
    def may_go(self) -> bool:
        """Whether an object of this fate may be deleted."""
        return self in (Fate.TAKEN_BY_POLICY, Fate.UNREFERENCED)
