"""What becomes of each listed object, and why: the only place that decides whether one may go.

`Fate` names what can become of an object, in the order in which it is decided: the first that holds
is its fate. `fates.deciding` has the function that finds it.
"""

from __future__ import annotations

from enum import StrEnum


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
    EXPIRED = "expired"

    @property
    def sentence(self) -> str:
        """What it means, in words for people."""
        return _SENTENCES[self]

    @property
    def may_go(self) -> bool:
        """Whether an object of this fate may be deleted."""
        return self in (Fate.TAKEN_BY_POLICY, Fate.EXPIRED)


_SENTENCES = {
    Fate.TAKEN_BY_POLICY: "may go: its retention policy names it",
    Fate.COMMITTED: "a retained commit reaches it",
    Fate.STAGED: "staged on a branch, not yet committed",
    Fate.HELD: "held by name",
    Fate.UNSAFE_NAME: "has a name that is never collected",
    Fate.YOUNG: "unreachable, but younger than the cutoff",
    Fate.UPLOADING: "of an upload that may still go on (longest_upload_days)",
    Fate.STRANGER: 'a name that lakeFS does not give (strangers = "keep")',
    Fate.INHERITED: 'older than the repository (inherited = "keep")',
    Fate.READ_BY_BRANCH: "identical content uploaded again: a branch reads from it",
    Fate.MAY_HIDE: "may be such a re-upload, and was not checked",
    Fate.LEFT_TO_OTHERS: "unreachable, and left to a run that collects all",
    Fate.NOT_NAMED: "unreachable, but not named by the mark of the reference job",
    Fate.EXPIRED: "may go",
}
