"""The document of a repository's object retention: its rules, as values and as it is shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, get_args

from spark_core.plain_text import counted
from spark_core.references.policies import lifecycle
from spark_core.references.policies.lifecycle import Lifecycle

Action = Literal["all", "noncurrent", "uncommitted"]
Effect = Literal["expire", "remove"]
# The actions of a rule whose objects expire, and of one that removes entries by a commit.
ACTIONS: tuple[Action, ...] = ("all", "noncurrent", "uncommitted")
REMOVAL_ACTIONS: tuple[Action, ...] = ("all", "uncommitted")
EFFECTS: tuple[Effect, ...] = get_args(Effect)

UNCOMMITTED: Action = "uncommitted"
REMOVE: Effect = "remove"


@dataclass(frozen=True)
class Period:
    """How old something must be; at least one of the two is given, and together at least a day."""

    days: int | None = None
    weeks: int | None = None

    @property
    def length(self) -> timedelta:
        """N days are N times 24 hours."""
        return timedelta(days=self.days or 0, weeks=self.weeks or 0)

    def __str__(self) -> str:
        days = self.length.days
        return counted(days, "day")


@dataclass(frozen=True)
class Rule:
    """What a rule names, and how old it must be.

    Attributes:
        branch: Branch under which objects were committed; None for whatever branch.
        path: Prefix of paths on the branch; empty for all of them.
        is_enabled: Whether it is applied.
        periods: Period of each action that the rule has.
        effect: What the rule does, where it names it; left out, `expire`.
    """

    branch: str | None
    path: str
    periods: Mapping[Action, Period]
    is_enabled: bool = True
    effect: Effect | None = None

    @property
    def removes(self) -> bool:
        """Whether it removes entries by a commit instead of letting objects expire."""
        return self.effect == REMOVE

    @property
    def prefix(self) -> str | None:
        """The prefix as the document writes it; None for a rule without one."""
        return None if self.branch is None else f"{self.branch}/{self.path}"

    def content(self) -> dict[str, Any]:
        """Return the rule in the document's first form; JSON values only."""
        return {
            **({} if self.prefix is None else {"filter": {"prefix": self.prefix}}),
            "status": "enabled" if self.is_enabled else "disabled",
            **({} if self.effect is None else {"effect": self.effect}),
            "expiration": {
                action: {
                    unit: count
                    for unit, count in (("weeks", period.weeks), ("days", period.days))
                    if count is not None
                }
                for action, period in self.periods.items()
            },
        }

    def words(self, number: int, action: Action) -> str:
        """Say by which rule an object goes: number, action, period and prefix."""
        where = "everywhere" if self.prefix is None else f"on {self.prefix}"
        return f"policy rule {number}: {action}, {self.periods[action]}, {where}"


@dataclass(frozen=True)
class Policy:
    """A document.

    Attributes:
        rules: In the document's order; people and tables number them from 1 on.
        branch_order: Branches of which the operator vouches that what stands on their main line was
            committed there, unless it stands on that of an earlier one. The default branch is
            always the first, unless it is named at another place.
        branch_lifecycle: Which branches may go; None for none. A document with it may do without
            rules.
    """

    rules: tuple[Rule, ...]
    branch_order: tuple[str, ...] = field(default=())
    branch_lifecycle: Lifecycle | None = None

    def content(self) -> dict[str, Any]:
        """Return the document in its first form; JSON values only."""
        section = self.branch_lifecycle
        return {
            **({"branch_order": list(self.branch_order)} if self.branch_order else {}),
            # Digests of documents from before the section must stay as they are.
            **({"rules": [rule.content() for rule in self.rules]} if self.rules else {}),
            **({} if section is None else {lifecycle.SECTION: section.content()}),
        }

    def to_json(self) -> str:
        """Write the document in its first form, to be shown and to be read again."""
        return json.dumps(self.content(), indent=2, ensure_ascii=False) + "\n"

    @property
    def digest(self) -> str:
        """Hex digest of what the document says, however it is written."""
        content = json.dumps(self.content(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()
