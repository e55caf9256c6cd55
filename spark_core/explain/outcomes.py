"""What the sweep of a run did with objects, and whether one takes what its mark let go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys
from spark_core.addresses.address_hashes import hashed
from spark_core.checks import confirming, verdict
from spark_core.errors import VerdictError
from spark_core.explain.explanation import Reason, State
from spark_core.explain.stored_rows import rows_of
from spark_core.index.deletions import beside_the_report
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.journal import ROWS, Journal
from spark_core.references.expired_entries import UNREADABLE
from spark_core.report.undo import undo_words
from spark_core.run import Run
from spark_core.spark.exchange import Batches
from spark_core.sweep.outcomes import PLANNED, report

_GONE = ("deleted", "already_gone")


@dataclass(frozen=True)
class Outcome:
    """What a sweep did with an object.

    Attributes:
        state: Of the object since then.
        why: Why the mark let it go, in few words.
        reasons: What was done, and the way back.
    """

    state: State
    why: str
    reasons: tuple[Reason, ...]


def outcomes_of(run: Run, addresses: Sequence[str]) -> dict[str, Outcome]:
    """Say what a run's sweep did with objects, by address; nothing if it did nothing."""
    return {address: _outcome(run, row) for address, row in _told(run, addresses).items()}


def swept_runs(run: Run) -> list[RunKey]:
    """Return the runs that a sweep wrote something of, newest first."""
    folders = (tables.DELETION_REPORT.folder, lakegc_keys.JOURNAL)
    found = {key for folder in folders for key in tables.runs(run.store, folder)}
    return sorted(found, reverse=True)


def _told(run: Run, addresses: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what the sweep of a run wrote down of objects: columns of `schemas.DELETION_REPORT`.

    That is the report, and what is gone by a journal that no report sums up.
    """
    told = {}
    if run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        told = rows_of(run, tables.DELETION_REPORT, addresses)
    # Another process may have gone on since this one asked.
    journal, parts = beside_the_report(replace(run, documents={}), run.key)
    if parts:
        asked = pa.array(addresses, pa.string())
        rows = pa.concat_tables(
            journal.source(parts).each(lambda: run.spark, partial(_rows_about, asked))
        )
        known = report(_planned(run, asked), rows).to_pylist()
        told |= {row["address"]: row for row in known if row["outcome"] in _GONE}
    return told


def _rows_about(addresses: pa.Array, batches: Batches) -> pa.Table:
    found = (batch.filter(pc.is_in(batch.column("address"), addresses)) for batch in batches)
    return pa.Table.from_batches(found, ROWS)


def _planned(run: Run, asked: pa.Array) -> pa.Table:
    """Return what the mark said of objects, columns of `PLANNED`; a pruned table says nothing."""
    rows: dict[str, dict[str, Any]] = {}
    with suppress(*UNREADABLE):
        rows = rows_of(run, tables.EXPIRED_ADDRESSES, asked.to_pylist())
    unknown = {"size_bytes": 0, "reason": ""}
    said = [rows.get(address, unknown) for address in asked.to_pylist()]
    columns = [[row[name] for row in said] for name in unknown]
    return pa.table([hashed(asked), asked, *columns], PLANNED)


def _outcome(run: Run, row: Mapping[str, Any]) -> Outcome:
    why = row["reason"]
    if row["outcome"] not in _GONE:
        text = f"the sweep of run {run.key} left it: {row['outcome']}, {row['error']}"
        return Outcome("kept", why, (Reason("sweep", text),))
    is_deleted = row["outcome"] == "deleted"
    gone = (
        f"run {run.key} deleted it at {row['deleted_at']:%Y-%m-%d %H:%M:%S} UTC"
        if is_deleted
        else f"run {run.key} found it gone already"
    )
    if run.store.exists(row["address"]):
        text = f"{gone}, and it is in the store again: it was restored"
        return Outcome("kept", why, (Reason("sweep", text),))
    if not is_deleted:
        text = f"{gone}, so a restore of that run does not bring it back"
        return Outcome("gone", why, (Reason("sweep", text),))
    proof = f"The checks before it are in {run.store.root}{lakegc_keys.verdict_key(run.key)}."
    texts = (gone, proof, _way_back(run))
    return Outcome("deleted", why, tuple(Reason("sweep", text) for text in texts))


def _way_back(run: Run) -> str:
    command = f"`lakegc restore {run.repository.id} {run.key} --dry-run`"
    if not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        return f"The sweep has not ended: {command} shows whether it can bring it back."
    return undo_words(run, run.load(tables.DELETION_REPORT).manifest) or (
        "Only what the store itself keeps (versions, soft delete) can bring it back: "
        f"{command} shows whether it can."
    )


def whether_a_sweep_takes_it(run: Run) -> list[Reason]:
    """Say whether the checks let the mark be swept."""
    try:
        found = verdict.load(run)
    except VerdictError:
        return [Reason("sweep", "the mark was not checked yet, so no sweep takes it")]
    confirmed = confirming.confirmed_checks(run, found)
    names = ", ".join(check["name"] for check in found.failed if check["name"] not in confirmed)
    begun = Journal(run.store, str(run.key), run.load(tables.EXPIRED_ADDRESSES).manifest.sha256)
    if names:
        return [Reason("sweep", f"the mark is refused by {names}, so no sweep takes it")]
    if begun.parts() and not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        return [Reason("sweep", "a sweep of the mark was begun and has not ended")]
    words = (
        "every check of the mark passed" if found.passed else "what the checks found is confirmed"
    )
    return [Reason("sweep", words)]
