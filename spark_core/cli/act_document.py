"""What the commands that change one thing of a repository print with `--json`.

`python -m spark_core.cli.act_document` writes its JSON Schema to docs/.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parents[2] / "docs" / "act.schema.json"


@dataclass(frozen=True)
class Problem:
    """What ended a run or a command that did not end well.

    Attributes:
        kind: Name of the class of the error, such as `VerdictError`.
        message: What was found, what was done by then, and the next step.
    """

    kind: str
    message: str


@dataclass(frozen=True)
class Confirmed:
    """A finding of a mark, or a policy, that somebody confirmed.

    Attributes:
        what: Name of the check, or `policy`, `resets` or `branches`.
        run: Run key of the mark, or key of the mark of branches; null if it is of no run.
        by: Who confirmed it.
        found: What was confirmed.
    """

    what: str
    run: str | None
    by: str
    found: str


@dataclass(frozen=True)
class OutcomeSum:
    """Objects of which the same became.

    Attributes:
        outcome: `restored`, `restorable`, `already_there`, `not_restorable` or `failed`.
        objects: How many there are.
        size_bytes: Their bytes.
    """

    outcome: str
    objects: int
    size_bytes: int


@dataclass(frozen=True)
class NotBack:
    """An object that is not back.

    Attributes:
        address: Relative to the storage namespace.
        outcome: As in `OutcomeSum`.
        why: The cause; null if it is not known.
    """

    address: str
    outcome: str
    why: str | None


@dataclass(frozen=True)
class LinkAgain:
    """How objects that are back are referred to again.

    Attributes:
        commit: The last commit that had them.
        objects: How many there are.
        command: The line of `lakectl` that makes a branch of it.
    """

    commit: str
    objects: int
    command: str


@dataclass(frozen=True)
class BroughtBack:
    """What a restore did, or would do.

    Attributes:
        run: Run key of the sweep.
        dry_run: Whether it only says what could be restored.
        outcomes: Objects by what became of them.
        not_back: Some of those that are not back; the table names all.
        table: Folder of the table of all outcomes in the storage namespace; null if there is none.
        link_again: By commit, newest first; empty in a dry run, and where no commit is on record.
    """

    run: str
    dry_run: bool
    outcomes: list[OutcomeSum]
    not_back: list[NotBack]
    table: str | None
    link_again: list[LinkAgain]


@dataclass(frozen=True)
class HoldNow:
    """A hold that was added, or removed.

    Attributes:
        name: Its name.
        kind: `address`, `prefix`, `path`, `commit`, `branch` or `tag`.
        value: Which one.
        by: Who made it.
        why: Their note.
        is_there: Whether it is there from now on.
    """

    name: str
    kind: str
    value: str
    by: str
    why: str
    is_there: bool


@dataclass(frozen=True)
class BranchDays:
    """The days of one branch.

    Attributes:
        branch: Its name.
        days: For how long it keeps its past.
    """

    branch: str
    days: int


@dataclass(frozen=True)
class RulesNow:
    """The retention rules of the server as they are from now on.

    Attributes:
        default_days: Days of every other branch; null if there are no rules.
        branches: Branches with days of their own, by name.
    """

    default_days: int | None
    branches: list[BranchDays]


@dataclass(frozen=True)
class PolicyNow:
    """The version of a retention policy that counts from now on.

    Attributes:
        version: Its number.
        digest: Digest of its document; empty if it ended the policy.
        by: Who set it.
    """

    version: int
    digest: str
    by: str


@dataclass(frozen=True)
class RuleDone:
    """What became of one rule of a policy.

    Attributes:
        rule: Its number.
        state: What was done.
        branch: The branch; null where the rule is about several.
        entries: Entries that were removed; null of an undo.
        commit: The commit that did it; null if there is none.
        found: What is wrong with it; empty if nothing is.
    """

    rule: int
    state: str
    branch: str | None
    entries: int | None
    commit: str | None
    found: str


@dataclass(frozen=True)
class RulesDone:
    """What a removal of entries, or its undo, did.

    Attributes:
        run: Run key of the removal, which an undo names.
        dry_run: Whether it only says what would be done.
        rules: What became of each rule.
    """

    run: str
    dry_run: bool
    rules: list[RuleDone]


@dataclass(frozen=True)
class BranchDecided:
    """What a mark of stale branches decided about a branch.

    Attributes:
        branch: Its name.
        goes: Whether it may go.
        commit: Its head.
        why: The reason.
    """

    branch: str
    goes: bool
    commit: str
    why: str


@dataclass(frozen=True)
class BranchesMarked:
    """A mark of stale branches.

    Attributes:
        mark: Its key, which the other commands take.
        policy_version: Number of the version of the policy.
        branches: Every branch.
    """

    mark: str
    policy_version: int
    branches: list[BranchDecided]


@dataclass(frozen=True)
class BranchDone:
    """What became of a branch.

    Attributes:
        branch: Its name.
        outcome: In words.
        until: ISO instant until when it can be restored; null where it cannot, or is there.
        why: More words; empty where `outcome` says all.
    """

    branch: str
    outcome: str
    until: str | None
    why: str


@dataclass(frozen=True)
class BranchesDone:
    """What a deletion of branches, or their restoring, did.

    Attributes:
        mark: Key of the mark.
        branches: What became of each.
    """

    mark: str
    branches: list[BranchDone]


@dataclass(frozen=True)
class Certified:
    """A certificate that was written.

    Attributes:
        run: Run key of the sweep.
        file: Where it was written.
        signed: Whether it is signed.
        gone: Whether all that is certified is gone.
        statement: What it says of the run.
        path_statement: What it says of the paths that were asked about; null if none were.
    """

    run: str
    file: str
    signed: bool
    gone: bool
    statement: str
    path_statement: str | None


@dataclass(frozen=True)
class WayStep:
    """A step on the way to an erasure.

    Attributes:
        kind: `remove`, `obstacle`, `wait`, `run` or `certify`.
        words: What must happen, or what is waited for.
        commands: The commands that do it.
        until: ISO instant when it is over at the earliest; null where that depends on people.
    """

    kind: str
    words: str
    commands: list[str]
    until: str | None


@dataclass(frozen=True)
class WayToErasure:
    """What is left under a prefix, and what must happen.

    Attributes:
        prefix: The prefix.
        objects: Objects that have or had a path there.
        left: Those of them of which something is left.
        steps: What must happen, in order.
        true_on: ISO instant when nothing will be left at the earliest; null if nobody can say.
    """

    prefix: str
    objects: int
    left: int
    steps: list[WayStep]
    true_on: str | None


@dataclass(frozen=True)
class ActDocument:
    """What one command did to one repository.

    Attributes:
        command: The command, such as `hold add`.
        repository: Repository id.
        exit_code: The exit code of the command.
        result: What it did, by the kind of the command; null if it did not come so far.
        problem: What ended it; null if it ended by itself.
        next_step: The command that comes next; empty if there is none.
    """

    command: str
    repository: str
    exit_code: int
    result: (
        Confirmed
        | BroughtBack
        | HoldNow
        | RulesNow
        | PolicyNow
        | RulesDone
        | BranchesMarked
        | BranchesDone
        | Certified
        | WayToErasure
        | None
    )
    problem: Problem | None
    next_step: str


def schema_text() -> str:
    """Return the schema as it is written."""
    from spark_core.report.schema import described, titled

    found = described(ActDocument, sys.modules[__name__])
    return json.dumps(titled("What a lakegc command did to a repository", found), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text(), encoding="utf-8")
