"""What is stored of stale branches: marks, their confirmations, and the steps of each deletion.

A record is made by create-if-absent and never changed. `going` is written before a branch is
deleted, `gone` after it, `back` when it was made again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, TypeVar

from spark_core import lakegc_keys
from spark_core.branches.stale.decide import UNDO_HOLD
from spark_core.branches.stale.examine import Examined, examine
from spark_core.errors import (
    ChainError,
    CorruptTableError,
    NotFoundError,
    ObjectExistsError,
    SettingsError,
)
from spark_core.model import RunKey
from spark_core.records.documents import Count, Document, Flag, Instant
from spark_core.references.policies import versions
from spark_core.references.policies.lifecycle import Lifecycle
from spark_core.references.policies.versions import Version
from spark_core.run import Run
from spark_core.storage import ObjectStore

_WAY_ON = (
    "This is a file of lakegc's own, not of the server: a record about stale branches. Bring it "
    "back as it was written."
)
_NAMED = 10

State = Literal["going", "gone", "back"]
_STEP_KEY = re.compile(
    rf"{re.escape(lakegc_keys.BRANCHES)}(?P<mark>[^/]+)/(?P<number>\d{{6,}})\.(?P<state>[a-z]+)\.json"
)
_Record = TypeVar("_Record", bound=Document)


@dataclass(frozen=True)
class MarkedBranch:
    """A branch as a mark found it.

    Attributes:
        branch: Its name.
        commit_id: Its head.
        goes: Whether it may go once that is confirmed.
        why: Why it stays or may go.
        policy: Number of the policy that counts for it; None for none.
        is_hidden: Whether lists hide it.
        staged: Digest of what is staged on it; empty for nothing.
    """

    branch: str
    commit_id: str
    goes: Flag
    why: str
    policy: Count | None
    is_hidden: Flag
    staged: str


@dataclass(frozen=True)
class BranchMark(Document):
    """A mark: what was decided about each branch.

    Attributes:
        mark: Its key.
        instance: Instance of the repository.
        policy_version: Number of the policy's version, ...
        policy_digest: ... and its digest.
        who: Account and machine that marked.
        since: When the reading began.
        branches: Every branch, by name; people and keys number them from 1 on.
    """

    CALLED: ClassVar[str] = "a mark of stale branches"
    NEXT_STEP: ClassVar[str] = _WAY_ON

    mark: str
    instance: str
    policy_version: Count
    policy_digest: str
    who: str
    since: Instant
    branches: tuple[MarkedBranch, ...]

    @property
    def key(self) -> RunKey:
        """The mark's key."""
        return RunKey.parse(self.mark)

    @property
    def going(self) -> dict[int, MarkedBranch]:
        """The branches that may go, by number."""
        return {
            number: branch for number, branch in enumerate(self.branches, start=1) if branch.goes
        }


@dataclass(frozen=True)
class BranchConfirmation(Document):
    """A person says that branches of a mark may go.

    Attributes:
        mark: Key of the mark.
        marked: Digest of the mark.
        branches: Names of the branches.
        who: Account and machine that confirmed.
        since: When.
    """

    CALLED: ClassVar[str] = "a confirmation of stale branches"
    NEXT_STEP: ClassVar[str] = _WAY_ON

    mark: str
    marked: str
    branches: tuple[str, ...]
    who: str
    since: Instant


@dataclass(frozen=True)
class BranchStep(Document):
    """A step of a deletion, or of its undoing.

    Attributes:
        mark: Key of the mark.
        number: Number of the branch in it.
        state: `going` before the deletion, `gone` after it, `back` when it was made again.
        branch: Its name.
        commit_id: The head with which it goes, and comes back.
        is_hidden: Whether lists hide it.
        hold: Name of the hold that keeps the objects of its head.
        until: Until when it can be made again.
        who: Account and machine.
        since: When the record was made.
    """

    CALLED: ClassVar[str] = "a record of a branch's deletion"
    NEXT_STEP: ClassVar[str] = _WAY_ON

    mark: str
    number: Count
    state: State
    branch: str
    commit_id: str
    is_hidden: Flag
    hold: str
    until: Instant
    who: str
    since: Instant


def mark(run: Run, *, who: str) -> BranchMark:
    """Decide about every branch, and store what was found; deletes nothing.

    Args:
        run: The repository, opened; its key names the mark.
        who: Who marks.

    Raises:
        NotFoundError: If the repository has no policy for branches.
        SettingsError: If there is a mark of this second.
    """
    version, lifecycle = require_lifecycle(run)
    began = run.now()
    found = examine(run, lifecycle)
    made = BranchMark(
        mark=str(run.key),
        instance=run.instance,
        policy_version=version.number,
        policy_digest=version.policy_digest,
        who=who,
        since=began,
        branches=tuple(_marked(each) for each in found),
    )
    return _put(run.store, lakegc_keys.branch_mark_key(run.key), made, "a mark of this second")


def _marked(found: Examined) -> MarkedBranch:
    return MarkedBranch(
        branch=found.branch.id,
        commit_id=found.branch.commit_id,
        goes=found.goes,
        why=found.why,
        policy=found.policy,
        is_hidden=found.is_hidden,
        staged=found.staged,
    )


def require_lifecycle(run: Run) -> tuple[Version, Lifecycle]:
    """Return the policy's version that counts and its section.

    Raises:
        NotFoundError: If the repository has no policy for branches.
    """
    version = versions.newest(run)
    policy = None if version is None else version.policy
    if version is None or policy is None or policy.branch_lifecycle is None:
        raise NotFoundError(
            f"repository {run.repository.id} has no policy for branches",
            "Set one with the section `branch_lifecycle` (`lakegc retention set`).",
        )
    return version, policy.branch_lifecycle


def confirm(run: Run, key: RunKey, *, who: str, only: Collection[str] = ()) -> BranchConfirmation:
    """Store that the branches of a mark may go; deletes nothing.

    Args:
        run: The repository, opened.
        key: Key of the mark.
        who: Who confirms.
        only: Names of the branches; empty for all that the mark lets go.

    Raises:
        NotFoundError: If there is no such mark, or a name is not among what it lets go.
        SettingsError: If the mark was confirmed before, or lets nothing go.
    """
    marked = load(run, key)
    names = [branch.branch for branch in marked.going.values()]
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise NotFoundError(
            f"mark {key} of {run.repository.id} does not let {', '.join(unknown)} go; it lets go: "
            f"{_some(names)}."
        )
    if not names:
        raise SettingsError(f"mark {key} of {run.repository.id} lets no branch go.")
    confirmed = BranchConfirmation(
        mark=str(key),
        marked=marked.digest,
        branches=tuple(name for name in names if not only or name in only),
        who=who,
        since=run.now(),
    )
    where = lakegc_keys.branch_confirmation_key(key)
    return _put(run.store, where, confirmed, "a confirmation of this mark")


def load(run: Run, key: RunKey) -> BranchMark:
    """Read a mark.

    Raises:
        NotFoundError: If there is none of this key; the message names some.
        ChainError: If it was made of another instance of the repository.
    """
    where = lakegc_keys.branch_mark_key(key)
    try:
        found = BranchMark.from_json(run.store.read(where), name=where)
    except NotFoundError:
        raise NotFoundError(
            f"there is no mark {key} of the branches of {run.repository.id} (there are: "
            f"{_some([str(each) for each in keys(run.store)])})."
        ) from None
    if found.instance != run.instance:
        raise ChainError(
            f"mark {key} was made of the branches of {found.instance!r}, the server now has "
            f"{run.instance!r}",
            "Mark again.",
        )
    if found.mark != str(key):
        raise CorruptTableError(where, None, f"it is mark {found.mark}", _WAY_ON)
    return found


def require_confirmed(run: Run, marked: BranchMark) -> dict[int, MarkedBranch]:
    """Return the branches of a mark that a person confirmed, by number.

    Raises:
        SettingsError: If nobody did.
        CorruptTableError: If the confirmation is of another mark.
    """
    where = lakegc_keys.branch_confirmation_key(marked.key)
    name = run.repository.id
    try:
        found = BranchConfirmation.from_json(run.store.read(where), name=where)
    except NotFoundError:
        raise SettingsError(
            f"mark {marked.mark} of the branches of {name} was not confirmed",
            f"Read it, then confirm it (`lakegc retention branches confirm {name} {marked.mark}`).",
        ) from None
    if (found.mark, found.marked) != (marked.mark, marked.digest):
        raise CorruptTableError(where, None, "it confirms another mark", _WAY_ON)
    return {
        number: branch for number, branch in marked.going.items() if branch.branch in found.branches
    }


def keys(store: ObjectStore) -> list[RunKey]:
    """Return the keys of all marks, newest first."""
    folders, _ = store.children(lakegc_keys.BRANCHES)
    names = (folder.removeprefix(lakegc_keys.BRANCHES).rstrip("/") for folder in folders)
    found: list[RunKey] = []
    for name in names:
        try:
            found.append(RunKey.parse(name))
        except SettingsError:
            continue  # no mark's folder; nothing is done by it
    return sorted(found, reverse=True)


Steps = Mapping[tuple[str, int], Mapping[State, BranchStep]]


def steps(store: ObjectStore, key: RunKey | None = None) -> Steps:
    """Read the steps of one mark or of all, by mark and number of the branch.

    Raises:
        CorruptTableError: If one cannot be read.
    """
    folder = lakegc_keys.BRANCHES if key is None else f"{lakegc_keys.BRANCHES}{key}/"
    names = [name for batch in store.list(folder) for name in batch.column("key").to_pylist()]
    found: dict[tuple[str, int], dict[State, BranchStep]] = defaultdict(dict)
    for name in sorted(names):
        matched = _STEP_KEY.fullmatch(name)
        if matched is None:
            continue
        step = BranchStep.from_json(store.read(name), name=name)
        if (step.mark, step.number, step.state) != (
            matched["mark"],
            int(matched["number"]),
            matched["state"],
        ):
            raise CorruptTableError(name, None, "it is the record of another step", _WAY_ON)
        found[step.mark, step.number][step.state] = step
    return found


def put_step(store: ObjectStore, step: BranchStep) -> BranchStep:
    """Store a step, or return the one that an earlier call or another process stored."""
    where = lakegc_keys.branch_step_key(RunKey.parse(step.mark), step.number, step.state)
    try:
        store.put_if_absent(where, step.to_json())
    except ObjectExistsError:
        there = BranchStep.from_json(store.read(where), name=where)
        if (there.branch, there.commit_id) != (step.branch, step.commit_id):
            raise CorruptTableError(
                where, None, f"it speaks of {there.branch}, not of {step.branch}", _WAY_ON
            ) from None
        return there
    return step


def new_step(
    marked: BranchMark, number: int, state: State, *, days: int, who: str, now: datetime
) -> BranchStep:
    """Make the record of a step.

    Args:
        marked: The mark.
        number: Number of the branch in it.
        state: The step.
        days: Days from now on for which the branch can be made again.
        who: Who does it.
        now: When.
    """
    branch = marked.branches[number - 1]
    return BranchStep(
        mark=marked.mark,
        number=number,
        state=state,
        branch=branch.branch,
        commit_id=branch.commit_id,
        is_hidden=branch.is_hidden,
        hold=f"{UNDO_HOLD}{marked.mark.lower()}-{number:06d}",
        until=now + timedelta(days=days),
        who=who,
        since=now,
    )


def _put(store: ObjectStore, where: str, record: _Record, what: str) -> _Record:
    try:
        store.put_if_absent(where, record.to_json())
    except ObjectExistsError:
        there: Any = type(record).from_json(store.read(where), name=where)
        # It is ours if the first answer was lost and the client asked again.
        if there != record:
            raise SettingsError(
                f"there is already {what} (by {there.who})", "Run again for a mark of its own."
            ) from None
    return record


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f", and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more if listed else "none"


def may_come_back(found: Mapping[State, BranchStep]) -> BranchStep | None:
    """Return the step by which a branch can be made again; None if it is back, or never went."""
    return None if "back" in found else found.get("gone")


def kept_until(found: Mapping[State, BranchStep]) -> datetime:
    """Return until when the hold of a branch is needed."""
    return max(step.until for step in found.values())


def by_number(found: Steps, marked: BranchMark) -> dict[int, Mapping[State, BranchStep]]:
    """Return the steps of one mark by the number of the branch."""
    return {number: each for (mark_, number), each in found.items() if mark_ == marked.mark}
