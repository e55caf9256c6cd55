"""Why an object may go that nothing refers to, as far as commits are known."""

from __future__ import annotations

from enum import StrEnum


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
