"""Write a mark as lakeFS's own job does, so that the job can sweep what lakegc found.

The job deletes such a list without looking again, however old it is. Let the job sweep a written
mark soon, and delete the mark after that.

References:
    lakefs-facts 6.6, 12.3; lakeFS Spark client 0.22.0 `GarbageCollection.scala`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import BinaryIO
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_core import schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH, with_address_hash
from spark_core.addresses.namespace import Namespace
from spark_core.checks import sweepable
from spark_core.errors import IncompleteReadError, ObjectExistsError, UnsafePlanError
from spark_core.records import tables
from spark_core.records.figures import StagedFigures
from spark_core.records.reading import StoredTable
from spark_core.records.rows_aside import place_of
from spark_core.records.verdict_document import Verdict
from spark_core.reference_job import marks
from spark_core.reference_job.marks import ADDRESSES, SUCCESS, SUMMARY
from spark_core.reference_job.summary import Summary
from spark_core.references import policy_rows
from spark_core.references.policy_rows import PolicyRows
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, no_rows
from spark_core.storage import ObjectStore

_FOLDERS = ("deleted", "deleted.text")
_ADDRESSES = pa.schema([ADDRESS_HASH, schemas.EXPIRED_ADDRESSES.field("address")])
_ROWS_AT_ONCE = 20_000


def write_if_asked(run: Run, found: Verdict) -> str | None:
    """Write the mark of a run for the reference job, if the settings ask and the verdict passed.

    Args:
        run: The run.
        found: Its verdict.

    Returns:
        The id under which the reference job finds it; None when nothing was written.

    Raises:
        ObjectExistsError: If another mark lies there.
    """
    if not run.options.write_reference_mark or not found.passed:
        return None
    return write(run)


def write(run: Run) -> str:
    """Write the mark of a run under `unified/`, its summary last; a second write changes nothing.

    The verdict is read and every check made again, as before a sweep: the job deletes what is
    written here without looking again.

    Args:
        run: The run; its verdict must have passed.

    Returns:
        The id of the mark. It is the id of the server's scan of staged entries, as in the reference
        job.

    Raises:
        VerdictError: If the stored verdict does not allow a sweep.
        ObjectExistsError: If another mark lies there.
        UnsafePlanError: If not every address was written.
    """
    _, expired = sweepable.require_sweepable(run)
    by_policy = policy_rows.of_plan(run, expired)
    going = expired.manifest.rows - (0 if by_policy is None else by_policy.objects_of(expired))
    slices = run.load(tables.NAMESPACE_SLICES)
    own = mark_id(run)
    target = _Target(run.store, marks.folder(own), str(UUID(expired.manifest.sha256[:32])))
    summary = Summary(
        run_id=own,
        success=True,
        first_slice=_first_slice(run, slices),
        start_time=_instant(slices.manifest.reading_began),
        cutoff_time=_instant(run.cutoff),
        num_deleted_objects=going,
    )
    if _is_there(run, target, summary):
        return summary.run_id
    _clear_own_leftovers(run, target)
    _write_addresses(run, target, expired, by_policy, going)
    for folder in _FOLDERS:
        run.store.put(f"{target.where}{folder}/{SUCCESS}", b"")
    try:
        run.store.put_if_absent(f"{target.where}{SUMMARY}", summary.to_json())
    except ObjectExistsError:
        if not _is_there(run, target, summary):
            raise _other_mark(run, target) from None
    return summary.run_id


def mark_id(run: Run) -> str:
    """Return the id under which the reference job finds, or would find, the mark of a run.

    It is the id of the server's last scan.

    Raises:
        IncompleteReadError: If no scan came to its end.
    """
    scans = StagedFigures.of(run.load(tables.UNCOMMITTED_ADDRESSES).manifest).server_runs
    if not scans:
        raise IncompleteReadError(
            f"run {run.key} of repository {run.repository.id} has no scan of the server by which "
            "the reference job could name its mark: a branch was deleted under each, and lakegc's "
            "own mark stands. Mark again under a new run key."
        )
    return scans[-1]


@dataclass(frozen=True)
class _Target:
    """Where an executor writes; a second try of the run writes to the same names as its first."""

    store: ObjectStore
    where: str
    unique: str

    def key(self, folder: str, number: int) -> str:
        ending = "snappy.parquet" if folder == "deleted" else "txt"
        return f"{self.where}{folder}/part-{number:05d}-{self.unique}-c000.{ending}"


def _is_there(run: Run, target: _Target, summary: Summary) -> bool:
    """Say whether this very mark was finished before.

    Raises:
        ObjectExistsError: If another mark was.
    """
    key = f"{target.where}{SUMMARY}"
    if not run.store.exists(key):
        return False
    if run.store.read(key) != summary.to_json():
        raise _other_mark(run, target)
    return True


def _other_mark(run: Run, target: _Target) -> ObjectExistsError:
    return ObjectExistsError(
        f"{run.store.root}{target.where} holds another mark of the reference job, which is never "
        "overwritten, and lakegc's own mark stands. Mark again under a new run key to have it "
        "written under another id."
    )


def _clear_own_leftovers(run: Run, target: _Target) -> None:
    """Delete what a broken-off attempt of this run left; anything else there belongs to another.

    Raises:
        ObjectExistsError: If there is something that is not this run's.
    """
    own = re.compile(
        rf"{re.escape(target.where)}(?:deleted|deleted\.text)/"
        rf"(?:{SUCCESS}|part-\d{{5}}-{target.unique}-c000\.(?:snappy\.parquet|txt))"
    )
    found = [
        key for batch in run.store.list(target.where) for key in batch.column("key").to_pylist()
    ]
    if any(not own.fullmatch(key) for key in found):
        raise _other_mark(run, target)
    if found:
        run.store.delete(found)


def _write_addresses(
    run: Run, target: _Target, expired: StoredTable, by_policy: PolicyRows | None, going: int
) -> None:
    """Write what may go, except what only a retention policy names: entries lead to that."""
    written = 0
    if going:
        sources: dict[str, AnySource] = {
            "expired": expired.source(["address"]).through(_ADDRESSES, with_address_hash),
            "by_policy": no_rows(_ADDRESSES)
            if by_policy is None
            else by_policy.source(run).through(_ADDRESSES, _addresses),
        }
        # Without its summary, what a failure leaves is no mark. The next attempt deletes it.
        exchange = Exchange(sources, _without_policy, ADDRESSES, partial(_write_part, target))
        _, counts = exchange.run(lambda: run.spark, threads=run.options.read_threads)
        written = sum(counts)
    else:
        # Spark also writes one file without rows, so that a reader finds the column.
        _write_part(target, 0, ADDRESSES.empty_table())
    if written != going:
        raise UnsafePlanError(
            f"{written} of {going} addresses of run {run.key} were written under "
            f"{run.store.root}{target.where}; without its summary no job takes that for a mark",
            "Run again.",
        )


def _without_policy(bucket: Mapping[str, pa.Table]) -> Sent[None]:
    expired, by_policy = bucket["expired"], bucket["by_policy"]["address"].combine_chunks()
    going = expired.filter(pc.invert(pc.is_in(expired["address"], value_set=by_policy)))
    return Sent(None, {place_of(going): going.select(["address"])} if going.num_rows else {})


def _addresses(batches: Batches) -> Batches:
    yield from with_address_hash(batch.select(["address"]) for batch in batches)


def _write_part(target: _Target, number: int, rows: pa.Table) -> int:
    """Write one part in both forms at once; return its rows."""
    with ExitStack() as stack:
        binary: BinaryIO = stack.enter_context(
            target.store.open_sink(target.key("deleted", number))
        )
        text: BinaryIO = stack.enter_context(
            target.store.open_sink(target.key("deleted.text", number))
        )
        # The oldest Spark that the job runs on reads Snappy without native libraries, and reads no
        # newer encodings.
        parquet = stack.enter_context(
            pq.ParquetWriter(binary, ADDRESSES, compression="snappy", version="1.0")
        )
        batches = rows.to_batches(max_chunksize=_ROWS_AT_ONCE)
        return sum(_append(parquet, text, target.store.namespace, batch) for batch in batches)


def require_taken_literally(namespace: Namespace, addresses: pa.StringArray) -> None:
    """Refuse an address that the reference job would take for another one.

    In Azure the job puts addresses into URLs as they are: the service reads `a%20b` as `a b`, and
    `a?b` as `a`.

    Raises:
        UnsafePlanError: Naming the address.
    """
    if namespace.kind != "azure":
        return
    strange = addresses.filter(pc.match_substring_regex(addresses, "[%?#]"))
    if len(strange):
        raise UnsafePlanError(
            f"{strange[0].as_py()!r} of {namespace.root} is among what may go, and in Azure the "
            "reference job would take it for another object, which may be alive; the mark was not "
            "written for that job",
            "Sweep it with lakegc, which names it exactly, or take out write_reference_mark.",
        )


def _append(
    parquet: pq.ParquetWriter, text: BinaryIO, namespace: Namespace, batch: pa.RecordBatch
) -> int:
    addresses = batch.column("address").cast(pa.string())
    require_taken_literally(namespace, addresses)
    if batch.num_rows:
        parquet.write_batch(pa.record_batch([addresses], schema=ADDRESSES))
        text.write("".join(f"{address}\n" for address in addresses.to_pylist()).encode())
    return int(batch.num_rows)


def _first_slice(run: Run, slices: StoredTable) -> str:
    least = slices.source(["slice"]).each(lambda: run.spark, _least_slice)
    return min((name for name in least if name), default="")


def _least_slice(batches: Batches) -> str:
    least = (pc.min(batch["slice"].filter(pc.not_equal(batch["slice"], ""))) for batch in batches)
    return min((name.as_py() for name in least if name.is_valid), default="")


def _instant(instant: datetime) -> str:
    return f"{instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
