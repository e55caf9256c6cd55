"""The entries of a ref in the order of their paths, and the differences of two refs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from lakegc_dagster.sandbox.core import Core
from lakegc_dagster.sandbox.records import BranchRecord, RepositoryRecord, StagedChange
from lakegc_dagster.sandbox.refs import Ref
from spark_core.graveler import Entry, entry_identity


@dataclass(frozen=True)
class Difference:
    """How a path differs: `added`, `removed` or `changed`.

    The entry is the newer side's, or the older side's for a removed path.
    """

    type: str
    path: bytes
    entry: Entry


def entries(
    core: Core, repository: RepositoryRecord, ref: Ref, start: bytes = b""
) -> Iterator[Entry]:
    """Yield a ref's entries at or after a path, in byte order, staged changes included."""
    if ref.branch is None:
        yield from core.trees.iterate(repository.storage_namespace, ref.commit.metarange_id, start)
        return
    base = core.base(repository, ref.branch)
    committed = core.trees.iterate(repository.storage_namespace, base, start)
    staged = iter(core.state.staged_from(repository.number, ref.branch.id, start))
    change = next(staged, None)
    for entry in committed:
        while change is not None and change.path < entry.path:
            if change.entry is not None:
                yield change.entry
            change = next(staged, None)
        if change is not None and change.path == entry.path:
            if change.entry is not None:
                yield change.entry
            change = next(staged, None)
        else:
            yield entry
    while change is not None:
        if change.entry is not None:
            yield change.entry
        change = next(staged, None)


def uncommitted(
    core: Core, repository: RepositoryRecord, branch: BranchRecord, start: bytes = b""
) -> Iterator[Difference]:
    """Yield the differences of a branch's staged and compacted changes from its head, in order.

    An entry with the identity of the committed one is no difference, whatever its address
    (`lakefs-facts` 7.2-1 and 11.30). A path has the difference of its staged change; where that
    change is none, it has that of its compacted entry, though the branch does not show that entry
    (graveler.go, `diffUncommitted`, and joined_diff_iterator.go).
    """
    staged = {row.path: row for row in _staged_differences(core, repository, branch, start)}
    compacted = {
        row.path: row
        for row in _compacted_differences(core, repository, branch)
        if row.path >= start
    }
    rows = compacted | staged
    for path in sorted(rows):
        yield rows[path]


def staged_or_compacted(
    core: Core, repository: RepositoryRecord, branch: BranchRecord, start: bytes = b""
) -> list[StagedChange]:
    """Return a branch's changes at or after a path: staged ones, and compacted ones below them."""
    changes = {
        row.path: StagedChange(row.path, None if row.type == "removed" else row.entry)
        for row in _compacted_differences(core, repository, branch)
        if row.path >= start
    }
    for change in core.state.staged_from(repository.number, branch.id, start):
        changes[change.path] = change
    return [changes[path] for path in sorted(changes)]


def _compacted_differences(
    core: Core, repository: RepositoryRecord, branch: BranchRecord
) -> Iterator[Difference]:
    if branch.compacted:
        head = core.head(repository, branch).metarange_id
        yield from tree_differences(core, repository, head, branch.compacted)


def _staged_differences(
    core: Core, repository: RepositoryRecord, branch: BranchRecord, start: bytes
) -> Iterator[Difference]:
    metarange_id = core.head(repository, branch).metarange_id
    for change in core.state.staged_from(repository.number, branch.id, start):
        committed = core.trees.get(repository.storage_namespace, metarange_id, change.path)
        if change.entry is None:
            if committed is not None:
                yield Difference("removed", change.path, committed)
        elif committed is None:
            yield Difference("added", change.path, change.entry)
        elif entry_identity(committed) != entry_identity(change.entry):
            yield Difference("changed", change.path, change.entry)


def differences(left: Iterable[Entry], right: Iterable[Entry]) -> Iterator[Difference]:
    """Yield the differences of two sorted lists of entries, from left to right."""
    pairs = sorted(
        [(entry.path, 0, entry) for entry in left] + [(entry.path, 1, entry) for entry in right],
        key=lambda row: row[:2],
    )
    for path, group in groupby(pairs, key=lambda row: row[0]):
        sides = {side: entry for _, side, entry in group}
        if 1 not in sides:
            yield Difference("removed", path, sides[0])
        elif 0 not in sides:
            yield Difference("added", path, sides[1])
        elif entry_identity(sides[0]) != entry_identity(sides[1]):
            yield Difference("changed", path, sides[1])


def tree_differences(
    core: Core, repository: RepositoryRecord, left: str, right: str
) -> Iterator[Difference]:
    """Yield the differences of two committed trees; ranges that both have are not read.

    Args:
        core: The sandbox.
        repository: The repository.
        left: Metarange id of the older side.
        right: Metarange id of the newer side.
    """
    namespace = repository.storage_namespace
    left_ranges = core.trees.ranges(namespace, left)
    right_ranges = core.trees.ranges(namespace, right)
    shared = {table.id for table in left_ranges} & {table.id for table in right_ranges}

    def only(ranges: Iterable[str]) -> Iterator[Entry]:
        for identifier in ranges:
            if identifier not in shared:
                yield from core.trees.entries(namespace, identifier).entries

    return differences(
        only(table.id for table in left_ranges), only(table.id for table in right_ranges)
    )
