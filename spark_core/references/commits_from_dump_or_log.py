"""The commit graph of now: read from a dump and the logs, or walked where no dump can be made."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from spark_core import retention
from spark_core.errors import IncompleteReadError, PermissionDeniedError
from spark_core.holds import Holds
from spark_core.lakefs import (
    NoSuchCallError,
    RefsDump,
    complete_refs,
    read_refs_dump,
    walk_refs,
)
from spark_core.model import Refs, RetentionRules
from spark_core.records.figures import DUMP, EARLIER_DUMP, WALK
from spark_core.references.earlier_dump import Earlier, refs_since
from spark_core.run import Run

# Number of dumps before the mark refuses because none could be completed.
DUMP_TRIES = 3


@dataclass(frozen=True)
class ReadRefs:
    """The commit graph and how it was read; attributes as those of `commits.ReadCommits`."""

    refs: Refs
    read_by: str
    dump: RefsDump | None = None
    dump_made_at: datetime | None = None
    dumped: tuple[int, int] = (0, 0)
    beside_dump: int = 0


def read_on(
    run: Run, prefix: str, earlier: Earlier, rules: RetentionRules, held: Holds
) -> ReadRefs | None:
    """Read the commit graph from an earlier dump and the logs since; None if that does not do."""
    found = refs_since(run, prefix, earlier, rules, held)
    if found is None:
        return None
    refs, beside = found
    return ReadRefs(refs, EARLIER_DUMP, earlier.dump, earlier.made_at, beside_dump=beside)


def read_refs(run: Run, prefix: str, *, has_rules: bool, held: Holds) -> ReadRefs:
    """Read the commit graph from a dump and the logs, or walk it where no dump is possible.

    The logs have the commits that landed while the dump was made.
    """
    for attempt in range(1, DUMP_TRIES + 1):
        made_at, sizes = run.now(), list[int]()
        try:
            dump = run.server.dump_refs(run.repository.id)
        except (PermissionDeniedError, NoSuchCallError) as refusal:
            return ReadRefs(_walk(run, refusal, has_rules=has_rules, held=held), WALK)
        try:
            dumped = read_refs_dump(run.store, dump, prefix, sizes=sizes)
            refs = _completed(run, dumped)
            retention.require_whole(refs)
        except IncompleteReadError:
            if attempt == DUMP_TRIES:
                raise
        else:
            beside = len(refs.commits) - len(dumped.commits)
            return ReadRefs(refs, DUMP, dump, made_at, (len(sizes), sum(sizes)), beside)
    raise AssertionError  # the last try above either returned or raised


def _completed(run: Run, dumped: Refs) -> Refs:
    try:
        return complete_refs(run.server, run.repository.id, dumped)
    except PermissionDeniedError as denied:
        # If nothing lands during a dump, no log is needed. A user who may only make dumps has as
        # many tries as before.
        raise IncompleteReadError(
            f"refs dump of repository {run.repository.id}: it lacks a commit that landed while it "
            f"was made, and a log that shows it cannot be read ({denied.found}). Give the user "
            f"fs:ReadBranch on arn:lakefs:fs:::repository/{run.repository.id}/branch/*, or run "
            "again when nobody commits."
        ) from denied


def _walk(
    run: Run, refusal: PermissionDeniedError | NoSuchCallError, *, has_rules: bool, held: Holds
) -> Refs:
    # Expired keys are refused for every call, and this call says so. A lacking permission concerns
    # one call only.
    run.server.repository(run.repository.id)
    if not has_rules:
        denied = isinstance(refusal, PermissionDeniedError)
        raise type(refusal)(
            f"refs dump of repository {run.repository.id}: "
            f"{'the user may not make one' if denied else 'the server has no such call'}, and the "
            "repository has no rules. Then every commit keeps its objects, and only a dump names "
            "those that no branch or tag leads to. "
            + (
                "Give the user fs:ListTags, fs:ListBranches and fs:ListCommits on "
                f"arn:lakefs:fs:::repository/{run.repository.id}, and run again."
                if denied
                else "Give the repository rules, or upgrade the server, and run again."
            )
        ) from refusal
    try:
        refs = walk_refs(run.server, run.repository.id, also=held.starting_commits)
    except PermissionDeniedError as denied:
        raise PermissionDeniedError(
            denied.found,
            f"{denied.next_step} The commits are walked because a refs dump was not possible "
            f"({refusal.found}). A dump does not need that permission; it needs fs:ListTags, "
            "fs:ListBranches and fs:ListCommits.",
        ) from refusal
    retention.require_whole(refs)
    return refs
