"""What is staged now: the hashes of the entries, in those parts that a look reads again.

`references.parts_of_look` says which parts these are, and why that is safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa

from spark_core.addresses.address_hashes import ADDRESS_HASH
from spark_core.errors import IncompleteReadError
from spark_core.records import rows_aside
from spark_core.records.figures import StagedReadFigures
from spark_core.records.writing import Receipt, parts_of, summed, write_read
from spark_core.references.parts_of_look import LookParts
from spark_core.references.uncommitted_addresses import read_staged
from spark_core.run import Run
from spark_core.spark.tasks import run_tasks

HASHES = pa.schema([ADDRESS_HASH])


@dataclass(frozen=True)
class StagedNow:
    """Staged entries, in the parts that were read.

    Attributes:
        receipts: Their hashes (address_hash), put aside.
        figures: Figures for the report.
    """

    receipts: Sequence[Receipt]
    figures: StagedReadFigures

    @property
    def readings(self) -> int:
        """How often each entry was read: by each scan of the server, and in its branch's diff."""
        return 1 + len(set(self.figures.server_runs))


def read_staged_parts(
    run: Run,
    prefix: str,
    parts: LookParts,
    held: ExitStack,
    *,
    began: datetime,
    budget: timedelta | None,
) -> list[StagedNow]:
    """Read the staged parts that are due.

    Args:
        run: The run.
        prefix: Where the server keeps its tables.
        parts: When each part was read.
        held: Removes what is set aside.
        began: Start of the look.
        budget: For how long to begin parts that were read before; None for no limit.

    Raises:
        IncompleteReadError: If a part could not be read to its end.
    """
    parts.turn(budget)
    staged = [_read(run, prefix, parts, held)]
    if run.now() - began > parts.quick:
        # Meanwhile the first branches' diffs have become old: those that are quick to read are
        # read once more.
        parts.turn(parts.quick, least_age=parts.quick)
        staged.append(_read(run, prefix, parts, held))
    return staged


def _read(run: Run, prefix: str, parts: LookParts, held: ExitStack) -> StagedNow:
    """Read the staged parts that are due, to their ends; `held` removes what is set aside."""
    staged = read_staged(run, prefix, parts)
    held.callback(staged.close)
    target = rows_aside.target_of(run.store, run.key, HASHES)
    receipts = run_tasks(
        lambda: run.spark,
        staged.tasks,
        partial(write_read, target, staged.read),
        rows=staged.rows,
    )
    held.callback(rows_aside.remove, target, receipts)
    rows = sum(part.rows for part in parts_of(receipts))
    figures = staged.figures(summed(receipts)[1])
    return StagedNow(receipts, _require_all(run, figures, rows))


def _require_all(run: Run, read: StagedReadFigures, rows: int) -> StagedReadFigures:
    """Return the figures of the staged entries, which must have been read to their end.

    This is the counterpart of the check `uncommitted_was_read_whole`.

    Raises:
        IncompleteReadError: If another number of rows is held than the files and the diffs have.
    """
    if (read.files_read, rows) != (read.files, read.file_rows + read.from_diffs):
        raise IncompleteReadError(
            f"repository {run.repository.id}: of what is staged, read again just before deleting, "
            f"{read.files_read} of {read.files} files with {read.file_rows} rows and "
            f"{read.from_diffs} rows of diffs were read, of which {rows} are held",
            "Run the same command again; if it stays, report it with this text.",
        )
    return read
