"""List lakegc's own files in a namespace: those of each run, those of the index."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from spark_core import lakegc_keys
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.swept import quarantined_runs
from spark_core.records.tables import DELETION_REPORT
from spark_core.storage import ObjectStore
from spark_core.storage.listings import listed_together
from spark_core.upkeep.server_files import ServerFiles

_RUN = r"run_id=(?P<run>\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}Z)"
# The tables of a mark, and the tables beside it. The deletion report stays: it is the record of
# what is gone.
_PRUNED_TABLES = (*tables.MARK_TABLES, *tables.OPTIONAL_TABLES)
# Exactly what a mark writes of its tables, the journal, and a killed reading of diffs, and what a
# mark saves of them. Of the other names that begin with an underscore, manifests, verdicts and
# reports stay.
PARTS = re.compile(
    rf"{re.escape(lakegc_keys.ROOT)}(?:"
    rf"(?:{'|'.join(spec.folder for spec in _PRUNED_TABLES)})/{_RUN}/{lakegc_keys.PART}"
    rf"|{tables.UNCOMMITTED_ADDRESSES.folder}/{_RUN.replace('run>', 'diffs>')}/"
    rf"(?:{lakegc_keys.DIFFS}|{lakegc_keys.SAVED})"
    rf"|{lakegc_keys.JOURNAL}/{_RUN.replace('run>', 'journal>')}/(?:intent|outcome)-"
    rf"[0-9a-f]+(?:\.\d+){{4}}-\d+-[0-9a-f]{{64}}\.parquet)"
)
# Exactly what a mark writes of the index.
_INDEXED = re.compile(rf"{re.escape(lakegc_keys.INDEX)}{lakegc_keys.INDEXED}")
_INDEX_FOLDER = lakegc_keys.INDEX.removeprefix(lakegc_keys.ROOT).rstrip("/")
_FOR_READERS = re.compile(rf"/{lakegc_keys.FOR_READERS}\Z")
_FOLDERS = (*(spec.folder for spec in _PRUNED_TABLES), DELETION_REPORT.folder, lakegc_keys.JOURNAL)
_OTHER_FOLDERS = (_INDEX_FOLDER, lakegc_keys.SERVER_FILES)


@dataclass
class Files:
    """The files of one run, or those of the index, by key."""

    sizes: dict[str, int] = field(default_factory=dict)
    modified: dict[str, datetime] = field(default_factory=dict)

    def add(self, key: str, size: int, modified: datetime) -> None:
        """Take a file."""
        self.sizes[key], self.modified[key] = size, modified

    @property
    def newest(self) -> datetime | None:
        """When the newest file was written, except files that are made anew for readers."""
        written = (at for key, at in self.modified.items() if not _FOR_READERS.search(key))
        return max(written, default=None)

    @property
    def parts(self) -> list[str]:
        """What may be pruned."""
        return [key for key in self.sizes if PARTS.fullmatch(key)]


def by_run(store: ObjectStore) -> tuple[dict[RunKey, Files], Files, ServerFiles]:
    """Return the files of each run, those of the index, and what the server wrote."""
    found, index, server = dict[RunKey, Files](), Files(), ServerFiles()
    for key, size, modified in _list_folders(store, lakegc_keys.ROOT, (*_FOLDERS, *_OTHER_FOLDERS)):
        server.add(key, size)
        run = lakegc_keys.run_of(key)
        if run is not None and lakegc_keys.SERVER_FILES not in key.split("/"):
            found.setdefault(run, Files()).add(key, size, modified)
        elif _INDEXED.fullmatch(key):
            index.add(key, size, modified)
    return found, index, server


def _list_folders(
    store: ObjectStore, parent: str, folders: Sequence[str]
) -> Iterator[tuple[str, int, datetime]]:
    for batch in listed_together(store, parent, folders):
        columns = (
            batch.column(name).to_pylist() for name in ("key", "size_bytes", "last_modified")
        )
        yield from zip(*columns, strict=True)


def quarantined(store: ObjectStore) -> set[RunKey]:
    """Return the runs with objects in quarantine; a file system keeps empty folders."""
    return {key for key in quarantined_runs(store) if has_quarantined(store, key)}


def has_quarantined(store: ObjectStore, key: RunKey) -> bool:
    """Say whether a run has objects in quarantine; one request."""
    return any(batch.num_rows for batch in store.list(lakegc_keys.in_quarantine(key)))
