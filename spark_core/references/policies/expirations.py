"""What a retention policy names at a mark: its table, or only its figures.

What no commit retained by the mark reaches is not a policy's: it expires without one. What is
reached by a tag, too young or not lakeFS's own is never named. Nothing here deletes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.errors import POLICY_UNREADABLE, ChainError
from spark_core.records import rows_aside, tables, writing
from spark_core.records.figures import (
    ListedFigures,
    NamedFigures,
    PolicyExpirationsFigures,
    StagedFigures,
)
from spark_core.records.writing import Draft, Receipt, Target, Written
from spark_core.references.commits import read_commits, tables_prefix
from spark_core.references.known_ranges import retained_hashes
from spark_core.references.policies import staged_names, versions
from spark_core.references.policies.document import Policy
from spark_core.references.policies.every_name import Judged, meet_all_names
from spark_core.references.policies.objects_due import LISTED, named_of_listed
from spark_core.references.policies.staged_due import are_asked_for
from spark_core.references.policies.staged_names import StagedNames
from spark_core.references.policies.sums_by_rule import NAMED
from spark_core.references.policies.waiting import what_waits
from spark_core.run import Run, chain
from spark_core.run.chain import Mark
from spark_core.spark.exchange import AnySource, Batches


def store_if_asked(run: Run) -> Mapping[str, Any]:
    """Store the table of what the repository's policy names, where the settings ask for it.

    What cannot be read names nothing, and what nothing reaches goes its way all the same.

    Args:
        run: The run; its first four tables are stored.

    Returns:
        Its figures, JSON values only; why nothing could be looked at as `problem`.
    """
    if run.options.policies == "off":
        return {"policies": "off"}
    mark = Mark(*(run.load(spec) for spec in tables.MARK_TABLES[:-1]))
    try:
        draft = policy_expirations(run, mark)
    except POLICY_UNREADABLE as unknown:
        return {"policies": run.options.policies, "policy_version": 0, "problem": str(unknown)}
    if draft is None:
        return {"policies": run.options.policies, "policy_version": 0}
    return {"policies": run.options.policies, **run.keep(draft).manifest.facts}


def stored_facts(run: Run) -> Mapping[str, Any]:
    """Return the figures of a table that was stored before, as `store_if_asked` gave them."""
    try:
        found: Mapping[str, Any] = run.load(tables.POLICY_EXPIRATIONS).manifest.facts
    except ChainError:
        found = {"policy_version": 0}
    return {"policies": run.options.policies, **found}


def policy_expirations(run: Run, mark: Mark) -> Draft | None:
    """Make the table of what the repository's policy names.

    Args:
        run: The run.
        mark: Tables 1 to 4.

    Returns:
        Columns of `schemas.POLICY_EXPIRATIONS`, key address; None if the repository has no policy.

    Raises:
        ChainError: If the tables were not made one after the other in the safe order.
        CorruptTableError: If a version of the policy or its confirmation cannot be read.
        IncompleteReadError: If the refs were not read from a dump, or rows got lost.
    """
    began = run.now()
    chain.require_unbroken(run, [table.manifest for table in mark.all])
    version = versions.newest(run)
    policy = None if version is None else version.policy
    if version is None or policy is None:
        return None
    where = tables.folder(tables.POLICY_EXPIRATIONS, run.key)
    target = Target(run.store, where, writing.new_attempt(), schemas.POLICY_EXPIRATIONS)
    named, receipts = writing.removed_on_failure(target, lambda: find(run, policy, mark, target))
    listing = ListedFigures.of(mark.slices.manifest)
    waiting = what_waits(run, version, named, listing)
    figures = PolicyExpirationsFigures(
        policy_version=version.number,
        policy_digest=version.policy_digest,
        policy_set_by=version.who,
        **vars(named),
        **waiting.figures,
    )
    return Draft(
        tables.POLICY_EXPIRATIONS,
        Written(target.attempt, receipts),
        began,
        parents=[table.manifest for table in mark.all],
        figures=lambda _, __: figures,
    )


def find(
    run: Run, policy: Policy, mark: Mark, target: Target | None = None
) -> tuple[NamedFigures, Sequence[Receipt]]:
    """Find what the rules of a policy name.

    Refs and holds are read anew: what was committed since the mark's tables can only add names.

    Args:
        run: The run of the mark.
        policy: The document.
        mark: Tables 1 to 4.
        target: Where the rows are written; None to add them up only.

    Raises:
        IncompleteReadError: If the refs were not read from a dump, or rows got lost.
        CorruptTableError: If a table of a retained commit is damaged.
    """
    with ExitStack() as held:
        staged = None
        if are_asked_for(policy):
            staged = held.enter_context(staged_names.read_names(run))
        # Behind the staged names, as an entry leaves the staging area when a commit takes it.
        read = read_commits(run, tables_prefix(run))
        listed = mark.slices.source([*LISTED.names, "standing"])
        sources: dict[str, AnySource] = {
            "listed": listed.through(LISTED, _candidates),
            "staged": mark.uncommitted.source(["address_hash", "created_at"]),
        }
        if staged is not None and staged.rows is not None:
            committed = retained_hashes(run, mark.committed)
            sources |= {"names": staged.rows, "committed": committed}
        scans = len(set(StagedFigures.of(mark.uncommitted.manifest).server_runs))
        judged = meet_all_names(
            run,
            policy,
            mark.commits,
            read,
            sources=sources,
            kernel=partial(named_of_listed, scans),
            schema=schemas.POLICY_EXPIRATIONS,
            work=_forget if target is None else partial(rows_aside.put_aside, target),
        )
        return _figures(judged, staged), [each for each in judged.done if each]


def _forget(_number: int, _rows: pa.Table) -> None:
    """Write no rows: only their figures are wanted."""


def _candidates(batches: Batches) -> Batches:
    for batch in batches:
        may_go = pc.equal(batch.column("standing"), rule.CANDIDATE)
        yield batch.filter(may_go).select(LISTED.names)


def _figures(judged: Judged[Any], staged: StagedNames | None) -> NamedFigures:
    found, judge, past = judged.found, judged.judge, judged.past
    objects, size_bytes = found.total
    return NamedFigures(
        policy_objects=objects,
        policy_bytes=size_bytes,
        by_rule=tuple(
            (
                number,
                each.prefix,
                sum(n for (of, _), n in found.objects.items() if of == number),
                sum(n for (of, _), n in found.size_bytes.items() if of == number),
            )
            for number, each in enumerate(judge.policy.rules, start=1)
        ),
        by_branch=tuple(
            (number, branch, found.objects[number, branch], found.size_bytes[number, branch])
            for number, branch in sorted(found.objects)
        ),
        largest={str(number): tuple(rows) for number, rows in found.largest.items()},
        newest={str(number): tuple(rows) for number, rows in found.newest.items()},
        names_placed=found.names["placed"],
        names_undecided=found.names["undecided"],
        entries=past.entries(found.unread),
        ranges=len(past.ranges),
        metaranges_read=past.metaranges,
        commits=len(judge.graph.ids),
        unread_commits=tuple(judge.graph.ids[commit] for commit in judge.unread[:NAMED]),
        unread=len(judge.unread),
        staged_names=None if staged is None else staged.count,
        staged_problem=None if staged is None else staged.problem,
        staged_by_rule=None
        if staged is None
        else tuple(
            (number, objects, found.staged_bytes[number])
            for number, objects in sorted(found.staged.items())
        ),
    )
