"""Merges into a branch: merge, revert and cherry-pick."""

from __future__ import annotations

from collections.abc import Mapping

from lakegc_dagster.sandbox.core import Core
from lakegc_dagster.sandbox.errors import bad_request, conflict
from lakegc_dagster.sandbox.listing import tree_differences, uncommitted
from lakegc_dagster.sandbox.records import BranchRecord, RepositoryRecord, StagedChange
from lakegc_dagster.sandbox.refs import make_commit, merge_base, resolve
from spark_core.graveler import CommitRecord, Entry, entry_identity

_STRATEGY_KEY = ".lakefs.merge.strategy"
_STRATEGIES = {"": "default", "dest-wins": "dest-wins", "source-wins": "source-wins"}


def merge_trees(
    core: Core,
    repository: RepositoryRecord,
    *,
    destination: str,
    source: str,
    base: str,
    strategy: str = "",
) -> str:
    """Merge a tree into another over their common base; return the new metarange id.

    Args:
        core: The sandbox.
        repository: The repository.
        destination: Metarange id of the tree that receives the changes.
        source: Metarange id of the tree with the changes.
        base: Metarange id of the tree that the changes are relative to.
        strategy: The side that wins a conflict: `dest-wins`, `source-wins`, or empty for neither.

    Raises:
        ApiError: 409 on a conflict without a strategy, 400 if the source adds nothing.
    """
    if source == base:
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
    """Refuse a branch with changes, and drop staged entries that change nothing.

    Such entries are identical re-uploads, and deletions of paths that do not exist.
    """
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
    strategy: str = "",
    squash: bool = False,
    metadata: Mapping[str, str] | None = None,
) -> CommitRecord:
    """Merge a ref into a branch; a protected one as well.

    Raises:
        ApiError: 404, 403, 400 for staged changes or an unknown strategy or nothing to merge, 409
            on a conflict, 412 if a hook refuses.
    """
    repository = core.writable(repository_id)
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
    )
    core.ask_hook("pre-merge", branch_id)
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
    message: str = "",
    metadata: Mapping[str, str] | None = None,
) -> CommitRecord:
    """Undo a commit on a branch by a new commit; on a protected one as well.

    Raises:
        ApiError: 404, 403, 400 for staged changes or nothing to undo, 409 for a merge without a
            parent number or for a conflict, 412 if a hook refuses.
    """
    repository = core.writable(repository_id)
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
    )
    if tree == head.metarange_id:
        raise bad_request("no changes")
    core.ask_hook("pre-revert", branch_id)
    return make_commit(
        core,
        repository,
        branch,
        message=message or f"Revert {ref}",
        metarange_id=tree,
        metadata=metadata or {},
        parents=[head],
    )


def cherry_pick(
    core: Core,
    repository_id: str,
    branch_id: str,
    ref: str,
    *,
    parent_number: int | None = None,
) -> CommitRecord:
    """Apply the changes of a commit to a branch.

    Raises:
        ApiError: 404, 403, 400 for staged changes, nothing to do, or a merge without a parent
            number, 409 on a conflict.
    """
    repository = core.writable(repository_id)
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
    )
    return make_commit(
        core,
        repository,
        branch,
        message=picked.message,
        metarange_id=tree,
        metadata={
            **picked.metadata,
            "cherry-pick-origin": picked.id,
            "cherry-pick-committer": picked.committer,
        },
        parents=[head],
    )


def _parent(
    core: Core, repository: RepositoryRecord, commit: CommitRecord, number: int
) -> CommitRecord | None:
    if not commit.parents:
        return None
    if number > len(commit.parents):
        raise bad_request(f"parent {number}: given commit does not have the given parent number")
    return core.commit(repository, commit.parents[max(number, 1) - 1])
