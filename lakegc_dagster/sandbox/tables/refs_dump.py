"""Write a refs dump: all commits, branches and tags of a repository, in three tables.

References:
    lakefs-facts 3.3; lakeFS v1.84 `pkg/graveler/graveler.go` (dump).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lakegc_dagster.sandbox.tables.range_ends import MAX_RANGE_SIZE_BYTES, RANGE_RAGGEDNESS
from lakegc_dagster.sandbox.tables.ranges import write_records
from lakegc_dagster.sandbox.tables.table_builder import TableFile
from spark_core.graveler import CommitRecord
from spark_core.graveler.commits import (
    BRANCH,
    COMMIT,
    TAG,
    dump_properties,
    encode_commit,
    encode_pointer,
)
from spark_core.graveler.encoded_entries import encode_value
from spark_core.model import Branch, Tag


class RefsTables(NamedTuple):
    """A written refs dump.

    Attributes:
        commits_metarange_id: Metarange of the commits.
        branches_metarange_id: Metarange of the branches.
        tags_metarange_id: Metarange of the tags.
        files: Every file of the dump.
    """

    commits_metarange_id: str
    branches_metarange_id: str
    tags_metarange_id: str
    files: list[TableFile]


def write_refs_dump(
    *,
    commits: Iterable[CommitRecord],
    branches: Sequence[Branch],
    tags: Sequence[Tag],
    max_range_size_bytes: int = MAX_RANGE_SIZE_BYTES,
    raggedness: int = RANGE_RAGGEDNESS,
) -> RefsTables:
    """Write a refs dump as the server does.

    Args:
        commits: Every commit, with its id, in any order.
        branches: Every branch.
        tags: Every tag.
        max_range_size_bytes: As for `write_tables`.
        raggedness: As for `write_tables`.

    Returns:
        The three metarange ids and all files.
    """
    written = {
        COMMIT: sorted(
            (commit.id.encode(), commit.id, encode_commit(commit)) for commit in commits
        ),
        BRANCH: sorted(
            (branch.id.encode(), branch.commit_id, encode_pointer(branch)) for branch in branches
        ),
        TAG: sorted((tag.id.encode(), tag.commit_id, encode_pointer(tag)) for tag in tags),
    }
    ids: dict[str, str] = {}
    files: list[TableFile] = []
    for entity, rows in written.items():
        metarange, ranges = write_records(
            ((key, encode_value(identity.encode(), payload)) for key, identity, payload in rows),
            properties=dump_properties(entity),
            max_range_size_bytes=max_range_size_bytes,
            raggedness=raggedness,
        )
        ids[entity] = metarange.id
        files += [metarange, *ranges]
    return RefsTables(ids[COMMIT], ids[BRANCH], ids[TAG], files)
