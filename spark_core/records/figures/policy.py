"""The figures of what a retention policy names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_core.records.figures.base import LEFT_OUT, Figures


@dataclass(frozen=True, kw_only=True)
class NamedFigures(Figures):
    """What the rules of a document name. Rules are known by their numbers, from 1 on.

    Attributes:
        policy_objects: Objects that any rule names ...
        policy_bytes: ... and their bytes.
        by_rule: Number, beginning of the names (None: of all), objects and bytes of each rule.
        by_branch: Number of the rule, branch ("" where it is undecided), objects and bytes.
        largest: By number of the rule: bytes, address, branch, path and date of the largest
            objects.
        newest: The same of the newest: date, address, branch, path and bytes.
        names_placed: Names of listed, old objects with a branch ...
        names_undecided: ... and without.
        entries: Entries that were read.
        ranges: Distinct ranges that have them.
        metaranges_read: Metaranges that were read.
        commits: Commits of the repository.
        unread_commits: Some commits whose tables cannot be read ...
        unread: ... and their number.
        staged_names: Names of what is staged; None if no rule asks for them.
        staged_problem: Why nobody knows them all; empty if somebody does.
        staged_by_rule: Number of the rule, objects and bytes of those that go although they are
            staged, in no commit.
    """

    policy_objects: int
    policy_bytes: int
    by_rule: tuple[tuple[int, str | None, int, int], ...]
    by_branch: tuple[tuple[int, str, int, int], ...]
    largest: Mapping[str, tuple[tuple[int, str, str, str, str], ...]]
    newest: Mapping[str, tuple[tuple[str, str, str, str, int], ...]]
    names_placed: int
    names_undecided: int
    entries: int
    ranges: int
    metaranges_read: int
    commits: int
    unread_commits: tuple[str, ...]
    unread: int
    staged_names: int | None = field(default=None, metadata=LEFT_OUT)
    staged_problem: str | None = field(default=None, metadata=LEFT_OUT)
    staged_by_rule: tuple[tuple[int, int, int], ...] | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class PolicyExpirationsFigures(NamedFigures):
    """Figures of `policy_expirations`.

    Attributes:
        policy_version: Number of the version that was looked at.
        policy_digest: Digest of what its document says.
        policy_set_by: Who set it.
        takes_rules: Rules whose objects go.
        waits: Why nothing of the policy goes; None if it may.
        above_share: Rules that name more than they may, and wait.
        confirmed_by: Who confirmed the document; None if nobody did, or nothing of it may go.
        confirmed_at: When.
    """

    policy_version: int
    policy_digest: str
    policy_set_by: str
    takes_rules: tuple[int, ...]
    waits: str | None
    above_share: tuple[int, ...]
    confirmed_by: str | None
    confirmed_at: str | None
