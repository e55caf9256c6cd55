"""The records of each deletion of a branch, and of its undoing: what was done, and how far it came.

A record is made by create-if-absent and never changed. `going` is written before a branch is
deleted, `gone` after it, `back` when it was made again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Literal

from spark_core import lakegc_keys
from spark_core.branches.stale.decide import UNDO_HOLD
from spark_core.branches.stale.marked import WAY_ON, BranchMark
from spark_core.errors import CorruptTableError, ObjectExistsError
from spark_core.model import RunKey
from spark_core.records.documents import Count, Document, Flag, Instant
from spark_core.storage import ObjectStore

State = Literal["going", "gone", "back"]
_STEP_KEY = re.compile(
    rf"{re.escape(lakegc_keys.BRANCHES)}(?P<mark>[^/]+)/(?P<number>\d{{6,}})\.(?P<state>[a-z]+)\.json"
)


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
    NEXT_STEP: ClassVar[str] = WAY_ON

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
            raise CorruptTableError(name, None, "it is the record of another step", WAY_ON)
        found[step.mark, step.number][step.state] = step
    return found


def steps_of(store: ObjectStore, marked: BranchMark) -> dict[int, Mapping[State, BranchStep]]:
    """Read the steps of one mark, by number of the branch; raises as `steps`."""
    found = steps(store, marked.key)
    return {number: each for (mark, number), each in found.items() if mark == marked.mark}


def put_step(store: ObjectStore, step: BranchStep) -> BranchStep:
    """Store a step, or return the one that an earlier call or another process stored."""
    where = lakegc_keys.branch_step_key(RunKey.parse(step.mark), step.number, step.state)
    try:
        store.put_if_absent(where, step.to_json())
    except ObjectExistsError:
        there = BranchStep.from_json(store.read(where), name=where)
        if (there.branch, there.commit_id) != (step.branch, step.commit_id):
            raise CorruptTableError(
                where, None, f"it speaks of {there.branch}, not of {step.branch}", WAY_ON
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


def may_come_back(found: Mapping[State, BranchStep]) -> BranchStep | None:
    """Return the step by which a branch can be made again; None if it is back, or never went."""
    return None if "back" in found else found.get("gone")


def kept_until(found: Mapping[State, BranchStep]) -> datetime:
    """Return until when the hold of a branch is needed."""
    return max(step.until for step in found.values())
