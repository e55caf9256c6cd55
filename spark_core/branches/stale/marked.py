"""Mark stale branches, and let people confirm what a mark lets go; nothing is deleted.

A record is made by create-if-absent and never changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from spark_core import lakegc_keys
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

WAY_ON = (
    "This is a file of lakegc's own, not of the server: a record about stale branches. Bring it "
    "back as it was written."
)
_NAMED = 10

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
    NEXT_STEP: ClassVar[str] = WAY_ON

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
    NEXT_STEP: ClassVar[str] = WAY_ON

    mark: str
    marked: str
    branches: tuple[str, ...]
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


def is_there(run: Run, key: RunKey) -> bool:
    """Say whether there is a mark of a key."""
    return run.store.exists(lakegc_keys.branch_mark_key(key))


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
        raise CorruptTableError(where, None, f"it is mark {found.mark}", WAY_ON)
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
            f"Read it, then confirm it (`lakegc confirm {name} branches --run {marked.mark}`).",
        ) from None
    if (found.mark, found.marked) != (marked.mark, marked.digest):
        raise CorruptTableError(where, None, "it confirms another mark", WAY_ON)
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
