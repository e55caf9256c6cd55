"""Read a refs dump: all commits, branches and tags of a repository, in three tables.

References:
    lakefs-facts 3.3; lakeFS v1.84 `pkg/graveler/graveler.go` (dump).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from spark_core.errors import CorruptTableError
from spark_core.graveler.commits import (
    BRANCH,
    COMMIT,
    TAG,
    CommitRecord,
    decode_commit,
    decode_pointer,
)
from spark_core.graveler.metaranges import read_ranges_of
from spark_core.graveler.records import RANGES, scan, sstable_of
from spark_core.graveler.table_format import COMMIT_VERSIONS, LAKEFS_CHECKED
from spark_core.graveler.wire import ReadFile, read_text
from spark_core.model import Branch, Refs, Tag

Fetch = Callable[[str], bytes]


class _Record(NamedTuple):
    key: str
    identity: str
    payload: bytes
    source: ReadFile

    def check(self, id_: str, commit_id: str) -> None:
        """Refuse a record whose id or commit differs from its key and identity."""
        if (id_, commit_id) != (self.key, self.identity):
            raise self.source.fail(
                f"it says id {id_!r} and commit {commit_id!r}, its key and identity are "
                f"{self.key!r} and {self.identity!r}"
            )
        if not commit_id:
            raise self.source.fail("it names no commit")


def read_refs(
    fetch: Fetch, *, commits_metarange_id: str, branches_metarange_id: str, tags_metarange_id: str
) -> Refs:
    """Read a refs dump.

    Args:
        fetch: Reads the table with an id, from `_lakefs/<id>`.
        commits_metarange_id: From the server's answer.
        branches_metarange_id: From the server's answer.
        tags_metarange_id: From the server's answer.

    Returns:
        The commit graph. A branch may point at a commit that is not in it, because
        commits are dumped first and a new commit may land in between.

    Raises:
        CorruptTableError: If a table is broken or is of another kind.

    Examples:
        >>> dump = run.server.dump_refs("lake")
        >>> def fetch(table_id: str) -> bytes:
        ...     return run.store.read(f"_lakefs/{table_id}")
        >>> refs = read_refs(
        ...     fetch,
        ...     commits_metarange_id=dump.commits_metarange_id,
        ...     branches_metarange_id=dump.branches_metarange_id,
        ...     tags_metarange_id=dump.tags_metarange_id,
        ... )
        >>> [branch.id for branch in refs.branches], len(refs.commits)
        (['main'], 3)
    """
    commits = read_commit_records(fetch, commits_metarange_id)
    return Refs(
        commits={commit.id: commit.as_commit() for commit in commits},
        branches=tuple(
            Branch(*pair) for pair in _read_pointers(fetch, branches_metarange_id, BRANCH)
        ),
        tags=tuple(Tag(*pair) for pair in _read_pointers(fetch, tags_metarange_id, TAG)),
    )


def read_commit_records(fetch: Fetch, commits_metarange_id: str) -> list[CommitRecord]:
    """Read the commits of a dump with all their fields, sorted by id.

    Raises:
        CorruptTableError: As `read_refs`.

    Examples:
        >>> dump = run.server.dump_refs("lake")
        >>> def fetch(table_id: str) -> bytes:
        ...     return run.store.read(f"_lakefs/{table_id}")
        >>> sorted(each.message for each in read_commit_records(fetch, dump.commits_metarange_id))
        ['50 days ago', '60 days ago', 'Repository created']
    """
    commits = []
    for record in _read_dump(fetch, commits_metarange_id, COMMIT):
        commit = decode_commit(record.payload, record.source)
        record.check(commit.id, commit.id)
        if commit.version not in COMMIT_VERSIONS:
            raise record.source.fail(
                f"it has version {commit.version}, which may change which parent is the main one; "
                f"lakegc knows those that lakeFS up to {LAKEFS_CHECKED} writes, 0 and 1: use a "
                "lakegc that knows this one"
            )
        commits.append(commit)
    return commits


def _read_pointers(fetch: Fetch, metarange_id: str, entity: str) -> list[tuple[str, str]]:
    pointers = []
    for record in _read_dump(fetch, metarange_id, entity):
        name, commit_id = decode_pointer(record.payload, entity, record.source)
        record.check(name, commit_id)
        pointers.append((name, commit_id))
    return pointers


def _read_dump(fetch: Fetch, metarange_id: str, entity: str) -> Iterator[_Record]:
    """Yield the records of one kind, in the order of their ids."""
    ranges = read_ranges_of(
        fetch(metarange_id), name=metarange_id, entity=entity, expected_id=metarange_id
    )
    for described in ranges.to_pylist():
        name = described["range_id"]
        table = sstable_of(
            scan(fetch(name), name=name, type_=RANGES, entity=entity, expected_id=name)
        )
        keys = table.keys.to_pylist()
        found = (len(keys), keys[0] if keys else b"", keys[-1] if keys else b"")
        wanted = (described["count"], described["min_key"], described["max_key"])
        if found != wanted:
            raise CorruptTableError(
                name,
                None,
                f"count, first and last key are {found}, its metarange {metarange_id} says "
                f"{wanted}",
            )
        for key, identity, payload in zip(
            keys, table.identities.to_pylist(), table.payloads.to_pylist(), strict=True
        ):
            source = ReadFile(name, f"{entity} {key!r}")
            yield _Record(read_text(key, source), read_text(identity, source), payload, source)
