"""The result of a check: the finding, its figures, its limit, and who may lift it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_core.records.manifest import Manifest
from spark_core.records.verdict_document import ADVISORY
from spark_core.run import Run

NOTHING_LIFTS_IT = "nothing lifts it"

Manifests = Mapping[str, Manifest]


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        name: Name of the check.
        table: Table that the check belongs to.
        passed: Whether this check allows a sweep of the mark.
        summary: The sentence that is shown: what was found, what was wanted, what to do.
        figures: The numbers and names behind it; JSON values only.
        limit: The condition for passing, in words. Numbers that settings decide are among the
            figures too.
        lifted_by: Setting or command that lets a mark pass all the same.

    Examples:
        >>> CheckResult("clocks_agree", "namespace_slices", True, "they agree", {}).lifted_by
        'nothing lifts it'
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
        """Whether this check allows a sweep: it passed, or it only informs."""
        return self.passed or self.name in ADVISORY


Check = Callable[[Run, Manifests], CheckResult]


def setting(name: str) -> str:
    """Say that a setting lifts a check, for the next mark."""
    return f"setting {name}, and a new mark"


def confirmed_or(name: str, run: Run, check: str) -> str:
    """Say that a person may confirm a finding by name, or change a setting."""
    return f"`lakegc confirm {run.repository.id} {check} --run {run.key}`, or {setting(name)}"


def share(part: float, whole: float) -> float:
    """Return the share of a whole that a part is; 0 if the whole is 0."""
    return part / whole if whole else 0.0
