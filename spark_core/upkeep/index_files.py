"""Which files of the index go: old ones that no run's tables and neither newest document names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from spark_core import lakegc_keys
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import LakegcError
from spark_core.index import saved
from spark_core.model import RunKey
from spark_core.records.manifest import ENCLOSED, Manifest
from spark_core.records.reading import load_table
from spark_core.records.tables import (
    COMMITTED_ADDRESSES,
    NAMESPACE_SLICES,
    TAKEN_RANGES,
    manifest_key,
)
from spark_core.run import Run
from spark_core.storage import ObjectStore
from spark_core.upkeep import manifests
from spark_core.upkeep.house_keeping_result import Pruned
from spark_core.upkeep.own_files import Files

# A mark that is at work has not named yet what it writes of the index.
_AGE = timedelta(days=1)
# Marks hold no lease, so another one may have begun with the index of the run before the last.
_SAVED_RUNS = 2


def unneeded(
    run: Run,
    index: Files,
    files: Mapping[RunKey, Files],
    staying: Sequence[RunKey],
    done: Pruned,
) -> list[str]:
    """Return the files of the index that nobody reads any more.

    It costs a small read or two for each run that stays, where anything may go.

    Args:
        run: The run.
        index: The files of the index.
        files: Those of each run.
        staying: The runs whose tables stay.
        done: Notes why nothing may go: what a run names cannot be read.
    """
    since = run.now() - _AGE - MAX_CLOCK_SKEW
    old = [key for key, at in index.modified.items() if at < since]
    has_saved = (
        key for key in sorted(files, reverse=True) if lakegc_keys.saved_key(key) in files[key].sizes
    )
    named: set[str] = set()
    for key in list(has_saved)[:_SAVED_RUNS] if old else ():
        try:
            named.update(part.key for part in saved.load(run.store, key).files)
        except LakegcError as unreadable:
            done.index_kept = _unknown(key, unreadable)
            return []
    for key in staying if not named.issuperset(old) else ():
        try:
            named.update(_named_by_tables(run.store, key, files[key]))
        except LakegcError as unreadable:
            done.index_kept = _unknown(key, unreadable)
            return []
    return [key for key in old if key not in named]


def _unknown(key: RunKey, unreadable: LakegcError) -> str:
    return f"which of its files run {key} names is not known: {unreadable.found}"


def _named_by_tables(store: ObjectStore, key: RunKey, files: Files) -> Iterator[str]:
    """Yield the files that tables 1 and 4 of a run name.

    Files are merged while a mark is saved, so its tables may name others than its document.

    Raises:
        LakegcError: If what one of them names cannot be read.
    """
    for manifest in _taking(store, key, files):
        for part in (*manifest.parts, *manifest.beside):
            yield part.key
            if part.without is not None:
                yield part.without.key


def _taking(store: ObjectStore, key: RunKey, files: Files) -> Iterator[Manifest]:
    """Yield the manifests of a run that may name files of the index."""
    if manifests.is_there(NAMESPACE_SLICES, key, files.sizes):
        yield load_table(store, NAMESPACE_SLICES, key).manifest
    if manifests.is_there(COMMITTED_ADDRESSES, key, files.sizes):
        around = load_table(store, COMMITTED_ADDRESSES, key)
        is_enclosed = TAKEN_RANGES.name in around.manifest.facts.get(ENCLOSED, {})
        # A clean run takes no ranges.
        if is_enclosed or manifest_key(TAKEN_RANGES, key) in files.sizes:
            yield load_table(store, TAKEN_RANGES, key, around=around).manifest
