"""Reads every metarange and range once: the numbers of each entry, and its folder at the top."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler
from spark_core.explain.what_if import numbers
from spark_core.holds import Holds
from spark_core.mark.group_sums import AT_THE_TOP
from spark_core.references.metaranges import work_of_metaranges
from spark_core.references.range_entries import read_whole, resolve_entries
from spark_core.references.shared_ranges import tasks_of
from spark_core.references.table_reader import TableReader
from spark_core.run import Run
from spark_core.spark.exchange import Source
from spark_core.spark.tasks import interleaved, run_tasks

HASHES = pa.schema([pa.field("address_hash", pa.int64(), nullable=False)])
FOLDER = "folder"

_METARANGES_OF_A_TASK = 32


def entries_with_numbers(
    run: Run,
    reader: TableReader,
    metaranges: Mapping[str, Sequence[int]],
    *,
    held: Holds,
    when_held: Mapping[str, int],
    questions: int,
) -> Source[pa.Table]:
    """Return the entries of all metaranges: columns of `schema`.

    The metaranges are read here, the ranges where the source is asked.

    Args:
        run: The run.
        reader: Reads the server's tables.
        metaranges: Id -> its numbers.
        held: The holds of now.
        when_held: The numbers of an entry that a hold keeps by its path.
        questions: How many are asked.
    """
    ranges = _ranges(run, reader, metaranges, questions)
    return Source(
        schema(questions),
        tasks_of(ranges, run.reading_tasks),
        pc.sum(ranges["count"]).as_py() or 0,
        partial(_read_ranges, reader, held, when_held, questions),
        one_of_each_hash,
    )


def schema(questions: int) -> pa.Schema:
    """Return the columns of the entries: address_hash, folder and the numbers."""
    return numbers.with_numbers(questions, *HASHES, pa.field(FOLDER, pa.string()))


def one_of_each_hash(some: pa.Table) -> pa.Table:
    """Make one row of the entries of each hash, with their highest numbers."""
    how = [(FOLDER, "min"), *((name, "max") for name in some.column_names[2:])]
    found = some.group_by("address_hash").aggregate(how)
    return found.rename_columns(some.column_names).cast(some.schema)


def _ranges(
    run: Run, reader: TableReader, metaranges: Mapping[str, Sequence[int]], questions: int
) -> pa.Table:
    """Read metaranges; return each range once, with its highest numbers."""
    items = list(metaranges.items())
    count = run.reading_tasks(-(-len(items) // _METARANGES_OF_A_TASK))
    each = max(1, -(-len(items) // max(1, count)))
    parts = [items[begin : begin + each] for begin in range(0, len(items), each)]
    told = run_tasks(
        lambda: run.spark,
        parts,
        partial(_read_metaranges, reader, questions),
        rows=work_of_metaranges(len(items)),
    )
    return _highest(told, questions)


def _range_schema(questions: int) -> pa.Schema:
    return numbers.with_numbers(
        questions,
        pa.field("range_id", pa.string()),
        pa.field("count", pa.int64()),
        pa.field("min_key", pa.binary()),
    )


def _highest(some: Sequence[pa.Table], questions: int) -> pa.Table:
    schema = _range_schema(questions)
    merged = (
        pa.concat_tables([schema.empty_table(), *some])
        .group_by(["range_id", "count"])
        .aggregate([("min_key", "min"), *((name, "max") for name in numbers.names(questions))])
    )
    return merged.rename_columns(schema.names).cast(schema)


def _read_metaranges(
    reader: TableReader, questions: int, _number: int, some: Sequence[tuple[str, Sequence[int]]]
) -> pa.Table:
    def read(one: tuple[str, Sequence[int]]) -> Iterator[pa.RecordBatch]:
        id_, own = one
        found = graveler.read_metarange(reader.read(id_), name=reader.name(id_), expected_id=id_)
        columns = [found.column(name) for name in ("range_id", "count", "min_key")]
        columns += [pa.repeat(pa.scalar(number, pa.int64()), found.num_rows) for number in own]
        yield pa.record_batch(columns, schema=_range_schema(questions))

    batches = interleaved(some, read, threads=reader.threads)
    return _highest([pa.Table.from_batches(batches, _range_schema(questions))], questions)


def _read_ranges(
    reader: TableReader,
    held: Holds,
    when_held: Mapping[str, int],
    questions: int,
    ranges: pa.Table,
) -> Iterator[pa.RecordBatch]:
    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        found = resolve_entries(reader.namespace, read_whole(reader, row))
        paths = found.column("head_path")
        is_held = pc.is_valid(held.reasons_of_paths(paths))
        columns = [found.column("address_hash"), _folders(paths)]
        for name in numbers.names(questions):
            own = pa.scalar(row[name], pa.int64())
            of_held = pa.scalar(when_held.get(name, row[name]), pa.int64())
            columns.append(pc.if_else(is_held, of_held, own))
        yield pa.record_batch(columns, schema=schema(questions))

    yield from interleaved(ranges.to_pylist(), read, threads=reader.threads)


def _folders(paths: pa.BinaryArray) -> pa.Array:
    """Return the folder at the top of each path."""
    # Of a path that is not UTF-8, the rest is shown.
    parts = (path.partition(b"/") for path in paths.to_pylist())
    names = [
        (name + slash).decode(errors="replace") if slash else AT_THE_TOP for name, slash, _ in parts
    ]
    return pa.array(names, pa.string())
