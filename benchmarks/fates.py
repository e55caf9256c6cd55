"""Measure the decision alone: listed objects meet what refers to them.

    python -m benchmarks.fates [--objects 20000000] [--runs 3]

The listing and the references are stored as a mark stores them, in files of half a million rows.
Of each twenty objects fourteen are committed (two of them in an expired commit as well), two are
staged (each is in a scan and in a diff), three are in an expired commit alone and may go, and one
is in no commit and may go. So 20 million objects have 23 million references.

The seconds of each decision and the CPU seconds of all processes meanwhile are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.processes import cpu_seconds, run_measured
from spark_core import holds, schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.addresses.candidates import Limits, standings_of
from spark_core.addresses.namespace import Namespace
from spark_core.fates import WhyMayGo
from spark_core.mark import fates, fates_by_answers
from spark_core.mark.fate_rows import FateTargets
from spark_core.model import RunKey
from spark_core.records import writing
from spark_core.records.figures import CommittedFigures
from spark_core.records.manifest import Manifest, Part
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Target
from spark_core.references.held_paths import HELD
from spark_core.spark.exchange import source_of
from spark_core.spark.session import spark_config, start_session
from spark_core.spark.tasks import run_tasks
from spark_core.storage import ObjectStore, StoreOptions, open_store

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
WRITTEN = NOW - timedelta(days=30)
ROWS_OF_A_PART = 500_000
# Of each twenty objects: numbers of the first that are not committed, not staged, not expired.
COMMITTED, STAGED, EXPIRED, ALL = 14, 16, 19, 20
SLICES = 1_000
# Figures of table 4 that have no default.
_COUNTED = [
    each.name
    for each in fields(CommittedFigures)
    if each.default is MISSING and each.default_factory is MISSING
]


def addresses(numbers: Any) -> pa.StringArray:
    """Name objects by their numbers, as lakeFS does."""
    scattered = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    digits = "0123456789abcdefghijklmnopqrstuv"
    letters = np.frombuffer(digits.encode(), np.uint8)
    name = np.empty((len(numbers), 46), np.uint8)
    text = b"data/gqv3epl4fd2o8m000000/d2o8m00000000000000g"
    name[:] = np.frombuffer(text, np.uint8)
    for at in range(4):
        name[:, 23 - at] = letters[(numbers % SLICES >> 5 * at) & 31]
    for at in range(12):
        name[:, 33 + at] = letters[((scattered >> np.uint64(5 * at)) & np.uint64(31)).astype(int)]
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * 46
    return pa.Array.from_buffers(
        pa.string(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(name.tobytes())]
    )


def limits() -> Limits:
    """Return limits under which every object is old."""
    return Limits(NOW, NOW, datetime(2020, 1, 1, tzinfo=UTC), False, "keep", "keep")


def listed(begin: int, end: int) -> Iterator[pa.RecordBatch]:
    """Make rows of table 1."""
    for at in range(begin, end, 50_000):
        numbers = np.arange(at, min(at + 50_000, end))
        names = addresses(numbers)
        rows = {
            "slice": pc.utf8_slice_codeunits(names, 5, 25),
            "address": names,
            "size_bytes": pa.array(numbers % 1_000_003),
            "last_modified": pa.repeat(pa.scalar(WRITTEN, schemas.INSTANT), len(numbers)),
            "checksum": pa.nulls(len(numbers), pa.string()),
            "address_hash": hashed(names),
        }
        batch = pa.RecordBatch.from_pydict(rows)
        rows["standing"] = standings_of(batch, limits())
        yield _batch(schemas.NAMESPACE_SLICES, rows)


def referring(
    schema: pa.Schema, classes: Sequence[int], begin: int, end: int
) -> Iterator[pa.RecordBatch]:
    """Make rows of table 2 or 4: entries of the objects of some classes of twenty."""
    for at in range(begin, end, 50_000):
        numbers = np.arange(at, min(at + 50_000, end))
        numbers = numbers[np.isin(numbers % ALL, np.asarray(classes))]
        names = addresses(numbers)
        rows = {
            "address": names,
            "address_hash": hashed(names),
            "size_bytes": pa.array(numbers % 1_000_003),
            "is_live": pa.repeat(True, len(numbers)),
        }
        yield _batch(schema, rows)


def _batch(schema: pa.Schema, rows: dict[str, Any]) -> pa.RecordBatch:
    count = len(rows["address"])
    return pa.record_batch(
        [
            rows[field.name].cast(field.type) if field.name in rows else pa.nulls(count, field.type)
            for field in schema
        ],
        schema=schema,
    )


def _write(target: Target, rows: Any, number: int, task: tuple[int, int]) -> Any:
    return writing.write_parts(target, number, rows(*task))


def parts(
    store: Any, spark: Any, name: str, schema: pa.Schema, *, rows: Any, objects: int
) -> tuple[Part, ...]:
    """Store rows in files of half a million."""
    tasks = [(at, min(at + ROWS_OF_A_PART, objects)) for at in range(0, objects, ROWS_OF_A_PART)]
    target = Target(store, f"_lakefs/bench/{name}/", writing.new_attempt(), schema)
    work = partial(_write, target, rows)
    return writing.parts_of(run_tasks(lambda: spark, tasks, work, rows=objects))


def decide(objects: int, directory: Path, *, runs: int) -> None:
    """Store the tables, and decide several times; the seconds of each time are printed."""
    spark = start_session(spark_config(master="local[2]"))
    folder = str(directory.resolve())
    (directory / "bench").mkdir()
    namespace = Namespace("local://bench", server_path=folder)
    store = open_store(namespace, StoreOptions(local_path=folder))
    staged = (*range(COMMITTED, STAGED),)
    entries = schemas.UNCOMMITTED_ADDRESSES
    of_staged = [
        *parts(
            store, spark, "scan", entries, rows=partial(referring, entries, staged), objects=objects
        ),
        *parts(
            store, spark, "diff", entries, rows=partial(referring, entries, staged), objects=objects
        ),
    ]
    committed, some = schemas.COMMITTED_ADDRESSES, (*range(COMMITTED),)
    old = (0, 2, *range(STAGED, EXPIRED))
    of_committed = parts(
        store,
        spark,
        "committed",
        committed,
        rows=partial(referring, committed, some),
        objects=objects,
    )
    of_expired = parts(
        store, spark, "expired", committed, rows=partial(referring, committed, old), objects=objects
    )
    listing = parts(store, spark, "listed", schemas.NAMESPACE_SLICES, rows=listed, objects=objects)
    run: Any = SimpleNamespace(
        store=store,
        spark=spark,
        key=RunKey.at(NOW),
        limits=limits(),
        options=SimpleNamespace(read_threads=8),
        repository=SimpleNamespace(id="bench"),
    )
    attempt = writing.new_attempt()
    targets = FateTargets(
        Target(store, "_lakefs/bench/decided/", attempt, schemas.EXPIRED_ADDRESSES),
        Target(store, "_lakefs/bench/fates/", attempt, schemas.FATES),
    )
    nothing = np.empty(0, np.int64)
    answers = fates_by_answers.Answers(nothing, pa.array([], pa.string()), nothing)
    for _ in range(runs):
        before, before_of_java = _cpu(), _cpu("java")
        began = time.perf_counter()
        decided = fates.decide(
            run,
            _table(store, "namespace_slices", listing),
            _table(store, "uncommitted_addresses", of_staged),
            _table(store, "committed_addresses", of_committed, of_expired),
            targets=targets,
            inputs=fates.Inputs(holds.NONE, source_of(HELD.empty_table(), HELD)),
            otherwise=WhyMayGo.NEVER_COMMITTED,
        )
        decided = fates_by_answers.decide_waiting(run, decided, answers, targets)
        sys.stdout.write(
            json.dumps(
                {
                    "seconds": round(time.perf_counter() - began, 1),
                    "cpu_seconds": round(_cpu() - before, 1),
                    "java_cpu_seconds": round(_cpu("java") - before_of_java, 1),
                    "references": decided.references,
                    "fates": {name: count for name, count in decided.objects.items() if count},
                }
            )
            + "\n"
        )
        sys.stdout.flush()
    spark.stop()


def _table(
    store: ObjectStore, name: str, parts: Sequence[Part], beside: Sequence[Part] = ()
) -> StoredTable:
    """Make a table of files; nothing of it is taken from an index."""
    counts: Any = dict.fromkeys(_COUNTED, 0)
    manifest = Manifest(
        table=name,
        repository="bench",
        instance="bench",
        run=str(RunKey.at(NOW)),
        attempt="",
        reading_began=NOW,
        reading_ended=NOW,
        parents={},
        parts=tuple(parts),
        facts=CommittedFigures(**counts).facts(),
        beside=tuple(beside),
    )
    return StoredTable(manifest, store)


def _cpu(name: str = "") -> float:
    """Return the CPU seconds of this process and its descendants, or of those of one name."""
    return sum(
        cpu_seconds(pid)
        for pid in _family(os.getpid())
        if not name or Path(f"/proc/{pid}/comm").read_text().strip() == name
    )


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _family(int(child))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=20_000_000, help="listed objects")
    parser.add_argument("--runs", type=int, default=3, help="decisions")
    parser.add_argument("--inner", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inner is not None:
        decide(asked.objects, asked.inner, runs=asked.runs)
        return
    scratch = Path(tempfile.mkdtemp(prefix="lakegc-fates-"))
    try:
        words = [
            "--objects",
            str(asked.objects),
            "--runs",
            str(asked.runs),
            "--inner",
            str(scratch),
        ]
        measured = run_measured([sys.executable, "-m", "benchmarks.fates", *words])
        sys.stdout.write("".join(f"{line}\n" for _, line in measured.lines))
        pss = sum(measured.pss_bytes.values()) / 2**20
        sys.stdout.write(f"most memory of all processes together: {pss:,.0f} MiB (PSS)\n")
        if measured.exit_code:
            sys.exit(measured.errors)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
