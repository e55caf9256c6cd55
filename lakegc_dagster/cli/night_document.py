"""What `run`, `mark` and `sweep` print with `--json`.

`python -m lakegc_dagster.cli.night_document` writes its JSON Schema to docs/.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lakegc_dagster.cli.act_document import Problem
from lakegc_dagster.cli.ended import Ended, Outcome

FILE = Path(__file__).parents[2] / "docs" / "run.schema.json"


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
    def of(cls, each: Ended) -> RepositoryEnd:
        """Take the values of a run that ended."""
        cost = None
        if each.price is not None and each.size_bytes is not None:
            cost = each.price.amount(each.size_bytes)
        return cls(
            each.repository,
            each.outcome,
            each.objects,
            each.size_bytes,
            cost,
            "" if each.price is None else each.price.currency,
            each.seconds,
            None if each.error is None else Problem(each.error.kind, str(each.error)),
            list(each.checks),
            each.next_step,
        )


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


def show_document(ended: Sequence[Ended]) -> None:
    """Print how each repository ended, as one JSON object."""
    document = NightDocument(
        ended[0].run,
        max(each.exit_code for each in ended),
        [RepositoryEnd.of(each) for each in ended],
    )
    sys.stdout.write(json.dumps(asdict(document), indent=1) + "\n")


def schema_text() -> str:
    """Return the schema as it is written."""
    from spark_core.report.schema import described, titled

    found = described(NightDocument, sys.modules[__name__])
    return json.dumps(titled("Runs of a lakegc command", found), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text(), encoding="utf-8")
