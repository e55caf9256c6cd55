"""Runs of an earlier day, of which only what they saw is stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.manifest import Manifest
from spark_core.run import Run
from tests.support.figures import given


def store_seen_heads(run: Run, when: datetime, heads: Mapping[str, str]) -> str:
    """Store that a run saw heads at a moment; return the key of its manifest."""
    rows = [[branch, commit, None, ""] for branch, commit in sorted(heads.items())]
    read = {"read_at": when.isoformat(), "branches": rows}
    key = RunKey.at(when)
    manifest = Manifest(
        table=tables.RETAINED_COMMITS.name,
        repository=run.repository.id,
        instance=run.instance,
        run=str(key),
        attempt="7" * 32,
        reading_began=when,
        reading_ended=when,
        parents={},
        parts=(),
        facts=given(tables.RETAINED_COMMITS, branch_heads=read)({}, None).facts(),
    )
    name = tables.manifest_key(tables.RETAINED_COMMITS, key)
    run.store.put(name, manifest.to_json())
    return name
