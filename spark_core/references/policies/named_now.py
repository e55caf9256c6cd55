"""What a retention policy names of a plan, just before a sweep deletes it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from spark_core.records import rows_aside
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Receipt, Target
from spark_core.references.commits import ReadCommits
from spark_core.references.policies.document import Policy
from spark_core.references.policies.every_name import meet_all_names
from spark_core.references.policies.objects_due import (
    ADDRESSES,
    BY_RULES,
    IN_NO_COMMIT,
    named_of_plan,
)
from spark_core.references.policies.staged_due import are_asked_for
from spark_core.references.policies.staged_names import HASHED, with_hashes
from spark_core.run import Run
from spark_core.spark.exchange import AnySource


@dataclass(frozen=True)
class NamedNow:
    """What the rules name of a plan just before deleting: column address.

    Attributes:
        committed: What they name by its names in commits.
        in_no_commit: What no commit has; None if nobody knows all that commits have.
    """

    committed: AnySource
    in_no_commit: AnySource | None


def named_now(
    run: Run, policy: Policy, commits: StoredTable, read: ReadCommits, plan: AnySource
) -> NamedNow:
    """Find which objects of a plan the rules name now, just before deleting.

    A name that an object got since the mark counts like any other: the object is named only if a
    rule takes it under that one, too. What is staged is not looked at here.

    Args:
        run: The run of the mark.
        policy: The document that counts now.
        commits: Table 3 of the mark.
        read: Refs and holds, read just now.
        plan: Columns of `staged_names.DATED`, of objects that the mark listed.

    Returns:
        The objects that are named, and those that only staged names can decide.

    Raises:
        IncompleteReadError: If the refs were not read from a dump, or rows got lost.
        CorruptTableError: If a table of a retained commit is damaged.
    """
    target = rows_aside.target_of(run.store, run.key, ADDRESSES)
    sources = {"plan": plan.through(HASHED, with_hashes)}
    judged = meet_all_names(
        run,
        policy,
        commits,
        read,
        sources=sources,
        kernel=named_of_plan,
        schema=ADDRESSES,
        work=partial(_put_named, target),
    )
    committed, others = (
        rows_aside.source_of(run.store, ADDRESSES, [each for of, each in judged.done if of == kind])
        for kind in (BY_RULES, IN_NO_COMMIT)
    )
    is_asked = are_asked_for(policy) and not judged.judge.unread
    return NamedNow(committed, others if is_asked else None)


def _put_named(target: Target, number: int, rows: pa.Table) -> tuple[int, Receipt]:
    return number % 2, rows_aside.put_aside(target, number, rows)
