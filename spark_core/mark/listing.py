"""Table 1: list the objects of a namespace slice by slice, and take closed ones from the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from spark_core.addresses.candidates import Limits
from spark_core.index.choosing import MOST_OPEN, Clean, Index, choose, tells_time
from spark_core.index.taken_slices import Taken, take
from spark_core.mark import inventory
from spark_core.mark.listed_rows import OPEN, add_standings, measure
from spark_core.mark.listed_slices import DATA, ListingTargets, name_of_slice, write_slices
from spark_core.records import tables
from spark_core.records.figures import IndexFigures, ListedFigures, PreflightFigures
from spark_core.records.writing import Draft, Receipt, StreamedRows, Written
from spark_core.run import Run, preflight
from spark_core.storage import ObjectStore
from spark_core.storage.classes import as_measured, taken_apart
from spark_core.storage.inventory import InventoryFile


def namespace_slices(run: Run) -> Draft:
    """List every object under `data/` with its size and age, or take it from the index.

    Every object is kept, old or young, because later steps compare the live addresses with the
    whole listing. The cutoff is fixed, so each object's standing by name and age is recorded at
    once. A slice is one direct child of `data/`. It bounds a unit of parallelism without assuming
    how deep sharded names go.

    Slices that are old by their names are written into the index, as files of the table.

    Args:
        run: The run.

    Returns:
        Columns of `schemas.NAMESPACE_SLICES`, key address.

    Raises:
        RepositoryStateError: If the repository's state forbids collecting it.
        IncompleteReadError: If the listing cannot be trusted to be whole.
    """
    began = run.begin(tables.NAMESPACE_SLICES)
    answers = preflight(run)
    chosen = choose(run)
    if run.options.inventory:
        return _of_inventory(run, began, answers, chosen)
    there, direct = run.store.children(DATA)
    chosen, taken = _from_index(run, chosen, there)
    slices = [name for name in there if name_of_slice(name) not in taken.slices]
    asked = Counter(run.store.requests)
    targets = ListingTargets.of(run, answers, began, chosen)
    receipts = targets.removed_on_failure(lambda: write_slices(run, targets, slices, direct))

    def figures(measured: Mapping[str, Any], counted: Counter[str]) -> ListedFigures:
        requests = dict(counted + asked)
        classes, measured = taken_apart(measured)
        found = {name: count for name, count in measured.items() if not name.startswith(OPEN)}
        opened = sorted(name.removeprefix(OPEN) for name in measured if name.startswith(OPEN))
        are_few = len(opened) <= MOST_OPEN
        return ListedFigures(
            **vars(answers),
            slices=len(there),
            last_slice=min(filter(tells_time, map(name_of_slice, there)), default=None),
            requests=requests,
            open_slices=tuple(opened) if are_few else None,
            closed_before=(targets.closed_before or None) if are_few else None,
            by_class=classes or None,
            **_of_index(chosen, taken),
            **found,
        )

    return Draft(
        tables.NAMESPACE_SLICES,
        Written(targets.table.attempt, [*receipts, _receipt(taken)], is_all=True),
        began,
        parents=(),
        figures=figures,
    )


def _from_index(
    run: Run, chosen: Index | Clean, there: Sequence[str]
) -> tuple[Index | Clean, Taken]:
    """Take closed slices from the index; if that fails, the run is a clean one."""
    if isinstance(chosen, Clean):
        return chosen, Taken()
    taken = take(run, chosen, [name_of_slice(prefix) for prefix in there])
    return (taken, Taken()) if isinstance(taken, Clean) else (chosen, taken)


def _receipt(taken: Taken) -> Receipt:
    """Count what was taken as what was listed is counted.

    A slice in which an object was too young, or had a name that is never collected, is not taken.
    """
    objects, size_bytes = taken.objects, taken.size_bytes
    measured = {
        "objects": objects,
        "object_bytes": size_bytes,
        "old_objects": objects,
        "old_bytes": size_bytes,
        **as_measured(taken.by_class),
    }
    return Receipt(taken.parts, measured)


def _of_inventory(
    run: Run, began: datetime, answers: PreflightFigures, chosen: Index | Clean
) -> Draft:
    """Take the listing from an S3 Inventory; no prefix of the store is listed.

    It saw no slice whole, so slices are neither taken from the index nor written there.
    """
    found = inventory.find(run, began)
    of_index = _of_index(
        replace(chosen, listed_since=0) if isinstance(chosen, Index) else chosen, Taken()
    )

    def figures(measured: Mapping[str, Any], counted: Counter[str]) -> ListedFigures:
        said = found.figures(counted)
        classes, measured = taken_apart(measured)
        return ListedFigures(
            **vars(answers),
            requests=dict(counted + found.requests),
            inventory=said,
            by_class=classes or None,
            **of_index,
            **measured,
        )

    return Draft(
        tables.NAMESPACE_SLICES,
        StreamedRows(
            lambda: run.spark,
            found.tasks,
            partial(_read_inventory, run.store, found.limits, found),
            found.rows,
        ),
        began,
        parents=(),
        figures=figures,
        measure=partial(measure, found.limits.cutoff, answers.table_prefix, run.store.unsafe_names),
    )


def _read_inventory(
    store: ObjectStore,
    limits: Limits,
    found: inventory.FitInventory,
    task: Sequence[InventoryFile],
    figures: Counter[str],
) -> Iterator[pa.RecordBatch]:
    for batch in found.read(task, figures):
        yield add_standings(batch, store, limits)


def _of_index(chosen: Index | Clean, taken: Taken) -> dict[str, Any]:
    """Say what was taken from which index, or why nothing was."""
    if isinstance(chosen, Clean):
        return {"why_full": chosen.why or None, "blocked_by": chosen.blocked_by or None}
    return {
        "index": IndexFigures(
            run=chosen.saved.run,
            saved=chosen.saved.digest,
            listed_since=chosen.listed_since,
            open_slices=chosen.saved.open_slices,
            slices=len(taken.slices),
            objects=taken.objects,
            bytes=taken.size_bytes,
            gone_objects=taken.gone_objects,
        )
    }
