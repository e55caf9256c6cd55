"""Read what is staged on all branches, although branches come and go meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.collectable import may_be_own
from spark_core.errors import IncompleteReadError, NotFoundError, RepositoryStateError
from spark_core.lakefs.entries import addresses_on
from spark_core.lakefs.prepare import BranchDeletedError
from spark_core.lakefs.server import LakeFSServer
from spark_core.lakefs.values import PreparedUncommitted
from spark_core.namespace import AddressType, Namespace
from spark_core.schemas import UNCOMMITTED_ADDRESSES

MAX_SCANS = 5

# Staged paths of a branch that are looked up, and held, at once.
LOT = 10_000

# What one scan lost without a sign, the next one finds.
_LEAST_SCANS = 2
_REMOVED = "removed"
_T = TypeVar("_T")


def scan_uncommitted(
    server: LakeFSServer, repository_id: str, *, max_scans: int = MAX_SCANS
) -> list[PreparedUncommitted]:
    """Scan the staged entries twice, and then until the branches are the same before and after.

    A branch that is deleted in mid-scan makes the server drop rows of other
    branches that it had found already (safety 2), without any error. So the list
    of branches is compared, and the scan made again if it changed. A branch that
    was made again under its name by then does not show in the list, and what the
    server swallows when its staging store fails shows nowhere (safety 30): hence
    never fewer than two scans. Heads move all the time and decide nothing.

    Args:
        server: The server.
        repository_id: Repository name.
        max_scans: Scans to make before giving up, two or more.

    Returns:
        Every finished scan, at least two, the last one made under steady
        branches; the staged entries are the union of all.

    Raises:
        RepositoryStateError: If there is no branch: a bare repository, or one
            that was deleted a moment ago.
        IncompleteReadError: If the branches changed during too many scans.
    """
    return _while_branches_stand_still(
        server, repository_id, lambda _: server.prepare_uncommitted(repository_id), max_scans, at_least=_LEAST_SCANS
    )


def diff_addresses(
    server: LakeFSServer,
    repository_id: str,
    namespace: Namespace,
    keep: Callable[[pa.RecordBatch], None],
    *,
    max_scans: int = MAX_SCANS,
) -> int:
    """Read the addresses of staged entries from the diff of every branch, hidden ones too, a lot at a time.

    The server's own scan leaves out entries with absolute addresses that do not
    begin, letter by letter, as the namespace does; the diff has them all, and a
    branch shows each as the server resolves it (safety 23). One round will do:
    each branch is read by itself, so none costs another one's rows. A branch on
    which nothing is staged costs one call.

    Args:
        server: The server.
        repository_id: Repository name.
        namespace: Addresses outside it are left out.
        keep: Gets what is found, at most `LOT` rows at once: columns of
            `schemas.UNCOMMITTED_ADDRESSES`, created_at null; duplicates allowed.
        max_scans: Rounds to make before giving up.

    Returns:
        How many rows were kept.

    Raises:
        AddressError: If an address has an unknown form.
        RepositoryStateError: If there is no branch.
        IncompleteReadError: If the branches changed during every round, or an
            entry of a diff cannot be looked up.
    """
    found = 0

    def read(branches: list[str]) -> None:
        nonlocal found
        for branch in branches:
            try:
                for addresses in _staged_on(server, repository_id, branch):
                    batch = _inside(namespace, addresses)
                    keep(batch)
                    # Also of a round that breaks off later: what was kept stays kept.
                    found += batch.num_rows
            except NotFoundError as error:
                raise BranchDeletedError(
                    f"branch {branch} of repository {repository_id} could not be read to its end: {error}"
                ) from error

    _while_branches_stand_still(server, repository_id, read, max_scans)
    return found


def _inside(namespace: Namespace, addresses: list[str]) -> pa.RecordBatch:
    full = pa.array([int(AddressType.FULL)] * len(addresses), pa.int32())
    absolute = pa.array(addresses, pa.string())
    # What may be inside by another name of the store keeps its absolute address.
    another_name = pc.if_else(may_be_own(absolute), absolute, None)
    relative = pc.coalesce(namespace.relative_batch(absolute, full), another_name).drop_null()
    # The listing of a branch does not say when an entry was staged.
    created = pa.nulls(len(relative), UNCOMMITTED_ADDRESSES.field("created_at").type)
    return pa.record_batch([relative, created], schema=UNCOMMITTED_ADDRESSES)


def _staged_on(server: LakeFSServer, repository_id: str, branch: str) -> Iterator[list[str]]:
    """List the physical addresses of what the diff of a branch shows; the diff itself gives none."""
    missing: set[str] = set()
    for lot in _lots(_changed_paths(server, repository_id, branch)):
        found = list(addresses_on(server, repository_id, branch, lot))
        yield [physical_address for _, physical_address in found]
        missing |= lot - {path for path, _ in found}
    # Reset or deleted since the diff is fine; still in the diff and not on the branch is not.
    hidden = {path for path in _changed_paths(server, repository_id, branch) if path in missing} if missing else set()
    if hidden:
        raise IncompleteReadError(
            f"branch {branch} of repository {repository_id}: {len(hidden)} staged entries are in the diff and cannot be "
            f"looked up, for instance {min(hidden)[:200]!r}; their objects would look unreachable, so nothing was deleted. "
            "Commit or reset them, and run again."
        )


def _lots(paths: Iterator[str]) -> Iterator[set[str]]:
    while lot := set(islice(paths, LOT)):
        yield lot


def _changed_paths(server: LakeFSServer, repository_id: str, branch: str) -> Iterator[str]:
    return (path for path, kind in server.diff_branch(repository_id, branch) if kind != _REMOVED)


def _while_branches_stand_still(
    server: LakeFSServer, repository_id: str, scan: Callable[[list[str]], _T], max_scans: int, *, at_least: int = 1
) -> list[_T]:
    """Repeat a scan until no branch came or went meanwhile, and `at_least` so many are done."""
    done: list[_T] = []
    disturbed, last = 0, ""
    before = _branch_names(server, repository_id)
    for _ in range(max_scans):
        gone = False
        try:
            done.append(scan(before))
        except BranchDeletedError:
            gone = True
        after = _branch_names(server, repository_id)
        if after != before or gone:
            disturbed += 1
            last = ", ".join(sorted(set(before) ^ set(after))[:3]) or "one that is back"
        elif len(done) >= at_least:
            return done
        before = after
    raise IncompleteReadError(
        f"staged entries of repository {repository_id}: branches came or went during {disturbed} of {max_scans} scans "
        f"(last: {last}), and the server then loses rows that it had found; nothing was deleted. "
        "Run again when fewer branches are made and deleted."
    )


def _branch_names(server: LakeFSServer, repository_id: str) -> list[str]:
    names = sorted(branch.id for branch in server.branches(repository_id))
    if not names:
        raise RepositoryStateError(
            f"repository {repository_id} has no branch: it is bare, or it was deleted a moment ago and the server still "
            "answers from its cache; nothing was deleted. Look at it with `lakectl repo list`, wait ten seconds and run "
            "again; a bare repository cannot be collected."
        )
    return names
