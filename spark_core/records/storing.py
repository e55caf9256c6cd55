"""Store a table that is decided: its parts, and after the last of them its manifest.

A table whose writing broke off does not exist, and what earlier attempts left of it goes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import partial
from typing import Any

from spark_core import lakegc_keys
from spark_core.errors import ChainError, ClosedPartitionError, NotFoundError, ObjectExistsError
from spark_core.model import RunKey
from spark_core.records import tables, writing
from spark_core.records.manifest import BY, ENCLOSED, Manifest
from spark_core.records.tables import TableSpec
from spark_core.records.writing import (
    ANYTHING,
    PART,
    Draft,
    Receipt,
    StreamedRows,
    Target,
    Written,
    new_attempt,
    parts_in,
    parts_of,
    remove,
    remove_attempt,
    removed_on_failure,
    summed,
    write_parts,
    write_read,
)
from spark_core.spark.tasks import run_tasks
from spark_core.storage import ObjectStore


def require_open(store: ObjectStore, spec: TableSpec, run: RunKey) -> None:
    """Refuse to make a table of a mark again once the run has a verdict.

    A table on the way to one of those that the verdict names is closed with that one.

    Raises:
        ClosedPartitionError: If the verdict exists.
    """
    is_closed = spec not in (*tables.AFTER_THE_VERDICT, *tables.ON_THE_WAY)
    if is_closed and store.exists(lakegc_keys.verdict_key(run)):
        raise ClosedPartitionError(
            f"run {run} of {store.root} is already marked: it has a verdict, and {spec.name} is "
            "one of the tables that "
            "the verdict speaks of",
            "Use a new run key to mark again.",
        )


def keys_of_table(store: ObjectStore, spec: TableSpec, run: RunKey) -> set[str]:
    """List every key in the folder of a table of a run."""
    return {
        key
        for batch in store.list(tables.folder(spec, run))
        for key in batch.column("key").to_pylist()
    }


def store_table(
    store: ObjectStore,
    draft: Draft,
    *,
    repository: str,
    instance: str,
    run: RunKey,
    now: Callable[[], datetime],
    by: str,
    before: AbstractSet[str] | None,
) -> tuple[Manifest, bool]:
    """Write a draft as Parquet parts and its manifest, and delete the parts of earlier attempts.

    The manifest is put after the last part, so a table whose writing broke off does not exist. This
    holds for the deletion report, too: the journal of its sweep names what is gone, and the report
    can be made again from it.

    Args:
        store: Rooted at the namespace.
        draft: What to store; a source is read here.
        repository: Repository id.
        instance: Which instance of it.
        run: Run key.
        now: Tells the time, to note when the reading ended.
        by: Who runs the run.
        before: The result of `keys_of_table` before; parts that somebody else writes meanwhile are
            left alone. None if the run was not begun by then, as far as the store showed: nobody
            else is expected to store the table.

    Returns:
        The manifest as stored, and whether it was known to be the first one of the run's table.

    Raises:
        ClosedPartitionError: If the run has a verdict.
        ChainError: If somebody else has stored the table, and the draft does not replace that one.
        LakegcError: The error of reading the sources.
    """
    _require_replaceable(store, draft, run)
    where = tables.folder(draft.spec, run)
    attempt = draft.content.attempt if isinstance(draft.content, Written) else new_attempt()
    holds = writing.HELD_BYTES if draft.is_enclosed else 0
    target = Target(store, where, attempt, draft.spec.schema, draft.measure, holds=holds)
    receipts = removed_on_failure(target, lambda: _write(draft, target))
    measured, figures = summed(receipts)
    manifest = Manifest(
        table=draft.spec.name,
        repository=repository,
        instance=instance,
        run=str(run),
        attempt=attempt,
        reading_began=draft.reading_began,
        reading_ended=now(),
        parents={parent.table: parent.sha256 for parent in draft.parents},
        parts=parts_of(receipts),
        facts={**draft.figures(measured, figures).facts(), **_enclosed(draft), BY: by},
        beside=parts_of(draft.content.beside) if isinstance(draft.content, Written) else (),
    )
    try:
        is_first = not draft.is_enclosed and _store_manifest(
            store, draft, run, manifest, is_unused=before is None
        )
    except (ChainError, ClosedPartitionError):
        remove_attempt(store, where, attempt)
        raise
    own = (
        {part.key for part in parts_of(receipts)}
        if _is_all(draft, receipts)
        else parts_in(store, where)
    )
    _remove_unnamed(
        store,
        {key for key in before or () if PART.fullmatch(key.removeprefix(where))},
        own,
        manifest,
    )
    return manifest, is_first


def _remove_unnamed(
    store: ObjectStore, earlier: AbstractSet[str], found: AbstractSet[str], manifest: Manifest
) -> None:
    """Delete the parts of earlier attempts, and those a repeated task left of this attempt."""
    own = {key for key in found if manifest.attempt in key}
    remove(
        store, sorted((earlier | own) - {part.key for part in (*manifest.parts, *manifest.beside)})
    )


def _enclosed(draft: Draft) -> dict[str, Any]:
    found = {manifest.table: manifest.to_json().decode() for manifest in draft.encloses}
    return {ENCLOSED: found} if found else {}


def _store_manifest(
    store: ObjectStore, draft: Draft, run: RunKey, manifest: Manifest, *, is_unused: bool
) -> bool:
    """Put a manifest, and say whether it was known to be the first one."""
    if is_unused and _put_first_manifest(store, draft, run, manifest):
        return True
    require_open(store, draft.spec, run)
    _require_replaceable(store, draft, run)
    _put_manifest(store, draft, run, manifest)
    return False


def _is_all(draft: Draft, receipts: Sequence[Receipt]) -> bool:
    """Say whether nothing else was written for a table.

    An interrupted try of a task may have left parts behind, and so may rows that were written
    again.
    """
    if isinstance(draft.content, Written):
        receipts = (*receipts, *draft.content.beside)
        return draft.content.is_all and all(receipt.by_driver for receipt in receipts)
    return all(receipt.by_driver for receipt in receipts)


def _write(draft: Draft, target: Target) -> Sequence[Receipt]:
    content = draft.content
    match content:
        case Written():
            return content.receipts
        case StreamedRows():
            work = partial(write_read, target, content.read)
            return run_tasks(content.spark, content.tasks, work, rows=content.rows)
        case _:
            return [write_parts(target, 0, iter(content.cast(target.schema).to_batches()))]


def _require_replaceable(store: ObjectStore, draft: Draft, run: RunKey) -> None:
    if draft.replaces == ANYTHING:
        return
    try:
        there = hashlib.sha256(store.read(tables.manifest_key(draft.spec, run))).hexdigest()
    except NotFoundError:
        there = None
    if there != draft.replaces:
        raise _stored_by_another(store, draft, run)


def _put_first_manifest(store: ObjectStore, draft: Draft, run: RunKey, manifest: Manifest) -> bool:
    """Put a manifest if there is none; a run without this table has no verdict, so it is open.

    Returns:
        False if there is another one.
    """
    key, content = tables.manifest_key(draft.spec, run), manifest.to_json()
    try:
        store.put_if_absent(key, content)
    except ObjectExistsError:
        # It is ours if the first answer was lost and the client asked again.
        return store.read(key) == content
    return True


def _put_manifest(store: ObjectStore, draft: Draft, run: RunKey, manifest: Manifest) -> None:
    key, content = tables.manifest_key(draft.spec, run), manifest.to_json()
    if draft.replaces is not None:
        store.put(key, content)
        return
    try:
        store.put_if_absent(key, content)
    except ObjectExistsError as stands:
        # It is ours if the first answer was lost and the client asked again.
        if store.read(key) != content:
            raise _stored_by_another(store, draft, run) from stands


def _stored_by_another(store: ObjectStore, draft: Draft, run: RunKey) -> ChainError:
    return ChainError(
        f"{draft.spec.name} of run {run} of {store.root} was stored by another process while this "
        "one worked; that one "
        "stands, and this one stores none. Look at it with `lakegc report`; where it names what "
        "was not deleted, run the same "
        "command again."
    )
