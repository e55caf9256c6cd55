"""Metaranges that no retained commit names: a branch alone may have what is staged in one.

lakeFS Enterprise can compact what is staged on a branch: it writes it, over the branch's head, into
a metarange that the branch's record names, and drops it from staging. Scans and diffs go on
showing it, except where something newer is staged over it. The next commit starts from that
metarange, and keeps its entry where the newer one has the same content. So an address comes back
that neither scan nor diff nor commit nor the branch itself showed until then (safety 63). No call
of the server tells the metarange; but it lies in the store, so those that no commit names are found
there.

A table is named by its content. So what is compacted may be the metarange of an old commit again,
of one that has expired; then its file was written again, long after that commit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from functools import partial

import pyarrow as pa

from spark_core import graveler
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import CorruptTableError, IncompleteReadError
from spark_core.records import tables
from spark_core.records.figures import ListedFigures
from spark_core.run import Run
from spark_core.spark.tasks import interleaved
from spark_core.storage import ObjectStore

_TABLE_ID = re.compile(r"[0-9a-f]{64}")
# The clocks of the server and of the store may each differ so much from this machine's.
_CLOCKS = 2


def may_compact(run: Run) -> bool:
    """Say whether metaranges that no retained commit names may be those of branches."""
    listed = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest)
    return run.options.compacted == "keep" and bool(listed.may_compact)


def compacted_metaranges(
    run: Run,
    prefix: str,
    retained: Collection[str],
    expired: Mapping[str, datetime],
    *,
    since: datetime | None,
) -> list[str]:
    """Find the metaranges of objects that no retained commit names and some branch may read from.

    They must be looked for after what is staged was read: an entry goes from there into a
    metarange, and the file is there before the entry leaves. Whatever gives a branch a new head
    ends the branch's compaction, but for a hard reset. So a file that is older than all heads is no
    branch's any more. The end of each other table is read once by a process, because a table never
    changes.

    Args:
        run: The run.
        prefix: Where the server keeps its tables.
        retained: Metaranges that retained commits name.
        expired: Metaranges that other commits name -> date of the newest of these.
        since: Since when all branches stand on their heads; None if nobody knows.

    Returns:
        Their ids, sorted. What a commit tried in vain to write is among them, and what a branch has
        forgotten while another one kept its head.

    Raises:
        CorruptTableError: If a file there is no table of the server.
        IncompleteReadError: If the listing lacks a metarange that a retained commit names.
    """
    clocks = _CLOCKS * MAX_CLOCK_SKEW
    tables_there = list(servers_tables(run.store, prefix))
    _require_whole(run, prefix, set(retained) - {""} - {id_ for id_, *_ in tables_there})
    least = None if since is None else since - clocks
    sizes = {
        id_: size
        for id_, size, written in tables_there
        if least is None or written >= least
        # A commit is dated before its metarange is written.
        if not (id_ in expired and written - clocks <= expired[id_])
    }
    known, look = run.metaranges_by_id, partial(_look, run.store, prefix, sizes)
    unknown = sorted(sizes.keys() - known.keys() - set(retained))
    for batch in interleaved(unknown, look, threads=run.options.read_threads):
        known.update(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return sorted(id_ for id_ in sizes if id_ not in retained and known[id_])


def _require_whole(run: Run, prefix: str, missing: Collection[str]) -> None:
    """Refuse a listing of the server's tables that lacks some which must be there."""
    if missing:
        raise IncompleteReadError(
            f"the listing of {prefix}/ of {run.store.root} lacks {len(missing)} metaranges of "
            f"retained commits, {min(missing)[:12]} among them: what branches have compacted may "
            "be missing as well",
            "Look whether they are there, and mark again under a new run key.",
        )


def servers_tables(store: ObjectStore, prefix: str) -> Iterator[tuple[str, int, datetime]]:
    """List the server's tables: id, bytes, last writing."""
    _, objects = store.children(prefix)
    columns = (objects[name].to_pylist() for name in ("key", "size_bytes", "last_modified"))
    for key, size, written in zip(*columns, strict=True):
        id_ = key.rpartition("/")[2]
        if _TABLE_ID.fullmatch(id_):
            yield id_, size, written


def _look(
    store: ObjectStore, prefix: str, sizes: dict[str, int], id_: str
) -> Iterator[pa.RecordBatch]:
    key, size = f"{prefix}/{id_}", sizes[id_]
    try:
        for length in (min(size, graveler.END_BYTES), size):
            found = graveler.is_metarange(
                store.read_range(key, size - length, length), size, name=key
            )
            if found is not None:
                break
    except CorruptTableError as problem:
        problem.next_step = (
            "Until it is told what this file is, it may name objects that a branch reads. Compare "
            "it with a copy; if your server does not compact what is staged, set "
            '`compacted = "ignore"`.'
        )
        raise
    yield pa.record_batch([[id_], pa.array([bool(found)])], ["id", "is_metarange"])
