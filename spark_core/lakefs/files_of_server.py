"""Read the files that the server wrote for a collection, through a store rooted at the namespace.

The keys are derived from run ids, because on a local blockstore the locations in the server's
answers do not begin with the storage namespace (`lakefs-facts` 11.24).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler
from spark_core.errors import (
    AddressError,
    CorruptTableError,
    IncompleteReadError,
    NotFoundError,
    RepositoryStateError,
)
from spark_core.graveler.table_format import LAKEFS_CHECKED
from spark_core.lakefs.answer_types import PreparedUncommitted, RefsDump
from spark_core.model import Refs
from spark_core.schemas import SERVER_UNCOMMITTED, STAGED_ADDRESSES
from spark_core.storage import ObjectStore

DEFAULT_PREFIX = "_lakefs"
_HEADER = "commit_id,expired,metarange_id"
_ROW = re.compile(r"([0-9a-f]{64}),false,([0-9a-f]{64}|)")
_NOT_RELATIVE = r"^$|^/|^[A-Za-z][A-Za-z0-9+.-]*://|\x00"


def read_retained(store: ObjectStore, run_id: str, prefix: str = DEFAULT_PREFIX) -> pa.Table:
    """Read the server's list of retained commits.

    Args:
        store: Rooted at the namespace.
        run_id: Run id of `prepare_commits`.
        prefix: The server's table prefix.

    Returns:
        Columns commit_id and metarange_id (empty for a repository's first commit), both strings.

    Raises:
        RepositoryStateError: If the list holds no commit, so the repository is bare or deleted.
        CorruptTableError: If the file is not what the server writes.
        IncompleteReadError: If the file is not there.

    References:
        `lakefs-facts` 5.3, 11.23.
    """
    key = f"{prefix}/retention/gc/commits/run_id={run_id}/commits.csv"
    text = _written(store, key).decode("ascii", errors="replace")
    header, *lines = text.split("\n")
    if header != _HEADER:
        raise CorruptTableError(key, 0, f"the header is {header[:80]!r}, wanted {_HEADER!r}")
    if not lines or lines.pop():
        raise CorruptTableError(key, len(text), "the last line has no end, so the file was cut off")
    rows = []
    for number, line in enumerate(lines, start=2):
        row = _ROW.fullmatch(line)
        if row is None:
            raise CorruptTableError(
                key,
                None,
                f"line {number} is {line[:150]!r}, wanted a commit id, 'false' and a metarange id "
                "or nothing",
            )
        rows.append(row.groups())
    if not rows:
        raise RepositoryStateError(
            f"{key}: the server retains no commit at all, although every branch retains its head: "
            "the repository is bare, or it was deleted a moment ago; everything would look "
            "unreachable",
            "Look at it with `lakectl repo list` and run again if it lives.",
        )
    return pa.table(
        {
            "commit_id": pa.array([commit_id for commit_id, _ in rows], pa.string()),
            "metarange_id": pa.array([metarange_id for _, metarange_id in rows], pa.string()),
        }
    )


def uncommitted_files(
    store: ObjectStore, scan: PreparedUncommitted, prefix: str = DEFAULT_PREFIX
) -> dict[str, int]:
    """List the files of one scan.

    Args:
        store: Rooted at the namespace.
        scan: A finished scan.
        prefix: The server's table prefix.

    Returns:
        The size in bytes of each file by its key, sorted. A page may write a file without rows, and
        a repeated page writes a second file.

    Raises:
        IncompleteReadError: If there are fewer files than pages that said they wrote one
            (safety 1).
    """
    directory = f"{prefix}/retention/gc/uncommitted/{scan.run_id}/uncommitted/"
    columns = (
        (batch.column("key").to_pylist(), batch.column("size_bytes").to_pylist())
        for batch in store.list(directory)
    )
    files = dict(sorted(pair for keys, sizes in columns for pair in zip(keys, sizes, strict=True)))
    if len(files) < scan.pages_with_data:
        raise IncompleteReadError(
            f"{directory} of {store.root} holds {len(files)} files, {scan.pages_with_data} pages "
            "of the scan said that they wrote one; staged objects would look unreachable",
            "Check that lakegc reads the store that the server writes to, and run again.",
        )
    return files


def read_uncommitted(store: ObjectStore, key: str) -> Iterator[pa.RecordBatch]:
    """Read one file of a scan.

    Args:
        store: Rooted at the namespace.
        key: One of `uncommitted_files`.

    Yields:
        Columns of `schemas.STAGED_ADDRESSES`; duplicates allowed.

    Raises:
        CorruptTableError: If one of the two columns is missing or of another type. Other columns of
            a newer server are ignored, because a row can only keep an object.
        AddressError: If an address is not relative.
        IncompleteReadError: If the file is gone, or fewer rows were read than it says it has.

    References:
        `lakefs-facts` 5.4, 11.32.
    """
    rows = 0
    try:
        found, stated = store.parquet_footer(key)
        found = found.remove_metadata()
        _require_columns(key, found)
        for batch in store.read_parquet(key):
            rows += batch.num_rows
            yield _staged(key, batch)
    except NotFoundError as error:
        raise _gone(store, key) from error
    if rows != stated:
        raise IncompleteReadError(
            f"{key} of {store.root} says that it has {stated} rows, and {rows} were read; staged "
            "objects would look unreachable",
            "Run again.",
        )


def _require_columns(key: str, found: pa.Schema) -> None:
    for wanted in SERVER_UNCOMMITTED:
        at = found.get_all_field_indices(wanted.name)
        if len(at) != 1 or not found.field(at[0]).equals(wanted):
            raise CorruptTableError(
                key,
                None,
                f"the columns are {_columns(found)}, wanted {_columns(SERVER_UNCOMMITTED)}, as "
                f"servers up to {LAKEFS_CHECKED} write them, and any others beside them",
            )


def _staged(key: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    addresses, created = batch.column("physical_address"), batch.column("creation_date")
    strange = addresses.filter(pc.match_substring_regex(addresses, _NOT_RELATIVE))
    if len(strange):
        raise AddressError(
            f"{key}: the staged address {strange[0].as_py()[:300].partition('?')[0]!r} is not "
            "relative to the namespace; whether it is alive cannot be decided",
            "Find the entry that has it and report the form.",
        )
    try:
        instants = created.cast(pa.timestamp("s", tz="UTC")).cast(
            STAGED_ADDRESSES.field("created_at").type
        )
    except pa.ArrowInvalid as error:
        raise CorruptTableError(key, None, f"a creation date is no instant: {error}") from error
    return pa.record_batch([addresses, instants], schema=STAGED_ADDRESSES)


def read_refs_dump(
    store: ObjectStore,
    dump: RefsDump,
    prefix: str = DEFAULT_PREFIX,
    *,
    sizes: list[int] | None = None,
) -> Refs:
    """Read the tables of a refs dump.

    Args:
        store: Rooted at the namespace.
        dump: A finished dump.
        prefix: The server's table prefix.
        sizes: Receives the size in bytes of each table, to count what the server leaves.

    Returns:
        All commits, branches and tags. The commit of a head that moved during the
        dump may be missing; `retention.require_whole` checks that.

    Raises:
        CorruptTableError: If a table is broken.
        IncompleteReadError: If a table is not there.
    """

    def read(table_id: str) -> bytes:
        data = _written(store, f"{prefix}/{table_id}")
        if sizes is not None:
            sizes.append(len(data))
        return data

    return graveler.read_refs(
        read,
        commits_metarange_id=dump.commits_metarange_id,
        branches_metarange_id=dump.branches_metarange_id,
        tags_metarange_id=dump.tags_metarange_id,
    )


def _written(store: ObjectStore, key: str) -> bytes:
    """Read an object that the server said it wrote."""
    try:
        return store.read(key)
    except NotFoundError as error:
        raise _gone(store, key) from error


def _gone(store: ObjectStore, key: str) -> IncompleteReadError:
    return IncompleteReadError(
        f"{key} is not in {store.root}, although the server said that it wrote it",
        "Check that lakegc reads the store that the server writes to, and run again.",
    )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(
        f"{field.name} {field.type}{'' if field.nullable else ' required'}" for field in schema
    )
