"""What a full mark names although an earlier sweep reported it deleted.

Such an object is still there: the store answers "deleted" and keeps it, or somebody brought it back
past lakegc. It decides nothing. The figure says so to people, and keeps totals from counting an
object twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf

from spark_core import lakegc_keys, schemas
from spark_core.errors import ChainError, CorruptTableError, NotFoundError
from spark_core.model import RunKey
from spark_core.records import reading, tables
from spark_core.records.figures import AmountFigures, ExpiredFigures, ListedFigures
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark.rows import Rows, selected, together, within, without
from spark_core.spark.session import surfacing_errors

_OUTCOME = pa.schema([schemas.DELETION_REPORT.field(name) for name in ("address", "outcome")])
_EXPIRED = pa.schema([schemas.EXPIRED_ADDRESSES.field(name) for name in ("address", "size_bytes")])


def deleted_before(run: Run, expired: Sequence[Part]) -> AmountFigures | None:
    """Count what a mark names and a sweep since the last full one, that one included, deleted.

    What a restore brought back is not counted. Each full mark compares, so an object that stays is
    found by the first one after each sweep. It costs three small reads for each of those sweeps,
    and one pass over their reports.

    Args:
        run: A full run.
        expired: Files of its table 5.

    Returns:
        The figures; None for no such object, and where a report cannot be read any more.
    """
    if not any(part.rows for part in expired):
        return None
    try:
        # Executors read a large report only when its rows are counted.
        with surfacing_errors():
            objects, size_bytes = _named_again(run, expired)
    except (ChainError, CorruptTableError, NotFoundError):
        return None  # decides nothing, and whoever needs that report says so
    return AmountFigures(objects=objects, bytes=size_bytes) if objects else None


def _named_again(run: Run, expired: Sequence[Part]) -> tuple[int, int]:
    deleted = [_deleted(run, key, report) for key, report in _sweeps_since_last_full(run)]
    if not deleted:
        return 0, 0
    named = reading.rows_of_parts(lambda: run.spark, run.store, _EXPIRED, expired)
    return _amount(within(named, together(deleted), "address"))


def _sweeps_since_last_full(run: Run) -> Iterator[tuple[RunKey, StoredTable]]:
    for key in tables.runs(run.store, tables.DELETION_REPORT.folder):
        if key >= run.key:
            continue
        try:
            report = reading.load_table(run.store, tables.DELETION_REPORT, key)
        except ChainError:
            continue  # its sweep did not end
        if report.manifest.instance != run.instance:
            return
        yield key, report
        if _took_everything(run, key):
            return


def _took_everything(run: Run, key: RunKey) -> bool:
    """Say whether a run read the whole namespace, and let go whatever nothing reaches."""
    listed = reading.load_table(run.store, tables.NAMESPACE_SLICES, key).manifest
    expired = reading.load_table(run.store, tables.EXPIRED_ADDRESSES, key).manifest
    is_full = ListedFigures.of(listed).base is None
    return is_full and ExpiredFigures.of(expired).collects == "all"


def _deleted(run: Run, key: RunKey, report: StoredTable) -> Rows:
    """Return the addresses that a sweep deleted and no restore of it brought back."""
    parts = report.manifest.parts
    rows = reading.rows_of_parts(lambda: run.spark, run.store, _OUTCOME, parts)
    gone = _with_outcome(rows, "deleted")
    back = [
        batch
        for found in run.store.list(f"{lakegc_keys.RESTORES}run_id={key}/")
        for name in found.column("key").to_pylist()
        if name.endswith(".parquet")
        for batch in run.store.read_parquet(name)
    ]
    if not back:
        return gone
    restored = pa.Table.from_batches([batch.select(_OUTCOME.names) for batch in back])
    return without(gone, _with_outcome(restored, "restored"), "address")


def _with_outcome(rows: Rows, outcome: str) -> Rows:
    if isinstance(rows, pa.Table):
        chosen: Rows = rows.filter(pc.equal(rows["outcome"], outcome))
    else:
        chosen = rows.where(sf.col("outcome") == outcome)
    return selected(chosen, ["address"])


def _amount(rows: Rows) -> tuple[int, int]:
    if isinstance(rows, pa.Table):
        return rows.num_rows, pc.sum(rows["size_bytes"]).as_py() or 0
    (found,) = rows.agg(sf.count("*"), sf.coalesce(sf.sum("size_bytes"), sf.lit(0))).collect()
    return int(found[0]), int(found[1])
