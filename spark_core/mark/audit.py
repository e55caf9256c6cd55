"""The audit: a clean run compares itself with the optimized runs since the clean one before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys, schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH, are_among, hashed, sorted_once
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import ChainError, CorruptTableError, LakegcError
from spark_core.holds import Holds
from spark_core.mark.hashes_of_table import hashes_in_table
from spark_core.model import RunKey
from spark_core.records import reading, tables
from spark_core.records.figures import AuditFigures, ExpiredFigures, ListedFigures
from spark_core.records.manifest import Manifest, Part
from spark_core.records.reading import StoredTable
from spark_core.records.swept import deleted_by
from spark_core.run import Run
from spark_core.spark.exchange import Batches, Exchange, Sent, no_work

# Addresses that the figures name.
_NAMED = 20

_HASHES = pa.schema([ADDRESS_HASH])
_SIZED = pa.schema([ADDRESS_HASH, schemas.EXPIRED_ADDRESSES.field("size_bytes")])
_DATED = pa.schema(
    [schemas.EXPIRED_ADDRESSES.field(name) for name in ("address", "size_bytes", "last_modified")]
)


def since_last_clean(run: Run) -> tuple[RunKey, ...]:
    """Return the optimized runs since the last clean one that was concluded, the oldest first.

    Every clean run compares them, so the earlier ones were compared, but for those that were swept
    after it. What runs saved for each other is not asked: it may be damaged, or of a clean run that
    was killed before its verdict.

    It costs two requests for each run since, and for each that could be swept after the clean one.
    """
    found: list[RunKey] = []
    keys = [key for key in tables.runs(run.store, tables.NAMESPACE_SLICES.folder) if key < run.key]
    for number, key in enumerate(keys):
        try:
            slices = reading.load_table(run.store, tables.NAMESPACE_SLICES, key).manifest
            is_optimized = ListedFigures.of(slices).is_optimized
        except ChainError:
            continue  # it did not come so far
        except CorruptTableError:
            found.append(key)
            continue
        if slices.instance != run.instance:
            break
        if is_optimized:
            found.append(key)
        elif run.store.exists(lakegc_keys.verdict_key(key)):
            found += _swept_since(run, keys[number + 1 :], slices)
            break
    return tuple(reversed(found))


def _swept_since(run: Run, keys: Sequence[RunKey], clean: Manifest) -> Iterator[RunKey]:
    """Yield the optimized runs that swept after a clean run had begun, the newest first.

    A sweep that was killed has no report, or not the last word in it.
    """
    oldest = RunKey.parse(clean.run).instant - run.options.max_mark_age
    since = clean.reading_began - MAX_CLOCK_SKEW
    for key in keys:
        if key.instant < oldest:
            break
        with suppress(ChainError, CorruptTableError):
            slices = reading.load_table(run.store, tables.NAMESPACE_SLICES, key).manifest
            if slices.instance != run.instance or not ListedFigures.of(slices).is_optimized:
                continue
            if any(len(some) for some in deleted_by(run.store, key, run.documents, since=since)):
                yield key


def audit(
    run: Run,
    staged: StoredTable,
    committed: StoredTable,
    expired: Sequence[Part],
    only_in_expired_commits: Callable[[RunKey, Any], Any],
) -> AuditFigures | None:
    """Compare what the optimized runs deleted, and did not name, with what a clean run finds.

    It costs one pass over the hashes of what is alive, and one over what may go.

    Args:
        run: A clean run.
        staged: Table 2.
        committed: Table 4.
        expired: Files of table 5.
        only_in_expired_commits: Gets a run and hashes of what it deleted and commits reach now;
            returns those of them that only expired commits had then.

    Returns:
        The figures; None if there was no optimized run since the last clean one.
    """
    optimized = since_last_clean(run)
    if not optimized:
        return None
    none = np.empty(0, np.int64)
    names_of_each = {key: deleted_by(run.store, key, run.documents) for key in optimized}
    of_each = {
        key: sorted_once(np.concatenate([none, *(hashed(some).to_numpy() for some in names)]))
        for key, names in names_of_each.items()
    }
    of_each = {key: hashes for key, hashes in of_each.items() if len(hashes)}
    deleted = sorted_once(np.concatenate([none, *of_each.values()]))
    reached = hashes_in_table(run, committed, deleted)
    lost = [is_staged := hashes_in_table(run, staged, deleted)]
    for key, hashes in of_each.items():
        came = reached[are_among(reached, hashes) & ~are_among(reached, is_staged)]
        if len(came):
            went_rightly = are_among(came, only_in_expired_commits(key, came))
            lost.append(came[~went_rightly | are_among(came, _held_then(run, key, hashes))])
    alive = sorted_once(np.concatenate(lost))
    brought_back = reached[~are_among(reached, alive)]
    missed = _missed(run, optimized[-1], expired)
    return AuditFigures(
        runs=tuple(map(str, of_each)),
        deleted_objects=len(deleted),
        alive_objects=len(alive),
        alive_named=_named(run, of_each, alive),
        brought_back_objects=len(brought_back),
        brought_back_named=_named(run, of_each, brought_back),
        missed_objects=missed[0],
        missed_bytes=missed[1],
    )


def _held_then(run: Run, key: RunKey, hashes: Any) -> Any:
    """Return which of the objects that a run deleted a hold of its mark kept by address.

    Args:
        run: The clean run.
        key: The earlier run.
        hashes: All that it deleted; they are returned where nobody knows its holds any more.
    """
    try:
        expired = reading.load_table(run.store, tables.EXPIRED_ADDRESSES, key).manifest
        held = Holds.of_figures(ExpiredFigures.of(expired).holds)
    except (ChainError, CorruptTableError):
        return hashes
    if not held.of_addresses:
        return hashes[:0]
    some = [
        hashed(names.filter(held.protecting(names))).to_numpy()
        for names in deleted_by(run.store, key, run.documents)
    ]
    return sorted_once(np.concatenate([hashes[:0], *some]))


def _named(run: Run, optimized: Iterable[RunKey], hashes: Any) -> tuple[str, ...]:
    found: set[str] = set()
    for key in optimized if len(hashes) else ():
        for names in deleted_by(run.store, key, run.documents):
            chosen = are_among(hashed(names).to_numpy(), hashes)
            found.update(names.filter(pa.array(chosen)).to_pylist())
    return tuple(sorted(found)[:_NAMED])


def _missed(
    run: Run, before: RunKey, expired: Sequence[Part]
) -> tuple[int, int] | tuple[None, None]:
    """Count what may go now, was there at the last optimized run, and was not named by it.

    Part of it has become garbage since. None where what that run named was pruned, or something
    cannot be read.
    """
    try:
        last = reading.load_table(run.store, tables.EXPIRED_ADDRESSES, before)
        now = reading.source_of_parts(run.store, _DATED, expired)
        work = Exchange(
            {
                "before": last.source(["address"]).through(_HASHES, _hashes_of),
                "now": now.through(_SIZED, partial(_older_than, before.instant)),
            },
            _not_named,
            _HASHES,
            no_work,
        )
        found, _ = work.run(lambda: run.spark, threads=run.options.read_threads)
    except LakegcError:
        return None, None
    return sum(objects for objects, _ in found), sum(size_bytes for _, size_bytes in found)


def _hashes_of(batches: Batches) -> Batches:
    for batch in batches:
        yield pa.record_batch([hashed(batch.column("address"))], schema=_HASHES)


def _older_than(instant: datetime, batches: Batches) -> Batches:
    for batch in batches:
        older = batch.filter(
            pc.less(batch.column("last_modified"), pa.scalar(instant, schemas.INSTANT))
        )
        columns = [hashed(older.column("address")), older.column("size_bytes")]
        yield pa.record_batch(columns, schema=_SIZED)


def _not_named(bucket: Mapping[str, pa.Table]) -> Sent[tuple[int, int]]:
    """Count what may go now and was not named before: objects and bytes."""
    new = bucket["now"].join(bucket["before"], "address_hash", join_type="left anti")
    return Sent((new.num_rows, pc.sum(new["size_bytes"]).as_py() or 0), {})
