"""Look which objects of the entries that a merge removed are not in the store any more.

It costs a question to the store for each entry. What is gone is written to a list, so that this
process holds a thousand entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from os.path import commonprefix

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.namespace import AddressType
from spark_core.branches.removal.look import NAMED, lots
from spark_core.errors import ChainError, CorruptTableError, IncompleteReadError, NotFoundError
from spark_core.lakefs.path_lookups import entries_on
from spark_core.model import Commit, RunKey
from spark_core.records import tables
from spark_core.records.reading import load_table
from spark_core.run import Run
from spark_core.storage import ObjectStore

_LIST = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("physical_address", pa.string(), nullable=False),
    ]
)
_NO_DATE, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass
class Looked:
    """What the removed entries of a merge have in the store.

    Attributes:
        list_key: Where the list of what is gone lies, if anything is: columns path and
            physical_address.
        entries: Number of removed entries.
        missing: Those of them whose object is gone. An object outside the namespace is not asked
            for.
        some: Path and physical address of the first ones.
        path: A beginning that all their paths have.
        oldest: The earliest date of the entries.
    """

    list_key: str
    entries: int = 0
    missing: int = 0
    some: list[tuple[str, str]] = field(default_factory=list)
    path: str = ""
    oldest: datetime = _NEVER

    def missing_paths(self, store: ObjectStore) -> Iterator[list[str]]:
        """Yield the paths of what is gone, as many as a call takes at a time."""
        for batch in store.read_parquet(self.list_key):
            yield from lots(batch.column("path").to_pylist())


def look(run: Run, merge: Commit, list_key: str) -> Looked:
    """Ask the store for the object of each entry that a merge removed.

    Args:
        run: The run.
        merge: The merge.
        list_key: Where to write the list of what is gone, if anything is.

    Raises:
        IncompleteReadError: If an entry cannot be read.
        LakegcError: If the store does not answer for an object.
    """
    looked = Looked(list_key)
    with ThreadPoolExecutor(run.options.read_threads, thread_name_prefix="lakegc-head") as pool:
        missing = _missing(run, merge, looked, pool)
        first = next(missing, None)
        if first is not None:
            run.store.write_parquet(list_key, chain([first], missing), _LIST)
    return looked


def _missing(
    run: Run, merge: Commit, looked: Looked, pool: ThreadPoolExecutor
) -> Iterator[pa.RecordBatch]:
    repository_id, before = run.repository.id, merge.main_parent
    if before is None:
        raise IncompleteReadError(
            f"merge {merge.id} of repository {repository_id} has no parent", "Look at the branch."
        )
    changes = run.server.diff_commits(repository_id, before, merge.id, "")
    for paths in lots(path for path, kind in changes if kind == "removed"):
        wanted = set(paths)
        found = {
            path: (address, date or _NO_DATE)
            for path, address, date in entries_on(run.server, repository_id, before, wanted)
            if path in wanted
        }
        if len(found) != len(wanted):
            raise IncompleteReadError(
                f"commit {before} of repository {repository_id}: {len(wanted):,} entries were "
                f"removed after it, and it shows {len(found):,} of them",
                "Run again.",
            )
        rows = [(path, found[path][0]) for path in paths]
        # Prefixes of rules end within names, too.
        looked.path = commonprefix([looked.path, *paths] if looked.entries else paths)  # noqa: RUF071
        looked.entries += len(rows)
        looked.oldest = min(looked.oldest, *(date for _, date in found.values()))
        there = pool.map(partial(_is_there, run), [address for _, address in rows])
        gone = [row for row, is_there in zip(rows, there, strict=True) if not is_there]
        if gone:
            looked.missing += len(gone)
            looked.some += gone[: NAMED - len(looked.some)]
            columns = [pa.array(column, pa.string()) for column in zip(*gone, strict=True)]
            yield pa.record_batch(columns, schema=_LIST)


def _is_there(run: Run, physical_address: str) -> bool:
    address = run.namespace.relative(physical_address, AddressType.FULL)
    return address is None or run.store.exists(address)


def taken_by(
    run: Run, sweeps: Iterable[RunKey], physical_addresses: Sequence[str]
) -> Mapping[str, RunKey]:
    """Find in the reports of sweeps which of them deleted some objects.

    Args:
        run: The run.
        sweeps: Run keys, the newest first. A report that is not there or cannot be read tells
            nothing.
        physical_addresses: A few objects.

    Returns:
        Physical address -> run, of those that a report names.
    """
    wanted = {
        run.namespace.relative(each, AddressType.FULL) or "": each for each in physical_addresses
    }
    found: dict[str, RunKey] = {}
    for key in sweeps:
        try:
            report = load_table(run.store, tables.DELETION_REPORT, key)
            for batch in report.batches(["address", "outcome"]):
                gone = batch.filter(pc.equal(batch.column("outcome"), "deleted")).column("address")
                left = pa.array(wanted.keys() - found.keys(), pa.string())
                for address in gone.filter(pc.is_in(gone, value_set=left)).to_pylist():
                    found[address] = key
        except (ChainError, CorruptTableError, NotFoundError):
            continue
    return {wanted[address]: key for address, key in found.items()}
