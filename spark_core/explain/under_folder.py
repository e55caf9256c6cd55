"""Why a folder is as big as it is: its objects by what keeps them, or lets them go.

A folder of paths has objects that a ref shows now, that retained commits have, and that were let
go. A folder of addresses, below the namespace, has what the run's listing has there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import hashed
from spark_core.addresses.namespace import AddressType
from spark_core.errors import TABLES_UNREADABLE, AddressError, NotFoundError
from spark_core.explain.address_or_path import SCHEME, ref_and_path
from spark_core.fates import Fate
from spark_core.lakefs.refs import no_such_ref
from spark_core.records import tables
from spark_core.references.commits import tables_prefix
from spark_core.references.metaranges import Metarange, distinct_ranges
from spark_core.references.range_entries import read_whole, resolve_entries
from spark_core.references.shared_ranges import tasks_of
from spark_core.references.table_reader import TableReader
from spark_core.run import Run
from spark_core.spark.exchange import (
    AnySource,
    Batches,
    Exchange,
    Sent,
    Source,
    no_work,
    source_of,
)
from spark_core.spark.tasks import interleaved

AT_REF, COMMITS = "at_ref", "commits"
_HASHES = pa.schema([pa.field("address_hash", pa.int64(), nullable=False)])
_LISTED = _HASHES.append(pa.field("size_bytes", pa.int64(), nullable=False))
_FATES = _HASHES.append(pa.field("fate", pa.string(), nullable=False))

Sums = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class FolderGroup:
    """Objects of a folder that stay, or may go, for the same reason.

    Attributes:
        reason: `at_ref`, `commits`, or a fate as the run stored it.
        text: What that means.
        objects: How many there are.
        size_bytes: Their bytes.
    """

    reason: str
    text: str
    objects: int
    size_bytes: int


@dataclass(frozen=True)
class FolderExplanation:
    """What a folder comes to.

    Attributes:
        repository: Repository id.
        run: Run key; sizes and fates are what that run saw.
        folder: As it was asked for.
        objects: How many objects there are in all.
        size_bytes: Their bytes.
        groups: The same by reason, most bytes first.
    """

    repository: str
    run: str
    folder: str
    objects: int
    size_bytes: int
    groups: tuple[FolderGroup, ...]

    def to_json(self) -> str:
        """Write it as one JSON object."""
        return json.dumps(asdict(self), indent=1)


def is_folder(wanted: str) -> bool:
    """Say whether a folder is asked about, and not one object."""
    return wanted.endswith("/")


def explain_folder(run: Run, wanted: str) -> FolderExplanation:
    """Sum up the objects of a folder by what keeps them, or lets them go.

    Args:
        run: A run with a mark.
        wanted: `lakefs://REPOSITORY/REF/FOLDER/`, or a physical folder, full or relative to the
            namespace.

    Raises:
        NotFoundError: If there is no such ref, or nothing lies or lay there.
        AddressError: If a physical folder lies outside the namespace.
        ChainError: If the run has no mark.
    """
    if wanted.startswith(SCHEME):
        ref, path = ref_and_path(run, wanted, may_be_all=True)
        sources = _of_paths(run, ref, path)
        kernel, words = _sum_named, f"{ref} shows it now"
    else:
        sources, kernel, words = {"listed": _listed_under(run, wanted)}, _sum_listed, ""
    sources["fates"] = run.load(tables.FATES).source(_FATES.names)
    told, _ = Exchange(sources, kernel, _HASHES, no_work).run(
        lambda: run.spark, threads=run.options.read_threads
    )
    groups = _groups(told, words, was_swept=_was_swept(run))
    if not groups:
        raise NotFoundError(
            f"nothing that run {run.key} listed lies or lay under {wanted}",
            "Name a folder of paths as lakefs://REPOSITORY/REF/FOLDER/, or one below the namespace "
            "as data/FOLDER/.",
        )
    objects, size_bytes = (
        sum(group.objects for group in groups), sum(group.size_bytes for group in groups)
    )  # fmt: skip
    return FolderExplanation(
        run.repository.id, str(run.key), wanted, objects, size_bytes, tuple(groups)
    )


def _was_swept(run: Run) -> bool:
    return run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key))


def _groups(told: Sequence[Sums], at_ref: str, *, was_swept: bool) -> list[FolderGroup]:
    total: Sums = {}
    for some in told:
        for name, (objects, size_bytes) in some.items():
            before = total.get(name, (0, 0))
            total[name] = (before[0] + objects, before[1] + size_bytes)
    only = "only older commits, other branches or tags that are retained have it"
    words = {AT_REF: at_ref, COMMITS: only if at_ref else Fate.COMMITTED.sentence}
    if was_swept:
        gone = "let go; the sweep of this run has ended"
        words |= {fate.value: gone for fate in Fate if fate.may_go}
    groups = [
        FolderGroup(name, words.get(name) or Fate(name).sentence, *figures)
        for name, figures in total.items()
    ]
    return sorted(groups, key=lambda group: (-group.size_bytes, group.reason))


def _listed_under(run: Run, wanted: str) -> AnySource:
    """Return the listed objects of a physical folder."""
    folder = run.namespace.relative(wanted.rstrip("/"), AddressType.BY_PREFIX)
    if folder is None:
        raise AddressError(
            f"{wanted} lies outside the storage namespace {run.namespace.root} of repository "
            f"{run.repository.id}",
            "Give a folder below that namespace, or one of paths as lakefs://REPOSITORY/REF/FOLDER/.",
        )
    listed = run.load(tables.NAMESPACE_SLICES).source([*_LISTED.names, "address"])
    return listed.through(_LISTED, partial(_under, f"{folder}/"))


def _under(folder: str, batches: Batches) -> Batches:
    for batch in batches:
        yield batch.filter(pc.starts_with(batch.column("address"), folder)).select(_LISTED.names)


def _of_paths(run: Run, ref: str, path: str) -> dict[str, AnySource]:
    """Return who names objects below a path."""
    try:
        shown = list(_shown(run, ref, path))
    except NotFoundError as unknown:
        raise no_such_ref(run.server, run.repository.id, ref) from unknown
    rows = run.load(tables.RETAINED_COMMITS).batches(["metarange_id"])
    kept = {id_ for batch in rows for id_ in batch.column(0).to_pylist()} - {""}
    listed = run.load(tables.NAMESPACE_SLICES).source(_LISTED.names)
    return {
        "listed": listed,
        AT_REF: source_of(
            pa.table({"address_hash": hashed(pa.array(shown, pa.string()))}), _HASHES
        ),
        COMMITS: _committed(run, sorted(kept), path),
        "let_go": _let_go(run, path),
    }


def _shown(run: Run, ref: str, path: str) -> Iterator[str]:
    """Yield the addresses of what a ref shows below a path now, staged or committed."""
    for entry in run.server.entries_under(run.repository.id, ref, path):
        address = run.namespace.relative(entry.physical_address, AddressType.FULL)
        if address is not None:
            yield address


def _committed(run: Run, metaranges: Sequence[str], path: str) -> Source[pa.Table]:
    """Read every range of the retained commits; address_hash of the entries below a path."""
    reader = TableReader.of(run, tables_prefix(run))
    asked = [Metarange(id_, is_head=True, is_retained=True) for id_ in metaranges]
    ranges, _ = distinct_ranges(run, reader, asked)
    return Source(
        _HASHES,
        tasks_of(ranges, run.reading_tasks),
        pc.sum(ranges["count"]).as_py() or 0,
        partial(_entries_under, reader, path.encode()),
    )


def _entries_under(reader: TableReader, path: bytes, ranges: pa.Table) -> Batches:
    def read(row: Mapping[str, Any]) -> Batches:
        entries = resolve_entries(reader.namespace, read_whole(reader, row))
        below = entries.filter(pc.starts_with(entries.column("head_path"), path))
        yield below.select(_HASHES.names)

    yield from interleaved(ranges.to_pylist(), read, threads=reader.threads)


def _let_go(run: Run, path: str) -> AnySource:
    """Return what the run let go of the path, as far as its explanations know."""
    try:
        named = run.load(tables.EXPLANATIONS).source(["address", "path"])
    except TABLES_UNREADABLE:
        return source_of(_HASHES.empty_table(), _HASHES)
    return named.through(_HASHES, partial(_hashes_under, path))


def _hashes_under(path: str, batches: Batches) -> Batches:
    for batch in batches:
        below = batch.filter(pc.starts_with(batch.column("path"), path))
        yield pa.record_batch([hashed(below.column("address"))], schema=_HASHES)


def _sum_listed(bucket: Mapping[str, pa.Table]) -> Sent[Sums]:
    """Sum up listed objects by their fates; one without a fate is in a retained commit."""
    known = bucket["listed"].join(bucket["fates"], "address_hash", join_type="left outer")
    return Sent(_summed(known["fate"].fill_null(COMMITS), known["size_bytes"]), {})


def _sum_named(bucket: Mapping[str, pa.Table]) -> Sent[Sums]:
    """Sum up the named objects of a bucket: what the ref shows, what commits have, and the rest."""
    listed = bucket["listed"]
    is_shown, is_committed, is_let_go = (
        pc.is_in(listed["address_hash"], value_set=bucket[name]["address_hash"].combine_chunks())
        for name in (AT_REF, COMMITS, "let_go")
    )
    rest = pc.if_else(is_let_go, "", None)
    named = pc.if_else(is_shown, AT_REF, pc.if_else(is_committed, COMMITS, rest))
    some = listed.append_column("named", named).filter(pc.is_valid(named))
    known = some.join(bucket["fates"], "address_hash", join_type="left outer")
    fate = known["fate"].fill_null(COMMITS)
    names = pc.if_else(pc.equal(known["named"], ""), fate, known["named"])
    return Sent(_summed(names, known["size_bytes"]), {})


def _summed(names: pa.ChunkedArray, sizes: pa.ChunkedArray) -> Sums:
    rows = (
        pa.table({"name": names, "size": sizes})
        .group_by("name")
        .aggregate([([], "count_all"), ("size", "sum")])
        .to_pylist()
    )
    return {row["name"]: (row["count_all"], row["size_sum"]) for row in rows}
