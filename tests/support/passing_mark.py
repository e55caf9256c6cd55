"""A mark of a few objects that passes every check, stored without Spark and without a server."""

import os
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from spark_core.addresses.namespace import slice_of
from spark_core.mark.expired_sums import SUMMED, Sums
from spark_core.records import tables
from spark_core.records.writing import Draft
from tests.support.figures import given
from tests.support.written_run import NO_TWINS, OLD

WHOLE = {
    "uncommitted_addresses": {
        "pages": 1,
        "pages_with_data": 0,
        "files": 0,
        "files_read": 0,
        "file_rows": 0,
        "from_diffs": 0,
        "branches_read": 1,
    },
    "retained_commits": {
        "rules": {"default_retention_days": 7, "branches": {}},
        "commits": 1,
        "branches": 1,
        "heads": 1,
        "heads_retained": 1,
        "metaranges": 2,
        "retained_by_server": 1,
        "unknown_to_dump": [],
        "rules_without_branch": [],
    },
    "committed_addresses": {
        "metaranges": 2,
        "metaranges_read": 2,
        "metarange_rows": 3,
        "metarange_rows_read": 3,
        "ranges": 3,
        "ranges_read": 3,
        "entries": 4,
        "entries_read": 4,
        "addresses_read": 0,
        "head_metaranges": 1,
        "head_metaranges_read": 1,
        "head_ranges": 1,
        "head_ranges_read": 1,
        "retained_metaranges": 2,
        "retained_metaranges_read": 2,
        "empty_metaranges": 0,
    },
    "expired_addresses": {
        "live_objects": 0,
        "missing_objects": 0,
        "missing_named": [],
        "twins": NO_TWINS,
    },
}
# Tests in which these matter give their own.
_COUNTED = ("not_collectable", "too_young", "not_of_lakefs")
COMMIT = {
    "commit_id": "c",
    "metarange_id": "",
    "created_at": OLD,
    "reason": "head of main",
    "retained_by": "lakegc",
    "retained_until": None,
    "is_head": True,
}


def keep_slices(run, **otherwise):
    """Store table 1 with the facts of a preflight, some of them replaced."""
    facts = {
        "cutoff": run.cutoff.isoformat(),
        "options": dict(run.deciding_options),
        "table_prefix": "_lakefs",
        "objects": 10_000,
        "repositories": 1,
        "overlapping_repositories": [],
        "clock_skew_seconds": {"server": 0.0, "store": None},
    }
    return _keep(run, tables.NAMESPACE_SLICES, [], [], {**facts, **otherwise})


def passing_mark(run, expired=("data/s/x",), **facts):
    """Store five tables whose facts satisfy every check; `facts` are table name -> facts that are
    otherwise.
    """
    stored = [keep_slices(run, **facts.get("namespace_slices", {}))]
    rows = {
        "retained_commits": [COMMIT],
        "expired_addresses": [
            {
                "address": address,
                "size_bytes": 4,
                "last_modified": run.cutoff - timedelta(days=1),
                "slice": slice_of(address),
                "reason": "in no commit, and not staged",
            }
            for address in expired
        ],
    }
    sums = Sums()
    planned = pa.RecordBatch.from_pylist(rows["expired_addresses"], schema=SUMMED)
    sums.add(planned, run.key.instant, run.limits)
    told = {name: value for name, value in sums.figures.facts().items() if name not in _COUNTED}
    for spec in tables.MARK_TABLES[1:]:
        parents = [manifest for manifest in stored if manifest.table in spec.parents]
        chosen = {
            **WHOLE[spec.name],
            **(told if spec is tables.EXPIRED_ADDRESSES else {}),
            **facts.get(spec.name, {}),
        }
        enclosed = []
        if spec is tables.EXPIRED_ADDRESSES:
            chosen.setdefault("by_fate", {"expired": (len(expired), 4 * len(expired))})
            fates = pa.Table.from_pylist([], schema=tables.FATES.schema)
            draft = Draft(tables.FATES, fates, run.now(), parents, is_enclosed=True)
            enclosed = [run.keep(draft).manifest]
        made = _keep(run, spec, rows.get(spec.name, []), parents, chosen, enclosed=enclosed)
        stored.append(made)
    return {manifest.table: manifest for manifest in stored}


def plant(run, addresses):
    """Write the objects of a mark on a local store as its listing has them."""
    written = (run.cutoff - timedelta(days=1)).timestamp()
    for address in addresses:
        run.store.put(address, b"1234")
        os.utime(
            Path(run.store.options.local_path) / run.namespace.path / address, (written, written)
        )


def _keep(run, spec, rows, parents, facts, *, enclosed=()):
    content = pa.Table.from_pylist(rows, schema=spec.schema)
    figures = given(spec, len(rows), **facts)
    draft = Draft(spec, content, run.now(), parents, figures=figures, encloses=enclosed)
    return run.keep(draft).manifest
