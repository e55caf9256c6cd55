"""Read what is staged on all branches, although branches come and go meanwhile.

The server scans all branches in one call, and a branch that is deleted under
that scan costs it rows of other branches, without an error (safety 2). So the
diff of every branch is read as well, each by itself, and that reading alone is
complete; the server's scans can only add to it (what an error of its staging
store hides from one reading, another one finds, safety 30).

Why a diff of each branch that is there at the beginning is complete, whatever
branches do meanwhile. The branches are listed after the cutoff was fixed and
the store was listed; commits are read after all diffs.

- *An entry staged at that moment, on a branch that stays*: its branch is listed
  and its diff is read to the end. Until then the entry can only be committed,
  and then it is found among the commits, or be dropped (reset, overwritten,
  deleted), and then it is no reference any more. It does not move to another
  path or branch: a copy is a new object (`shallow` ones, which are not, the open
  server refuses). Hidden branches are listed like others.
- *A branch that is gone when its diff is asked for*: what was staged on it went
  with it. What was committed on it is in the dump, as every commit is, or in the
  server's list.
- *A branch that appears*: it begins with nothing staged. What is staged on it
  afterwards is staged after the listing, as on any branch whose diff was read
  already: its object is new, so younger than the cutoff, or its address was
  given out at most a grace period ago, which the minimum age covers. (An old
  address that is staged by hand is what the second look before deleting is for.) It
  is read too, in the next round, as long as there are rounds.
- *A branch deleted and made again under its name*, before its diff is read or
  between two pages of it: the first of the last two cases and then the second.
  That renames a branch, too: what was staged under the old name is dropped.

A branch that answers "not found" and is listed all the same each time is none
of these, and refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.collectable import may_be_own
from spark_core.addresses.namespace import AddressType, Namespace
from spark_core.errors import IncompleteReadError, NotFoundError, RepositoryStateError
from spark_core.lakefs.entries import addresses_on
from spark_core.lakefs.prepare import BranchDeletedError
from spark_core.lakefs.server import LakeFSServer
from spark_core.lakefs.side_by_side import side_by_side
from spark_core.lakefs.values import PreparedUncommitted
from spark_core.model import Repository
from spark_core.schemas import STAGED_ADDRESSES

# What one scan lost without a sign, the next one finds ...
SCANS = 2

# ... and one that ends with "branch not found" is made again, up to so many altogether.
MAX_SCANS = 5

# Readings of the branches that were not there, or not found, in the one before.
MAX_ROUNDS = 5

# Staged paths of a branch that are looked up, and held, at once; each branch that is read side by side holds as many.
LOT = 10_000

# How often a path of a diff that the branch does not show is looked up again: it may be deleted and staged anew in between.
_LOOK_UPS = 3
_REMOVED = "removed"


@dataclass(frozen=True)
class DiffsRead:
    """How the diffs of all branches were read.

    Attributes:
        rows: Rows that were kept.
        branches: Branches whose diff was read to its end, now or in an earlier turn.
        gone: Branches that were deleted before theirs was.
        appeared: Branches that appeared in the last round and were not read: nothing was staged on them when it began.
    """

    rows: int
    branches: int
    gone: int
    appeared: int


class Turns(Protocol):
    """Says which branches are read when, and hears which were; called from any thread."""

    def order(self, branches: Iterable[str]) -> list[str]:
        """Put all branches in the order in which to read them."""

    def begin(self, part: str) -> bool:
        """Say whether to read a branch now."""

    def end(self, part: str) -> None:
        """Hear that it was read to its end."""


class _EachOne:
    """Has every branch read, whenever it is asked."""

    def order(self, branches: Iterable[str]) -> list[str]:
        return list(branches)

    def begin(self, part: str) -> bool:  # noqa: ARG002 - the contract's signature
        return True

    def end(self, part: str) -> None: ...


def scan_uncommitted(
    server: LakeFSServer, repository_id: str, *, max_scans: int = MAX_SCANS
) -> list[PreparedUncommitted]:
    """Let the server scan the staged entries twice.

    A scan that a deleted branch ended is made again; what a deleted branch
    cost one that went on does not show. Both are harmless only because the diffs
    of all branches are read as well (`diff_addresses`); see the top of this module.

    Args:
        server: The server.
        repository_id: Repository name.
        max_scans: Scans to begin at most.

    Returns:
        Every finished scan, none if a branch was deleted under each of them.
    """
    done: list[PreparedUncommitted] = []
    for _ in range(max_scans):
        try:
            done.append(server.prepare_uncommitted(repository_id))
        except BranchDeletedError:
            continue
        if len(done) == SCANS:
            break
    return done


def diff_addresses(
    server: LakeFSServer,
    repository: Repository,
    namespace: Namespace,
    keep: Callable[[pa.RecordBatch], None],
    *,
    at_once: int,
    turns: Turns | None = None,
) -> DiffsRead:
    """Read the addresses of staged entries from the diff of every branch, hidden ones too, a lot at a time.

    The server's own scan loses rows when a branch is deleted, and leaves out
    entries with absolute addresses that do not begin, letter by letter, as the
    namespace does; the diffs have them all, and a branch shows each as the server
    resolves it (safety 2, 23). Why that is complete stands at the top of this
    module. A branch on which nothing is staged costs one call.

    Args:
        server: The server.
        repository: The repository.
        namespace: Addresses outside it are left out.
        keep: Gets what is found, at most `LOT` rows at once and in any order: columns of
            `schemas.STAGED_ADDRESSES`, created_at null; duplicates allowed.
        at_once: Branches that are read side by side.
        turns: Says which branches are read; None for all of them.

    Returns:
        What was read.

    Raises:
        AddressError: If an address has an unknown form.
        RepositoryStateError: If there is no branch, or no default branch.
        IncompleteReadError: If a branch that is listed cannot be read, or an
            entry of a diff cannot be looked up.
    """
    rows, done, gone, chosen = 0, set[str](), set[str](), turns or _EachOne()
    ask = partial(_read_branch, server, repository.id, namespace, chosen)
    names = chosen.order(_branch_names(server, repository))
    for _ in range(MAX_ROUNDS):
        lost: set[str] = set()
        for branch, found in side_by_side(names, ask, at_once=at_once):
            if isinstance(found, pa.RecordBatch):
                keep(found)
                rows += found.num_rows
            else:
                (done if found else lost).add(branch)
        gone |= lost
        names = [name for name in chosen.order(_branch_names(server, repository)) if name not in done]
        if not names:
            break
    unread = sorted(lost.intersection(names))
    if unread:
        raise IncompleteReadError(
            f"repository {repository.id} lists {len(unread)} branches that it did not find in {MAX_ROUNDS} tries to read what is "
            f"staged on them, for instance {unread[0]!r}; their objects would look unreachable",
            "After a "
            "cherry-pick the server may answer so for some ten minutes, and so it does where a script deletes a branch and "
            "makes it again all the time: run again later.",
        )
    return DiffsRead(rows, len(done), len(gone - done), len(names))


def _read_branch(
    server: LakeFSServer, repository_id: str, namespace: Namespace, turns: Turns, branch: str
) -> Iterator[pa.RecordBatch | bool]:
    """Yield what is staged on a branch, and at the end whether the branch was there to its end.

    One that was read in an earlier turn, and is not due again, counts as read.
    """
    if not turns.begin(branch):
        yield True
        return
    try:
        for addresses in _staged_on(server, repository_id, branch):
            yield _inside(namespace, addresses)
    except NotFoundError:
        yield False
    else:
        turns.end(branch)
        yield True


def _inside(namespace: Namespace, addresses: list[str]) -> pa.RecordBatch:
    full = pa.array([int(AddressType.FULL)] * len(addresses), pa.int32())
    absolute = pa.array(addresses, pa.string())
    # What may be inside by another name of the store keeps its absolute address.
    another_name = pc.if_else(may_be_own(absolute), absolute, None)
    relative = pc.coalesce(namespace.relative_batch(absolute, full), another_name).drop_null()
    # The listing of a branch does not say when an entry was staged.
    created = pa.nulls(len(relative), STAGED_ADDRESSES.field("created_at").type)
    return pa.record_batch([relative, created], schema=STAGED_ADDRESSES)


def _staged_on(server: LakeFSServer, repository_id: str, branch: str) -> Iterator[list[str]]:
    """List the physical addresses of what the diff of a branch shows; the diff itself gives none."""
    missing: set[str] = set()
    for lot in _lots(_changed_paths(server, repository_id, branch)):
        found = list(addresses_on(server, repository_id, branch, lot))
        yield [physical_address for _, physical_address in found]
        missing |= lot - {path for path, _ in found}
    for _ in range(_LOOK_UPS):
        if not missing:
            return
        # Reset or deleted since the diff is fine; still in the diff, it may have been deleted and staged again.
        missing = _still_changed(server, repository_id, branch, missing)
        found = list(addresses_on(server, repository_id, branch, missing))
        yield [physical_address for _, physical_address in found]
        missing -= {path for path, _ in found}
    hidden = _still_changed(server, repository_id, branch, missing)
    if hidden:
        raise IncompleteReadError(
            f"branch {branch} of repository {repository_id}: {len(hidden)} staged entries are in the diff and cannot be "
            f"looked up, in {_LOOK_UPS + 1} tries, for instance {min(hidden)[:200]!r}; their objects would look unreachable",
            "Commit or reset them, and run again.",
        )


def _still_changed(server: LakeFSServer, repository_id: str, branch: str, paths: set[str]) -> set[str]:
    return {path for path in _changed_paths(server, repository_id, branch) if path in paths}


def _lots(paths: Iterator[str]) -> Iterator[set[str]]:
    while lot := set(islice(paths, LOT)):
        yield lot


def _changed_paths(server: LakeFSServer, repository_id: str, branch: str) -> Iterator[str]:
    return (path for path, kind in server.diff_branch(repository_id, branch) if kind != _REMOVED)


def _branch_names(server: LakeFSServer, repository: Repository) -> list[str]:
    """List the branches; the default one cannot be deleted, so a list without it is not the repository's."""
    names = sorted(branch.id for branch in server.branches(repository.id))
    if repository.default_branch not in names:
        found = (
            f"shows {len(names)} branches, its default branch {repository.default_branch!r} not among them"
            if names
            else "has no branch"
        )
        raise RepositoryStateError(
            f"repository {repository.id} {found}: it is bare, or it was deleted a moment ago and the server still "
            "answers from its cache",
            "Look at it with `lakectl repo list`, wait ten seconds and run "
            "again; a bare repository cannot be collected.",
        )
    return names
