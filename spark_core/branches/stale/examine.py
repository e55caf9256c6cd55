"""Read what decides about each branch, and decide; nothing is changed.

Each step asks only about the branches that the steps before it let go. Calls are made side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from spark_core import holds
from spark_core.branches.stale import decide, hooks
from spark_core.branches.stale.decide import Dates, Staged, Step, Terms
from spark_core.branches.stale.hooks import HookFile
from spark_core.branches.stale.staged_digest import digest_of, staged_on
from spark_core.clocks import MAX_CLOCK_SKEW, SystemClock, require_near, require_not_set_back
from spark_core.errors import IncompleteReadError
from spark_core.lakefs.branch_reads import ActionFile
from spark_core.lakefs.side_by_side import side_by_side
from spark_core.model import Branch, Commit
from spark_core.references.metaranges_written import metaranges_written_at
from spark_core.references.policies import sightings
from spark_core.references.policies.lifecycle import Lifecycle, LifecyclePolicy
from spark_core.run import Run
from spark_core.run.preconditions import SERVER_CLOCK

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Examined:
    """A branch, and what was decided about it.

    Attributes:
        branch: The branch as it is now.
        goes: Whether it may go.
        why: Why it stays or may go, in a sentence.
        policy: Number of the policy that counts for it, from 1 on; None if none does.
        is_hidden: Whether lists hide it.
        staged: Digest of what is staged on it; empty for nothing, or if it was not asked for.
    """

    branch: Branch
    goes: bool
    why: str
    policy: int | None
    is_hidden: bool = False
    staged: str = ""


def examine(
    run: Run, lifecycle: Lifecycle, *, only: Collection[str] | None = None
) -> list[Examined]:
    """Decide about the branches of a repository as it is now.

    What it costs: a call for each thousand branches, pull requests and protection rules; for each
    head of a branch that is not decided by its name, a call and a look at the store; for each
    branch that is old enough, a call for what is staged, with `delete_staged` a call for each
    staged entry; and if any branch may go, a call for each head of those that stay, and one for
    each of their distinct hook files. Manifests of stored runs are read as `read_sightings` says.

    Args:
        run: The repository, opened.
        lifecycle: The section.
        only: Names of the branches that may go at most; None for all.

    Returns:
        Every branch, by name.

    Raises:
        IncompleteReadError: If the server does not show the default branch, or a commit.
        UnsafePlanError: If the clocks of the server and this machine differ too much.
    """
    found = _Reading(run, lifecycle)
    found.by_name(only)
    found.by_dates()
    found.by_staged()
    found.by_hooks()
    return found.examined()


@dataclass
class _Reading:
    """What was read and decided so far."""

    run: Run
    lifecycle: Lifecycle
    branches: Sequence[Branch] = ()
    visible: Collection[str] = ()
    terms: Terms = field(init=False)
    words: dict[str, list[str]] = field(default_factory=dict)
    stays: dict[str, str] = field(default_factory=dict)
    policies: dict[str, tuple[int, LifecyclePolicy]] = field(default_factory=dict)
    staged: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        run, name = self.run, self.run.repository.id
        reads = run.server.branch_reads
        self.branches = run.server.branches(name)
        if all(branch.id != run.repository.default_branch for branch in self.branches):
            raise IncompleteReadError(
                f"repository {name}: the server shows {len(self.branches)} branches, and the "
                f"default branch {run.repository.default_branch} is not among them",
                "Run again; for some seconds after a repository is deleted, the server shows it "
                "without branches.",
            )
        _require_clock(run)
        self.visible = reads.visible(name)
        margin: timedelta = run.options.clock_margin + MAX_CLOCK_SKEW
        self.terms = Terms(
            self.lifecycle,
            run.repository.default_branch,
            reads.protection_patterns(name),
            holds.load(run.store).holds,
            reads.open_pulls(name),
            run.now() - margin,
        )
        for branch in self.branches:
            matched = self.lifecycle.policy_of(branch.id)
            if matched is not None:
                self.policies[branch.id] = matched[0], matched[2]

    @property
    def left(self) -> list[Branch]:
        """The branches that may still go."""
        return [branch for branch in self.branches if branch.id not in self.stays]

    def note(self, branch: Branch, step: Step) -> None:
        """Take over what a step found."""
        if not step.goes:
            self.stays[branch.id] = ": ".join((*self.words.get(branch.id, [])[:1], step.why))
        elif step.why:
            self.words.setdefault(branch.id, []).append(step.why)

    def by_name(self, only: Collection[str] | None) -> None:
        for branch in self.branches:
            if only is not None and branch.id not in only:
                self.stays[branch.id] = "it was not asked about"
            else:
                self.note(branch, decide.by_name(branch, self.terms))

    def by_dates(self) -> None:
        left = self.left
        if not left:
            return
        runs = sightings.read_sightings(self.run)
        commits = self._commits(sorted({branch.commit_id for branch in left}))
        stored = self._stored(commits)
        for branch in left:
            head = commits[branch.commit_id]
            dates = Dates(
                head, stored.get(head.metarange_id), sightings.sightings_of_branch(branch, runs)
            )
            policy = self.policies[branch.id][1]
            self.note(branch, decide.by_dates(policy, dates, self.terms))

    def by_staged(self) -> None:
        dated = self.lifecycle.delete_staged

        def read(branch: Branch) -> Iterable[Staged]:
            yield staged_on(self.run, branch.id, dated=dated)

        for branch, found in _asked(self.run, self.left, read):
            self.staged[branch.id] = digest_of(found)
            policy = self.policies[branch.id][1]
            self.note(branch, decide.by_staged(policy, found, self.terms))

    def by_hooks(self) -> None:
        """Compare with the hook files of branches that stay, until no more branches stay."""
        reader = _HookReader(self.run)
        known: set[str] = set()
        while self.left and (
            staying := [
                branch
                for branch in self.branches
                if branch.id in self.stays and branch.id not in known
            ]
        ):
            known.update(branch.id for branch in staying)
            files = reader.files(staying)
            for branch in self.left:
                self.note(branch, decide.by_hooks(branch, files))

    def examined(self) -> list[Examined]:
        return [
            Examined(
                branch,
                goes=branch.id not in self.stays,
                why=self.stays.get(branch.id) or _joined(self.words[branch.id]),
                policy=self.policies[branch.id][0] if branch.id in self.policies else None,
                is_hidden=branch.id not in self.visible,
                staged=self.staged.get(branch.id, ""),
            )
            for branch in self.branches
        ]

    def _commits(self, ids: Sequence[str]) -> Mapping[str, Commit]:
        """Read commits from the log, whose answers are whole (`lakefs-facts` 11.42)."""
        server, name = self.run.server, self.run.repository.id

        def read(commit_id: str) -> Iterable[Commit]:
            first = next(server.log(name, commit_id, first_page=1), None)
            if first is None or first.id != commit_id:
                raise IncompleteReadError(
                    f"repository {name}: the log of commit {commit_id} begins with "
                    f"{'nothing' if first is None else first.id}",
                    "Run again; a branch may just have moved.",
                )
            yield first

        return dict(_asked(self.run, ids, read))

    def _stored(self, commits: Mapping[str, Commit]) -> Mapping[str, datetime]:
        """Ask when the tables of commits were last written; by metarange."""
        ids = sorted({commit.metarange_id for commit in commits.values() if commit.metarange_id})
        if not ids:
            return {}
        prefix = self.run.server.table_prefix(self.run.repository.id)
        return metaranges_written_at(self.run, prefix)(ids)


def _require_clock(run: Run) -> None:
    """Refuse if this machine's time is wrong: on one that is ahead, every branch looks stale."""
    clock = run.environment.clock
    require_near(run.server.clock_reading, SERVER_CLOCK)
    if isinstance(clock, SystemClock):
        require_not_set_back(clock.ahead)


class _HookReader:
    """Reads hook files, those of one commit once and those of equal content once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._commits: set[str] = set()
        self._files: set[ActionFile] = set()

    def files(self, branches: Sequence[Branch]) -> list[HookFile]:
        """Return the files of branches that no earlier call returned."""
        reads, name = self._run.server.branch_reads, self._run.repository.id
        heads = {branch.commit_id: branch for branch in reversed(branches)}
        new = [branch for id_, branch in heads.items() if id_ not in self._commits]
        self._commits.update(heads)

        def listed(branch: Branch) -> Iterable[ActionFile]:
            yield from reads.action_files(name, branch.commit_id)

        def read(file: ActionFile) -> Iterable[HookFile]:
            branch = owners[file]
            data = (
                reads.content(name, branch.commit_id, file.path)
                if file.size_bytes <= hooks.MOST_BYTES
                else None
            )
            yield hooks.parse(file.path, branch.id, data)

        found = _asked(self._run, new, listed)
        owners = {file: branch for branch, file in reversed(found) if file not in self._files}
        self._files.update(owners)
        return [file for _, file in _asked(self._run, sorted(owners), read)]


def _asked(
    run: Run, items: Sequence[_Item], ask: Callable[[_Item], Iterable[_Answer]]
) -> list[tuple[_Item, _Answer]]:
    """Ask side by side; the answers in the order of the items."""
    place = {item: at for at, item in enumerate(items)}
    found = side_by_side(items, ask, at_once=run.options.branches_at_once)
    return sorted(found, key=lambda pair: place[pair[0]])


def _joined(words: Sequence[str]) -> str:
    return ": ".join((words[0], "; ".join(words[1:]))) if len(words) > 1 else words[0]
