"""Store the answer of `what_if` beside its run, for the report's page."""

from __future__ import annotations

from collections.abc import Sequence

from spark_core import lakegc_keys, report
from spark_core.explain.what_if.answer import WhatIf
from spark_core.explain.what_if.questions import AHEAD
from spark_core.report.values import Group
from spark_core.report.what_if import WhatIfCurve
from spark_core.run import Run


def keep_answer(run: Run, found: WhatIf, days: Sequence[int]) -> WhatIfCurve:
    """Store an answer beside its run, and make the page of the run anew with it.

    Args:
        run: The run whose listing was read.
        found: The answer.
        days: The days that were asked about, as `what_if` was given them.

    Raises:
        ChainError: If the run has no mark, so there is no page; nothing is written then.
        LakegcError: If the store cannot be written.
    """
    # First: a file of a run that has no report would make it look like a marked one.
    shown = report.load(run)
    shortest_first = tuple(sorted(set(days)))
    groups = [Group(one.name, one.objects, one.size_bytes) for one in found.answers]
    # `what_if` answers the longest first, then the rules of now, then rules of a file, which are
    # no part of the picture.
    of_now = 1 + len(AHEAD)
    curve = WhatIfCurve(
        asked_at=found.asked_at,
        days=shortest_first,
        free=tuple(groups[: len(shortest_first)][::-1]),
        now=tuple(groups[len(shortest_first) :][:of_now]),
        never_committed=Group("never committed", *found.never_committed),
        kept_by_one=tuple(Group(*one) for one in found.kept_by_one),
    )
    run.store.put(lakegc_keys.what_if_key(run.key), curve.to_json())
    report.save(run, shown)
    return curve
