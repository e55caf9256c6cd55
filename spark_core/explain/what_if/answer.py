"""The answer to what other rules would let go: plain values."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime

from spark_core.prices import Price
from spark_core.records.figures import Groups


@dataclass(frozen=True)
class Freed:
    """What would be free under some rules.

    Attributes:
        name: The rules in words.
        objects: Number of objects.
        size_bytes: Their bytes.
        by_prefix: Name, objects and bytes of the folders at the top with most bytes, and of all
            others.
        by_branch: Name, objects and bytes of the branches with most bytes; an object counts for the
            branch whose commits keep it longest under the rules of now.
    """

    name: str
    objects: int
    size_bytes: int
    by_prefix: Groups
    by_branch: Groups


@dataclass(frozen=True)
class WhatIf:
    """The answers, from a stored mark's listing and the refs as they are now.

    Attributes:
        repository: Repository id.
        run: The run whose listing was read.
        never_committed: Objects and bytes that no commit has, in every answer.
        swept: Objects and bytes of the listing that sweeps have deleted since; in no answer.
        kept_by_one: `without ...`, objects and bytes of the branches, tags and rules that alone
            keep most, under the rules of now: what goes in the end once one of them is gone.
        answers: One for each question, in the order asked.
        price: Of the settings; None if they have none.
        asked_at: Before the refs, the commits and the reports of sweeps were read.

    Examples:
        >>> from spark_core.explain import what_if
        >>> what_if(run, [1]).never_committed
        (0, 0)
    """

    repository: str
    run: str
    never_committed: tuple[int, int]
    swept: tuple[int, int]
    kept_by_one: Groups
    answers: tuple[Freed, ...]
    price: Price | None
    asked_at: datetime

    def to_json(self) -> str:
        """Return it as one JSON object."""
        return json.dumps(asdict(self), indent=2, default=datetime.isoformat)
