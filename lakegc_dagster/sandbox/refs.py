"""Refs: resolve names, change branches and tags, read the log."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from lakegc_dagster.sandbox.core import COMMITTER, Core
from lakegc_dagster.sandbox.errors import ApiError, bad_request, conflict, not_found
from lakegc_dagster.sandbox.records import BranchRecord, RepositoryRecord
from spark_core.graveler import CommitRecord, Timestamp

_BRANCH_ID = re.compile(r"\w[-\w]*")
_HEX = re.compile(r"[0-9a-f]{6,64}")
_REF = re.compile(r"(?P<base>[^~^@$]+)(?P<steps>[~@0-9]*)")
_STEP = re.compile(r"([~@])(\d*)")


@dataclass(frozen=True)
class Ref:
    """The target of a name.

    Attributes:
        commit: The commit.
        branch: The branch whose staged changes belong to the target; None for a commit alone.
    """

    commit: CommitRecord
    branch: BranchRecord | None


def resolve(core: Core, repository: RepositoryRecord, ref: str) -> Ref:
    """Resolve a branch, a tag, or a commit id or its prefix, with `~n` or `@`.

    Raises:
        ApiError: 404 if there is none, 400 if it is not a ref.
    """
    match = _REF.fullmatch(ref)
    if match is None:
        raise bad_request("ref: invalid value: validation error")
    branch = core.state.branch(repository.number, match["base"])
    identifier = branch.commit_id if branch else _commit_id(core, repository, match["base"])
    commit = core.commit(repository, identifier)
    for mark, digits in _STEP.findall(match["steps"]):
        branch = None
        for _ in range(int(digits or 1) if mark == "~" else 0):
            if not commit.parents:
                raise not_found()
            commit = core.commit(repository, commit.parents[0])
    return Ref(commit, branch)


def _commit_id(core: Core, repository: RepositoryRecord, name: str) -> str:
    tag = core.state.tag(repository.number, name)
    if tag is not None:
        return tag
    if _HEX.fullmatch(name):
        found = core.state.commits_starting_with(repository.number, name)
        if len(found) == 1:
            return found[0]
    raise not_found("commit")


def make_commit(
    core: Core,
    repository: RepositoryRecord,
    branch: BranchRecord,
    *,
    message: str,
    metarange_id: str,
    metadata: Mapping[str, str],
    parents: Sequence[CommitRecord],
    generation_of: Sequence[CommitRecord] | None = None,
    date: int | None = None,
) -> CommitRecord:
    """Add a commit and move a branch to it.

    Args:
        core: The sandbox.
        repository: The repository.
        branch: The branch that moves.
        message: Commit message.
        metarange_id: The commit's tree.
        metadata: Commit metadata.
        parents: The commit's parents in order.
        generation_of: The new commit's generation is one more than the largest of these commits;
            `parents` by default.
        date: Unix seconds; the clock's instant by default.
    """
    created = Timestamp.of(core.now()) if date is None else Timestamp(date)
    record = CommitRecord(
        committer=COMMITTER,
        message=message,
        creation_date=created,
        metarange_id=metarange_id,
        metadata=dict(metadata),
        parents=tuple(parent.id for parent in parents),
        generation=1 + max((commit.generation for commit in generation_of or parents), default=0),
    ).with_id()
    with core.state.transaction():
        core.state.add_commits(repository.number, [record])
        core.state.put_branch(repository.number, BranchRecord(branch.id, record.id, branch.hidden))
    return record


def commit(
    core: Core,
    repository_id: str,
    branch_id: str,
    *,
    message: str,
    metadata: Mapping[str, str] | None = None,
    date: int | None = None,
    allow_empty: bool = False,
) -> CommitRecord:
    """Commit what is staged on a branch.

    Raises:
        ApiError: 404, 403 for a read-only repository or a protected branch, 400 without changes,
            412 if a hook refuses.
    """
    core.require_unprotected(branch_id, "commit")
    repository = core.writable(repository_id)
    branch = core.branch(repository, branch_id)
    core.ask_hook("pre-commit", branch_id)
    head = core.head(repository, branch)
    staged = core.state.staged_from(repository.number, branch_id)
    base = core.base(repository, branch)
    applied = core.trees.apply(repository.storage_namespace, base, staged)
    if not (applied.changes or branch.compacted or allow_empty):
        raise bad_request("commit: no changes")
    with core.state.transaction():
        record = make_commit(
            core,
            repository,
            branch,
            message=message,
            metarange_id=applied.metarange_id,
            metadata=metadata or {},
            parents=[head],
            date=date,
        )
        core.state.drop_staged(repository.number, branch_id)
    return record


def compact(core: Core, repository_id: str, branch_id: str) -> str:
    """Write a branch's staged changes into a metarange that its record alone names.

    As a commit does it, a change to an entry of the same identity keeps the entry that is there.
    So what is staged over a compacted entry with the same content gives way to it.

    Returns:
        Id of the metarange; empty if nothing is staged and nothing was compacted.

    Raises:
        ApiError: 404, 403 for a read-only repository.

    References:
        lakeFS 71a45eeb1 `design/open/staging-compaction.md`; what reads the result is in
        `pkg/graveler/graveler.go` (`CompactedBaseMetaRangeID`). What writes it is not public.
    """
    repository = core.writable(repository_id)
    branch = core.branch(repository, branch_id)
    staged = core.state.staged_from(repository.number, branch_id)
    if not staged:
        return branch.compacted
    base = core.base(repository, branch)
    made = core.trees.apply(repository.storage_namespace, base, staged).metarange_id
    with core.state.transaction():
        core.state.put_branch(repository.number, replace(branch, compacted=made))
        core.state.drop_staged(repository.number, branch_id)
    return made


def create_branch(
    core: Core,
    repository_id: str,
    branch_id: str,
    source: str,
    *,
    hidden: bool = False,
) -> CommitRecord:
    """Make a branch at a commit and return that commit.

    Raises:
        ApiError: 409 if it exists, 404 without source, 400 for an invalid name, 412 from a hook.
    """
    repository = core.writable(repository_id)
    if not _BRANCH_ID.fullmatch(branch_id):
        raise bad_request("argument branch: branch id: invalid value: validation error")
    if core.state.branch(repository.number, branch_id):
        raise conflict("branch already exists: not unique")
    if core.state.tag(repository.number, branch_id):
        raise conflict(f"tag ID {branch_id}: not unique")
    found = resolve(core, repository, source)
    core.ask_hook("pre-create-branch", branch_id)
    core.state.put_branch(
        repository.number, BranchRecord(branch_id, found.commit.id, hidden=hidden)
    )
    return found.commit


def delete_branch(core: Core, repository_id: str, branch_id: str) -> None:
    """Delete a branch and what is staged on it; objects stay in the store.

    Branch protection is not looked at: the real server deletes a protected branch, too (lakeFS
    71a45eeb1 `pkg/graveler/graveler.go`, `DeleteBranch`).

    Raises:
        ApiError: 404 if there is none, 403 for the default branch, 412 from a hook.
    """
    repository = core.writable(repository_id)
    if branch_id == repository.default_branch:
        raise ApiError(HTTPStatus.FORBIDDEN, "cannot delete repository default branch")
    core.branch(repository, branch_id)
    core.ask_hook("pre-delete-branch", branch_id)
    core.state.delete_branch(repository.number, branch_id)


def hard_reset(core: Core, repository_id: str, branch_id: str, ref: str) -> None:
    """Move a branch to another commit; staged and compacted changes stay, as on the real server.

    Raises:
        ApiError: 404, 403 for a read-only repository.
    """
    repository = core.writable(repository_id)
    branch = core.branch(repository, branch_id)
    target = resolve(core, repository, ref).commit
    core.state.put_branch(repository.number, replace(branch, commit_id=target.id))


def create_tag(core: Core, repository_id: str, tag_id: str, ref: str) -> CommitRecord:
    """Tag a commit and return it.

    Raises:
        ApiError: 409 if the tag exists, 404 without commit.
    """
    repository = core.writable(repository_id)
    target = resolve(core, repository, ref).commit
    if core.state.tag(repository.number, tag_id):
        raise conflict(f"tag ID {tag_id}: tag already exists: not unique")
    core.state.put_tag(repository.number, tag_id, target.id)
    return target


def log(
    core: Core, repository: RepositoryRecord, ref: str, *, first_parent: bool = False
) -> Iterator[CommitRecord]:
    """Yield the commits that a ref reaches, children before parents, newest generation first.

    Args:
        core: The sandbox.
        repository: The repository.
        ref: The ref.
        first_parent: Follow only main parents.
    """
    start = resolve(core, repository, ref).commit
    seen = {start.id}
    waiting = [(-start.generation, -start.creation_date.seconds, start.id)]
    commits = {start.id: start}
    while waiting:
        record = commits.pop(heapq.heappop(waiting)[2])
        yield record
        for parent_id in _main(record) if first_parent else record.parents:
            if parent_id not in seen:
                seen.add(parent_id)
                parent = core.commit(repository, parent_id)
                commits[parent_id] = parent
                heapq.heappush(
                    waiting, (-parent.generation, -parent.creation_date.seconds, parent_id)
                )


def _main(record: CommitRecord) -> tuple[str, ...]:
    """Return the main parent: before version 1 the last one."""
    return record.parents[:1] if record.version >= 1 else record.parents[-1:]


def merge_base(
    core: Core, repository: RepositoryRecord, left: CommitRecord, right: CommitRecord
) -> CommitRecord | None:
    """Return a nearest common ancestor of two commits, None when they share none."""
    reached: dict[str, int] = {left.id: 1}
    reached[right.id] = reached.get(right.id, 0) | 2
    waiting = [(-left.generation, left.id), (-right.generation, right.id)]
    heapq.heapify(waiting)
    done: set[str] = set()
    while waiting:
        identifier = heapq.heappop(waiting)[1]
        if identifier in done:
            continue
        done.add(identifier)
        record = core.commit(repository, identifier)
        if reached[identifier] == 3:
            return record
        for parent_id in record.parents:
            reached[parent_id] = reached.get(parent_id, 0) | reached[identifier]
            heapq.heappush(waiting, (-core.commit(repository, parent_id).generation, parent_id))
    return None
