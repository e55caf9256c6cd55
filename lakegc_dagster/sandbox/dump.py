"""Refs dumps: commits, branches and tags as tables in the namespace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakegc_dagster.sandbox import tables as server_tables
from lakegc_dagster.sandbox.core import Core
from lakegc_dagster.sandbox.records import RepositoryRecord
from spark_core.model import Branch, Tag

MANIFEST_KEY = "_lakefs/refs_manifest.json"
TASK_KIND = "DR"

# The order in which each call reads the parts. Only the asynchronous one can miss a head's commit.
ASYNCHRONOUS = ("commits", "branches", "tags")
SYNCHRONOUS = ("tags", "branches", "commits")


@dataclass(frozen=True)
class Dump:
    """Metarange ids of the three tables of a dump."""

    commits_metarange_id: str
    branches_metarange_id: str
    tags_metarange_id: str


def dump_refs(
    core: Core, repository: RepositoryRecord, order: Sequence[str] = ASYNCHRONOUS
) -> Dump:
    """Write every commit, every branch (hidden ones too) and every tag of a repository as tables.

    The parts are read in sequence, as on the real server. A change in between
    (`Behaviour.while_dumping`) makes the dump inconsistent.

    Args:
        core: The sandbox.
        repository: The repository.
        order: Names of the parts in reading order (`lakefs-facts` 3.3).
    """
    parts: dict[str, list[Any]] = {}
    for part in order:
        if parts and core.behaviour.while_dumping is not None:
            core.behaviour.while_dumping(next(reversed(parts)))
        parts[part] = _part(core, repository, part)
    commits, branches, tags, tables = server_tables.write_refs_dump(
        commits=parts["commits"], branches=parts["branches"], tags=parts["tags"]
    )
    core.trees.store(repository.storage_namespace, tables)
    return Dump(commits, branches, tags)


def _part(core: Core, repository: RepositoryRecord, part: str) -> list[Any]:
    if part == "commits":
        return list(core.state.commits(repository.number).values())
    if part == "branches":
        return [
            Branch(branch.id, branch.commit_id) for branch in core.state.branches(repository.number)
        ]
    return [Tag(tag_id, commit_id) for tag_id, commit_id in core.state.tags(repository.number)]


def manifest(refs: Mapping[str, object]) -> bytes:
    """Return the manifest that the synchronous dump writes beside its tables."""
    return json.dumps(refs, indent=2, sort_keys=True).encode()
