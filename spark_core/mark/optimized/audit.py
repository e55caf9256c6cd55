"""The audit: a full run compares itself with the optimized runs since the full run before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.errors import ChainError, LakegcError, NotFoundError
from spark_core.mark.optimized import saved as saved_information
from spark_core.mark.optimized.candidates import among
from spark_core.mark.optimized.saved import Saved
from spark_core.model import RunKey
from spark_core.records import reading, tables
from spark_core.records.figures import AuditFigures
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark.tasks import run_tasks
from spark_core.storage import ObjectStore

# Addresses that the figures name.
_NAMED = 20
_DRIVER_ROWS = 200_000

_GONE = pa.array(["deleted", "already_gone"])


def last_saved(run: Run) -> Saved | None:
    """Read what the newest earlier run saved; None if none saved anything that can be read."""
    for key in tables.runs(run.store):
        if key >= run.key:
            continue
        try:
            found = saved_information.load(run.store, key)
        except NotFoundError:
            continue
        except LakegcError:
            return None
        if found.instance == run.instance:
            return found
    return None


def audit(
    run: Run,
    before: Saved | None,
    staged: StoredTable,
    committed: StoredTable,
    expired: Sequence[Part],
) -> AuditFigures | None:
    """Compare what the optimized runs deleted, and did not name, with what a full run finds.

    It costs one pass over the hashes of what is alive, and one over what may go.

    Args:
        run: A full run.
        before: What the run before it saved.
        staged: Table 2.
        committed: Table 4.
        expired: Files of table 5.

    Returns:
        The figures; None if there was no optimized run since the last full one.
    """
    if before is None or not before.optimized_since:
        return None
    reports = [_report(run, RunKey.parse(name)) for name in before.optimized_since]
    deleted = np.unique(
        np.concatenate(
            [
                np.empty(0, np.int64),
                *(hashed(some).to_numpy() for report in reports for some in _deleted(run, report)),
            ]
        )
    )
    alive = among(
        run,
        [
            *((part, schemas.COMMITTED_ADDRESSES) for part in committed.manifest.parts),
            *((part, schemas.UNCOMMITTED_ADDRESSES) for part in staged.manifest.parts),
        ],
        deleted,
    )
    missed = _missed(run, before, expired)
    return AuditFigures(
        runs=before.optimized_since,
        deleted_objects=len(deleted),
        alive_objects=len(alive),
        alive_named=_named(run, reports, alive),
        missed_objects=missed[0],
        missed_bytes=missed[1],
    )


def _report(run: Run, key: RunKey) -> StoredTable | None:
    try:
        return reading.load_table(run.store, tables.DELETION_REPORT, key)
    except ChainError:
        return None  # it was not swept


def _deleted(run: Run, report: StoredTable | None) -> Iterator[pa.StringArray]:
    schema = schemas.DELETION_REPORT
    wanted = pa.schema([schema.field("address"), schema.field("outcome")])
    for part in () if report is None else report.manifest.parts:
        for batch in reading.read_part(run.store, wanted, part):
            gone = pc.is_in(batch.column("outcome"), _GONE)
            yield batch.column("address").filter(gone).cast(pa.string())


def _named(run: Run, reports: Sequence[StoredTable | None], alive: Any) -> tuple[str, ...]:
    found: set[str] = set()
    for report in reports if len(alive) else ():
        for names in _deleted(run, report):
            chosen = np.isin(hashed(names).to_numpy(), alive)
            found.update(names.filter(pa.array(chosen)).to_pylist())
    return tuple(sorted(found)[:_NAMED])


def _missed(run: Run, before: Saved, expired: Sequence[Part]) -> tuple[int, int]:
    """Count what may go now, was there at the last optimized run, and was not named by it.

    Part of it has become garbage since.
    """
    known = [np.empty(0, np.int64)]
    try:
        last = reading.load_table(run.store, tables.EXPIRED_ADDRESSES, RunKey.parse(before.run))
        for part in (*last.manifest.parts, *last.manifest.beside):
            known += [
                hashed(batch.column("address").cast(pa.string())).to_numpy()
                for batch in _addresses(run.store, part)
            ]
    except LakegcError:
        return 0, 0  # it was pruned: nothing can be said
    counts = run_tasks(
        lambda: run.spark,
        list(expired),
        partial(_count, run.store, np.unique(np.concatenate(known)), before.started),
        is_small=sum(part.rows for part in expired) <= _DRIVER_ROWS,
    )
    return sum(count for count, _ in counts), sum(size for _, size in counts)


def _addresses(store: ObjectStore, part: Part) -> Iterator[pa.RecordBatch]:
    return reading.read_part(store, pa.schema([schemas.EXPIRED_ADDRESSES.field("address")]), part)


def _count(
    store: ObjectStore, known: Any, started: Any, _number: int, part: Part
) -> tuple[int, int]:
    schema, found, size = schemas.EXPIRED_ADDRESSES, 0, 0
    wanted = pa.schema([schema.field(name) for name in ("address", "size_bytes", "last_modified")])
    for batch in reading.read_part(store, wanted, part):
        is_new = ~np.isin(hashed(batch.column("address").cast(pa.string())).to_numpy(), known)
        was_there = pc.less(batch.column("last_modified"), pa.scalar(started, schemas.INSTANT))
        chosen = pc.and_(pa.array(is_new), was_there)
        found += pc.sum(chosen).as_py() or 0
        size += pc.sum(batch.column("size_bytes").filter(chosen)).as_py() or 0
    return found, size
