"""The staged entries of one branch: the paths in its diff, each looked up for its address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from itertools import islice
from operator import itemgetter
from typing import TypeVar

from spark_core.errors import IncompleteReadError
from spark_core.lakefs.server import LakeFSServer

# Path, absolute physical address and date of staged entries.
StagedEntries = list[tuple[str, str, datetime | None]]

# Path and absolute physical address of an entry, and perhaps its date.
Entry = TypeVar("Entry", tuple[str, str], tuple[str, str, datetime | None])

# Finds the entries of some of its paths.
LookUp = Callable[[LakeFSServer, str, str, Iterable[str]], Iterable[Entry]]

# Staged paths that are looked up, and held, at once for each branch that is being read.
LOT = 10_000

# How often a path is looked up again that is in the diff but not on the branch: it may be deleted
# and staged anew in between.
_LOOK_UPS = 3
_REMOVED = "removed"


def staged_on(
    look_up: LookUp[Entry], server: LakeFSServer, repository_id: str, branch: str
) -> Iterator[list[Entry]]:
    """List the entries in a branch's diff; the diff itself has no addresses."""
    missing: set[str] = set()
    for lot in _lots(_changed_paths(server, repository_id, branch)):
        found = list(look_up(server, repository_id, branch, lot))
        yield found
        missing |= lot - set(map(itemgetter(0), found))
    for _ in range(_LOOK_UPS):
        if not missing:
            return
        # An entry that was reset or deleted since is no longer in the diff. One that is still in it
        # may have been deleted and staged again.
        missing = _still_changed(server, repository_id, branch, missing)
        found = list(look_up(server, repository_id, branch, missing))
        yield found
        missing.difference_update(map(itemgetter(0), found))
    hidden = _still_changed(server, repository_id, branch, missing)
    if hidden:
        raise IncompleteReadError(
            f"branch {branch} of repository {repository_id}: {len(hidden)} staged entries are in "
            f"the diff and cannot be looked up, in {_LOOK_UPS + 1} tries, for instance "
            f"{min(hidden)[:200]!r}; their objects would look unreachable",
            "Commit or reset them, and run again.",
        )


def _still_changed(
    server: LakeFSServer, repository_id: str, branch: str, paths: set[str]
) -> set[str]:
    return {path for path in _changed_paths(server, repository_id, branch) if path in paths}


def _lots(paths: Iterator[str]) -> Iterator[AbstractSet[str]]:
    """Yield paths that are looked up together; in the order of a listing they are soon sorted."""
    while lot := dict.fromkeys(islice(paths, LOT)):
        yield lot.keys()


def _changed_paths(server: LakeFSServer, repository_id: str, branch: str) -> Iterator[str]:
    return (path for path, kind in server.diff_branch(repository_id, branch) if kind != _REMOVED)
