"""The record of a removal: what it set out to do, what became of each rule, and what was undone.

Each part is one immutable object. The first is stored before anything is changed, so that whoever
comes after a removal that was killed knows where to look.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeVar

from spark_core import lakegc_keys
from spark_core.errors import (
    ChainError,
    CorruptTableError,
    NotFoundError,
    ObjectExistsError,
    SettingsError,
)
from spark_core.model import RunKey
from spark_core.records.documents import Count, Document, Instant, Parsed
from spark_core.run import Run
from spark_core.storage import ObjectStore

WAY_ON = (
    "This is a file of lakegc's own, not of the server: the record of a removal. Bring it back as "
    "it was written; what the removal did stands in the commits of the branches."
)

# What became of a rule. The first two are as wanted.
State = Literal[
    "removed",  # entries were removed by a merge, or staged entries were reset
    "nothing",  # the rule names nothing now
    "named",  # a dry run: what the rule names
    "no_branch",  # there is no such branch
    "held",  # a hold keeps the branch as it is
    "staged",  # something is staged on the branch, which refuses a merge
    "protected",  # a branch protection rule refused
    "hook",  # an action of the repository refused
    "conflict",  # a path was changed on the branch meanwhile
    "changed",  # likewise, seen before the merge
    "moved",  # the branch was reset to somewhere else meanwhile
    "unknown",  # the answer to the merge was lost, and no merge is seen yet
    "failed",  # anything else
]
AS_WANTED: tuple[State, ...] = ("removed", "nothing", "named")

_BEGUN = "begun.json"
# The folder of an undo holds no such file.
_RUN_OF = re.compile(rf"{re.escape(lakegc_keys.REMOVALS)}run_id=([^/]+)/{re.escape(_BEGUN)}")


@dataclass(frozen=True)
class Planned:
    """One rule of a removal.

    Attributes:
        rule: Its number.
        branch: Name of its branch.
        head: The branch's head when the removal began; empty if there was no such branch.
        work_branch: Name of the branch on which entries are deleted.
    """

    rule: Count
    branch: str
    head: str
    work_branch: str


_Plan = Annotated[tuple[Planned, ...], Parsed(list, "a list of rules", tuple)]


@dataclass(frozen=True)
class Begun(Document):
    """A removal that was begun.

    Attributes:
        run: Run key.
        instance: Instance of the repository.
        policy_version: Number of the version of the policy.
        policy_digest: Digest of what the policy says.
        who: Account and machine that started it.
        since: When.
        rules: What it set out to do.
    """

    CALLED: ClassVar[str] = "the record of a removal"
    NEXT_STEP: ClassVar[str] = WAY_ON

    run: str
    instance: str
    policy_version: Count
    policy_digest: str
    who: str
    since: Instant
    rules: _Plan


@dataclass(frozen=True)
class Outcome(Document):
    """What became of one rule of a removal.

    Attributes:
        run: Run key.
        rule: Number of the rule.
        branch: Its branch.
        prefix: Its prefix, branch and path.
        state: See `State`.
        found: What was found, in words; empty if all went as wanted.
        entries: Committed entries that the rule named; removed if there is a commit.
        size_bytes: Their sizes, as the entries say.
        reset_entries: Staged entries that were reset; in a dry run those that would be.
        reset_bytes: Their sizes.
        commit: The merge on the branch; None if nothing was merged.
        work_commit: The commit with the deletions; None if there was none.
        ended: When.
        undo_until: From then on objects of what was removed may go, by the rules of that moment;
            None for no end, or without a commit.
        left: Name of the work branch if it could not be deleted.
    """

    CALLED: ClassVar[str] = "the outcome of a removal"
    NEXT_STEP: ClassVar[str] = WAY_ON

    run: str
    rule: Count
    branch: str
    prefix: str
    state: State
    found: str
    entries: Count
    size_bytes: Count
    reset_entries: Count
    reset_bytes: Count
    commit: str | None
    work_commit: str | None
    ended: Instant
    undo_until: Instant | None
    left: str | None

    @property
    def is_as_wanted(self) -> bool:
        """Whether the rule was carried out, or had nothing to do, and left nothing behind."""
        return self.state in AS_WANTED and self.left is None


@dataclass(frozen=True)
class Undone(Document):
    """A merge of a removal that was reverted.

    Attributes:
        run: Run key of the removal.
        rule: Number of the rule.
        branch: The branch.
        commit: The merge.
        who: Account and machine that undid it.
        since: When.
    """

    CALLED: ClassVar[str] = "the record of an undone removal"
    NEXT_STEP: ClassVar[str] = WAY_ON

    run: str
    rule: Count
    branch: str
    commit: str
    who: str
    since: Instant


@dataclass(frozen=True)
class RemovalRecord:
    """Everything that is stored of a removal.

    Attributes:
        begun: What it set out to do.
        outcomes: What became of the rules, by number; a rule that is missing was not concluded.
        undone: What was reverted since, by number of the rule.
    """

    begun: Begun
    outcomes: dict[int, Outcome]
    undone: dict[int, Undone]


def begin(run: Run, begun: Begun) -> None:
    """Store what a removal sets out to do.

    Raises:
        SettingsError: If there is a removal of this run key already.
    """
    try:
        run.store.put_if_absent(f"{lakegc_keys.removal(run.key)}{_BEGUN}", begun.to_json())
    except ObjectExistsError:
        raise SettingsError(
            f"there is a removal {run.key} of repository {run.repository.id} already",
            "Start another one; each has the second in which it began as its key.",
        ) from None


def store_outcome(run: Run, outcome: Outcome) -> None:
    """Store what became of a rule."""
    run.store.put_if_absent(_of_rule(run.key, "rule", outcome.rule), outcome.to_json())


def note_undone(run: Run, undone: Undone) -> None:
    """Store that a merge was reverted; a second note of it changes nothing."""
    with suppress(ObjectExistsError):
        run.store.put_if_absent(_of_rule(undone.run, "undone", undone.rule), undone.to_json())


def missing_list(run: Run, removal: str, rule: int) -> str:
    """Return where an undo lists the entries of a rule whose objects are gone."""
    return f"{lakegc_keys.removal(removal)}missing-{rule:04d}-{run.key}.parquet"


def is_there(run: Run, key: RunKey) -> bool:
    """Say whether a removal has a record."""
    return run.store.exists(f"{lakegc_keys.removal(key)}{_BEGUN}")


def load(run: Run, key: RunKey) -> RemovalRecord:
    """Read the record of a removal.

    Raises:
        NotFoundError: If there is none; those there are, are named.
        ChainError: If it is of another instance of the repository.
        CorruptTableError: If a part of it cannot be read.
    """
    begun = read_document(run.store, Begun, f"{lakegc_keys.removal(key)}{_BEGUN}")
    if begun is None:
        some = ", ".join(str(each) for each in list_removals(run.store)[:10])
        raise NotFoundError(
            f"there is no removal {key} of repository {run.repository.id}",
            f"There are: {some}." if some else "There is none at all.",
        )
    if begun.instance != run.instance:
        raise ChainError(
            f"removal {key} was of {begun.instance!r}, the server now has {run.instance!r}",
            "A repository that was made anew has none of those commits.",
        )
    if begun.run != str(key):
        raise CorruptTableError(
            f"{lakegc_keys.removal(key)}{_BEGUN}", None, f"it is removal {begun.run}", WAY_ON
        )
    outcomes: dict[int, Outcome] = {}
    undone: dict[int, Undone] = {}
    for planned in begun.rules:
        outcome = read_document(run.store, Outcome, _of_rule(key, "rule", planned.rule))
        reverted = read_document(run.store, Undone, _of_rule(key, "undone", planned.rule))
        if outcome is not None:
            outcomes[planned.rule] = outcome
        if reverted is not None:
            undone[planned.rule] = reverted
    return RemovalRecord(begun, outcomes, undone)


def list_removals(store: ObjectStore) -> list[RunKey]:
    """List the removals of a namespace, the newest first."""
    found = set()
    for batch in store.list(lakegc_keys.REMOVALS):
        for name in batch.column("key").to_pylist():
            matched = _RUN_OF.match(name)
            try:
                found.add(RunKey.parse(matched[1]) if matched else None)
            except SettingsError:
                continue
    return sorted((key for key in found if key is not None), reverse=True)


def _of_rule(key: RunKey | str, what: str, number: int) -> str:
    return f"{lakegc_keys.removal(key)}{what}-{number:04d}.json"


_Kind = TypeVar("_Kind", bound=Document)


def read_document(store: ObjectStore, kind: type[_Kind], key: str) -> _Kind | None:
    """Read a part of the record; None if it is not there.

    Raises:
        CorruptTableError: If it cannot be read.
    """
    try:
        data = store.read(key)
    except NotFoundError:
        return None
    return kind.from_json(data, name=key)
