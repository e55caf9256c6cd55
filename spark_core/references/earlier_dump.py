"""Read refs without a new dump: branches and tags of now, the log, and the dump of an earlier run.

That cannot show a commit made since that no branch or tag leads to any more. So a new dump is made

- where there are no rules;
- after `DUMP_EVERY`, and before any commit that was made since can have expired by the shortest
  rule;
- where a head that the last run saw is not reached any more (safety 51);
- where a hold was made on an unknown commit, or keeps paths (safety 65);
- where anything cannot be read.

A branch that moved is taken to stand where the last run saw it (`heads.heads_of`), which is too
early, and never too late (safety 14).

Why an earlier dump is enough otherwise: `docs/decisions/two-readings-of-commits.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from spark_core import retention
from spark_core.errors import CorruptTableError, IncompleteReadError, PermissionDeniedError
from spark_core.holds import Holds
from spark_core.lakefs import RefsDump, complete_refs, read_refs_dump
from spark_core.model import Refs, RetentionRules
from spark_core.records.figures import CommitsFigures
from spark_core.records.manifest import Manifest
from spark_core.references.heads import Heads, reached_from
from spark_core.run import Run

# A dump is made so often at least.
DUMP_EVERY = timedelta(days=7)
# Commits are dated in whole days from the rules, and by clocks that differ.
_MARGIN = timedelta(days=1)
# Where more heads moved, their logs cost more than a dump.
_MOST_MOVED = 200

_UNREADABLE = (CorruptTableError, IncompleteReadError, PermissionDeniedError)


@dataclass(frozen=True)
class Earlier:
    """A run that read refs before.

    Attributes:
        dump: The dump that it made, or that an earlier one did.
        made_at: An instant before that dump was made.
        heads: The heads that the run saw.
    """

    dump: RefsDump
    made_at: datetime
    heads: Heads

    @classmethod
    def of(cls, commits: Manifest) -> Earlier | None:
        """Read it from the manifest of `retained_commits`; None if that run's refs were walked."""
        figures = CommitsFigures.of(commits)
        if figures.dump is None or figures.dump_made_at is None:
            return None
        made_at = datetime.fromisoformat(figures.dump_made_at)
        return cls(RefsDump(**figures.dump), made_at, Heads.of(commits))


def refs_since(
    run: Run, prefix: str, earlier: Earlier, rules: RetentionRules, held: Holds
) -> tuple[Refs, int] | None:
    """Return the refs of now, read on from an earlier dump; None if a new one is to be made.

    With them comes the number of commits that the dump lacks. This costs a call for each head that
    moved, and reads the files of the earlier dump.

    Args:
        run: The run.
        prefix: Where the server keeps its tables.
        earlier: What an earlier run read.
        rules: The rules of now.
        held: The holds of now.
    """
    shortest = timedelta(days=min([rules.default_retention_days, *rules.branches.values()]))
    age = run.now() - earlier.made_at
    if held.of_paths or not timedelta(0) <= age < min(DUMP_EVERY, shortest - _MARGIN):
        return None
    server, id_ = run.server, run.repository.id
    try:
        known = read_refs_dump(run.store, earlier.dump, prefix).commits
        now = Refs(known, tuple(server.branches(id_)), tuple(server.tags(id_)))
        named = _named(now)
        if len(named - known.keys()) > _MOST_MOVED:
            return None
        refs = complete_refs(server, id_, now)
        retention.require_whole(refs)
    except _UNREADABLE:
        return None
    reached = reached_from(refs, _named(refs))
    seen = {head.commit_id for head in earlier.heads.branches.values()}
    is_all_reached = seen <= reached and not earlier.heads.is_damaged
    if not is_all_reached or not refs.commits.keys() >= set(held.starting_commits):
        return None
    return refs, len(refs.commits) - len(known)


def _named(refs: Refs) -> set[str]:
    return {branch.commit_id for branch in refs.branches} | {tag.commit_id for tag in refs.tags}
