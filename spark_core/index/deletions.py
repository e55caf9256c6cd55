"""What was deleted since the last clean run, whose listing the index still shows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np

from spark_core.addresses.address_hashes import hashed, sorted_once
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import UnsafePlanError
from spark_core.index.choosing import MARK_CLEAN
from spark_core.index.saved import Saved
from spark_core.model import RunKey
from spark_core.plain_text import counted
from spark_core.records import reading, tables
from spark_core.records.reading import StoredTable
from spark_core.records.swept import beside_the_report, deleted_by, journal_rows
from spark_core.run import Run
from spark_core.spark import placement


def deleted_since(run: Run, saved: Saved) -> Any:
    """Return the hashes of what sweeps deleted since the last clean run: sorted, each once.

    A run that is older may have been swept after the clean one had listed the store. What was gone
    before is not in the index, or came back.

    It costs two requests for each run since, and for each that may be swept for its age.

    Args:
        run: The run.
        saved: What names the last clean run.

    Raises:
        LakegcError: If it cannot be told.
        UnsafePlanError: If they are more than the driver holds.
    """
    found, count = [np.empty(0, np.int64)], 0
    for key, listed in _swept_since(run, saved):
        for addresses in deleted_by(run.store, key, run.documents, since=listed):
            found.append(hashed(addresses).to_numpy())
            count += len(addresses)
            if count > placement.MOST_ROWS_OF_THE_DRIVER:
                raise UnsafePlanError(
                    f"more than {placement.MOST_ROWS_OF_THE_DRIVER:,} objects were deleted since "
                    f"run {saved.clean}",
                    MARK_CLEAN,
                )
    return sorted_once(np.concatenate(found))


def unanswered_since(run: Run, saved: Saved) -> str:
    """Say that a sweep since the last clean run did not write down what became of some objects.

    It was killed, and nobody went on with it: whether the store has the objects, nobody knows but
    the store. It costs a request for each run since, as `deleted_since` needs, and reads the
    journals of sweeps without a report, or whose report left objects.

    Args:
        run: The run.
        saved: What names the last clean run.

    Raises:
        LakegcError: If it cannot be told.
    """
    for key, listed in _swept_since(run, saved):
        journal, parts = beside_the_report(run.store, key, run.documents)
        intended = {
            address
            for addresses, _, at in journal_rows(journal, parts, "intent")
            for address, when in zip(addresses.to_pylist(), at.to_pylist(), strict=True)
            if listed is None or when >= listed
        }
        for addresses, _, _ in journal_rows(journal, parts, "outcome") if intended else ():
            intended.difference_update(addresses.to_pylist())
        if intended:
            return (
                f"the sweep of run {key} did not end, and what became of "
                f"{counted(len(intended), 'object')} is not known"
            )
    return ""


def _swept_since(run: Run, saved: Saved) -> Iterator[tuple[RunKey, datetime | None]]:
    """Yield the runs that may have been swept since the last clean run.

    With those that are older comes when that one listed the store.
    """
    clean = RunKey.parse(saved.clean)
    oldest = RunKey.at(clean.instant - run.options.max_mark_age)
    for key in run.earlier or tables.runs(run.store, tables.NAMESPACE_SLICES.folder):
        if oldest <= key < run.key:
            yield key, None if key >= clean else _listing_began(run, clean)


def _listing_began(run: Run, key: RunKey) -> datetime:
    """Return when a run began to list the store, as far as clocks agree."""
    where = tables.manifest_key(tables.NAMESPACE_SLICES, key)
    if where not in run.documents:
        run.documents[where] = reading.load_table(run.store, tables.NAMESPACE_SLICES, key)
    found: StoredTable = run.documents[where]
    return found.manifest.reading_began - MAX_CLOCK_SKEW
