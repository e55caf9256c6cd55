"""Lists and scans that the server wrote for lakegc's own calls go with the runs that had them.

The server never deletes its lists of retained commits and its scans of staged entries. It gives
each an id that nobody else gets, and a run records the ids of those that it asked for. Where an old
run's tables may go, so may the files of these ids, unless a run that stays names one of them, or an
old one of which not every record can be read. What no record of lakegc names was asked for by
somebody else, or by a run that was killed, and stays.

Dumps of refs are not touched: their tables are named by content, like a repository's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from spark_core import lakegc_keys
from spark_core.errors import LakegcError
from spark_core.lock.held_lease import Lease
from spark_core.model import RunKey
from spark_core.records.figures import CommitsFigures, DeletionFigures, StagedFigures
from spark_core.records.manifest import Manifest
from spark_core.records.reading import load_table
from spark_core.records.tables import (
    DELETION_REPORT,
    RETAINED_COMMITS,
    UNCOMMITTED_ADDRESSES,
    TableSpec,
)
from spark_core.report.values import bytes_text
from spark_core.storage import ObjectStore
from spark_core.storage.listings import listed_together
from spark_core.storage.outcomes import GONE
from spark_core.upkeep import manifests

# Ids of the server's own runs (xid), and the names of what it writes for them.
_ID = r"[0-9a-v]{20}"
_LIST = re.compile(rf"commits/run_id=(?P<id>{_ID})/commits\.csv")
_SCAN = re.compile(rf"uncommitted/(?P<id>{_ID})/uncommitted/{_ID}")
# Which tables name them.
_NAMING = (UNCOMMITTED_ADDRESSES, RETAINED_COMMITS, DELETION_REPORT)


@dataclass(frozen=True)
class Left:
    """What the server wrote for collections and never deletes.

    Attributes:
        lists: Lists of retained commits.
        list_bytes: Their bytes.
        scans: Files of scans of staged entries.
        scan_bytes: Their bytes.
        dump_files: Tables of this run's dump of refs; they look like a repository's own
            tables.
        dump_bytes: Their bytes.
    """

    lists: int
    list_bytes: int
    scans: int
    scan_bytes: int
    dump_files: int = 0
    dump_bytes: int = 0

    @property
    def objects(self) -> int:
        """All files but dumps."""
        return self.lists + self.scans

    @property
    def size_bytes(self) -> int:
        """All bytes but those of dumps."""
        return self.list_bytes + self.scan_bytes

    def __str__(self) -> str:
        return f"{self.objects:,} files, {bytes_text(self.size_bytes)}"


@dataclass
class ServerFiles:
    """The lists and scans that lie in a namespace, by the id that the server gave them.

    Attributes:
        where: Folder in which the server writes them, ending in a slash.
        lists: Id -> key of its list -> bytes.
        scans: Id -> keys of its files -> bytes.
        done: Runs whose files were deleted before.
    """

    where: str = lakegc_keys.ROOT
    lists: dict[str, dict[str, int]] = field(default_factory=dict)
    scans: dict[str, dict[str, int]] = field(default_factory=dict)
    done: set[RunKey] = field(default_factory=set)

    def add(self, key: str, size: int) -> None:
        """Take a file of the namespace, if it is a list, a scan, or the record of a deletion."""
        for pattern, found in ((_LIST, self.lists), (_SCAN, self.scans)):
            match = pattern.fullmatch(key.removeprefix(self.where))
            if match and key.startswith(self.where):
                found.setdefault(match["id"], {})[key] = size
        run = lakegc_keys.run_of(key)
        if run is not None and lakegc_keys.is_done(key):
            self.done.add(run)

    @property
    def left(self) -> Left:
        """Count them."""
        lists, scans = _sizes(self.lists), _sizes(self.scans)
        return Left(len(lists), sum(lists), len(scans), sum(scans))

    def of(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the files of some ids with their bytes; sorted by key."""
        files = {
            key: size
            for id_ in ids
            for found in (self.lists, self.scans)
            for key, size in found.get(id_, {}).items()
        }
        return dict(sorted(files.items()))


def _sizes(files: Mapping[str, Mapping[str, int]]) -> list[int]:
    return [size for found in files.values() for size in found.values()]


def _named_by(
    store: ObjectStore, run: RunKey, names: Collection[str]
) -> tuple[set[str], LakegcError | None]:
    """Return the ids of the lists and scans that a run asked the server for.

    Args:
        store: Rooted at the namespace.
        run: The run.
        names: Names of its files; only manifests among them are read.

    Returns:
        The ids in the records that can be read, and why that may not be all of them.
    """
    ids, doubt = set[str](), None
    for spec in _NAMING:
        try:
            if manifests.is_there(spec, run, names):
                ids.update(_ids(spec, load_table(store, spec, run).manifest))
        except LakegcError as unreadable:
            doubt = unreadable
    return ids, doubt


def _ids(spec: TableSpec, manifest: Manifest) -> Sequence[str]:
    if spec is UNCOMMITTED_ADDRESSES:
        return StagedFigures.of(manifest).server_runs
    if spec is RETAINED_COMMITS:
        return CommitsFigures.of(manifest).server_lists
    look = DeletionFigures.of(manifest).second_look
    return () if look is None else look.server_runs


@dataclass(frozen=True)
class Going:
    """The files of an old run's lists and scans.

    Attributes:
        run: The run.
        files: Their keys and bytes.
    """

    run: RunKey
    files: Mapping[str, int]


def going(
    store: ObjectStore,
    runs: Mapping[RunKey, Collection[str]],
    old: Collection[RunKey],
    server: ServerFiles,
) -> list[Going]:
    """Find the lists and scans that only old runs name.

    It costs a small read for each manifest of the runs that stay, and of the old ones that are new
    here; nothing where no run is.

    Args:
        store: Rooted at the namespace.
        runs: The names of the files of each run.
        old: The runs whose tables may go.
        server: What lies there.

    Returns:
        For each old run that was not done before, what may go; perhaps nothing. Nothing of an old
        run, and nothing that it names, of which not every record can be read.

    Raises:
        LakegcError: If it cannot be read what a run that stays names.
    """
    new = sorted(key for key in old if key not in server.done)
    if not new:
        return []
    needed, of_old = set[str](), dict[RunKey, set[str]]()
    for key in runs:
        if key in old and key not in new:
            continue
        ids, doubt = _named_by(store, key, runs[key])
        if doubt is not None and key not in new:
            raise doubt
        if doubt is not None or key not in new:
            needed |= ids
        else:
            of_old[key] = ids
    return [Going(key, server.of(ids - needed)) for key, ids in sorted(of_old.items())]


def remove(
    store: ObjectStore, going: Going, held: Lease, began: datetime
) -> Iterator[tuple[int, bool]]:
    """Delete the files of a run; call it under the lease.

    What is to go is written down before, and what became of it after. If a file stays, or this is
    killed, the next time does the rest.

    Args:
        store: Rooted at the namespace.
        going: The files.
        held: The lease; it is beaten before each request.
        began: When the deletion began; it names the record.

    Yields:
        Bytes of each file, and whether it is gone.

    Raises:
        LakegcError: If the record cannot be written, or the lease is lost.
    """
    keys, outcomes = list(going.files), dict[str, str]()
    planned, done = (
        lakegc_keys.server_files_key(going.run, began, step) for step in ("planned", "done")
    )
    if keys:
        store.put(planned, _record(going.run, going.files))
    for begin in range(0, len(keys), store.delete_batch_size):
        held.beat()
        for answer in store.delete(keys[begin : begin + store.delete_batch_size]):
            outcomes[answer.key] = answer.outcome
            yield going.files[answer.key], answer.is_gone
    if all(outcomes.get(key) in GONE for key in keys):
        store.put(done, _record(going.run, outcomes))


def left_by_server(store: ObjectStore, prefix: str) -> Left:
    """Count the lists and scans that lie in a namespace.

    Dumps of refs are not counted: they are tables like a repository's own, named by their content.

    Args:
        store: Rooted at the namespace.
        prefix: Where the server keeps its tables.

    References:
        `lakefs-facts` 5: prepare calls.
    """
    found = ServerFiles(f"{prefix}/retention/gc/")
    for batch in listed_together(store, found.where, ("commits", "uncommitted")):
        columns = (batch.column(name).to_pylist() for name in ("key", "size_bytes"))
        for key, size in zip(*columns, strict=True):
            found.add(key, size)
    return found.left


def _record(run: RunKey, files: Mapping[str, int] | Mapping[str, str]) -> bytes:
    return json.dumps({"run": str(run), "files": dict(files)}, indent=1).encode()
