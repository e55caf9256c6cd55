"""Refs dumps: commits, branches and tags as tables in the namespace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from lakegc_dagster.sandbox.core import Core
from lakegc_dagster.sandbox.state import RepositoryRecord
from spark_core.graveler import write_refs_dump
from spark_core.model import Branch, Tag

MANIFEST_KEY = "_lakefs/refs_manifest.json"
TASK_KIND = "DR"


@dataclass(frozen=True)
class Dump:
    """Metarange ids of a dump's three tables."""

    commits_metarange_id: str
    branches_metarange_id: str
    tags_metarange_id: str


def dump_refs(core: Core, repository: RepositoryRecord) -> Dump:
    """Write every commit, every branch (hidden ones too) and every tag of a repository as tables."""
    commits, branches, tags, tables = write_refs_dump(
        commits=list(core.state.commits(repository.number).values()),
        branches=[Branch(branch.id, branch.commit_id) for branch in core.state.branches(repository.number)],
        tags=[Tag(tag_id, commit_id) for tag_id, commit_id in core.state.tags(repository.number)],
    )
    core.trees.store(repository.storage_namespace, tables)
    return Dump(commits, branches, tags)


def manifest(refs: Mapping[str, object]) -> bytes:
    """Print what the synchronous dump leaves beside its tables."""
    return json.dumps(refs, indent=2, sort_keys=True).encode()
