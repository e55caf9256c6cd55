"""What a report says of a mark, from the figures of its tables; each listed object has one fate."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from spark_core import lakegc_keys
from spark_core.checks import verdict
from spark_core.checks.expired import waiting_words
from spark_core.fates import Fate, WhyMayGo
from spark_core.mark.expired_sums import AGES, OLDEST, TOP
from spark_core.records.figures import (
    AmountFigures,
    CommitsFigures,
    ExpiredFigures,
    Groups,
    ListedFigures,
    PolicyFigures,
)
from spark_core.records.reading import StoredTable
from spark_core.report.cautions import cautions
from spark_core.report.checks import checks_of, refused
from spark_core.report.fate_counts import WORDS, Amount, fates_of, may_go, total
from spark_core.report.kind import kind_of
from spark_core.report.reference_job_mark import of_reference
from spark_core.report.report import Report
from spark_core.report.values import (
    NAMED,
    NO_COMMIT,
    NOT_KNOWN,
    Group,
    Named,
    PolicyTaken,
    Rules,
    most_bytes_first,
)
from spark_core.run import Run
from spark_core.run.options_and_defaults import OPTIONS


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
    passed, checks = checks_of(run)
    commits = CommitsFigures.of(stored["retained_commits"].manifest)
    return Report(
        repository=run.repository.id,
        run=str(run.key),
        place=run.store.root,
        cutoff=run.cutoff,
        mark=expired.sha256,
        listed=Group("listed", *total(fates.values())),
        expired=Group(Fate.UNREFERENCED.sentence, *may_go(fates)),
        fates=fates,
        by_reason=most_bytes_first(_groups(figures.by_reason)),
        by_age=_groups(youngest_first(figures.by_age)),
        by_slice=_top_slices(figures),
        by_class=most_bytes_first(_groups(figures.by_class or ())),
        listed_by_class=listed.by_class or {},
        kept=kept_of(fates),
        commits=_commits(stored["retained_commits"]),
        largest=_largest(figures),
        passed=passed,
        refused=refused(checks),
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
        by_rule=_groups(taken.by_reason),
    )


def _groups(figures: Groups) -> tuple[Group, ...]:
    return tuple(Group(*each) for each in figures)


def youngest_first(groups: Groups) -> Groups:
    """Return groups by age in their order."""
    order = [*(label for _, label in AGES), OLDEST]
    return tuple(sorted(groups, key=lambda each: order.index(each[0])))


def kept_of(fates: Mapping[str, Amount]) -> tuple[Group, ...]:
    """Return the fates under which objects stay, in words, those with most bytes first."""
    goes = {fate.value for fate in Fate if fate.may_go}
    return most_bytes_first(Group(WORDS[fate], *fates[fate]) for fate in fates if fate not in goes)


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
    rest = figures.other_slices
    if rest is None:
        return tuple(top)
    others = figures.slices_with_expired - len(top)
    return (*top, Group(f"{others} other slices", rest.objects, rest.bytes))


def explained(figures: ExpiredFigures, groups: Groups | None) -> tuple[Group, ...]:
    """Return groups of the explained objects, and after them the rest of what may go.

    Args:
        figures: The figures of table 5.
        groups: Those of its groups that are wanted; None where nothing was explained.
    """
    reasons = _groups(figures.by_reason)
    never = [each for each in reasons if each.name == WhyMayGo.NEVER_COMMITTED]
    if groups is None:
        rest = _total(
            NOT_KNOWN, [each for each in reasons if each.name != WhyMayGo.NEVER_COMMITTED]
        )
    else:
        of_table = figures.unexplained or AmountFigures(objects=0, bytes=0)
        rest = Group(NOT_KNOWN, of_table.objects, of_table.bytes)
    told = (*_groups(groups or ()), _total(NO_COMMIT, never), rest)
    return tuple(group for group in told if group.objects)


def _commits(retained: StoredTable) -> dict[str, int]:
    counts = CommitsFigures.of(retained.manifest).by_reason
    return dict(sorted(counts.items(), key=lambda found: (-found[1], found[0]))[:TOP])
