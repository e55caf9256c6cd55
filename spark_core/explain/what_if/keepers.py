"""Who keeps a commit under the rules of now: the branch that does longest, and who does alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from spark_core import retention
from spark_core.mark.group_sums import NO_BRANCH
from spark_core.model import Refs, RetentionRules
from spark_core.references.commits import ReadCommits
from spark_core.run import Run

# Later than any date that a rule of now can keep a commit to.
_FAR = timedelta(days=300 * 365)


def keepers_of(
    refs: Refs, rules: RetentionRules | None, now: datetime
) -> tuple[list[str], dict[str, int]]:
    """Number the commits by how long the rules of now keep them, and by the branch that does.

    Args:
        refs: The commit graph.
        rules: The rules of now.
        now: The present instant.

    Returns:
        Names of branches; and for each commit its place in that order, times their number, plus
        the number of its branch. So the largest number of an object's commits tells the branch.
    """
    names = [NO_BRANCH, *sorted(branch.id for branch in refs.branches)]
    number = {name: at for at, name in enumerate(names)}
    days = rules or RetentionRules(0)
    # Far in the future, every commit that is no head has expired.
    _, expired = retention.decide(refs, days, now + _FAR, tags_protect=False)
    of_commit = {
        one.commit_id: (one.replaced_at + timedelta(days=one.days), number[one.branch or NO_BRANCH])
        for one in expired
    }
    forever = datetime.max.replace(tzinfo=UTC)
    for branch in sorted(refs.branches, key=lambda one: (days.days_for(one.id), one.id)):
        of_commit[branch.commit_id] = (forever, number[branch.id])
    unknown = (forever, number[NO_BRANCH])
    order = sorted(refs.commits, key=lambda id_: of_commit.get(id_, unknown))
    return names, {
        id_: at * len(names) + of_commit.get(id_, unknown)[1]
        for at, id_ in enumerate(order, start=1)
    }


def sole_keepers_of(run: Run, found: ReadCommits) -> tuple[list[str], dict[str, tuple[int, int]]]:
    """Number the commits by who keeps each alone; a commit that nobody retains says nothing.

    Returns:
        Names, of which the last one stands for several; and for each commit the number of its name,
        and one that is the larger the smaller that number is. So the largest ones of an object's
        commits tell whether the name is the same for all of them; 0 and 0 change neither.
    """
    options = run.options
    retained = set(found.table["commit_id"].to_pylist())
    alone = retention.sole_keepers(
        found.refs,
        found.rules,
        run.now(),
        also_kept=set(found.holds.commits(found.refs)),
        clock_margin=options.clock_margin,
        tags_protect=options.tags_protect,
        keep_last=options.keep_last,
    )
    names = [*sorted({name for name in alone.values() if name is not None}), ""]
    number = {name: at for at, name in enumerate(names, start=1)}
    numbers = {}
    for id_ in found.refs.commits:
        # What a server's list or an hour of the clock keeps beside them is not known.
        at = number[alone[id_] or ""] if id_ in alone else len(names)
        is_kept = id_ in alone or id_ in retained
        numbers[id_] = (at, len(names) + 1 - at) if is_kept else (0, 0)
    return names, numbers
