"""Fates by answers: what may go waits until branches have answered, and is decided about again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import are_among, place_among
from spark_core.addresses.candidates import Limits
from spark_core.errors import IncompleteReadError
from spark_core.fates import Fate
from spark_core.fates.deciding import CODES, MAY_GO, fate
from spark_core.mark.compared import DUE, columns_of, known_by
from spark_core.mark.expired_sums import SUMMED
from spark_core.mark.fate_rows import VALUES, WAITING, Decided, FateTargets, rows_of_fates
from spark_core.records import reading, writing
from spark_core.records.manifest import Part
from spark_core.references.twins import OBJECTS
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches
from spark_core.spark.tasks import run_tasks
from spark_core.storage import ObjectStore


@dataclass(frozen=True)
class Answers:
    """What branches said of the objects that wait.

    Attributes:
        read: Hashes of those that a branch answers from, sorted.
        paths: A path for each of `read`.
        unanswered: Hashes of those that may hide where nobody could be asked, sorted.
    """

    read: Any
    paths: pa.StringArray
    unanswered: Any


def fates_of_waiting(waiting: pa.RecordBatch, *, is_left: bool) -> Any:
    """Decide about objects that wait, as far as branches need not be asked; numbers of fates.

    Args:
        waiting: Columns of `WAITING`.
        is_left: Whether what nothing reaches is left to another run.
    """
    alone, bits = (waiting.column(name).to_numpy() for name in ("alone", "bits"))
    return fate(known_by(alone, bits, is_left=is_left))


def source_of_waiting(run: Run, decided: Decided) -> AnySource:
    """Return the objects that wait for the answers of branches: columns of `twins.OBJECTS`.

    What a policy takes can be linked from where it is seen at any time, however old it is.
    """
    wanted = columns_of(WAITING, *OBJECTS.names, "bits")
    waiting = reading.source_of_parts(run.store, wanted, decided.waiting_parts)
    return waiting.through(OBJECTS, partial(_as_objects, run.now()))


def _as_objects(now: datetime, batches: Batches) -> Batches:
    for batch in batches:
        is_due = pa.array(batch.column("bits").to_numpy() & DUE != 0)
        modified = pc.if_else(
            is_due, pa.scalar(now, schemas.INSTANT), batch.column("last_modified")
        )
        yield pa.record_batch(
            [batch.column("address"), batch.column("size_bytes"), modified], schema=OBJECTS
        )


def decide_waiting(run: Run, decided: Decided, answers: Answers, targets: FateTargets) -> Decided:
    """Decide about the objects that waited for the answers of branches, and write table 5.

    It costs one pass over these objects.

    Args:
        run: The run.
        decided: The decision before.
        answers: What branches said.
        targets: As for `fates.decide`.

    Returns:
        The whole decision; nothing waits any more.
    """
    parts = decided.waiting_parts
    work = partial(_conclude, _Asked(run.store, targets, answers, run.key.instant, run.limits))
    before, rows = sum(decided.objects.values()), sum(part.rows for part in parts)
    concluded = replace(decided, waiting=[])
    for receipt in run_tasks(lambda: run.spark, reading.join_small_parts(parts), work, rows=rows):
        concluded.merge(receipt)
    came = sum(concluded.objects.values())
    if came != before + rows:
        raise IncompleteReadError(
            f"repository {run.repository.id}: {came} of {before + rows} objects have a fate after "
            "branches answered",
            "Run again; if it stays, report it with this text and Spark's version.",
        )
    run.store.delete([part.key for part in parts if not part.content])
    return concluded


@dataclass(frozen=True)
class _Asked:
    """What tasks are told once branches have answered; as in `FateOrders` and for `conclude`."""

    store: ObjectStore
    targets: FateTargets
    answers: Answers
    instant: datetime
    limits: Limits


def _conclude(asked: _Asked, number: int, parts: Sequence[Part]) -> Decided:
    """Decide about the objects of some files; runs on an executor."""
    decided, fates = Decided(), list[pa.RecordBatch]()

    def going() -> Iterator[pa.RecordBatch]:
        for part in parts:
            for batch in reading.read_part(asked.store, WAITING, part):
                found, expired, taken = _answered(asked.answers, batch)
                fates.append(found)
                decided.sums.add(expired, asked.instant, asked.limits)
                if taken.num_rows:
                    decided.taken.add(taken, asked.instant, asked.limits)
                yield expired.select(schemas.EXPIRED_ADDRESSES.names)

    decided.expired.append(writing.write_parts(asked.targets.expired, number, going()))
    for rows in fates:
        codes = pc.index_in(rows.column("fate"), VALUES).to_numpy()
        decided.count(codes, rows.column("size_bytes").to_numpy())
    decided.fates.append(writing.write_parts(asked.targets.fates, number, iter(fates)))
    return decided


def _answered(
    answers: Answers, waiting: pa.RecordBatch
) -> tuple[pa.RecordBatch, pa.RecordBatch, pa.RecordBatch]:
    """Decide with the answers of branches.

    Returns:
        The fates; what may go; and what of it a policy takes: columns of `SUMMED`.
    """
    hashes, alone, bits, sizes = (
        waiting.column(name).to_numpy() for name in ("address_hash", "alone", "bits", "size_bytes")
    )
    at = place_among(hashes, answers.read)
    is_read = at < len(answers.read)
    known = replace(
        known_by(alone, bits, is_left=False),
        is_read=is_read,
        may_hide=are_among(hashes, answers.unanswered),
    )
    codes = fate(known)
    may_go, is_taken = np.isin(codes, MAY_GO), codes == CODES[Fate.TAKEN_BY_POLICY]
    why = pc.if_else(pa.array(may_go), waiting.column("reason"), None)
    paths = answers.paths.take(pa.array(at, mask=codes != CODES[Fate.READ_BY_BRANCH]))
    shown = pc.binary_join_element_wise(Fate.READ_BY_BRANCH.sentence, paths, ": ")
    fates = rows_of_fates(
        hashes,
        codes,
        sizes,
        why=pc.coalesce(why, shown),
        addresses=waiting.column("address"),
    )
    rows = waiting.select(SUMMED.names)
    return fates, rows.filter(pa.array(may_go)), rows.filter(pa.array(is_taken))
