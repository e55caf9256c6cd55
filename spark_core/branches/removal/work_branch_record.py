"""The record of a work branch: noted before the branch is made, and when it is gone.

Each part is one immutable object.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from spark_core import lakegc_keys
from spark_core.branches.removal.record import WAY_ON, read_document
from spark_core.errors import ObjectExistsError
from spark_core.model import RunKey
from spark_core.records.documents import Count, Document, Instant
from spark_core.run import Run
from spark_core.storage import ObjectStore


@dataclass(frozen=True)
class WorkBranch(Document):
    """A branch that is about to be made for the work of one rule.

    Attributes:
        run: Run key of the removal, or of the undo.
        rule: Number of the rule.
        name: Name of the branch.
        source: The commit that it begins on.
        since: When.
    """

    CALLED: ClassVar[str] = "the record of a work branch"
    NEXT_STEP: ClassVar[str] = WAY_ON

    run: str
    rule: Count
    name: str
    source: str
    since: Instant


def note_branch(run: Run, work: WorkBranch) -> None:
    """Store that a work branch is about to be made."""
    run.store.put_if_absent(_of_branch(work.run, work.name), work.to_json())


def note_branch_gone(run: Run, work: WorkBranch) -> None:
    """Store that a work branch is gone, or never was ours; a second note changes nothing."""
    with suppress(ObjectExistsError):
        run.store.put_if_absent(_of_branch(work.run, work.name, ".gone"), work.to_json())


def branch_that_stands(store: ObjectStore, key: RunKey, name: str) -> WorkBranch | None:
    """Read the record of a work branch; None if there is none, or the branch is gone.

    Raises:
        CorruptTableError: If it cannot be read.
    """
    if read_document(store, WorkBranch, _of_branch(key, name, ".gone")) is not None:
        return None
    return read_document(store, WorkBranch, _of_branch(key, name))


def _of_branch(key: RunKey | str, name: str, what: str = "") -> str:
    # A removal and an undo of one second have folders of one name, and branches of two.
    return f"{lakegc_keys.removal(key)}branch-{name}{what}.json"
