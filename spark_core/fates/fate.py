"""The fates: what can become of an object, in the order in which it is decided, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from spark_core.plain_text import counted, span_text

SENTENCES: Mapping[str, str] = {
    "taken_by_policy": "may go: its retention policy names it",
    "committed": "a retained commit reaches it",
    "staged": "staged on a branch, not yet committed",
    "held": "held by name",
    "unsafe_name": "has a name that is never collected",
    "young": "unreachable, but younger than the cutoff",
    "uploading": "of an upload that may still go on (longest_upload_days)",
    "stranger": 'a name that lakeFS does not give (strangers = "keep")',
    "inherited": 'older than the repository (inherited = "keep")',
    "left_to_others": "unreachable, and left to a run that collects all",
    "not_named": "unreachable, but not named by the mark of the reference job",
    "read_by_branch": "identical content uploaded again: a branch reads from it",
    "may_hide": "may be such a re-upload, and was not checked",
    "expired": "may go",
}
"""By the value of the fate, in the order of `Fate`."""


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


class WhyMayGo(StrEnum):
    """Why an object of the fate `UNREFERENCED` may go; the values are the reasons that are stored.

    Example:
        >>> WhyMayGo.NEVER_COMMITTED.value
        'in no commit, and not staged'
    """

    ONLY_EXPIRED_COMMITS = "only in commits past their retention"
    NEVER_COMMITTED = "in no commit, and not staged"
    # What expired commits had is not known of all of them.
    UNREACHABLE = "in no retained commit, and not staged"


def explanation_in_words(row: Mapping[str, Any], instant: datetime) -> str:
    """Say in one sentence what an object was and which rule let it go.

    Args:
        row: The columns of `schemas.EXPLANATIONS` before the explanation.
        instant: The run's instant, from which ages are counted.

    Examples:
        >>> from datetime import UTC
        >>> row = {"path": "logs/a.csv", "other_paths": 1, "commit_id": "0123456789abcdef",
        ...        "branch": "dev", "retention_days": 7,
        ...        "committed_at": datetime(2026, 11, 1, tzinfo=UTC),
        ...        "replaced_at": datetime(2026, 11, 9, tzinfo=UTC)}
        >>> words = explanation_in_words(row, datetime(2026, 11, 20, tzinfo=UTC))
        >>> for part in words.split(", and "):
        ...     print(part)
        logs/a.csv and 1 other path: replaced or removed on dev 11 days before the mark
        dev keeps 7 days; last in commit 0123456789ab
    """
    others = row["other_paths"]
    path = row["path"] + (f" and {others} other path{'' if others == 1 else 's'}" if others else "")
    commit = row["commit_id"][:12]
    rule = rule_in_words(row, instant)
    if row["branch"] is None:
        return f"{path}: {rule.replace('a commit of', f'commit {commit} of', 1)}"
    return f"{path}: {rule}; last in commit {commit}"


def rule_in_words(row: Mapping[str, Any], instant: datetime) -> str:
    """Say which rule let an object go, without its path and its commit.

    Args:
        row: The columns of `schemas.EXPLANATIONS` before the explanation.
        instant: The run's instant, from which ages are counted.
    """
    keeps = counted(row["retention_days"], "day")
    if row["branch"] is None:
        age = counted((instant - row["committed_at"]).days, "day")
        return (
            f"last in a commit of {age} before the mark, which no branch leads to; such commits "
            f"are kept {keeps}"
        )
    gone = counted((instant - row["replaced_at"]).days, "day")
    branch = row["branch"]
    return f"replaced or removed on {branch} {gone} before the mark, and {branch} keeps {keeps}"


def written_too_lately(modified: datetime, left_alone: timedelta) -> str:
    """Say of one object what `young` and `uploading` say of all.

    Args:
        modified: When it was written.
        left_alone: Objects younger than this are left alone.

    Examples:
        >>> from datetime import UTC
        >>> written_too_lately(datetime(2026, 11, 20, 2, tzinfo=UTC), timedelta(hours=24))
        'it was written at 2026-11-20 02:00 UTC, and objects younger than 1 day are left alone'
    """
    return f"{_written(modified)}, and objects younger than {span_text(left_alone)} are left alone"


def written_after_inventory(modified: datetime, made_at: object) -> str:
    """Say why an object that is older than the cutoff is `young` for a run with an inventory."""
    return (
        f"{_written(modified)}, about when the inventory of {made_at} was made, or later: "
        "the next one decides"
    )


def _written(modified: datetime) -> str:
    return f"it was written at {modified:%Y-%m-%d %H:%M} UTC"
