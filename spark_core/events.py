"""What a run tells while it works: one event for each step that begins, moves on or ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

if TYPE_CHECKING:
    from spark_core.checks import CheckResult
    from spark_core.records.manifest import Manifest


@dataclass(frozen=True)
class Event:
    """Something that happened to a table of a run.

    Attributes:
        kind: Which step it is; a check of the table is one, too.
        table: Name of the table.
        words: How far a step is, what a check found, what a step waits for, why it is tried again,
            or why it failed.
        rows: Rows of a stored table.
        size_bytes: Its bytes.
        seconds: How long it took; None if nobody measured.
        check: Name of a check.
        passed: Whether it lets the run go on.
        tries: How often a step was tried that is tried again.
    """

    kind: Literal["started", "progressed", "stored", "checked", "waits", "retries", "failed"]
    table: str
    words: str = ""
    rows: int = 0
    size_bytes: int = 0
    seconds: float | None = None
    check: str = ""
    passed: bool = True
    tries: int = 0

    @classmethod
    def stored(cls, manifest: Manifest) -> Self:
        """Tell that a table is stored."""
        return cls(
            "stored",
            manifest.table,
            rows=manifest.rows,
            size_bytes=manifest.size_bytes,
            seconds=(manifest.reading_ended - manifest.reading_began).total_seconds(),
        )

    @classmethod
    def checked(cls, result: CheckResult) -> Self:
        """Tell what a check said."""
        return cls("checked", result.table, result.summary, check=result.name, passed=result.allows)


OnEvent: TypeAlias = Callable[[Event], None]
