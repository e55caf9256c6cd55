"""Since when each branch stands on its head: nothing staged earlier can hide there (safety 14, 35).

An operation that moves a branch's head begins by sealing the branch's staging area, and ends by
dropping what was sealed. So what is staged on a branch now was staged after the operation began
that made its head. No record gives the beginning of that operation. Several recorded times can only
be too early, or a little too late, and the earliest of them counts. A hard reset moves a head and
keeps what is staged. If one may have happened, the moment is unknown, and every candidate is asked
about.

References: lakeFS 71a45eeb1 `pkg/graveler/graveler.go`: `Commit`, `prepareForCommitIDUpdate`,
`ResetHard`; `lakefs-facts` 13.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from spark_core.model import Branch, Commit, Refs
from spark_core.records.figures import CommitsFigures, HeadsFigures
from spark_core.records.manifest import Manifest
from spark_core.references.metaranges_written import WrittenAt

# Why a branch has no such moment, in words for people.
RESET_BACK = (
    "a commit that no branch reaches descends from its head: it was reset, a branch from it was "
    "deleted, or a merge was refused by a hook"
)
RESET_ASIDE = (
    "it was reset since the last run: the earlier head is not on the main line of the present head"
)
RESET_ONTO = "it was reset since the last run, onto a commit that existed then"
NO_DATE = "no commit on its main line has a date that can be"
WALKED = "refs were read by walking, which does not show commits that no branch reaches"
DAMAGED = "the figures of the last run cannot be read"

_RESETS = (RESET_BACK, RESET_ASIDE, RESET_ONTO)


@dataclass(frozen=True)
class Head:
    """A branch's head.

    Attributes:
        commit_id: The commit.
        since: Whole second; what was staged on the branch before it is gone. None: nothing is
            known.
        why: Why `since` must not be relied on; empty if it may be.
    """

    commit_id: str
    since: datetime | None
    why: str = ""


@dataclass(frozen=True)
class Heads:
    """All branches at one time.

    Attributes:
        read_at: An instant before the branches were read. A branch that is not among them was made
            later.
        branches: Branch -> its head.
        is_damaged: Whether the stored heads cannot be read, so that nothing is known of any branch.
    """

    read_at: datetime
    branches: Mapping[str, Head]
    is_damaged: bool = False

    @property
    def all_since(self) -> datetime | None:
        """Since when all branches stand on their heads; None if that must not be relied on."""
        times = [None if head.why else head.since for head in self.branches.values()]
        known = [when for when in times if when is not None]
        return min(known) if known and len(known) == len(times) and not self.is_damaged else None

    @property
    def figures(self) -> HeadsFigures:
        """The heads as figures of a manifest, for later runs; pruning keeps them."""
        rows = tuple(
            (
                branch,
                head.commit_id,
                None if head.since is None else head.since.isoformat(),
                head.why,
            )
            for branch, head in sorted(self.branches.items())
        )
        return HeadsFigures(read_at=self.read_at.isoformat(), branches=rows)

    @classmethod
    def of(cls, commits: Manifest) -> Heads:
        """Read them back.

        Args:
            commits: Manifest of `retained_commits`.

        Raises:
            CorruptTableError: If its figures cannot be read.
        """
        stored = CommitsFigures.of(commits).branch_heads
        return cls(
            datetime.fromisoformat(stored.read_at),
            {
                branch: Head(
                    commit_id, None if since is None else datetime.fromisoformat(since), why
                )
                for branch, commit_id, since, why in stored.branches
            },
        )


def heads_of(
    refs: Refs,
    previous: Heads | None,
    written_at: WrittenAt,
    *,
    read_at: datetime,
    skew: timedelta,
    is_walked: bool,
    is_dump_earlier: bool = False,
) -> Heads:
    """Find since when each branch stands on its head.

    The moment is the earliest of three: the date of the commit, the last writing of its metarange,
    and when a run of lakegc first saw the branch there.

    The server takes a commit's own date before it seals, but an author may give another date. A
    merge is dated after it sealed, and its metarange is written before. A metarange is written anew
    for every commit of equal content. It is not written where a merge, revert or cherry-pick takes
    over the metarange of another commit. Its date is then from before the operation, and the branch
    is asked about more than necessary.

    A date that lies ahead is no date. The nearest commit on the main line with a possible date
    counts instead, as a commit is not older than the commits it was made from.

    Args:
        refs: All refs.
        previous: The heads that the last run recorded; None if there are none.
        written_at: Returns when metaranges' files were last written; asked about heads that the
            last run did not see.
        read_at: An instant before refs were read.
        skew: Largest difference between clocks.
        is_walked: Whether the graph was walked, so that `refs` lacks commits that no branch or tag
            reaches.
        is_dump_earlier: Whether `refs` may lack such commits that were made since a dump that the
            last run read, or an earlier one. They are signs of resets. Then nothing is concluded
            from the new head of a branch: what was staged before its old one is gone all the same.

    Returns:
        Each branch's head. If a branch has no such moment, its head says why.
    """
    known = previous or Heads(read_at, {})
    below = _below_unreached(refs)
    # Commits that were there when the last run read the refs.
    there = reached_from(refs, {head.commit_id for head in known.branches.values()})
    shared = _shared(refs, known, there)
    asked = {branch.commit_id for branch in refs.branches if _dated_before(known, branch) is None}
    written = _written(refs, asked, written_at)
    heads = {}
    for branch in refs.branches:
        before, commit_id = known.branches.get(branch.id), branch.commit_id
        stays = before is not None and before.commit_id == commit_id
        if before is not None and is_dump_earlier and not stays:
            heads[branch.id] = Head(commit_id, before.since, before.why)
            continue
        dated = _date(refs, commit_id, latest=read_at + skew)
        since = _dated_before(known, branch)
        if since is None and dated is not None:
            # A branch that the last run did not show was made since.
            seen = known.read_at if stays or before is None else read_at
            since = min(dated, written.get(commit_id, dated), seen).replace(microsecond=0)
        why = (
            (before.why if before is not None and stays and before.why != WALKED else "")
            or (DAMAGED if known.is_damaged else "")
            or (RESET_BACK if commit_id in below else "")
            or ("" if before is None or stays else _moved_by_reset(refs, before, commit_id, there))
            # A branch that follows another one by resets gets new commits that were made there, and
            # drops nothing.
            or (
                before.why
                if before is not None and before.why in _RESETS and commit_id in shared
                else ""
            )
            or (NO_DATE if since is None else "")
            or (WALKED if is_walked else "")
        )
        heads[branch.id] = Head(commit_id, since, why)
    return Heads(read_at, heads)


def _dated_before(known: Heads, branch: Branch) -> datetime | None:
    """Return the last run's moment if the branch has not moved; later times could only be later."""
    before = known.branches.get(branch.id)
    return before.since if before is not None and before.commit_id == branch.commit_id else None


def _written(refs: Refs, heads: Iterable[str], written_at: WrittenAt) -> Mapping[str, datetime]:
    """Ask about each metarange once."""
    metaranges = {
        commit: refs.commits[commit].metarange_id for commit in heads if commit in refs.commits
    }
    found = written_at(sorted({id_ for id_ in metaranges.values() if id_}))
    return {commit: found[id_] for commit, id_ in metaranges.items() if id_ in found}


def _moved_by_reset(refs: Refs, before: Head, commit_id: str, there: set[str]) -> str:
    """Say how a head seems to have moved since the last run, if not by the branch's commits."""
    if not _is_on_main_line(refs, before.commit_id, commit_id):
        return RESET_ASIDE
    # An operation that drops what is staged makes a new commit.
    return RESET_ONTO if commit_id in there else ""


def _shared(refs: Refs, known: Heads, there: set[str]) -> set[str]:
    """Return the commits since the last run that are on the main lines of several known branches.

    Only branches that the last run knew count.

    The cost is the number of new commits of all these branches together.
    """
    lines: Counter[str] = Counter()
    for branch in refs.branches:
        at = refs.commits.get(branch.commit_id) if branch.id in known.branches else None
        while at is not None and at.id not in there:
            lines[at.id] += 1
            at = refs.commits.get(at.main_parent) if at.main_parent else None
    return {commit for commit, count in lines.items() if count > 1}


def _is_on_main_line(refs: Refs, wanted: str, head: str) -> bool:
    """Walk from a head along the main parents, no further than the commit could be."""
    if wanted not in refs.commits:
        return False
    least = refs.commits[wanted].generation
    at: Commit | None = refs.commits.get(head)
    while at is not None and at.id != wanted:
        if at.generation and at.generation <= least:
            return False
        at = refs.commits.get(at.main_parent) if at.main_parent else None
    return at is not None


def _date(refs: Refs, commit_id: str, *, latest: datetime) -> datetime | None:
    """Return the date of the nearest commit on the main line that has a possible date."""
    at = refs.commits.get(commit_id)
    while at is not None and at.creation_date > latest:
        at = refs.commits.get(at.main_parent) if at.main_parent else None
    return None if at is None else at.creation_date


def reached_from(refs: Refs, starts: Iterable[str]) -> set[str]:
    """Return the commits that some commits are, or descend from."""
    reached: set[str] = set()
    left = [start for start in starts if start in refs.commits]
    while left:
        commit = left.pop()
        if commit not in reached:
            reached.add(commit)
            left += [parent for parent in refs.commits[commit].parents if parent in refs.commits]
    return reached


def _below_unreached(refs: Refs) -> set[str]:
    """Return the commits from which a commit descends that no branch reaches."""
    reached = reached_from(refs, {branch.commit_id for branch in refs.branches})
    unreached = refs.commits.keys() - reached
    return reached_from(
        refs, {parent for commit in unreached for parent in refs.commits[commit].parents}
    )
