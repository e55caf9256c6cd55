"""Which of the server's tables nothing names that lakegc can see, with their bytes and ages.

The server never deletes a range or a metarange, and nobody else may: what no commit names may be
needed all the same. A compacted branch has a metarange that only its record names, a merge or an
import under way has written tables that its commit will name, and whoever keeps a dump for a
disaster restores commits from it. So this only counts, and beside them what collections left.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from spark_core import graveler, lakegc_keys
from spark_core.errors import CorruptTableError
from spark_core.graveler.commits import COMMIT
from spark_core.graveler.records import METARANGES
from spark_core.references.commits import read_commits, tables_prefix
from spark_core.references.compacted import servers_tables
from spark_core.references.table_reader import TableReader
from spark_core.run import Run
from spark_core.spark.tasks import interleaved
from spark_core.storage import ObjectStore
from spark_core.storage.listings import listed_together

# What a table is, in the words of the answer; the order is that of the answer.
NAMED = "named by a commit of now"
BY_A_DUMP = "named only by commits of an older dump"
OF_A_DUMP = "tables of dumps of refs"
UNNAMED_METARANGE = "metaranges that nothing names"
BELOW_THEM = "ranges that only those metaranges name"
UNNAMED_RANGE = "ranges that nothing names"
UNREADABLE = "files that are no table of the server"
GROUPS = (
    NAMED,
    BY_A_DUMP,
    OF_A_DUMP,
    UNNAMED_METARANGE,
    BELOW_THEM,
    UNNAMED_RANGE,
    UNREADABLE,
)
# Groups that nobody names.
UNNAMED = (UNNAMED_METARANGE, BELOW_THEM, UNNAMED_RANGE)
# What collections left.
INDEX = "the index of lakegc"
OF_RUNS = "tables and records of lakegc's runs"
FOR_CALLS = "the server's lists and scans for marks"
OTHERS = "others: rules, leases, holds, ..."
COLLECTIONS = (INDEX, OF_RUNS, FOR_CALLS, OTHERS)
_AGES = (("a day", 1), ("30 days", 30), ("a year", 365))


@dataclass(frozen=True)
class Tables:
    """A group of tables, or of other files.

    Attributes:
        what: The group.
        files: Their number.
        size_bytes: Their bytes.
        oldest: When the oldest was last written; None for no table.
        newest: When the newest was.
        older: Age -> number and bytes of those that are older.
    """

    what: str
    files: int
    size_bytes: int
    oldest: str | None
    newest: str | None
    older: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class TablesReport:
    """The server's tables by who names them, and the files that collections left."""

    repository: str
    prefix: str
    groups: Sequence[Tables]
    collections: Sequence[Tables] = ()

    @property
    def grown(self) -> Mapping[str, int]:
        """By how many bytes collections and dumps grew at most, by time: so much is younger."""
        made = [*self.collections, *(group for group in self.groups if group.what == OF_A_DUMP)]
        return {
            age: sum(group.size_bytes - group.older.get(age, (0, 0))[1] for group in made)
            for age, _ in _AGES
        }

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps({**asdict(self), "grown": self.grown}, indent=1)


# Bytes and last writing of a file.
_File = tuple[int, datetime]
# Table id -> its file.
_There = Mapping[str, _File]


def unnamed_tables(run: Run) -> TablesReport:
    """Compare the server's tables with what commits and dumps name; nothing is deleted.

    The tables are listed before the commits are read, so a commit that lands meanwhile names its
    own. This reads every metarange, and the end of each table that no commit of now names. The
    server dumps its refs, as for a mark.

    Args:
        run: A run with a mark; it tells where the server keeps its tables.

    Raises:
        LakegcError: If the store or the server cannot be read.
        CorruptTableError: If a table that a commit names is damaged.
    """
    prefix = tables_prefix(run)
    there = {id_: (size, at) for id_, size, at in servers_tables(run.store, prefix)}
    # Before this leaves a list of commits there itself.
    left = _left_by_collections(run.store, prefix)
    commits = read_commits(run, prefix).refs.commits.values()
    reader = TableReader.of(run, prefix)
    kinds = _Kinds(reader, there)
    named = kinds.with_ranges(commit.metarange_id for commit in commits)
    kinds.look(there.keys() - named)
    by_dump = kinds.with_ranges(kinds.of_dumps()) - named
    below = kinds.with_ranges(kinds.ids(METARANGES) - named - by_dump)
    found: dict[str, list[str]] = {what: [] for what in GROUPS}
    for id_ in there:
        found[kinds.group(id_, named, by_dump, below)].append(id_)
    groups = [_group(what, [there[id_] for id_ in ids], run.now()) for what, ids in found.items()]
    collections = [_group(what, files, run.now()) for what, files in left.items()]
    return TablesReport(run.repository.id, prefix, groups, collections)


def _left_by_collections(store: ObjectStore, prefix: str) -> Mapping[str, Sequence[_File]]:
    """List the files of collections; objects in quarantine are none."""
    found: dict[str, list[_File]] = {what: [] for what in COLLECTIONS}
    for parent in sorted({lakegc_keys.ROOT, f"{prefix}/retention/gc/"}):
        folders = set(store.children(parent)[0]) - {lakegc_keys.QUARANTINE}
        names = [folder.removeprefix(parent).rstrip("/") for folder in folders]
        for batch in listed_together(store, parent, names):
            for row in batch.to_pylist():
                what = _left_as(row["key"].removeprefix(parent))
                found[what].append((row["size_bytes"], row["last_modified"]))
    return found


def _left_as(name: str) -> str:
    if lakegc_keys.run_of(key := f"{lakegc_keys.ROOT}{name}") is not None:
        return OF_RUNS
    if key.startswith(lakegc_keys.INDEX):
        return INDEX
    is_server = name.startswith((f"{lakegc_keys.COMMITS}/", f"{lakegc_keys.UNCOMMITTED}/"))
    return FOR_CALLS if is_server else OTHERS


@dataclass
class _Kinds:
    """What the tables are, and what metaranges name."""

    reader: TableReader
    there: _There

    def __post_init__(self) -> None:
        # Type and entity; empty for what is no table.
        self.kinds: dict[str, tuple[str, str]] = {}

    def ids(self, type_: str) -> set[str]:
        """Return the tables of objects of a type."""
        return {id_ for id_, kind in self.kinds.items() if kind == (type_, "")}

    def with_ranges(self, metaranges: Iterable[str]) -> set[str]:
        """Return metaranges and the ranges that they name."""
        ids = sorted({id_ for id_ in metaranges if id_ in self.there})

        def read(id_: str) -> Iterator[pa.RecordBatch]:
            data, name = self.reader.read(id_), self.reader.name(id_)
            found = graveler.read_metarange(data, name=name, expected_id=id_)
            yield pa.record_batch([found.column("range_id")], ["range_id"])

        batches = interleaved(ids, read, threads=self.reader.threads)
        return {*ids, *(id_ for batch in batches for id_ in batch.column(0).to_pylist())}

    def look(self, ids: Iterable[str]) -> None:
        """Read the ends of tables."""

        def read(id_: str) -> Iterator[pa.RecordBatch]:
            type_, entity = self._kind(id_)
            yield pa.record_batch([[id_], [type_], [entity]], ["id", "type", "entity"])

        for batch in interleaved(sorted(ids), read, threads=self.reader.threads):
            id_, type_, entity = (column[0].as_py() for column in batch.columns)
            self.kinds[id_] = (type_, entity)

    def _kind(self, id_: str) -> tuple[str, str]:
        size, name = self.there[id_][0], self.reader.name(id_)
        try:
            for length in (min(size, graveler.END_BYTES), size):
                end = self.reader.store.read_range(name, size - length, length)
                if (kind := graveler.kind_of(end, size, name=name)) is not None:
                    return kind
        except CorruptTableError:
            pass
        return "", ""

    def of_dumps(self) -> set[str]:
        """Return the metaranges that the commits of dumps have."""
        dumps = sorted(id_ for id_, kind in self.kinds.items() if kind == (METARANGES, COMMIT))
        return {
            commit.metarange_id
            for id_ in dumps
            for commit in graveler.read_commit_records(self.reader.read, id_)
        }

    def group(self, id_: str, named: set[str], by_dump: set[str], below: set[str]) -> str:
        """Say what a table is."""
        if id_ in named or id_ in by_dump:
            return NAMED if id_ in named else BY_A_DUMP
        type_, entity = self.kinds[id_]
        if entity:
            return OF_A_DUMP
        if type_ == METARANGES:
            return UNNAMED_METARANGE
        if not type_:
            return UNREADABLE
        return BELOW_THEM if id_ in below else UNNAMED_RANGE


def _group(what: str, tables: Sequence[_File], now: datetime) -> Tables:
    dates = sorted(at for _, at in tables)
    older = {}
    for words, days in _AGES:
        old = [size for size, at in tables if now - at > timedelta(days=days)]
        older[words] = (len(old), sum(old))
    return Tables(
        what,
        len(tables),
        sum(size for size, _ in tables),
        dates[0].isoformat() if dates else None,
        dates[-1].isoformat() if dates else None,
        older,
    )
