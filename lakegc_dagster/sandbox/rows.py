"""The rows of the sandbox's tables as records, and back."""

from __future__ import annotations

import json
from typing import TypeAlias, cast

from lakegc_dagster.sandbox.records import BranchRecord, RepositoryRecord, StagedChange
from lakegc_dagster.sandbox.times import from_nanoseconds, to_nanoseconds
from spark_core.graveler import CommitRecord, Entry, Timestamp

Row: TypeAlias = tuple[object, ...]


def repository_of(row: Row) -> RepositoryRecord:
    """Return the repository of a row."""
    number, identifier, namespace, branch, created, read_only = row
    return RepositoryRecord(
        _integer(number),
        str(identifier),
        str(namespace),
        str(branch),
        _integer(created),
        bool(read_only),
    )


def branch_of(row: Row) -> BranchRecord:
    """Return the branch of a row."""
    return BranchRecord(str(row[0]), str(row[1]), bool(row[2]), str(row[3]))


def commit_of(row: Row) -> CommitRecord:
    """Return the commit of a row."""
    (
        _,
        identifier,
        committer,
        message,
        seconds,
        nanos,
        metarange_id,
        metadata,
        parents,
        version,
        generation,
    ) = row
    return CommitRecord(
        id=str(identifier),
        committer=str(committer),
        message=str(message),
        creation_date=Timestamp(_integer(seconds), _integer(nanos)),
        metarange_id=str(metarange_id),
        metadata=json.loads(str(metadata)),
        parents=tuple(json.loads(str(parents))),
        version=_integer(version),
        generation=_integer(generation),
    )


def commit_row(repository: int, record: CommitRecord) -> Row:
    """Return the row of a commit."""
    return (
        repository,
        record.id,
        record.committer,
        record.message,
        record.creation_date.seconds,
        record.creation_date.nanos,
        record.metarange_id,
        json.dumps(dict(record.metadata), sort_keys=True),
        json.dumps(list(record.parents)),
        record.version,
        record.generation,
    )


def staged_of(row: Row) -> StagedChange:
    """Return the staged change of a row."""
    (
        _,
        _,
        path,
        tombstone,
        address,
        address_type,
        size,
        checksum,
        modified,
        content_type,
        metadata,
    ) = row
    path = cast("bytes", path)
    if tombstone:
        return StagedChange(path, None)
    return StagedChange(
        path,
        Entry(
            path=path,
            address=str(address),
            address_type=_integer(address_type),
            size_bytes=_integer(size),
            checksum=str(checksum),
            last_modified=from_nanoseconds(_integer(modified)),
            last_modified_nanos=_integer(modified) % 1000,
            content_type=str(content_type),
            metadata=json.loads(str(metadata)),
        ),
    )


def staged_row(repository: int, branch_id: str, change: StagedChange) -> Row:
    """Return the row of a staged change."""
    entry = change.entry
    if entry is None:
        return (repository, branch_id, change.path, 1, "", 0, 0, "", 0, "", "{}")
    return (
        repository,
        branch_id,
        change.path,
        0,
        entry.address,
        entry.address_type,
        entry.size_bytes,
        entry.checksum,
        to_nanoseconds(entry.last_modified) + entry.last_modified_nanos,
        entry.content_type,
        json.dumps(dict(entry.metadata), sort_keys=True),
    )


def _integer(value: object) -> int:
    return cast("int", value)
