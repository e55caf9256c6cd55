"""The heads that other runs recorded, and the manifests of table 3 in which they lie."""

from __future__ import annotations

from spark_core.errors import ChainError, CorruptTableError
from spark_core.model import RunKey
from spark_core.records import reading, tables
from spark_core.records.manifest import Manifest
from spark_core.records.reading import StoredTable
from spark_core.references.heads import Heads
from spark_core.run import Run


def last_stored(run: Run) -> Heads | None:
    """Read the heads that the newest other run of the same instance recorded; None if none did.

    A run that cannot be read may have known of a reset.
    """
    try:
        manifest = last_manifest(run)
        return None if manifest is None else Heads.of(manifest)
    except CorruptTableError:
        return Heads(run.now(), {}, is_damaged=True)


def last_manifest(run: Run) -> Manifest | None:
    """Read the manifest of table 3 of the newest other run of the same instance; None if none is.

    The newest run counts, whatever became of it, because heads are recorded as soon as refs are
    read.

    Raises:
        CorruptTableError: If it cannot be read.
    """
    for key in run.earlier or tables.runs(run.store, tables.RETAINED_COMMITS.folder):
        if key == run.key:
            continue
        try:
            manifest = manifest_of(run, key)
            if manifest.instance == run.instance:
                return manifest
        except ChainError:
            continue  # the run did not come so far
    return None


def manifest_of(run: Run, key: RunKey) -> Manifest:
    """Read the manifest of table 3 of another run, once.

    Raises:
        ChainError: If that run did not come so far.
        CorruptTableError: If it cannot be read.
    """
    name = tables.manifest_key(tables.RETAINED_COMMITS, key)
    stored: StoredTable | None = run.documents.get(name)
    if stored is None:
        stored = reading.load_table(run.store, tables.RETAINED_COMMITS, key)
        run.documents[name] = stored
    return stored.manifest
