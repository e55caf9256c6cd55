"""Say of a branch why it stays, or by which policy it may go; plain values only.

Each function is a step, in order of what it costs to know its values. The first step that has a
reason to keep a branch ends the steps for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from spark_core.branches.stale.hooks import HookFile
from spark_core.branches.stale.server_patterns import protects
from spark_core.holds import Hold
from spark_core.lakefs.branch_reads import Pull, StagedEntry
from spark_core.model import Branch, Commit
from spark_core.plain_text import counted
from spark_core.references.policies.lifecycle import Lifecycle, LifecyclePolicy, first_match
from spark_core.references.policies.sightings import BranchSightings

# Names of the holds that deletions make; they keep objects, and no branch.
UNDO_HOLD = "undo-branch-"
# The dates of more staged entries are not asked for.
MOST_STAGED = 1_000


@dataclass(frozen=True)
class Terms:
    """What every branch is compared with.

    Attributes:
        lifecycle: The section.
        default_branch: Name of the repository's default branch.
        protection: Patterns of the server's protection rules.
        holds: All holds.
        pulls: Open pull requests.
        instant: Now, less what clocks may be wrong by.
    """

    lifecycle: Lifecycle
    default_branch: str
    protection: Sequence[str]
    holds: Sequence[Hold]
    pulls: Sequence[Pull]
    instant: datetime


@dataclass(frozen=True)
class Step:
    """What a step found.

    Attributes:
        goes: Whether the branch may still go.
        why: Why it stays, or what lets it go.
    """

    goes: bool
    why: str


def by_name(branch: Branch, terms: Terms) -> Step:
    """Decide by what names the branch: the default, the policies, protection, holds, reviews."""
    matched = terms.lifecycle.policy_of(branch.id)
    if branch.id == terms.default_branch:
        return _stays("it is the default branch")
    if matched is None:
        return _stays("no policy of branch_lifecycle names it")
    kept = first_match(terms.lifecycle.keep, branch.id)
    if kept is not None:
        return _stays(f"`keep` names it ({kept})")
    why = _protected(branch, terms) or _why_held(branch, terms) or _reviewed(branch, terms)
    return _stays(why) if why else Step(goes=True, why=f"policy {matched[0]} ({matched[1]})")


def _protected(branch: Branch, terms: Terms) -> str:
    for pattern in terms.protection:
        match protects(pattern, branch.id):
            case True:
                return f"the server protects it ({pattern})"
            case None:
                return f"the server's protection rule {pattern!r} may name it"
    return ""


def _why_held(branch: Branch, terms: Terms) -> str:
    for hold in terms.holds:
        if hold.name.startswith(UNDO_HOLD):
            continue
        by_name = hold.kind == "branch" and hold.value == branch.id
        if by_name or (hold.commit_id is not None and hold.commit_id == branch.commit_id):
            return f"{hold.words}, made by {hold.who}"
    return ""


def _reviewed(branch: Branch, terms: Terms) -> str:
    for pull in terms.pulls:
        if branch.id in (pull.source, pull.destination):
            return f"pull request {pull.id} from {pull.source} into {pull.destination} is open"
    return ""


@dataclass(frozen=True)
class Dates:
    """When a branch was worked on.

    Attributes:
        head: Its head.
        stored: When the table of the head was last written to the store; None if that is unknown.
        seen: What stored runs tell.
    """

    head: Commit
    stored: datetime | None
    seen: BranchSightings


def by_dates(policy: LifecyclePolicy, dates: Dates, terms: Terms) -> Step:
    """Decide by age and inactivity; each that the policy gives must have passed."""
    words: list[str] = []
    if policy.max_inactivity_days is not None:
        step = _by_inactivity(policy.max_inactivity_days, dates, terms.instant)
        if not step.goes:
            return step
        words.append(step.why)
    if policy.max_age_days is not None:
        made = dates.seen.made
        if made is None:
            return _stays("no stored run tells when it was made, so max_age_days does not match")
        step = _since(made, "first seen by a stored run", policy.max_age_days, terms.instant)
        if not step.goes:
            return step
        words.append(step.why)
    return Step(goes=True, why="; ".join(words))


def _by_inactivity(days: int, dates: Dates, instant: datetime) -> Step:
    """Count from the latest of all signs of work."""
    head, seen = dates.head, dates.seen
    if not head.is_dated:
        return _stays("no calendar has the date of its last commit")
    if seen.is_new:
        return _stays(
            "it was made since the last stored run; after the next mark its time counts from then"
        )
    signs = [(head.creation_date, "last commit")]
    if dates.stored is not None:
        signs.append((dates.stored, "last commit stored"))
    if seen.made is not None:
        signs.append((seen.made, "first seen by a stored run"))
    # A commit that is younger than what a run saw before it explains itself why the head moved.
    if seen.elsewhere is not None and head.creation_date <= seen.elsewhere:
        if seen.arrived is None:
            return _stays(
                "it was moved to an older commit since the last stored run; after the next mark "
                "its time counts from then"
            )
        signs.append((seen.arrived, "moved to an older commit, seen by a stored run"))
    last, what = max(signs, key=lambda sign: sign[0])
    return _since(last, what, days, instant)


def _since(when: datetime, what: str, days: int, instant: datetime) -> Step:
    """Compare a date with a number of days; N days are N times 24 hours."""
    goes = instant - when >= timedelta(days=days)
    passed = "more" if goes else "less"
    return Step(goes, f"{what} {_shown(when)}, {passed} than {counted(days, 'day')} ago")


@dataclass(frozen=True)
class Staged:
    """What is staged on a branch.

    Attributes:
        first: Path of the first entry; empty for none at all.
        entries: The entries with their dates, if they were asked for.
        has_more: Whether there are more than are asked for.
    """

    first: str = ""
    entries: tuple[StagedEntry, ...] = ()
    has_more: bool = False


def by_staged(policy: LifecyclePolicy, staged: Staged, terms: Terms) -> Step:
    """Decide by what is staged on the branch; nothing adds no words."""
    if not staged.first:
        return Step(goes=True, why="")
    if not terms.lifecycle.delete_staged:
        return _stays(
            f"it has staged entries ({staged.first}); `delete_staged: true` lets it go with them"
        )
    if staged.has_more:
        return _stays(
            f"it has more than {MOST_STAGED:,} staged entries, whose dates are not asked for; "
            "commit them or reset them"
        )
    count = len(staged.entries)
    words = f"{count:,} staged {'entry goes' if count == 1 else 'entries go'} with it"
    if policy.max_inactivity_days is None:
        return Step(goes=True, why=words)
    step = _by_staged_dates(policy.max_inactivity_days, staged.entries, terms.instant)
    return Step(goes=True, why=f"{step.why}; {words}") if step.goes else step


def _by_staged_dates(days: int, entries: Sequence[StagedEntry], instant: datetime) -> Step:
    dates = [entry.written for entry in entries if entry.written is not None]
    if len(dates) < len(entries) or not dates:
        undated = next((entry.path for entry in entries if entry.written is None), "all of them")
        return _stays(f"when its staged deletions were made is not known ({undated})")
    return _since(max(dates), "last staged", days, instant)


def by_hooks(branch: Branch, files: Iterable[HookFile]) -> Step:
    """Decide by the hook files of the branches that stay; no file adds no words."""
    for file in files:
        why = file.names(branch.id)
        if why is not None:
            return _stays(why)
    return Step(goes=True, why="")


def _stays(why: str) -> Step:
    return Step(goes=False, why=why)


def _shown(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"
