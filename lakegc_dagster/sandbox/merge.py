"""Merging trees into a branch: merge, revert and cherry-pick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakegc_dagster.sandbox.core import Core
from lakegc_dagster.sandbox.errors import bad_request, conflict
from lakegc_dagster.sandbox.listing import tree_differences, uncommitted
from lakegc_dagster.sandbox.refs import make_commit, merge_base, resolve
from lakegc_dagster.sandbox.state import BranchRecord, RepositoryRecord, StagedChange
from spark_core.graveler import CommitRecord, Entry, entry_identity

_STRATEGY_KEY = ".lakefs.merge.strategy"
_STRATEGIES = {"": "default", "dest-wins": "dest-wins", "source-wins": "source-wins"}


@dataclass(frozen=True)
class Overrides:
    """What the caller wants a reverted or picked commit to say instead."""

    message: str | None = None
    metadata: Mapping[str, str] | None = None


def merge_trees(
    core: Core,
    repository: RepositoryRecord,
    *,
    destination: str,
    source: str,
    base: str,
    strategy: str = "",
    allow_empty: bool = False,
) -> str:
    """Merge a tree into another, given what both grew from, and return the new metarange id.

    Args:
        core: The sandbox.
        repository: The repository.
        destination: Metarange id that changes are laid upon.
        source: Metarange id that changes come from.
        base: Metarange id that the changes are relative to.
        strategy: Who wins a conflict: `dest-wins`, `source-wins`, or nobody.
        allow_empty: Go on when the source adds nothing.

    Raises:
        ApiError: 409 on a conflict that nobody wins, 400 if the source adds nothing.
    """
    if source == base and not allow_empty:
        raise bad_request("no changes")
    if destination == base:
        return source
    ours = {row.path: row for row in tree_differences(core, repository, base, destination)}
    changes = []
    for theirs in tree_differences(core, repository, base, source):
        entry = None if theirs.type == "removed" else theirs.entry
        mine = ours.get(theirs.path)
        if mine is not None:
            current = None if mine.type == "removed" else mine.entry
            if _same(entry, current):
                continue
            if not strategy:
                raise conflict("conflict found")
            if strategy == "dest-wins":
                continue
        changes.append(StagedChange(theirs.path, entry))
    return core.trees.apply(repository.storage_namespace, destination, changes).metarange_id


def _same(left: Entry | None, right: Entry | None) -> bool:
    if left is None or right is None:
        return left is right
    return entry_identity(left) == entry_identity(right)


def _clear(core: Core, repository: RepositoryRecord, branch: BranchRecord) -> None:
    """Refuse a branch with changes; what is staged and changes nothing (a twin, a vain deletion) is dropped."""
    if next(uncommitted(core, repository, branch), None) is not None:
        raise bad_request("uncommitted changes (dirty branch)")
    core.state.drop_staged(repository.number, branch.id)


def merge(
    core: Core,
    repository_id: str,
    source_ref: str,
    branch_id: str,
    *,
    message: str = "",
    metadata: Mapping[str, str] | None = None,
    strategy: str = "",
    squash: bool = False,
    allow_empty: bool = False,
    force: bool = False,
) -> CommitRecord:
    """Merge a ref into a branch.

    Raises:
        ApiError: 404, 403, 400 for staged changes or an unknown strategy or nothing to merge, 409 on a conflict.
    """
    repository = core.writable(repository_id, force=force)
    branch = core.branch(repository, branch_id)
    if strategy not in _STRATEGIES:
        raise bad_request("invalid merge strategy")
    _clear(core, repository, branch)
    head = core.head(repository, branch)
    source = resolve(core, repository, source_ref).commit
    base = merge_base(core, repository, source, head)
    tree = merge_trees(
        core,
        repository,
        destination=head.metarange_id,
        source=source.metarange_id,
        base=base.metarange_id if base else "",
        strategy=strategy,
        allow_empty=allow_empty or force,
    )
    return make_commit(
        core,
        repository,
        branch,
        message=message or f"Merge '{source_ref}' into '{branch_id}'",
        metarange_id=tree,
        metadata={**(metadata or {}), _STRATEGY_KEY: _STRATEGIES[strategy]},
        parents=[head] if squash else [head, source],
        generation_of=[head, source],
    )


def revert(
    core: Core,
    repository_id: str,
    branch_id: str,
    ref: str,
    *,
    parent_number: int,
    overrides: Overrides | None = None,
    allow_empty: bool = False,
    force: bool = False,
) -> CommitRecord:
    """Undo a commit on a branch by a new commit.

    Raises:
        ApiError: 404, 403, 400 for staged changes or nothing to undo, 409 for a merge without a parent number.
    """
    repository = core.writable(repository_id, force=force)
    branch = core.branch(repository, branch_id)
    undone = resolve(core, repository, ref).commit
    if len(undone.parents) > 1 and parent_number <= 0:
        raise conflict("must specify 1-based parent number for reverting merge commit")
    parent = _parent(core, repository, undone, parent_number)
    _clear(core, repository, branch)
    head = core.head(repository, branch)
    tree = merge_trees(
        core,
        repository,
        destination=head.metarange_id,
        source=parent.metarange_id if parent else "",
        base=undone.metarange_id,
        allow_empty=allow_empty,
    )
    if tree == head.metarange_id and not allow_empty:
        raise bad_request("no changes")
    chosen = overrides or Overrides()
    return make_commit(
        core,
        repository,
        branch,
        message=chosen.message or f"Revert {ref}",
        metarange_id=tree,
        metadata=chosen.metadata or {},
        parents=[head],
    )


def cherry_pick(
    core: Core,
    repository_id: str,
    branch_id: str,
    ref: str,
    *,
    parent_number: int | None = None,
    overrides: Overrides | None = None,
    force: bool = False,
) -> CommitRecord:
    """Do on a branch what a commit did elsewhere.

    Raises:
        ApiError: 404, 403, 400 for staged changes, nothing to do, or a merge without a parent number, 409 on a conflict.
    """
    repository = core.writable(repository_id, force=force)
    branch = core.branch(repository, branch_id)
    picked = resolve(core, repository, ref).commit
    if len(picked.parents) > 1 and parent_number is None:
        raise bad_request("must specify 1-based parent number for cherry-picking merge commit")
    parent = _parent(core, repository, picked, parent_number or 1)
    _clear(core, repository, branch)
    head = core.head(repository, branch)
    tree = merge_trees(
        core,
        repository,
        destination=head.metarange_id,
        source=picked.metarange_id,
        base=parent.metarange_id if parent else "",
        allow_empty=force,
    )
    chosen = overrides or Overrides()
    metadata = dict(chosen.metadata) if chosen.metadata is not None else dict(picked.metadata)
    metadata["cherry-pick-origin"] = picked.id
    metadata["cherry-pick-committer"] = picked.committer
    return make_commit(
        core,
        repository,
        branch,
        message=chosen.message or picked.message,
        metarange_id=tree,
        metadata=metadata,
        parents=[head],
    )


def _parent(core: Core, repository: RepositoryRecord, commit: CommitRecord, number: int) -> CommitRecord | None:
    if not commit.parents:
        return None
    if number > len(commit.parents):
        raise bad_request(f"parent {number}: given commit does not have the given parent number")
    return core.commit(repository, commit.parents[max(number, 1) - 1])
