"""What a process that was killed had under way when the next one went on at once: looked at once it must have ended."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as sf
from pyspark.sql import Column

from spark_core import schemas
from spark_core.errors import LakegcError
from spark_core.journal import Journal
from spark_core.run import Run
from spark_core.session import surfacing_errors

# What the report says of an object that is there.
_STAYS = ("kept", "refused", "failed")
# Objects asked for before what is found gone is written down.
_LOT = 1000


def settle_left(run: Run, journal: Journal, under_way_until: datetime | None) -> frozenset[str]:
    """See whether what is left is still there, where an earlier process of this sweep was, or came, to delete it.

    The same command goes on at once after a kill, beside executors of the dead
    process that still work off what they were given, under a look of their own that is still good. An object that came
    back to life between the two looks is kept by this process and may be deleted by those, which say so only just
    before: the report must not say `kept` of it then, nor `failed` of one that this process could not look at.
    Without an earlier process only what is kept is looked at: what failed the next sweep finds out.

    Args:
        run: The run.
        journal: Of its sweeps; what is found gone is written into it.
        under_way_until: Until when something of an earlier process may be under way, which is waited for; None: nothing is.

    Returns:
        What was found gone.

    Raises:
        LakegcError: If the store does not say whether an object is there that is to be reported as `kept`.
    """
    wait = 0.0 if under_way_until is None else (under_way_until - run.now()).total_seconds()
    stays = _STAYS if under_way_until is not None else _STAYS[:1]
    if wait > 0 and _leaves_any(run, journal, stays):
        run.environment.clock.sleep(wait)
    doubtful = _left_and_intended(run, journal, stays)
    found: set[str] = set()
    with ThreadPoolExecutor(run.options.read_threads, thread_name_prefix="lakegc-left") as pool:
        for rows in doubtful.to_batches(max_chunksize=_LOT):
            gone = rows.filter(pa.array(pool.map(partial(_is_gone, run), rows.to_pylist()), pa.bool_()))
            if gone.num_rows:
                _write_down(run, journal, gone)
                found.update(gone.column("address").to_pylist())
    return frozenset(found)


def _is_gone(run: Run, row: Mapping[str, Any]) -> bool:
    try:
        return not run.store.exists(row["address"])
    except LakegcError:
        if row["kept"]:
            raise
        # It stays `failed`, with its cause: the next sweep looks.
        return False


def _write_down(run: Run, journal: Journal, gone: pa.RecordBatch) -> None:
    count, at = gone.num_rows, run.now()
    columns = [
        gone.column("address").cast(pa.string()),
        gone.column("size").cast(pa.int64()),
        pa.array(["already_gone"] * count, pa.string()),
        pa.nulls(count, pa.string()),
        pa.array([at] * count, schemas.INSTANT),
    ]
    journal.conclude(f"{secrets.token_hex(6)}.0.0.0.0", pa.record_batch(columns, schema=schemas.JOURNAL))


def _leaves_any(run: Run, journal: Journal, stays: Sequence[str]) -> bool:
    with surfacing_errors():
        return not journal.frame(run.spark, journal.parts()).where(sf.col("outcome").isin(*stays)).isEmpty()


def _left_and_intended(run: Run, journal: Journal, stays: Sequence[str]) -> pa.Table:
    """Return what stays, and what some batch was about to delete without an answer that is written down.

    Returns:
        Columns address, size (bytes) and kept (it is reported as that).
    """

    def count(*outcomes: str) -> Column:
        return sf.count_if(sf.col("outcome").isin(*outcomes))

    with surfacing_errors():
        return (
            journal.frame(run.spark, journal.parts())
            .groupBy("address")
            .agg(
                sf.max("size_bytes").alias("size"),
                (count("kept") > 0).alias("kept"),
                count(*stays).alias("stays"),
                count("deleted", "already_gone").alias("gone"),
                count("intended").alias("sent"),
                count("refused", "unsent").alias("answered"),
            )
            .where("stays > 0 and gone = 0 and sent > answered")
            .select("address", "size", "kept")
            .toArrow()
        )
