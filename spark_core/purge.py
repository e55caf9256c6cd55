"""Purge: what was in quarantine for its days is deleted for good, after one more look at what may need it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

import pyarrow as pa
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame

from spark_core import holds, revival, tables, verdict
from spark_core.collectable import is_collectable
from spark_core.errors import ChainError
from spark_core.mark.expired import alive_hash
from spark_core.model import RunKey
from spark_core.quarantine import FOLDER, ends_at, folder, runs
from spark_core.run import Run
from spark_core.schemas import PURGED
from spark_core.session import surfacing_errors
from spark_core.storage.contract import Pace, unpaced

RECORDS = f"{tables.ROOT}purges/"

# Addresses that the driver holds; who needs more of the quarantine has lost much, and brings it back first.
_MOST_NEEDED = 100_000


@dataclass(frozen=True)
class Needed:
    """What of the quarantine something refers to.

    Attributes:
        began: Before the first byte was read, by the run's clock.
        addresses: Addresses of objects whose copy in quarantine stays.
    """

    began: datetime
    addresses: frozenset[str]


@dataclass
class Purged:
    """What a purge did.

    Attributes:
        objects: Objects deleted for good ...
        size_bytes: ... and their bytes.
        left: Objects that the store did not delete, or that there was no time for; the next purge takes them again.
        strangers: Keys in a run's folder that are no address of an object, so they were not put there by a sweep; left alone.
        in_use: Objects that a hold keeps, or that something refers to; left alone.
        record: Key of the table of what became of each; None where nothing was due.
    """

    objects: int = 0
    size_bytes: int = 0
    left: int = 0
    strangers: int = 0
    in_use: int = 0
    record: str | None = None


def due(run: Run) -> tuple[RunKey, ...]:
    """Return the runs whose objects have been in quarantine for longer than `quarantine_days`.

    A run's days begin when its report was stored. Without a report it was not
    swept to its end, and what lies in its quarantine may be the only trace of it.
    What a report promises holds, also when the options say fewer days by now.

    Args:
        run: Any run of the repository; its options say how long.

    Raises:
        LakegcError: If the folder cannot be listed or a report cannot be read.
    """
    return tuple(key for key in runs(run.store) if _is_due(run, key))


def _is_due(run: Run, key: RunKey) -> bool:
    if not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, key)):
        return False
    report = tables.load_table(run.store, tables.DELETION_REPORT, key).manifest
    by_options = report.reading_ended + timedelta(days=run.options.quarantine_days)
    return run.now() >= max(by_options, ends_at(report) or by_options)


@surfacing_errors()
def look(run: Run, keys: Sequence[RunKey]) -> Needed:
    """Find what of the quarantine of these runs is needed: by the mark, or by what is read again now as before a sweep.

    An object that the mark reaches and that lies at its old address too was
    brought back, so its copy may go; not so where something names the copy itself.

    Args:
        run: A run that is marked.
        keys: What `due` found.

    Raises:
        ChainError: If the run has no mark, or more is needed than the driver holds.
        LakegcError: If anything could not be read to its end; then nothing is known, and nothing may be purged.
    """
    began, mark = run.now(), verdict.load_mark(run)
    reports = (tables.load_table(run.store, tables.DELETION_REPORT, key) for key in keys)
    moved = reduce(DataFrame.unionByName, (report.frame(run.spark, _REPORTED) for report in reports))
    plan = moved.where("outcome <> 'kept'").select("address", "size_bytes").distinct()
    alive = mark[tables.COMMITTED_ADDRESSES.name].frame(run.spark, ["address"])
    alive = alive.unionByName(mark[tables.UNCOMMITTED_ADDRESSES.name].frame(run.spark, ["address"]))
    names_copy = sf.col("address").contains(FOLDER)
    hashed = plan.select("address", sf.xxhash64("address").alias("address_hash"))
    listed = mark[tables.NAMESPACE_SLICES.name].frame(run.spark, ["address"])
    reached = hashed.join(alive.where(~names_copy).select(alive_hash()), on="address_hash", how="left_semi")
    others = plan.join(reached.select("address"), on="address", how="left_anti")
    found = (
        hashed.join(alive.where(names_copy).select(alive_hash()), on="address_hash", how="left_semi"),
        reached.join(listed.select(sf.xxhash64("address").alias("address_hash")), on="address_hash", how="left_anti"),
        # Without what is known to be alive: it would be found as the twin of itself.
        revival.read_again(run, others, mark=mark).frame,
    )
    needed = reduce(DataFrame.unionByName, (frame.select("address") for frame in found)).distinct()
    addresses = needed.limit(_MOST_NEEDED + 1).toArrow()["address"].to_pylist()
    if len(addresses) > _MOST_NEEDED:
        raise ChainError(
            f"something refers to more than {_MOST_NEEDED:,} objects that are only in quarantine ({run.store.root}{FOLDER}); "
            "nothing of it was purged. Bring them back with `lakegc restore`."
        )
    return Needed(began, frozenset(addresses))


_REPORTED = ["address", "size_bytes", "outcome"]


def purge(run: Run, keys: Sequence[RunKey], needed: Needed, pace: Pace = unpaced) -> Purged:
    """Delete for good what is in quarantine of these runs; call it under the lease.

    What a hold keeps, where it lies or by its old address, stays; so does what a
    later sweep of a run moved that left no report. A look is good for as long as
    before a deletion by a sweep (`reread_every`); what is left then waits for the next purge.

    Args:
        run: Any run of the repository.
        keys: What `due` found.
        needed: What `look` found.
        pace: Called before each request that deletes; what it raises, as for a lease that is lost, ends the purge.

    Returns:
        What was deleted. A store that refuses is told by `left`, not raised: the objects are as dead the next time.

    Raises:
        LakegcError: If the folder cannot be listed, or the record not be written.
    """
    done, began = Purged(), run.now()
    key = f"{RECORDS}run_id={run.key}/{began:%Y-%m-%dT%H-%M-%S.%fZ}.parquet"
    rows = (rows for each in keys for rows in _purged(run, each, needed, done, pace))
    run.store.write_parquet(key, (pa.RecordBatch.from_pylist(some, schema=PURGED) for some in rows), PURGED)
    done.record = key
    return done


def _purged(run: Run, key: RunKey, needed: Needed, done: Purged, pace: Pace) -> Iterator[list[dict[str, object]]]:
    """Purge the objects of one run, counting into `done`; yields what became of those that were due."""
    where, held, until = folder(key), holds.load(run.store), needed.began + run.options.reread_every
    reported = _second(run.store.head(tables.manifest_key(tables.DELETION_REPORT, key)).last_modified)
    for batch in run.store.list(where):
        sizes = dict(zip(batch.column("key").to_pylist(), batch.column("size_bytes").to_pylist(), strict=True))
        ours = [name for name in sizes if name.startswith(where) and is_collectable(name[len(where) :], flat=True)]
        done.strangers += len(sizes) - len(ours)
        moved = dict(zip(sizes, batch.column("last_modified").to_pylist(), strict=True))
        over = [name for name in ours if _second(moved[name]) <= reported]
        stays = {name for name in over if _is_needed(held, needed, where, name)}
        free = [name for name in over if name not in stays]
        done.in_use += len(stays)
        outcomes = run.store.delete(free, pace=pace) if free and run.now() < until else ()
        gone = {outcome.key for outcome in outcomes if outcome.outcome in ("deleted", "already_gone")}
        done.objects += len(gone)
        done.size_bytes += sum(sizes[name] for name in gone)
        done.left += len(free) - len(gone)
        yield [
            {
                "address": name[len(where) :],
                "run": str(key),
                "size_bytes": sizes[name],
                "outcome": "in_use" if name in stays else "purged" if name in gone else "left",
                "purged_at": run.now(),
            }
            for name in over
        ]


def _is_needed(held: holds.Holds, needed: Needed, where: str, name: str) -> bool:
    address = name[len(where) :]
    return address in needed.addresses or (
        bool(held.of_addresses) and any(held.protecting(pa.array([name, address])).to_pylist())
    )


def _second(instant: datetime) -> datetime:
    """Cut a time of the store: a listing tells it finer than a single answer does."""
    return instant.replace(microsecond=0)
