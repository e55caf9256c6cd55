"""The section `branch_lifecycle` of a policy: which branches may go, and when."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_core.globs import Syntax, matches
from spark_core.references.policies.faults import Faults
from spark_core.references.policies.places import Value, shown

SECTION = "branch_lifecycle"
MOST_POLICIES = 100
MOST_PATTERNS = 100
LONGEST_DAYS = 36_500
DEFAULT_UNDO_DAYS = 30

# Letters of branch names, `*`, `?` and sets such as `[0-9]` or `[!x]`.
_SET = r"\[!?(?:[A-Za-z0-9_](?:-[A-Za-z0-9_])?)+\]"
_PATTERN = re.compile(rf"(?:[A-Za-z0-9_*?-]|{_SET})+")
_RANGE = re.compile(r"([A-Za-z0-9_])-([A-Za-z0-9_])")
_SETS = re.compile(_SET)


@dataclass(frozen=True)
class LifecyclePolicy:
    """One of the policies: its branches, and how old or idle they must be.

    Attributes:
        branches: Patterns of names, at least one.
        max_age_days: Days since the branch was made; None if that does not matter.
        max_inactivity_days: Days since the last commit or staged write; None if that does not
            matter.
    """

    branches: tuple[str, ...]
    max_age_days: int | None = None
    max_inactivity_days: int | None = None

    def pattern_of(self, branch: str) -> str | None:
        """Return the first pattern that names a branch; None if none does."""
        return first_match(self.branches, branch)

    def content(self) -> dict[str, Any]:
        """Return the policy as the document has it; JSON values only."""
        days = {
            "max_age_days": self.max_age_days,
            "max_inactivity_days": self.max_inactivity_days,
        }
        return {
            "branches": list(self.branches),
            **{key: value for key, value in days.items() if value is not None},
        }


@dataclass(frozen=True)
class Lifecycle:
    """The section.

    Attributes:
        policies: In order; the first one that names a branch counts for it.
        keep: Patterns of branches that never go.
        delete_staged: Whether a branch may go with what is staged on it.
        undo_days: Days for which a branch that went can be made again.
    """

    policies: tuple[LifecyclePolicy, ...]
    keep: tuple[str, ...] = ()
    delete_staged: bool = False
    undo_days: int = DEFAULT_UNDO_DAYS

    def policy_of(self, branch: str) -> tuple[int, str, LifecyclePolicy] | None:
        """Return the policy that counts for a branch, its number from 1 on, and its pattern."""
        for number, policy in enumerate(self.policies, start=1):
            pattern = policy.pattern_of(branch)
            if pattern is not None:
                return number, pattern, policy
        return None

    def content(self) -> dict[str, Any]:
        """Return the section as the document has it; JSON values only."""
        return {
            "policies": [policy.content() for policy in self.policies],
            **({"keep": list(self.keep)} if self.keep else {}),
            **({"delete_staged": True} if self.delete_staged else {}),
            "undo_days": self.undo_days,
        }


def first_match(patterns: Sequence[str], branch: str) -> str | None:
    """Return the first pattern of the document that names a branch; None if none does.

    Examples:
        >>> first_match(["dev-?", "dev-[0-9]*"], "dev-12")
        'dev-[0-9]*'
    """
    return next((pattern for pattern in patterns if matches(pattern, branch, Syntax())), None)


def read_section(value: Value, faults: Faults) -> Lifecycle | None:
    """Read the section; None if it is none, as the faults say."""
    known = ("policies", "keep", "delete_staged", "undo_days")
    found = faults.keys(value, SECTION, known)
    if found is None:
        return None
    keep = _patterns(found["keep"], f"{SECTION}.keep", faults) if "keep" in found else ()
    policies = _policies(value, found, faults)
    undo_days = _days(found, "undo_days", SECTION, faults)
    return Lifecycle(
        policies,
        keep,
        delete_staged=_flag(found.get("delete_staged"), f"{SECTION}.delete_staged", faults),
        undo_days=DEFAULT_UNDO_DAYS if undo_days is None else undo_days,
    )


def _policies(
    section: Value, found: Mapping[str, Value], faults: Faults
) -> tuple[LifecyclePolicy, ...]:
    key = f"{SECTION}.policies"
    listed = found.get("policies")
    if listed is None:
        faults.add(section, key, "missing")
        return ()
    if not isinstance(listed.content, list):
        faults.add(listed, key, f"{shown(listed)}, wanted a list of policies")
        return ()
    if not 1 <= len(listed.content) <= MOST_POLICIES:
        faults.add(listed, key, f"{len(listed.content):,} policies, wanted 1 to {MOST_POLICIES:,}")
    read = (_policy(value, f"{key}[{at}]", faults) for at, value in enumerate(listed.content))
    return tuple(policy for policy in read if policy is not None)


def _policy(value: Value, key: str, faults: Faults) -> LifecyclePolicy | None:
    found = faults.keys(value, key, ("branches", "max_age_days", "max_inactivity_days"))
    if found is None:
        return None
    if "branches" in found:
        branches = _patterns(found["branches"], f"{key}.branches", faults, at_least=1)
    else:
        faults.add(value, f"{key}.branches", "missing")
        branches = ()
    age = _days(found, "max_age_days", key, faults)
    inactivity = _days(found, "max_inactivity_days", key, faults)
    if not {"max_age_days", "max_inactivity_days"} & found.keys():
        faults.add(value, key, "has no days; give `max_age_days`, `max_inactivity_days` or both")
    return LifecyclePolicy(branches, age, inactivity)


def _patterns(value: Value, key: str, faults: Faults, *, at_least: int = 0) -> tuple[str, ...]:
    if not isinstance(value.content, list):
        faults.add(value, key, f"{shown(value)}, wanted a list of patterns of branch names")
        return ()
    if not at_least <= len(value.content) <= MOST_PATTERNS:
        faults.add(
            value,
            key,
            f"{len(value.content):,} patterns, wanted {at_least} to {MOST_PATTERNS:,}",
        )
    patterns: list[str] = []
    for at, each in enumerate(value.content):
        problem = _problem(each)
        if problem:
            faults.add(each, f"{key}[{at}]", problem)
        elif each.content in patterns:
            faults.add(each, f"{key}[{at}]", f"{each.content} is named twice")
        else:
            patterns.append(each.content)
    return tuple(patterns)


def _problem(value: Value) -> str:
    """Say what is wrong with a pattern; empty for nothing."""
    if not isinstance(value.content, str) or not _PATTERN.fullmatch(value.content):
        return (
            f"{shown(value)}, wanted a pattern of branch names: letters, digits, `_`, `-`, `*`, "
            "`?` and sets such as [0-9] or [!x]"
        )
    for letters in _SETS.findall(value.content):
        for first, last in _RANGE.findall(letters):
            if first > last:
                return f"{value.content!r} has the range {first}-{last}, which is empty"
    return ""


def _days(found: Mapping[str, Value], name: str, key: str, faults: Faults) -> int | None:
    value = found.get(name)
    if value is None:
        return None
    # True is a whole number to Python.
    if type(value.content) is int and 1 <= value.content <= LONGEST_DAYS:
        return value.content
    problem = f"{shown(value)}, wanted whole days from 1 to {LONGEST_DAYS:,}"
    faults.add(value, f"{key}.{name}", problem)
    return 1


def _flag(value: Value | None, key: str, faults: Faults) -> bool:
    if value is None:
        return False
    if not isinstance(value.content, bool):
        faults.add(value, key, f"{shown(value)}, wanted true or false")
    return value.content is True
