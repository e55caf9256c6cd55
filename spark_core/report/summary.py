"""Sums over the stored tables of a run: every listed object gets exactly one fate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys
from spark_core.checks import confirming, verdict
from spark_core.checks.expired import waiting_words
from spark_core.errors import VerdictError
from spark_core.fates import Fate
from spark_core.mark.expired import NEVER_COMMITTED
from spark_core.mark.expired_sums import AGES, OLDEST, TOP
from spark_core.mark.group_sums import GroupSums
from spark_core.records import confirmation, tables
from spark_core.records.figures import (
    CommitsFigures,
    DeletionFigures,
    ExpiredFigures,
    Groups,
    ListedFigures,
    PolicyFigures,
)
from spark_core.records.reading import StoredTable
from spark_core.records.verdict_document import ADVISORY
from spark_core.report.cautions import busy_store, cautions
from spark_core.report.fates import WORDS, Amount, fates_of, may_go, total
from spark_core.report.kind import kind_of
from spark_core.report.reference_job_mark import of_reference
from spark_core.report.undo import undo_words
from spark_core.report.values import (
    NO_COMMIT,
    NOT_KNOWN,
    Check,
    FailedObject,
    Group,
    Named,
    PolicyTaken,
    Report,
    Rules,
)
from spark_core.run import Run
from spark_core.run.options_and_defaults import OPTIONS
from spark_core.spark.exchange import Batches

NAMED = 100

_OUTCOMES = ["address", "outcome", "error", "size_bytes"]
_NOT_DONE = ("refused", "failed")


def of_mark(run: Run) -> Report:
    """Sum up a stored mark by its own tables and verdict; today's settings change nothing.

    Args:
        run: The run; its five tables must be stored, a verdict need not be.

    Returns:
        Its figures, bounded by the number of reasons and `TOP` slices. They were added up while the
        tables were made, so no object is read again.

    Raises:
        ChainError: If a table is missing.
        CorruptTableError: If a table's bytes are not those of its manifest.
    """
    stored = verdict.load_mark(run)
    listed = ListedFigures.of(stored["namespace_slices"].manifest)
    run = run.as_decided(listed)
    expired = stored["expired_addresses"].manifest
    figures = ExpiredFigures.of(expired)
    fates = fates_of(figures)
    passed, checks = _verdict(run)
    commits = CommitsFigures.of(stored["retained_commits"].manifest)
    return Report(
        repository=run.repository.id,
        run=str(run.key),
        place=run.store.root,
        cutoff=run.cutoff,
        mark=expired.sha256,
        listed=Group("listed", *total(fates.values())),
        expired=Group(Fate.EXPIRED.sentence, *may_go(fates)),
        fates=fates,
        by_reason=_by_size(_of(figures.by_reason)),
        by_age=tuple(Group(*each) for each in youngest_first(figures.by_age)),
        by_slice=_top_slices(figures),
        by_class=_by_size(_of(figures.by_class or ())),
        listed_by_class=listed.by_class or {},
        kept=kept_of(fates),
        commits=_commits(stored["retained_commits"]),
        largest=_largest(figures),
        passed=passed,
        refused=_refused(checks),
        checks=checks,
        waiting=waiting_words(figures.twins),
        cautions=cautions(listed, commits, figures),
        reference=of_reference(run, stored),
        rules=_rules(run, commits),
        by_prefix=explained(figures, figures.explained_by_prefix),
        by_branch=explained(figures, figures.explained_by_branch),
        policy=_policy(figures.policy),
        kind=kind_of(stored["namespace_slices"].manifest, stored["committed_addresses"].manifest),
    )


def _largest(figures: ExpiredFigures) -> tuple[Named, ...]:
    committed = figures.largest_committed
    return tuple(
        Named(address, size, datetime.fromisoformat(modified), reason, *committed.get(address, ()))
        for size, address, modified, reason in figures.largest
    )


def _rules(run: Run, commits: CommitsFigures) -> Rules:
    """Return the rules of a mark; the run's options are those that decided."""
    settings = {
        option.setting: option.write(getattr(run.options, option.name))
        for option in OPTIONS
        if option.decides
    }
    if commits.rules is None:
        return Rules(None, settings=settings)
    days = commits.rules.branches
    named = dict(sorted(days.items())[:NAMED])
    return Rules(
        commits.rules.default_retention_days, named, len(days) - len(named), settings=settings
    )


def _policy(taken: PolicyFigures | None) -> PolicyTaken | None:
    if taken is None or not taken.objects:
        return None
    return PolicyTaken(
        name=lakegc_keys.policy_key(taken.version),
        version=taken.version,
        digest=taken.digest,
        set_by=taken.set_by,
        confirmed_by=taken.confirmed_by,
        confirmed_at=taken.confirmed_at,
        by_rule=tuple(_of(taken.by_reason).values()),
    )


def _of(groups: Groups) -> dict[str, Group]:
    return {name: Group(name, objects, size) for name, objects, size in groups}


def of_sweep(run: Run, mark: Report, *, just_swept: bool = False) -> Report:
    """Add to the report of a mark what its sweep did.

    Args:
        run: The run; its deletion report must be stored.
        mark: The report of the same mark.
        just_swept: The sweep ended a moment ago, as for `undo_words`.

    Raises:
        ChainError: If there was no sweep.
    """
    stored = run.load(tables.DELETION_REPORT)
    figures = DeletionFigures.of(stored.manifest)
    swept = replace(
        mark,
        sweep=stored.manifest.sha256,
        cautions=(*mark.cautions, *busy_store(figures)),
        undo=undo_words(run, stored.manifest, just_swept=just_swept),
    )
    # Outcomes that need no cause.
    gone = [
        Group("deleted", figures.deleted_objects or 0, figures.deleted_bytes),
        Group("already_gone", figures.already_gone_objects, figures.already_gone_bytes),
    ]
    if sum(group.objects for group in gone) == stored.manifest.rows:
        return replace(
            swept, outcomes=_by_size({group.name: group for group in gone if group.objects})
        )
    # The other outcomes are reported with their causes.
    outcomes, named = GroupSums(), list[FailedObject]()
    for sums, some in stored.source(_OUTCOMES).each(lambda: run.spark, _told):
        outcomes.merge(sums)
        named += some
    return replace(
        swept,
        outcomes=_by_size({name: Group(name, *amount) for name, *amount in outcomes.groups}),
        failures=_first(named, *_NOT_DONE),
        spared=_first(named, "kept"),
    )


def _told(batches: Batches) -> tuple[GroupSums, list[FailedObject]]:
    """Sum up outcomes, and name the first objects that were not deleted.

    The outcome of a kept object has the reason up to the first colon.
    """
    sums, named = GroupSums(), list[FailedObject]()
    for batch in batches:
        outcome, error = batch.column("outcome"), pc.fill_null(batch.column("error"), "")
        why = pc.replace_substring_regex(error, "(?s):.*", "")
        kept = pc.binary_join_element_wise("kept", why, ": ")
        name = pc.if_else(pc.equal(outcome, "kept"), kept, outcome)
        sums.merge(GroupSums.of(name, batch.column("size_bytes")))
        rows = pa.table([batch.column("address"), outcome, error], _OUTCOMES[:3])
        left = rows.filter(pc.is_in(outcome, value_set=pa.array([*_NOT_DONE, "kept"])))
        named += [FailedObject(**row) for row in left.to_pylist()]
        named = [*_first(named, *_NOT_DONE), *_first(named, "kept")]
    return sums, named


def _first(rows: Iterable[FailedObject], *outcomes: str) -> tuple[FailedObject, ...]:
    own = (row for row in rows if row.outcome in outcomes)
    return tuple(sorted(own, key=lambda row: row.address)[:NAMED])


def youngest_first(groups: Groups) -> Groups:
    """Return groups by age in their order."""
    order = [*(label for _, label in AGES), OLDEST]
    return tuple(sorted(groups, key=lambda each: order.index(each[0])))


def kept_of(fates: Mapping[str, Amount]) -> tuple[Group, ...]:
    """Return the fates under which objects stay, in words, those with most bytes first."""
    goes = {fate.value for fate in Fate if fate.may_go}
    return _by_size({fate: Group(WORDS[fate], *fates[fate]) for fate in fates if fate not in goes})


def _by_size(groups: Mapping[str, Group]) -> tuple[Group, ...]:
    return tuple(
        sorted(groups.values(), key=lambda group: (-group.size_bytes, -group.objects, group.name))
    )


def _total(name: str, groups: list[Group]) -> Group:
    return Group(
        name, sum(group.objects for group in groups), sum(group.size_bytes for group in groups)
    )


def _top_slices(figures: ExpiredFigures) -> tuple[Group, ...]:
    """Return the slices with most bytes to go; a last row sums the others."""
    top = [
        Group(name or "(directly under data/ or at the root)", *amount)
        for name, *amount in figures.by_slice
    ]
    others = figures.slices_with_expired - len(top)
    if not others:
        return tuple(top)
    shown = _total("", top)
    rest = (figures.expired_objects - shown.objects, figures.expired_bytes - shown.size_bytes)
    return (*top, Group(f"{others} other slices", *rest))


def explained(figures: ExpiredFigures, groups: Groups | None) -> tuple[Group, ...]:
    """Return groups of the explained objects, and after them the rest of what may go.

    Args:
        figures: The figures of table 5.
        groups: Those of its groups that are wanted; None where nothing was explained.
    """
    told = [Group(*row) for row in groups or ()]
    never = _of(figures.by_reason).get(NEVER_COMMITTED, Group("", 0, 0))
    told.append(replace(never, name=NO_COMMIT))
    known = _total("", told)
    told.append(
        Group(
            NOT_KNOWN,
            figures.expired_objects - known.objects,
            figures.expired_bytes - known.size_bytes,
        )
    )
    return tuple(group for group in told if group.objects)


def _commits(retained: StoredTable) -> dict[str, int]:
    counts = CommitsFigures.of(retained.manifest).by_reason
    return dict(sorted(counts.items(), key=lambda found: (-found[1], found[0]))[:TOP])


def _verdict(run: Run) -> tuple[bool | None, tuple[Check, ...]]:
    """Return whether the checks allow a sweep of the mark, and every check with its limit."""
    try:
        found = verdict.stored_here(run)
    except VerdictError:
        # A mark whose checks were not run yet can be looked at. The sweep asks for the verdict
        # itself.
        return None, ()
    confirmed = confirming.confirmed_checks(run, found)
    checks = tuple(
        Check(
            name=check["name"],
            passed=check["passed"],
            summary=check["summary"],
            limit=check.get("limit", ""),
            lifted_by=check.get("lifted_by", ""),
            confirmed=_who(run, check["name"]) if check["name"] in confirmed else "",
            blocks=check["name"] not in ADVISORY,
        )
        for check in found.checks
    )
    lifted = bool(checks) and all(
        check.passed or check.confirmed or not check.blocks for check in checks
    )
    return found.passed or lifted, checks


def with_verdict(run: Run, report: Report) -> Report:
    """Add to the report of a refused mark what was confirmed since; this needs no Spark."""
    if report.passed or not any(
        run.store.exists(lakegc_keys.confirmation_key(run.key, check)) for check in report.refused
    ):
        return report
    passed, checks = _verdict(run)
    return replace(report, passed=passed, checks=checks, refused=_refused(checks))


def _refused(checks: Sequence[Check]) -> dict[str, str]:
    return {check.name: check.summary for check in checks if check.standing == "refused"}


def _who(run: Run, check: str) -> str:
    confirmed = confirmation.load(run.store, run.key, check)
    return (
        ""
        if confirmed is None
        else f"{confirmed.who} at {confirmed.confirmed_at:%Y-%m-%d %H:%M} UTC"
    )
