"""Files of the index that a run saved, and other ones in their place with all hashes as they should
be.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from spark_core import lakegc_keys
from spark_core.checks import verdict as verdicts
from spark_core.index import saved as documents
from spark_core.index.saved import Saved
from spark_core.records import tables
from spark_core.records.manifest import Part
from spark_core.run import Run

# The kinds of files, by the attributes of `Saved` that name them.
KINDS = ("slices", "trees", "ranges", "entries")


def saved(run: Run) -> Saved:
    """Read what a run saved."""
    return documents.load(run.store, run.key)


def parts_of(run: Run, kind: str) -> list[Part]:
    """Return the files of a kind; `gone` for rows of slices that are left out."""
    if kind == "gone":
        return [part.without for part in saved(run).slices if part.without is not None]
    return list(getattr(saved(run), kind))


def store_saved(run: Run, document: Saved) -> None:
    """Put a document in the place of what a run saved, and let the verdict name it."""
    verdict = verdicts.load(run)
    name = tables.EXPIRED_ADDRESSES.name
    links = {**verdict.tables, name: {**verdict.tables[name], "saved": document.digest}}
    run.store.put(lakegc_keys.saved_key(run.key), document.to_json())
    run.store.put(lakegc_keys.verdict_key(run.key), replace(verdict, tables=links).to_json())


def rewrite(run: Run, kind: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the rows of all files of a kind; every hash is right afterwards.

    Args:
        run: The run that saved them.
        kind: One of `KINDS`.
        change: Gets the rows of a file, and returns others.
    """
    parts = []
    for part in parts_of(run, kind):
        rows = change(pq.read_table(io.BytesIO(part.held or run.store.read(part.key))))
        sink = io.BytesIO()
        pq.write_table(rows, sink)
        data = sink.getvalue()
        content = base64.b64encode(data).decode() if part.content else ""
        if not content:
            run.store.put(part.key, data)
        digest = hashlib.sha256(data).hexdigest()
        written = Part(part.key, rows.num_rows, len(data), digest, content)
        parts.append(replace(written, without=part.without))
    store_saved(run, replace(saved(run), **{kind: tuple(parts)}))
