"""What a check says: the finding, the figures behind it, its limit, and who may lift it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_core.records.tables import Manifest
from spark_core.run import Run

NOTHING_LIFTS_IT = "nothing lifts it"

# Checks that say something and stand in the way of nothing.
ADVISORY = frozenset({"hidden_entries_were_asked"})

Manifests = Mapping[str, Manifest]


@dataclass(frozen=True)
class CheckResult:
    """What one check says.

    Attributes:
        name: Name of the check.
        table: Table that the check sits on.
        passed: Whether the mark may be swept as far as this check sees.
        summary: One sentence for people: what was found, what was wanted, what to do.
        figures: The numbers and names behind it; JSON values only.
        limit: Up to where it passes, in words; numbers that settings decide are among the figures too.
        lifted_by: Which setting or command lets a mark pass all the same.
    """

    name: str
    table: str
    passed: bool
    summary: str
    figures: Mapping[str, Any]
    limit: str = ""
    lifted_by: str = NOTHING_LIFTS_IT

    @property
    def allows(self) -> bool:
        """Whether the mark may be swept as far as this check goes: it passed, or only says something."""
        return self.passed or self.name in ADVISORY


Check = Callable[[Run, Manifests], CheckResult]


def setting(name: str) -> str:
    """Say that a setting lifts a check, for the next mark."""
    return f"setting {name}, and a new mark"


def confirmed_or(name: str, run: Run, check: str) -> str:
    """Say that a person may confirm a finding by name, or change a setting."""
    return f"`lakegc confirm {run.repository.id} {check} --run {run.key}`, or {setting(name)}"


def share(part: float, whole: float) -> float:
    """Return which share of a whole a part is; of nothing, none."""
    return part / whole if whole else 0.0
