"""The figures of the retained commits, with rules, heads and holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_core.records.figures.base import LEFT_OUT, Figures

# How refs were read: from a dump, from the log down to an earlier dump, or by walking from branches
# and tags.
DUMP, EARLIER_DUMP, WALK = "dump", "earlier dump", "walk"


@dataclass(frozen=True, kw_only=True)
class RulesFigures(Figures):
    """The repository's retention rules.

    Attributes:
        default_retention_days: Days for branches without a rule.
        branches: Days by branch.
    """

    default_retention_days: int
    branches: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class HeadsFigures(Figures):
    """Since when each branch stands on its head, for later runs.

    Attributes:
        read_at: An instant before the branches were read.
        branches: Branch, commit, instant (None if nothing is known), and why that instant must not
            be relied on (empty if it may be).
    """

    read_at: str
    branches: tuple[tuple[str, str, str | None, str], ...]


@dataclass(frozen=True, kw_only=True)
class HoldFigures(Figures):
    """A hold, without who made it and when.

    Attributes:
        name: Its name.
        kind: What it names.
        value: The name of what is held.
        commit_id: The commit that a branch or tag stood on.
    """

    name: str
    kind: str
    value: str
    commit_id: str | None


@dataclass(frozen=True, kw_only=True)
class ExpiredMetarangesFigures(Figures):
    """Metaranges that only expired commits have.

    Attributes:
        all: Whether the table of expired commits has all of them.
        manifest: sha256 of that table's manifest; None if there is none.
    """

    all: bool
    manifest: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class CommitsFigures(Figures):
    """Figures of `retained_commits`.

    Attributes:
        rules: Retention rules; None for a repository without any.
        server_run: Id of the server's list; None without rules.
        server_lists: Ids of all lists that the server was asked for, `server_run` among them.
        refs_read_by: `dump`, `earlier dump` or `walk`.
        dump: Ids of the dump's tables; None if the refs were walked.
        dump_made_at: An instant before the dump was made, by this run or an earlier one.
        dump_files: Files of the dump, if this run made it.
        dump_bytes: Their bytes.
        commits_beside_dump: Commits that landed while, or since, the dump was made.
        commits: Commits of the repository.
        branches: Branches.
        heads: Commits that a branch stands on.
        heads_retained: Those of them that keep their objects.
        metaranges: Metaranges of retained commits, without the empty one.
        compacted: Rows of metaranges that no retained commit names, beside those of commits; None
            for none.
        tags: Tags.
        branch_heads: Since when each branch stands on its head.
        holds: Holds of the namespace.
        retained_by_server: Rows of the server's list.
        unknown_to_dump: Commits of the server's list that the dump lacks.
        unknown_to_walk: How many of the server's list the walk did not find.
        rules_without_branch: Branches that have a rule and do not exist.
        expired_metaranges: Metaranges that only expired commits have.
        expired_commits: Commits that do not keep their objects.
        by_reason: Why commits keep their objects -> how many.
    """

    rules: RulesFigures | None = None
    server_run: str | None = None
    server_lists: tuple[str, ...] = ()
    refs_read_by: str = "dump"
    dump: Mapping[str, str] | None = None
    dump_made_at: str | None = field(default=None, metadata=LEFT_OUT)
    dump_files: int = 0
    dump_bytes: int = 0
    commits_beside_dump: int = 0
    commits: int
    branches: int
    heads: int
    heads_retained: int
    metaranges: int
    compacted: int | None = field(default=None, metadata=LEFT_OUT)
    tags: int = 0
    branch_heads: HeadsFigures
    holds: tuple[HoldFigures, ...] = ()
    retained_by_server: int
    unknown_to_dump: tuple[str, ...]
    unknown_to_walk: int = 0
    rules_without_branch: tuple[str, ...]
    expired_metaranges: ExpiredMetarangesFigures
    expired_commits: int = 0
    by_reason: Mapping[str, int]
