"""Table 4: the addresses that retained commits reach; each metarange and range is read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler, schemas
from spark_core.addresses.address_hashes import Distinct, hashed
from spark_core.addresses.collectable import may_be_own
from spark_core.addresses.namespace import Namespace
from spark_core.errors import LakegcError
from spark_core.mark import explanations
from spark_core.mark.commits import tables_prefix
from spark_core.mark.kept_objects import alive_hashes
from spark_core.mark.optimized import sketches
from spark_core.mark.optimized.base import saves
from spark_core.records import reading, tables, writing
from spark_core.records.figures import CommitsFigures, CommittedFigures
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Receipt, Target, Written
from spark_core.run import Run
from spark_core.spark.tasks import counting, interleaved, run_tasks
from spark_core.storage import ObjectStore

Done = TypeVar("Done")

# Columns of ranges that no task needs.
_OF_THE_DRIVER = {"min_key", "times", "kept_times"}

# A range, and what its readers need to know of the metaranges that have it.
RANGES = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("is_head", pa.bool_(), nullable=False),
        pa.field("is_retained", pa.bool_(), nullable=False),
        # Row of the newest expired commit that has it; null where a retained commit has it, too.
        pa.field("newest", pa.int32()),
        # One of the commits that have it, in words; null where nobody asks.
        pa.field("why", pa.string()),
        # Number of metaranges that have it.
        pa.field("times", pa.int64(), nullable=False),
        # Number of those of retained commits.
        pa.field("kept_times", pa.int64(), nullable=False),
    ]
)


# Metaranges, ranges and entries that are worth a task of their own.
_METARANGES_OF_A_TASK = 32
_RANGES_OF_A_TASK = 256
_ENTRIES_OF_A_TASK = 200_000
# Rows of metaranges that a task holds before it makes them distinct.
_ROWS_HELD = 500_000


@dataclass(frozen=True)
class Metarange:
    """A metarange to read, and its commits.

    The fields say whether a branch points at it and whether a retained commit has it, and give one
    commit in words, or the row of its newest expired commit.
    """

    id: str
    is_head: bool
    is_retained: bool
    why: str | None = None
    newest: int | None = None


@dataclass(frozen=True)
class TableReader:
    """What an executor needs to read the server's tables.

    Attributes:
        store: Rooted at the namespace.
        namespace: Resolves addresses.
        prefix: Where the server keeps its tables.
        threads: Files that are read at once.
        with_paths: Whether paths of expired commits are wanted.
    """

    store: ObjectStore
    namespace: Namespace
    prefix: str
    threads: int
    with_paths: bool

    @classmethod
    def of(cls, run: Run, prefix: str) -> TableReader:
        """Make the part of a run that travels to the executors."""
        options = run.options
        return cls(
            run.store, run.namespace, prefix, options.read_threads, options.explain == "full"
        )

    def name(self, table_id: str) -> str:
        """Return the key of a content-addressed table."""
        return f"{self.prefix}/{table_id}"

    def read(self, table_id: str) -> bytes:
        """Read a table file whole."""
        return self.store.read(self.name(table_id))


def committed_addresses(run: Run, commits: StoredTable) -> Draft:
    """Read every address inside the namespace that a retained commit reaches.

    Commits share metaranges, and metaranges share ranges, so both are made distinct before they are
    read. The cost follows the data, not the number of commits, and the server is not asked at all.
    An entry of a branch head keeps its path and checksum, which find re-uploaded twins later
    (safety 14). The driver holds one row for each distinct range, some 150 bytes.

    Args:
        run: The run.
        commits: Table 3.

    Returns:
        Columns of `schemas.COMMITTED_ADDRESSES`; an address may repeat.

    Raises:
        CorruptTableError: If any table cannot be read whole.
        NotFoundError: If a table is missing from the store.
    """
    began = run.begin(tables.COMMITTED_ADDRESSES)
    run.require_same_instance(commits.manifest)
    reader = TableReader.of(run, tables_prefix(run))
    known = explanations.commits_of(run, commits)
    metaranges = _metaranges(commits, known)
    ranges, read = distinct_ranges(run, reader, metaranges)
    retained = ranges.filter(ranges["is_retained"])
    only_expired = ranges.filter(pc.invert(ranges["is_retained"]))
    explained = explanations.within_limits(only_expired, run.options.explain)
    wanted = pa.concat_tables([retained, explained])
    targets = Targets.of(run)
    written = targets.removed_on_failure(
        lambda: write_all(
            run,
            reader,
            targets,
            wanted,
            is_small=wanted.num_rows <= _RANGES_OF_A_TASK
            and (pc.sum(wanted["count"]).as_py() or 0) <= reading.DRIVER_ROWS,
        )
    )
    counts = read + writing.summed([receipts.table for receipts in written])[1]
    all_explained = (
        counts.pop("unread", 0) == 0
        and CommitsFigures.of(commits.manifest).expired_metaranges.all
        and known is not None
        and only_expired.num_rows == explained.num_rows
    )
    return Draft(
        tables.COMMITTED_ADDRESSES,
        Written(
            targets.table.attempt,
            [receipts.table for receipts in written],
            [receipts.beside for receipts in written],
        ),
        began,
        parents=(commits.manifest,),
        figures=partial(
            _figures,
            counts=counts,
            metaranges=metaranges,
            ranges=ranges,
            expired_ranges=explained.num_rows,
            expired_ranges_all=all_explained,
            ranges_manifest=keep_ranges(
                run, commits, retained, targets, [receipts.sketches for receipts in written]
            ),
        ),
    )


@dataclass(frozen=True)
class RangesWritten:
    """What a task wrote: rows of the table, files beside it, and sketches."""

    table: Receipt
    beside: Receipt
    sketches: Receipt


@dataclass(frozen=True)
class Targets:
    """Where the tasks write.

    Attributes:
        table: The table.
        beside: The entries of expired commits.
        sketches: Sketches of ranges, for the next run; None if it will not be an optimized one.
    """

    table: Target
    beside: Target
    sketches: Target | None

    @classmethod
    def of(cls, run: Run) -> Targets:
        """Begin an attempt."""
        attempt = writing.new_attempt()
        where = tables.folder(tables.COMMITTED_ADDRESSES, run.key)
        ranges = tables.folder(tables.RETAINED_RANGES, run.key)
        return cls(
            Target(run.store, where, attempt, schemas.COMMITTED_ADDRESSES, _measure),
            Target(run.store, where, attempt, explanations.ENTRIES, name="_expired"),
            Target(run.store, ranges, attempt, schemas.SKETCHES, name="_sketches")
            if saves(run)
            else None,
        )

    def removed_on_failure(self, write: Callable[[], Done]) -> Done:
        """Call a function that writes; if it fails, delete what it has written."""
        sketches_of = self.sketches

        def both() -> Done:
            return writing.removed_on_failure(self.table, write)

        return both() if sketches_of is None else writing.removed_on_failure(sketches_of, both)


def write_all(
    run: Run, reader: TableReader, targets: Targets, ranges: pa.Table, *, is_small: bool
) -> Sequence[RangesWritten]:
    """Write the addresses of ranges, what explains expired ones, and sketches of the others.

    Args:
        run: The run.
        reader: What executors read with.
        targets: Where they write.
        ranges: Columns of `RANGES`.
        is_small: Whether the driver does it.
    """
    return run_tasks(
        lambda: run.spark,
        tasks_of(ranges, run.options.range_partitions),
        partial(_write, reader, targets),
        is_small=is_small,
    )


def retained_ranges(ranges: pa.Table) -> pa.Table:
    """Bring ranges of retained commits into the columns of `schemas.RETAINED_RANGES`.

    Args:
        ranges: Columns of `RANGES`.
    """
    columns = ["range_id", "count", "min_key", "kept_times", "is_head"]
    schema = schemas.RETAINED_RANGES
    return ranges.select(columns).rename_columns(schema.names).cast(schema)


def keep_ranges(
    run: Run,
    commits: StoredTable,
    ranges: pa.Table,
    targets: Targets,
    sketched: Sequence[Receipt],
) -> str | None:
    """Store the retained ranges and their sketches, for the optimized run after this one.

    Args:
        run: The run.
        commits: Table 3.
        ranges: Columns of `RANGES`.
        targets: Where the sketches were written.
        sketched: The sketches' files.

    Returns:
        sha256 of the manifest; None if there will be no such run.
    """
    if targets.sketches is None:
        return None
    schema = schemas.RETAINED_RANGES
    rows = retained_ranges(ranges).to_batches()
    target = replace(targets.sketches, schema=schema, name="part")
    written = writing.removed_on_failure(
        targets.sketches, lambda: writing.write_parts(target, 0, iter(rows))
    )
    draft = Draft(
        tables.RETAINED_RANGES,
        Written(target.attempt, [written], sketched),
        run.now(),
        parents=(commits.manifest,),
    )
    return run.keep(draft).manifest.sha256


def _figures(
    measured: Mapping[str, Any],
    _: Counter[str],
    *,
    counts: Counter[str],
    metaranges: Sequence[Metarange],
    ranges: pa.Table,
    expired_ranges: int,
    expired_ranges_all: bool,
    ranges_manifest: str | None,
) -> CommittedFigures:
    """Compare what had to be read with what was read.

    Args:
        measured: Of the written rows.
        counts: What the readers counted; the store's own counts are among them.
        metaranges: The metaranges to read.
        ranges: Their distinct ranges.
        expired_ranges: How many of those that only expired commits have were to be read.
        expired_ranges_all: Whether these are all of them, and each could be read.
        ranges_manifest: sha256 of the manifest of the retained ranges.
    """
    retained = ranges.filter(ranges["is_retained"])
    return CommittedFigures(
        ranges=retained.num_rows,
        entries=pc.sum(retained["count"]).as_py() or 0,
        head_ranges=pc.sum(retained["is_head"]).as_py() or 0,
        head_metaranges=sum(metarange.is_head for metarange in metaranges),
        retained_metaranges=sum(metarange.is_retained for metarange in metaranges),
        metaranges=len(metaranges),
        metarange_rows=pc.sum(ranges["times"]).as_py() or 0,
        expired_ranges=expired_ranges,
        expired_ranges_all=expired_ranges_all,
        ranges_manifest=ranges_manifest,
        **read_figures(Counter(counts)),
        **measured,
    )


def read_figures(found: Counter[str]) -> dict[str, Any]:
    """Return what the readers counted, by the names of `CommittedFigures`.

    Args:
        found: Their counts; the store's own are among them. It is used up.
    """
    return {
        "metaranges_read": found.pop("metaranges", 0) + found.pop("unread_metaranges", 0),
        "head_ranges_read": found.pop("head_ranges", 0),
        "head_metaranges_read": found.pop("head_metaranges", 0),
        "retained_metaranges_read": found.pop("retained_metaranges", 0),
        "metarange_rows_read": found.pop("metarange_rows", 0),
        "ranges_read": found.pop("ranges", 0),
        "entries_read": found.pop("entries", 0),
        "addresses_read": found.pop("addresses", 0),
        "empty_metaranges": found.pop("empty_metaranges", 0),
        "addresses_left_out": found.pop("left_out", 0),
        # The store's own counts are what is left.
        "requests": dict(found),
    }


def _metaranges(commits: StoredTable, expired: pa.Table | None) -> list[Metarange]:
    """Return each metarange of a retained or an expired commit once, oldest commit first.

    Metaranges that only expired commits have are read for the words of the report alone.
    """
    heads: dict[str, bool] = {}
    columns = ["metarange_id", "created_at", "is_head"]
    schema = pa.schema([schemas.RETAINED_COMMITS.field(name) for name in columns])
    found = pa.Table.from_batches(commits.batches(columns), schema)
    for row in found.sort_by("created_at").to_pylist():
        if row["metarange_id"]:
            heads[row["metarange_id"]] = heads.get(row["metarange_id"], False) or row["is_head"]
    return [Metarange(id_, is_head=is_head, is_retained=True) for id_, is_head in heads.items()] + [
        Metarange(id_, is_head=False, is_retained=False, newest=row)
        for row, id_ in enumerate([] if expired is None else expired["metarange_id"].to_pylist())
    ]


def distinct_ranges(
    run: Run, reader: TableReader, metaranges: Sequence[Metarange]
) -> tuple[pa.Table, Counter[str]]:
    """Read metaranges, and return each of their ranges once.

    Args:
        run: The run.
        reader: What executors read with.
        metaranges: Metaranges in an order that puts those beside each other that share most ranges.

    Returns:
        Columns of `RANGES`, key range_id and count, by min_key; and figures of what was read.

    Raises:
        CorruptTableError: If a metarange of a retained commit cannot be read whole.
    """
    each = -(
        -len(metaranges)
        // max(1, min(-(-len(metaranges) // _METARANGES_OF_A_TASK), run.options.range_partitions))
    )
    tasks = [
        tuple(metaranges[begin : begin + each]) for begin in range(0, len(metaranges), max(1, each))
    ]
    is_small = len(metaranges) <= min(_METARANGES_OF_A_TASK, reading.DRIVER_ROWS)
    receipts = run_tasks(
        lambda: run.spark, tasks, partial(_read_metaranges, reader), is_small=is_small
    )
    figures = Counter[str]()
    for _, read in receipts:
        figures.update(read)
    found = _merged([table for table, _ in receipts])
    return found.sort_by([("min_key", "ascending"), ("range_id", "ascending")]), figures


def _merged(some: Sequence[pa.Table]) -> pa.Table:
    """Merge the rows of each range; columns of `RANGES`."""
    merged = (
        pa.concat_tables([RANGES.empty_table(), *some])
        .group_by(["range_id", "count"])
        .aggregate(
            [
                ("min_key", "min"),
                ("is_head", "max"),
                ("is_retained", "max"),
                ("newest", "min"),
                ("why", "min"),
                ("times", "sum"),
                ("kept_times", "sum"),
            ]
        )
    )
    return (
        merged.rename_columns(
            {
                "min_key_min": "min_key",
                "is_head_max": "is_head",
                "is_retained_max": "is_retained",
                "newest_min": "newest",
                "why_min": "why",
                "times_sum": "times",
                "kept_times_sum": "kept_times",
            }
        )
        .select(RANGES.names)
        .cast(RANGES)
    )


def _read_metaranges(
    reader: TableReader, _number: int, metaranges: Sequence[Metarange]
) -> tuple[pa.Table, Counter[str]]:
    # Lists, because several threads add to them at once.
    seen: list[tuple[Metarange, int]] = []
    unread: list[str] = []

    def read(metarange: Metarange) -> Iterator[pa.RecordBatch]:
        try:
            found = graveler.read_metarange(
                reader.read(metarange.id), name=reader.name(metarange.id), expected_id=metarange.id
            )
        except LakegcError:
            if metarange.is_retained:
                raise
            # Only the report's words depend on an expired commit, and they say when something could
            # not be read.
            unread.append(metarange.id)
            return
        seen.append((metarange, found.num_rows))
        rest = [
            pa.repeat(pa.scalar(value, RANGES.field(name).type), found.num_rows)
            for name, value in (
                ("is_head", metarange.is_head),
                ("is_retained", metarange.is_retained),
                ("newest", metarange.newest),
                ("why", metarange.why),
                ("times", 1),
                ("kept_times", int(metarange.is_retained)),
            )
        ]
        columns = [found.column(name) for name in ("range_id", "count", "min_key")]
        yield pa.record_batch([*columns, *rest], schema=RANGES)

    figures = Counter[str]()
    ranges, waiting, rows = RANGES.empty_table(), list[pa.RecordBatch](), 0
    with counting(figures, reader.store.requests):
        for batch in interleaved(metaranges, read, threads=reader.threads):
            waiting.append(batch)
            rows += batch.num_rows
            if rows > _ROWS_HELD:
                ranges, waiting, rows = _merged([ranges, pa.Table.from_batches(waiting)]), [], 0
    ranges = _merged([ranges, pa.Table.from_batches(waiting, RANGES)])
    retained = [(metarange, count) for metarange, count in seen if metarange.is_retained]
    figures.update(
        metaranges=len(seen),
        metarange_rows=sum(count for _, count in seen),
        unread=len(unread),
        unread_metaranges=len(unread),
        retained_metaranges=len(retained),
        head_metaranges=sum(metarange.is_head for metarange, _ in retained),
        empty_metaranges=sum(not count for _, count in retained),
    )
    return ranges, figures


def tasks_of(ranges: pa.Table, at_most: int) -> list[pa.Table]:
    """Deal ranges out to tasks by their files and entries.

    Versions of one stretch of paths have most addresses in common. They go to one task, where each
    address counts once.

    Args:
        ranges: Columns range_id, count, min_key and whatever the tasks need; see `RANGES`.
        at_most: Largest number of tasks.
    """
    ordered = (
        ranges.sort_by("min_key")
        .select([name for name in ranges.column_names if name not in _OF_THE_DRIVER])
        .combine_chunks()
    )
    weights = np.maximum(ordered["count"].to_numpy() / _ENTRIES_OF_A_TASK, 1 / _RANGES_OF_A_TASK)
    if not len(weights):
        return []
    count = min(int(np.ceil(weights.sum())), at_most)
    ends = np.searchsorted(
        np.cumsum(weights), np.linspace(0, weights.sum(), count + 1)[1:-1], side="right"
    )
    bounds = sorted({0, *ends.tolist(), len(weights)})
    # The rows are copied, because a slice would travel with the whole table.
    return [ordered.take(pa.array(range(begin, end))) for begin, end in pairwise(bounds)]


def _write(reader: TableReader, targets: Targets, number: int, ranges: pa.Table) -> RangesWritten:
    """Read a task's ranges: rows go into the table, entries of expired commits beside it."""
    sketched: list[dict[str, Any]] = []
    retained = writing.write_read(
        targets.table,
        lambda some, figures: read_ranges(
            reader, some, figures, sketched=None if targets.sketches is None else sketched
        ),
        number,
        ranges.filter(ranges["is_retained"]),
    )
    rest = ranges.filter(pc.invert(ranges["is_retained"]))
    read = _read_entries if reader.with_paths else _read_hashes
    unneeded = writing.write_read(targets.beside, partial(read, reader), number, rest)
    figures = Counter(retained.figures) + Counter(unneeded.figures)
    beside = Receipt((), {})
    if targets.sketches is not None:
        rows = pa.RecordBatch.from_pylist(sketched, schema=schemas.SKETCHES)
        beside = writing.write_parts(targets.sketches, number, iter((rows,)))
    return RangesWritten(replace(retained, figures=figures), unneeded, beside)


def read_ranges(
    reader: TableReader,
    ranges: pa.Table,
    figures: Counter[str],
    *,
    saying_why: bool = False,
    sketched: list[dict[str, Any]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read ranges whole, or raise.

    Args:
        reader: The store, and where its tables lie.
        ranges: Columns of `RANGES`, only ranges of retained commits.
        figures: Counts what was read.
        saying_why: Whether to return the column `why` too.
        sketched: Gets the sketch of each range; None if nobody wants them.

    Yields:
        Columns of `schemas.COMMITTED_ADDRESSES`, each row once as far as the task remembers, and
        `why` if it is wanted.
    """
    # Lists, because several threads add to them at once.
    seen: list[int] = []
    of_heads: list[bool] = []

    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        found = read_whole(reader, row)
        seen.append(found.num_rows)
        of_heads.append(row["is_head"])
        entries = resolved(reader.namespace, found, is_head=row["is_head"])
        if sketched is not None:
            sketched.append(sketches.sketch(row["range_id"], found.num_rows, entries))
        if saying_why:
            entries = entries.append_column(
                "why", pa.repeat(pa.scalar(row["why"], pa.string()), entries.num_rows)
            )
        yield entries

    distinct = Distinct()
    addresses = left_out = 0
    with counting(figures, reader.store.requests):
        for batch in interleaved(ranges.to_pylist(), read, threads=reader.threads):
            # A row that is left out has the same hash as a stored one, and that hash decides, so
            # nothing that it keeps can go. This matters because somebody may craft hashes.
            first = batch.filter(
                pa.array(distinct.first(batch.column("address_hash"), _details(batch)))
            )
            addresses += batch.num_rows
            left_out += batch.num_rows - first.num_rows
            yield first
    figures.update(
        ranges=len(seen),
        entries=sum(seen),
        head_ranges=sum(of_heads),
        addresses=addresses,
        left_out=left_out,
    )


def read_whole(reader: TableReader, row: Mapping[str, Any]) -> pa.RecordBatch:
    """Read one range as its metarange says that it is; columns of `schemas.RANGE_ENTRIES`.

    Args:
        reader: The store, and where its tables lie.
        row: range_id and count of the range.

    Raises:
        CorruptTableError: If it has another content or another number of entries.
    """
    table_id = row["range_id"]
    return graveler.read_range(
        reader.read(table_id),
        name=reader.name(table_id),
        expected_count=row["count"],
        expected_id=table_id,
    )


def _details(batch: pa.RecordBatch) -> Any:
    """Hash the details in which the rows of one kept object differ.

    The address as written is one of them, because rows also differ in what hides behind them.
    """
    parts = [hashed(batch.column(name)).to_numpy() for name in ("address", "head_path", "checksum")]
    parts += [
        batch.column("size_bytes").to_numpy(),
        batch.column("is_live").to_numpy(zero_copy_only=False),
    ]
    with np.errstate(over="ignore"):
        return (((parts[0] * 31 + parts[1]) * 31 + parts[2]) * 31 + parts[3]) * 2 + parts[4]


def _read_hashes(
    reader: TableReader, ranges: pa.Table, figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Read ranges of expired commits: columns of `explanations.ENTRIES`, the hash alone filled."""
    distinct = Distinct()
    for batch in _read_unneeded(reader, ranges, figures):
        hashes = batch.column("address_hash")
        first = pa.array(distinct.first(hashes, np.zeros(len(hashes), np.int64)))
        yield explanations.entries(batch.filter(first), with_paths=False)


def _read_entries(
    reader: TableReader, ranges: pa.Table, figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Read ranges of expired commits: columns of `explanations.ENTRIES`, few of them twice."""
    held, waiting, rows = explanations.ENTRIES.empty_table(), list[pa.RecordBatch](), 0
    for batch in _read_unneeded(reader, ranges, figures):
        waiting.append(explanations.entries(batch, with_paths=True))
        rows += batch.num_rows
        if rows > _ROWS_HELD:
            held = explanations.newest([held, pa.Table.from_batches(waiting)])
            waiting, rows = [], 0
            if held.num_rows > _ROWS_HELD:
                yield from held.to_batches()
                held = explanations.ENTRIES.empty_table()
    left = [held, pa.Table.from_batches(waiting, explanations.ENTRIES)]
    yield from explanations.newest(left).to_batches()


def _read_unneeded(
    reader: TableReader, ranges: pa.Table, figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Read ranges whose damage does not matter: address_hash, path and newest."""
    unread: list[str] = []

    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        range_id = row["range_id"]
        try:
            found = graveler.read_range(
                reader.read(range_id), name=reader.name(range_id), expected_id=range_id
            )
            # As of a head, so that the paths stay.
            entries = resolved(reader.namespace, found, is_head=True)
        except LakegcError:
            unread.append(range_id)
            return
        newest = pa.repeat(pa.scalar(row["newest"], pa.int32()), entries.num_rows)
        yield entries.append_column("newest", newest)

    with counting(figures, reader.store.requests):
        yield from interleaved(ranges.to_pylist(), read, threads=reader.threads)
    figures["unread"] += len(unread)


def resolved(namespace: Namespace, found: pa.RecordBatch, *, is_head: bool) -> pa.RecordBatch:
    """Resolve the entries of one range; columns of `schemas.COMMITTED_ADDRESSES`.

    Entries outside the namespace are left out, except two kinds. An entry of a branch head stays,
    because it can have a twin inside. An entry that may be inside by another name of the store
    stays too. Such entries keep their absolute address, which equals no relative one.
    """
    address = namespace.relative_batch(found.column("address"), found.column("address_type"))
    if address.null_count:
        another_name = pc.if_else(
            may_be_own(found.column("address")), found.column("address"), None
        )
        address = pc.coalesce(address, another_name)
    path, checksum = pa.nulls(found.num_rows, pa.binary()), pa.nulls(found.num_rows, pa.string())
    if is_head:
        path, checksum = found.column("path"), found.column("checksum")
        address = pc.coalesce(address, found.column("address"))
    sizes = found.column("size_bytes")
    if address.null_count:
        kept = address.is_valid()
        address, sizes, path, checksum = (
            column.filter(kept) for column in (address, sizes, path, checksum)
        )
    is_live = pc.and_(pc.starts_with(address, "data/"), is_head)
    return pa.record_batch(
        [address, sizes, path, checksum, is_live, alive_hashes(address)],
        schema=schemas.COMMITTED_ADDRESSES,
    )


def _measure(batch: pa.RecordBatch) -> Mapping[str, int]:
    addresses = batch.column("address")
    in_data = pc.starts_with(addresses, "data/")
    outside = pc.and_(pc.is_valid(batch.column("head_path")), pc.invert(in_data))
    return {
        "addresses": batch.num_rows,
        "in_data": pc.sum(in_data).as_py() or 0,
        "heads_outside": pc.sum(outside).as_py() or 0,
    }
