"""Read the staged entries of all branches, while branches may appear and disappear.

The server scans all branches in one call. If a branch is deleted during that scan, the scan loses
rows of other branches, without an error (safety 2). So the diff of every branch is read as well.
The diffs alone are complete, and the server's scans can only add to them: an error of the staging
store that hides an entry from one reading does not hide it from another (safety 30).

The branches are listed after the cutoff is fixed and after the store is listed, and the commits are
read after all diffs. Why nothing is missed then, whatever branches do meanwhile:
`docs/decisions/two-scans-and-diffs.md`. A branch that is listed each time and still answers "not
found" is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.collectable import may_be_own
from spark_core.addresses.namespace import AddressType, Namespace
from spark_core.errors import AddressError, IncompleteReadError, NotFoundError, RepositoryStateError
from spark_core.lakefs.answer_types import PreparedUncommitted
from spark_core.lakefs.branch_diff import Entry, LookUp, StagedEntries, staged_on
from spark_core.lakefs.path_lookups import addresses_on, entries_on
from spark_core.lakefs.prepare import BranchDeletedError
from spark_core.lakefs.server import LakeFSServer
from spark_core.lakefs.side_by_side import side_by_side
from spark_core.model import Repository
from spark_core.schemas import STAGED_ADDRESSES

# Two scans, because a scan can lose entries without a sign.
SCANS = 2

# A scan that ends with "branch not found" is repeated, up to so many scans altogether.
MAX_SCANS = 5

# How often the branches are read that were missing, or not found, in the round before.
MAX_ROUNDS = 5

# Yields rows of what is staged on a branch.
_RowsOn = Callable[[LakeFSServer, str, str], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class DiffsRead:
    """How the diffs of all branches were read.

    Attributes:
        rows: Number of rows that were kept.
        branches: Branches whose diff was read to its end, now or in an earlier turn.
        gone: Branches that were deleted before their diff was read to its end.
        appeared: Branches that appeared in the last round and were not read. Nothing was staged on
            them when that round began.
    """

    rows: int
    branches: int
    gone: int
    appeared: int


class Turns(Protocol):
    """Decides which branches are read when, and records which were; called from any thread."""

    def order(self, branches: Iterable[str]) -> list[str]:
        """Put all branches in the order in which to read them."""

    def begin(self, part: str) -> bool:
        """Say whether to read a branch now."""

    def end(self, part: str) -> None:
        """Record that a branch was read to its end."""


class _EachOne:
    """Reads every branch each time."""

    def order(self, branches: Iterable[str]) -> list[str]:
        return list(branches)

    def begin(self, part: str) -> bool:  # noqa: ARG002 - the contract's signature
        return True

    def end(self, part: str) -> None: ...


def scan_uncommitted(server: LakeFSServer, repository_id: str) -> list[PreparedUncommitted]:
    """Let the server scan the staged entries twice.

    A scan that ended because a branch was deleted is repeated. A scan that went on
    without some rows does not show it. Both are harmless only because
    `diff_addresses` reads the diffs of all branches as well; see the top of this
    module.

    Args:
        server: The server.
        repository_id: Repository name.

    Returns:
        Every finished scan; none if a branch was deleted during each of them.
    """
    done: list[PreparedUncommitted] = []
    for _ in range(MAX_SCANS):
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
    """Read the addresses of staged entries from the diff of every branch, hidden ones too.

    The server's own scan loses rows when a branch is deleted. It also leaves out
    entries with absolute addresses that do not begin exactly as the namespace does.
    The diffs have all of them, and a branch shows each address as the server
    resolves it (safety 2, 23). The top of this module says why that is complete. A
    branch on which nothing is staged costs one call.

    Args:
        server: The server.
        repository: The repository.
        namespace: Addresses outside it are left out.
        keep: Receives the addresses in batches of at most `LOT` rows, in any order: columns of
            `schemas.STAGED_ADDRESSES`, created_at null; duplicates allowed.
        at_once: Number of branches that are read side by side.
        turns: Decides which branches are read; None for all of them.

    Returns:
        How the diffs were read.

    Raises:
        AddressError: If an address has an unknown form.
        RepositoryStateError: If there is no branch, or no default branch.
        IncompleteReadError: If a branch that is listed cannot be read, or an
            entry of a diff cannot be looked up.
    """
    rows_on = partial(_rows_on, addresses_on, partial(_addresses, namespace))
    return _read_branches(server, repository, rows_on, keep, at_once=at_once, turns=turns)


def diff_names(
    server: LakeFSServer,
    repository: Repository,
    make: Callable[[str, StagedEntries], pa.RecordBatch],
    keep: Callable[[pa.RecordBatch], None],
    *,
    at_once: int,
) -> DiffsRead:
    """Read the names of staged entries as `diff_addresses` reads their addresses.

    Args:
        server: The server.
        repository: The repository.
        make: Makes a batch of rows from a branch and entries staged on it, each with its path,
            absolute physical address, and date.
        keep: Receives the batches in any order; duplicates allowed.
        at_once: Number of branches that are read side by side.

    Returns:
        How the diffs were read.

    Raises:
        LakegcError: As for `diff_addresses`.
    """
    rows_on = partial(_rows_on, entries_on, make)
    return _read_branches(server, repository, rows_on, keep, at_once=at_once, turns=None)


def _read_branches(
    server: LakeFSServer,
    repository: Repository,
    rows_on: _RowsOn,
    keep: Callable[[pa.RecordBatch], None],
    *,
    at_once: int,
    turns: Turns | None,
) -> DiffsRead:
    rows, done, gone, chosen = 0, set[str](), set[str](), turns or _EachOne()
    ask = partial(_read_branch, server, repository.id, rows_on, chosen)
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
        names = [
            name for name in chosen.order(_branch_names(server, repository)) if name not in done
        ]
        if not names:
            break
    unread = sorted(lost.intersection(names))
    if unread:
        raise IncompleteReadError(
            f"the server lists {len(unread)} branches of repository {repository.id} and did not "
            f"find them in {MAX_ROUNDS} tries to read their staged entries, for instance "
            f"{unread[0]!r}; their objects would look unreachable",
            "The server may answer so for some ten minutes after a cherry-pick, and while a script "
            "deletes a branch and makes it again all the time: run again later.",
        )
    return DiffsRead(rows, len(done), len(gone - done), len(names))


def _read_branch(
    server: LakeFSServer,
    repository_id: str,
    rows_on: _RowsOn,
    turns: Turns,
    branch: str,
) -> Iterator[pa.RecordBatch | bool]:
    """Yield rows of what is staged on a branch, and last whether the branch existed to the end.

    A branch that was read in an earlier turn, and is not due again, counts as read.
    """
    if not turns.begin(branch):
        yield True
        return
    try:
        yield from rows_on(server, repository_id, branch)
    except NotFoundError:
        yield False
    else:
        turns.end(branch)
        yield True


def resolved(namespace: Namespace, addresses: Sequence[str]) -> pa.StringArray:
    """Return the relative address of each absolute one; null if it lies outside.

    An address that may be inside through another name of the store stays absolute.
    """
    absolute = pa.array(addresses, pa.string())
    full = pa.repeat(pa.scalar(int(AddressType.FULL), pa.int32()), len(absolute))
    relative = namespace.relative_batch(absolute, full)
    if not relative.null_count:
        return relative
    outside = pc.if_else(relative.is_null(), absolute, None)
    return pc.coalesce(relative, pc.if_else(may_be_own(outside), outside, None))


def _addresses(
    namespace: Namespace, _branch: str, entries: list[tuple[str, str]]
) -> pa.RecordBatch:
    relative = resolved(namespace, [address for _, address in entries]).drop_null()
    # The listing of a branch does not say when an entry was staged.
    created = pa.nulls(len(relative), STAGED_ADDRESSES.field("created_at").type)
    return pa.record_batch([relative, created], schema=STAGED_ADDRESSES)


def _rows_on(
    look_up: LookUp[Entry],
    make: Callable[[str, list[Entry]], pa.RecordBatch],
    server: LakeFSServer,
    repository_id: str,
    branch: str,
) -> Iterator[pa.RecordBatch]:
    for entries in staged_on(look_up, server, repository_id, branch):
        try:
            yield make(branch, entries)
        except AddressError as refused:
            raise _of_its_entry(make, repository_id, branch, entries, refused) from refused


def _of_its_entry(
    make: Callable[[str, list[Entry]], pa.RecordBatch],
    repository_id: str,
    branch: str,
    entries: Sequence[Entry],
    refused: AddressError,
) -> AddressError:
    """Return the refusal of an address with the entry that has it."""
    for entry in entries:
        try:
            make(branch, [entry])
        except AddressError as found:
            where = f"lakefs://{repository_id}/{branch}/{entry[0]}"
            return AddressError(
                f"{where} is staged with an address that cannot be read: {found.found}",
                f"Report the form, or remove the entry (`lakectl fs rm {where}`).",
            )
    return refused


def _branch_names(server: LakeFSServer, repository: Repository) -> list[str]:
    """List the branches, and refuse a list without the default branch, which cannot be deleted."""
    names = sorted(branch.id for branch in server.branches(repository.id))
    if repository.default_branch not in names:
        found = (
            f"shows {len(names)} branches, its default branch {repository.default_branch!r} not "
            "among them"
            if names
            else "has no branch"
        )
        raise RepositoryStateError(
            f"repository {repository.id} {found}: it is bare, or it was deleted a moment ago and "
            "the server still answers from its cache",
            "Look at it with `lakectl repo list`, wait ten seconds and run "
            "again; a bare repository cannot be collected.",
        )
    return names
