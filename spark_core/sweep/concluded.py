"""What of a plan needs nothing more, by the journal: read once, whichever process wrote it."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from spark_core import schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH
from spark_core.records import rows_aside
from spark_core.records.journal import Journal
from spark_core.records.writing import Receipt, write_parts
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches
from spark_core.sweep.deletion_report import are_finished

CONCLUDED = pa.schema([ADDRESS_HASH, schemas.JOURNAL.field("address")])


class Concluded:
    """What of a plan needs nothing more, from the journal; each part of it is read once.

    A round costs a listing of the journal's names, and the journal's parts since the round before,
    whichever process wrote them.

    Args:
        run: The run.
        journal: Journal, bound to the plan.
        sweep: Id of this process.
    """

    def __init__(self, run: Run, journal: Journal, sweep: str) -> None:
        self._run, self._journal, self._sweep = run, journal, sweep
        self._target = rows_aside.target_of(run.store, run.key, CONCLUDED)
        self._parts: set[str] = set()
        self._read: list[Receipt] = []
        self.rows = 0

    def read(self) -> AnySource:
        """Return the objects: columns of `CONCLUDED`; duplicates allowed."""
        outcomes = [part for part in self._journal.parts() if part.kind == "outcome"]
        new = [part for part in outcomes if part.key not in self._parts]
        rows = self._journal.source(new).through(CONCLUDED, partial(_finished, self._sweep))
        self._read += rows.each(lambda: self._run.spark, partial(write_parts, self._target, 0))
        self._parts.update(part.key for part in new)
        self.rows += rows.rows
        return rows_aside.source_of(self._run.store, CONCLUDED, self._read)

    def release(self) -> None:
        """Remove what was put aside."""
        rows_aside.remove(self._target, self._read)


def _finished(sweep: str, batches: Batches) -> Batches:
    for batch in batches:
        yield batch.filter(are_finished(batch, sweep)).select(CONCLUDED.names)
