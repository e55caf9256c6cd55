"""Define the plain values that the packages share: repository, refs, retention rules, run key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from spark_core.errors import SettingsError

# What may be asked of a run.
Job: TypeAlias = Literal["mark", "mark_and_sweep", "sweep"]

_RUN_KEY = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}Z")
# The first and the last second that `datetime` holds.
_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_RUN_KEY_FORMAT = "%Y-%m-%dT%H-%M-%SZ"
# lakeFS's own dates begin here. Rules count back from a run key, and years that small end.
_FIRST_RUN_KEY = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Repository:
    """A repository as the server describes it.

    Attributes:
        id: Repository name.
        storage_namespace: URI as the server gives it; a trailing slash is kept.
        default_branch: Name of the default branch.
        creation_date: When it was created, in UTC; tells apart two repositories of one name.
        storage_id: Which of several storages holds it; empty for a single one.
        read_only: Whether the server refuses writes and both prepare calls.
    """

    id: str
    storage_namespace: str
    default_branch: str
    creation_date: datetime
    storage_id: str = ""
    read_only: bool = False


@dataclass(frozen=True)
class Commit:
    """A commit as the graph needs it.

    Attributes:
        id: Commit id (hex).
        parents: Parent ids in stored order.
        creation_date: Aware instant in UTC; instants beyond what `datetime` holds are clamped to
            its ends.
        metarange_id: Id of its metarange; empty for a repository's first commit.
        version: 0 (the main parent of a merge is the last one) or 1 (it is the first one).
        generation: Distance from the root as the server recorded it.
    """

    id: str
    parents: tuple[str, ...]
    creation_date: datetime
    metarange_id: str
    version: int = 1
    generation: int = 0

    @property
    def is_dated(self) -> bool:
        """Whether its date was not clamped; a clamped one (from milliseconds, say) tells no age."""
        return _FIRST < self.creation_date < _LAST

    @property
    def main_parent(self) -> str | None:
        """The parent that was the branch's head before this commit (`lakefs-facts` 4.2 step 1)."""
        if not self.parents:
            return None
        return self.parents[0] if self.version >= 1 else self.parents[-1]


@dataclass(frozen=True)
class Branch:
    """A branch and its head."""

    id: str
    commit_id: str


@dataclass(frozen=True)
class Tag:
    """A tag and the commit it names."""

    id: str
    commit_id: str


@dataclass(frozen=True)
class Refs:
    """The whole commit graph of a repository at one moment.

    Attributes:
        commits: Every commit, by id.
        branches: Every branch, hidden ones included.
        tags: Every tag.
    """

    commits: Mapping[str, Commit]
    branches: tuple[Branch, ...]
    tags: tuple[Tag, ...]


@dataclass(frozen=True)
class RetentionRules:
    """Garbage-collection rules: days to keep, by branch.

    Attributes:
        default_retention_days: Days for branches without a rule and for commits that no branch
            leads to.
        branches: Days by exact branch name.
    """

    default_retention_days: int
    branches: Mapping[str, int] = field(default_factory=dict)

    def days_for(self, branch_id: str) -> int:
        """Return the days that apply to a branch."""
        return self.branches.get(branch_id, self.default_retention_days)


@dataclass(frozen=True, order=True)
class RunKey:
    """The instant a run stands for; also its name.

    Examples:
        >>> RunKey.parse("2026-11-20T02-00-00Z").instant.isoformat()
        '2026-11-20T02:00:00+00:00'
        >>> str(RunKey.parse("2026-11-20T02-00-00Z"))
        '2026-11-20T02-00-00Z'
    """

    instant: datetime

    @classmethod
    def parse(cls, text: str) -> RunKey:
        """Read a run key.

        Raises:
            SettingsError: If the text is not `YYYY-MM-DDTHH-MM-SSZ`, or is before 1970.
        """
        if _RUN_KEY.fullmatch(text):
            try:
                instant = datetime.strptime(text, _RUN_KEY_FORMAT).replace(tzinfo=UTC)
            except ValueError:
                pass  # An impossible date in the right shape gets the same refusal below.
            else:
                if instant >= _FIRST_RUN_KEY:
                    return cls(instant)
                raise SettingsError(
                    f"run key {text!r} is before 1970, when lakeFS's time begins",
                    "Look at the year.",
                )
        raise SettingsError(
            f"run key {text!r} is not an instant like 2026-11-20T02-00-00Z (UTC, dashes instead of "
            "colons)."
        )

    @classmethod
    def at(cls, instant: datetime) -> RunKey:
        """Make the key of an aware instant, cut to whole seconds.

        Raises:
            ValueError: If `instant` has no timezone.
        """
        if instant.tzinfo is None:
            raise ValueError("a run key needs a timezone-aware instant")
        return cls(instant.astimezone(UTC).replace(microsecond=0))

    def __str__(self) -> str:
        return self.instant.strftime(_RUN_KEY_FORMAT)
