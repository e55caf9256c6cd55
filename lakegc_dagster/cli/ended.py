"""How a run of one repository ended: as one line, and as a row of the table that closes a night."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from lakegc_dagster.cli.shown_report import refused_by, way_on
from spark_core.errors import LakegcError, exit_code, kind_of
from spark_core.plain_text import bytes_text, counted
from spark_core.prices import Price, moneys_text

if TYPE_CHECKING:
    from rich.table import Table

    from lakegc_dagster.launch.run_job import LaunchResult
    from spark_core.model import RunKey
    from spark_core.settings import Settings

Outcome: TypeAlias = Literal["swept", "marked", "refused", "failed", "settings"]

NONE = "–"  # noqa: RUF001 - a dash, as in any table

# What the objects of a row are.
_OBJECTS: dict[Outcome, str] = {
    "swept": "were deleted",
    "marked": "may go",
    "refused": "would go",
    "failed": "would go",
    "settings": "would go",
}


@dataclass(frozen=True)
class Ended:
    """How a run over one of several repositories ended.

    Attributes:
        repository: Repository id.
        run: Run key.
        outcome: In a word.
        objects: Objects that were deleted, or may go; None if nobody knows.
        size_bytes: Their bytes.
        price: What bytes of this repository cost; None if nobody says.
        seconds: How long it took.
        error: What ended it, if it did not end well.
        checks: Names of the checks that refuse it.
        next_step: The command that comes next; empty if there is none.
    """

    repository: str
    run: str
    outcome: Outcome
    objects: int | None = None
    size_bytes: int | None = None
    price: Price | None = None
    seconds: float = 0
    error: LakegcError | None = None
    checks: tuple[str, ...] = ()
    next_step: str = ""

    @classmethod
    def of(
        cls,
        settings: Settings,
        repository_id: str,
        key: RunKey,
        result: LaunchResult | None,
        error: LakegcError | None,
        *,
        seconds: float,
    ) -> Ended:
        """Sum up a run.

        Args:
            settings: The settings.
            repository_id: Repository name.
            key: Run key.
            result: What it stored and what its checks said; None if it did not come to that.
            error: What ended it, if it did not end well.
            seconds: How long it took.
        """
        from spark_core.records.figures import DeletionFigures, ExpiredFigures
        from spark_core.report.past_runs import outcomes_of

        manifests = {} if result is None else result.manifests
        swept, marked = (manifests.get(name) for name in ("deletion_report", "expired_addresses"))
        objects = size_bytes = None
        price = settings.run_options(repository_id).price
        if swept is not None:
            objects, size_bytes = outcomes_of(swept).get("deleted", (0, 0))
            plan = DeletionFigures.of(swept)
            price = price and price.over(plan.planned_by_class or {}, plan.planned_bytes or 0)
        elif marked is not None:
            figures = ExpiredFigures.of(marked)
            objects, size_bytes = marked.rows, figures.expired_bytes
            price = price and price.over(figures.bytes_by_class, figures.expired_bytes)
        return cls(
            repository_id,
            str(key),
            kind_of(error) if error is not None else "swept" if swept is not None else "marked",
            objects,
            size_bytes,
            price,
            round(seconds, 1),
            error,
            () if result is None else tuple(refused_by(result)),
            "" if result is None else way_on(settings, repository_id, key, result),
        )

    @property
    def exit_code(self) -> int:
        """The exit code that this end calls for."""
        return 0 if self.error is None else exit_code(self.error)

    @property
    def line(self) -> str:
        """How it ended, in one line."""
        told = [", ".join(self.checks)] if self.checks else []
        if self.objects is not None and self.size_bytes is not None:
            size = f"{counted(self.objects, 'object')}, {bytes_text(self.size_bytes)}"
            told.append(f"{size} {_OBJECTS[self.outcome]}")
        words = "".join(f"{part}; " for part in told).removesuffix("; ")
        name = f"{self.repository}: {words}" if words else self.repository
        return f"{self.outcome:<8} {name} ({self.seconds:.1f} s)"


def closing_table(ended: Sequence[Ended], seconds: float) -> Table:
    """Return the table that closes a command over several repositories, with totals below.

    Deleted objects, and those that may go, have a total each: they are no sum.

    Args:
        ended: How each ended.
        seconds: How long all took together.
    """
    from lakegc_dagster.terminal import console

    has_price = any(each.price is not None for each in ended)
    rows = [_row(each.repository, _what(each), [each], has_price=has_price) for each in ended]
    for outcome, what in _OBJECTS.items():
        alike = [each for each in ended if each.outcome == outcome]
        if alike:
            is_known = any(each.objects is not None for each in alike)
            words = f"{len(alike):,} {outcome}" + (f", {what}" if is_known else "")
            rows.append(_row("all together", words, alike, has_price=has_price))
    columns = ["repository", "outcome", "objects", "bytes", "seconds"]
    if has_price:
        columns.insert(4, "a month")
    return console.table(
        f"All {len(ended):,} repositories, in {seconds:,.0f} seconds", columns, rows
    )


def _what(each: Ended) -> str:
    if each.error is None:
        return f"{each.outcome}, {_OBJECTS[each.outcome]}"
    return f"{each.outcome}: {', '.join(each.checks) or type(each.error).__name__}"


def _row(name: str, words: str, ended: Sequence[Ended], *, has_price: bool) -> tuple[str, ...]:
    known = [each for each in ended if each.objects is not None]
    objects = sum(each.objects or 0 for each in known)
    size = (f"{objects:,}", bytes_text(sum(each.size_bytes or 0 for each in known)))
    priced = [(each.price, each.size_bytes or 0) for each in known if each.price is not None]
    money = moneys_text(priced).removesuffix(" a month") or NONE
    return (
        name,
        words,
        *(size if known else (NONE, NONE)),
        *((money,) if has_price else ()),
        f"{sum(each.seconds for each in ended):.1f}",
    )
