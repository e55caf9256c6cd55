"""Leftovers: objects that the report would call left, although another attempt may delete them.

An attempt is a killed process, which has ended when the next one begins, or an executor that this
process lost. They are looked at again once every attempt must have ended.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.errors import LakegcError
from spark_core.records.journal import Journal
from spark_core.records.rows_aside import place_of
from spark_core.run import Run
from spark_core.spark.exchange import Batches, Exchange, Sent
from spark_core.storage.outcomes import GONE

# Outcomes of the report for an object that is still there.
_STAYS = ("kept", "refused", "failed")
# Number of objects asked for before those found gone are written down.
_LOT = 1000

_LEFT = pa.schema(
    [
        *(schemas.JOURNAL.field(name) for name in ("address", "size_bytes")),
        # Whether the report would say so.
        pa.field("kept", pa.bool_(), nullable=False),
    ]
)


def recheck_leftovers(
    run: Run, journal: Journal, sent_until: datetime | None, named: Collection[str] = ()
) -> frozenset[str]:
    """Check whether the objects that are left are still there, and journal those that are gone.

    A killed process may have deleted an object and not lived to write that down. If the object came
    back to life since, this process keeps it, unseen. A lost executor may still work off its rows,
    under an earlier look that is still good, and delete what this process keeps. It journals that
    only just before. So the report must not say `kept` of such an object, nor, while an executor
    may be at work, `failed` of an object that this process could not look at.

    Without a lost executor only kept objects are looked at; the next sweep finds out about failed
    ones.

    Args:
        run: The run.
        journal: Journal of the run's sweeps; objects that are found gone are written into it.
        sent_until: Until when a lost executor may send requests. The call waits until then. None:
            none was lost.
        named: Addresses that the caller wants to know about.

    Returns:
        The addresses of `named` that were found gone.

    Raises:
        LakegcError: If the store does not say whether an object is there that the report would call
            `kept`.
    """
    wait = 0.0 if sent_until is None else (sent_until - run.now()).total_seconds()
    stays = _STAYS if sent_until is not None else _STAYS[:1]
    if wait > 0 and _leaves_any(run, journal, stays):
        run.environment.clock.sleep(wait)
    recheck = _RecheckTask(journal, frozenset(named), run.options.read_threads, run.now())
    sources = {"journal": journal.source(journal.parts())}
    exchange = Exchange(sources, partial(_left_and_intended, stays), _LEFT, recheck)
    _, gone = exchange.run(lambda: run.spark, threads=run.options.read_threads)
    return frozenset().union(*gone)


@dataclass(frozen=True)
class _RecheckTask:
    """The work of a task: ask the store for each object, and write down the ones that are gone.

    Attributes:
        journal: Journal that is written to.
        named: Addresses that the driver wants to know about.
        threads: Objects that a task asks for at once.
        at: When the check began, by the driver's clock.
    """

    journal: Journal
    named: frozenset[str]
    threads: int
    at: datetime

    def __call__(self, _number: int, doubtful: pa.Table) -> frozenset[str]:
        """Return the named ones of those that are gone."""
        found = set[str]()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakegc-left") as pool:
            for rows in doubtful.to_batches(max_chunksize=_LOT):
                gone = rows.filter(pa.array(pool.map(self._is_gone, rows.to_pylist()), pa.bool_()))
                if gone.num_rows:
                    self._write_down(gone)
                    found.update(gone.column("address").to_pylist())
        return self.named & found

    def _is_gone(self, row: Mapping[str, Any]) -> bool:
        try:
            return not self.journal.store.exists(row["address"])
        except LakegcError:
            if row["kept"]:
                raise
            # It stays `failed`, with its cause. The next sweep looks.
            return False

    def _write_down(self, gone: pa.RecordBatch) -> None:
        count = gone.num_rows
        columns = [
            gone.column("address"),
            gone.column("size_bytes"),
            pa.array(["already_gone"] * count, pa.string()),
            pa.nulls(count, pa.string()),
            pa.array([self.at] * count, schemas.INSTANT),
        ]
        self.journal.conclude(
            f"{secrets.token_hex(6)}.0.0.0.0", pa.record_batch(columns, schema=schemas.JOURNAL)
        )


def _leaves_any(run: Run, journal: Journal, stays: Sequence[str]) -> bool:
    rows = journal.source(journal.parts())
    return any(rows.each(lambda: run.spark, partial(_any_stays, stays)))


def _any_stays(stays: Sequence[str], batches: Batches) -> bool:
    outcomes = pa.array(stays)
    return any(
        pc.any(pc.is_in(batch.column("outcome"), value_set=outcomes)).as_py() for batch in batches
    )


def _left_and_intended(stays: Sequence[str], bucket: Mapping[str, pa.Table]) -> Sent[None]:
    """Send on the objects that stay although some batch was about to delete them.

    No answer to such a batch is written down.

    Args:
        stays: Outcomes of the report for an object that is still there.
        bucket: `journal` with columns of `ROWS` of a journal.

    Returns:
        Columns of `_LEFT`.
    """
    rows = bucket["journal"]
    outcomes = {
        "kept": ("kept",),
        "stays": stays,
        "gone": GONE,
        "sent": ("intended",),
        "answered": ("refused", "unsent"),
    }
    counted = {
        name: pc.is_in(rows["outcome"], value_set=pa.array(some)).cast(pa.int64())
        for name, some in outcomes.items()
    }
    known = pa.table({**{name: rows[name] for name in _LEFT.names[:2]}, **counted})
    known = (
        known.group_by("address")
        .aggregate([("size_bytes", "max"), *((name, "sum") for name in outcomes)])
        .rename_columns(known.column_names)
    )
    is_left = pc.and_(pc.greater(known["stays"], 0), pc.equal(known["gone"], 0))
    left = known.filter(pc.and_(is_left, pc.greater(known["sent"], known["answered"])))
    is_kept = pc.greater(left["kept"], 0)
    left = left.set_column(left.column_names.index("kept"), "kept", is_kept)
    return Sent(None, {place_of(rows): left.select(_LEFT.names).cast(_LEFT)})
