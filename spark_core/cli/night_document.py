"""How runs of repositories ended: a line and a row for people, and the document of `--json`.

`python -m spark_core.cli.night_document` writes its JSON Schema to docs/.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from spark_core.cli.act_document import Problem
from spark_core.cli.shown_report import refused_by, way_on
from spark_core.errors import FAILED, REFUSED, WRONG_SETTINGS, LakegcError, kind_of
from spark_core.plain_text import bytes_text, counted
from spark_core.prices import amounts_text

if TYPE_CHECKING:
    from rich.table import Table

    from spark_core.mark_and_sweep import Collected
    from spark_core.model import RunKey
    from spark_core.settings import Settings

Outcome: TypeAlias = Literal["swept", "marked", "refused", "failed", "settings"]

FILE = Path(__file__).parents[2] / "docs" / "run.schema.json"
NONE = "–"  # noqa: RUF001 - a dash, as in any table

# What the objects of a row are.
_OBJECTS: dict[Outcome, str] = {
    "swept": "were deleted",
    "marked": "may go",
    "refused": "would go",
    "failed": "were to go",
    "settings": "would go",
}
_EXIT_CODES: dict[Outcome, int] = {
    "swept": 0,
    "marked": 0,
    "refused": REFUSED,
    "failed": FAILED,
    "settings": WRONG_SETTINGS,
}


@dataclass(frozen=True)
class RepositoryEnd:
    """How the run of one repository ended.

    Attributes:
        repository: Repository id.
        outcome: `swept`, `marked`, `refused`, `failed`, or `settings` where those are wrong.
        objects: Objects that were deleted if it was swept, else that may go; null if nobody knows.
        size_bytes: Their bytes.
        cost_a_month: What those bytes cost in a month; null without a price.
        currency: Of that cost; empty if the settings do not say.
        seconds: How long it took.
        problem: What ended it; null if it ended well.
        refused_by: Names of the checks that refuse it.
        next_step: The command that comes next; empty if there is none.
    """

    repository: str
    outcome: Outcome
    objects: int | None
    size_bytes: int | None
    cost_a_month: float | None
    currency: str
    seconds: float
    problem: Problem | None
    refused_by: list[str]
    next_step: str

    @classmethod
    def of(
        cls,
        settings: Settings,
        repository_id: str,
        done: Collected | None,
        error: LakegcError | None,
        seconds: float,
    ) -> RepositoryEnd:
        """Sum up a run.

        Args:
            settings: The settings.
            repository_id: Repository name.
            done: What it did; None if it could not be opened.
            error: What ended it, if it did not end well.
            seconds: How long it took.
        """
        from spark_core.records.figures import DeletionFigures, ExpiredFigures
        from spark_core.report.past_runs import outcomes_of

        manifests = {} if done is None else done.manifests
        swept, marked = (manifests.get(name) for name in ("deletion_report", "expired_addresses"))
        objects = size_bytes = None
        price = settings.run_options(repository_id).price
        if swept is not None:
            plan = DeletionFigures.of(swept)
            deleted = outcomes_of(swept).get("deleted", (0, 0))
            planned = (plan.planned_objects, plan.planned_bytes)
            objects, size_bytes = deleted if error is None else planned
            price = price and price.over(plan.planned_by_class or {}, plan.planned_bytes or 0)
        elif marked is not None:
            figures = ExpiredFigures.of(marked)
            objects, size_bytes = marked.rows, figures.expired_bytes
            price = price and price.over(figures.bytes_by_class, figures.expired_bytes)
        return cls(
            repository_id,
            kind_of(error) if error is not None else "swept" if swept is not None else "marked",
            objects,
            size_bytes,
            None if price is None or size_bytes is None else price.amount(size_bytes),
            "" if price is None else price.currency,
            round(seconds, 1),
            None if error is None else Problem(error.kind, str(error)),
            [] if done is None else refused_by(done),
            "" if done is None else way_on(settings, done),
        )

    @property
    def exit_code(self) -> int:
        """The exit code that this end calls for."""
        return _EXIT_CODES[self.outcome]

    @property
    def line(self) -> str:
        """How it ended, in one line."""
        told = [", ".join(self.refused_by)] if self.refused_by else []
        if self.objects is not None and self.size_bytes is not None:
            size = f"{counted(self.objects, 'object')}, {bytes_text(self.size_bytes)}"
            told.append(f"{size} {_OBJECTS[self.outcome]}")
        name = ": ".join(filter(None, (self.repository, "; ".join(told))))
        return f"{self.outcome:<8} {name} ({self.seconds:.1f} s)"


@dataclass(frozen=True)
class NightDocument:
    """The runs of one command.

    Attributes:
        run: The run key of all of them.
        exit_code: The exit code of the command.
        repositories: How each repository ended, in the order of the settings or the command line.
    """

    run: str
    exit_code: int
    repositories: list[RepositoryEnd]


def show_document(key: RunKey, ended: Sequence[RepositoryEnd]) -> None:
    """Print how each repository ended, as one JSON object."""
    code = max(each.exit_code for each in ended)
    document = NightDocument(str(key), code, list(ended))
    sys.stdout.write(json.dumps(asdict(document), indent=1) + "\n")


def closing_table(ended: Sequence[RepositoryEnd], seconds: float) -> Table:
    """Return the table that closes a command over several repositories, with totals below.

    Deleted objects, and those that may go, have a total each: they are no sum.

    Args:
        ended: How each ended.
        seconds: How long all took together.
    """
    from spark_core.terminal import console

    has_price = any(each.cost_a_month is not None for each in ended)
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


def _what(each: RepositoryEnd) -> str:
    if each.problem is None:
        return f"{each.outcome}, {_OBJECTS[each.outcome]}"
    return f"{each.outcome}: {', '.join(each.refused_by) or each.problem.kind}"


def _row(
    name: str, words: str, ended: Sequence[RepositoryEnd], *, has_price: bool
) -> tuple[str, ...]:
    known = [each for each in ended if each.objects is not None]
    objects = sum(each.objects or 0 for each in known)
    size = (f"{objects:,}", bytes_text(sum(each.size_bytes or 0 for each in known)))
    costs = [(each.currency, each.cost_a_month) for each in known if each.cost_a_month is not None]
    money = amounts_text(costs).removesuffix(" a month") or NONE
    return (
        name,
        words,
        *(size if known else (NONE, NONE)),
        *((money,) if has_price else ()),
        f"{sum(each.seconds for each in ended):.1f}",
    )


def schema_text() -> str:
    """Return the schema as it is written."""
    from spark_core.report.schema import described, titled

    found = described(NightDocument, sys.modules[__name__])
    return json.dumps(titled("Runs of a lakegc command", found), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text(), encoding="utf-8")
