"""Everything that ever had a path under a prefix: each commit of the repository, each branch now.

lakeFS deletes objects and never the tables of its commits, so the tables say which addresses any
commit had under a prefix. The cost grows with the number of different metaranges of the repository
(one small request each) and of the ranges that overlap the prefix, not with the objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.errors import IncompleteReadError, NotFoundError, UnsafePlanError
from spark_core.graveler.metaranges import read_metarange
from spark_core.graveler.ranges import read_range
from spark_core.holds import Holds
from spark_core.model import Commit, RetentionRules, RunKey
from spark_core.references.commits import ReadCommits, read_commits
from spark_core.references.held_paths import may_have
from spark_core.run import Run

# Objects under a prefix that the driver holds.
MOST_OBJECTS = 100_000
_AT_ONCE = 16


@dataclass
class Once:
    """One object that has or had a path under the prefix.

    Attributes:
        address: Relative address; the absolute one if it lies outside the namespace.
        path: The first path under the prefix, in the order of their characters.
        is_inside: Whether it lies in the repository's namespace.
        commit: Newest commit that has it under the prefix; None if none has.
        kept_by: Why a retained commit keeps it; empty if none does.
        held_by: Why a hold keeps it, by its address or by a path under the prefix; empty if none
            does.
        branches: Branches that show it under the prefix now, staged entries included.
    """

    address: str
    path: str
    is_inside: bool
    commit: Commit | None = None
    kept_by: str = ""
    held_by: str = ""
    branches: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class UnderPrefix:
    """What was found under a prefix.

    Attributes:
        objects: The objects, by address.
        commits: How many commits were read.
        read_at: When the reading began.
        rules: The rules of the repository; None if it has none.
        heads: Commit of each branch.
        kept: The retained commits that have something there: rows of `schemas.RETAINED_COMMITS`.
    """

    objects: Mapping[str, Once]
    commits: int
    read_at: datetime
    rules: RetentionRules | None = None
    heads: Mapping[str, str] = field(default_factory=dict)
    kept: Sequence[Mapping[str, Any]] = ()

    @property
    def kept_ids(self) -> set[str]:
        """The ids of these commits."""
        return {row["commit_id"] for row in self.kept}


def under_prefix(run: Run, prefix: str) -> UnderPrefix:
    """Find every object that has or had a path under a prefix.

    Branches are read first and commits second, as in a mark: entries only move from staged to
    committed.

    Args:
        run: Any run of the repository; only server and store are used.
        prefix: Beginning of the paths; not empty.

    Raises:
        IncompleteReadError: If not every commit can be known, or a table of one is not there.
        UnsafePlanError: If more than `MOST_OBJECTS` objects are found.
        CorruptTableError: If a table is broken.
    """
    read_at = run.now()
    found = _shown_by_branches(run, prefix)
    tables_at = run.server.table_prefix(run.repository.id)
    # Retention is counted from now, whatever run is certified.
    now = run.at(RunKey.at(read_at))
    read = read_commits(now, tables_at)
    _require_all_commits(run, read)
    kept = {row["commit_id"]: row["reason"] for row in read.table.to_pylist()}
    # In an order that a later reading of the same commits has, too.
    commits = sorted(read.refs.commits.values(), key=lambda commit: commit.id)
    paths, having = dict[tuple[str, str], None](), set[str]()
    for commit, path, address in _committed(run, commits, tables_at, prefix):
        once = _once(run, found, path, address)
        paths[path, address] = None
        having.add(commit.id)
        if once.commit is None or commit.creation_date > once.commit.creation_date:
            once.commit = commit
        if not once.kept_by and commit.id in kept:
            once.kept_by = f"commit {commit.id[:12]} ({kept[commit.id]})"
    _note_holds(found, read.holds, list(paths))
    return UnderPrefix(
        found,
        len(read.refs.commits),
        read_at,
        read.rules,
        {branch.id: branch.commit_id for branch in read.refs.branches},
        [row for row in read.table.to_pylist() if row["commit_id"] in having],
    )


def _shown_by_branches(run: Run, prefix: str) -> dict[str, Once]:
    """Ask each branch what it shows under the prefix, staged entries included."""
    found: dict[str, Once] = {}
    for branch in run.server.branches(run.repository.id):
        for path, uri in _entries(run, branch.id, prefix):
            once = _once(run, found, path, uri)
            if branch.id not in once.branches:
                once.branches.append(branch.id)
    return found


def _require_all_commits(run: Run, read: ReadCommits) -> None:
    """Refuse refs that may lack a commit which had something under the prefix."""
    if read.dump is None:
        raise IncompleteReadError(
            f"the commits of {run.repository.id} could only be walked from its branches and tags, "
            "and a commit of a deleted branch may have had something under the prefix",
            "Give the user fs:ListTags, fs:ListBranches and fs:ListCommits, which a dump needs.",
        )
    # A retained commit that only the server knows is in its list and not among the refs.
    unknown = set(read.table["commit_id"].to_pylist()) - read.refs.commits.keys()
    if unknown:
        raise IncompleteReadError(
            f"the server retains commit {min(unknown)} of {run.repository.id}, which its refs dump "
            "does not have: what it holds under the prefix is unknown",
            "Run again.",
        )


def _once(run: Run, found: dict[str, Once], path: str, address: str) -> Once:
    is_inside = "://" not in address
    once = found.setdefault(address, Once(address, path, is_inside))
    once.path = min(once.path, path)
    if len(found) > MOST_OBJECTS:
        raise UnsafePlanError(
            f"more than {MOST_OBJECTS:,} objects of {run.repository.id} are or were under the "
            "prefix",
            "Name a longer prefix, and make a certificate for each.",
        )
    return once


def _note_holds(found: Mapping[str, Once], holds: Holds, paths: Sequence[tuple[str, str]]) -> None:
    """Note which holds keep objects, by their addresses or paths."""
    by_path = holds.reasons_of_paths(pa.array([path.encode() for path, _ in paths], pa.binary()))
    by_address = holds.reasons(pa.array(list(found), pa.string()))
    addresses = [*found, *(address for _, address in paths)]
    whys = [*by_address.to_pylist(), *by_path.to_pylist()]
    for address, why in zip(addresses, whys, strict=True):
        if why is not None and not found[address].held_by:
            found[address].held_by = why


def _entries(run: Run, ref: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield path and address of a ref's entries under a prefix, staged ones included."""
    after = _before(prefix)
    while True:
        page = run.server.list_entries(run.repository.id, ref, after=after)
        for path, uri in page.entries:
            if path.startswith(prefix):
                relative = run.namespace.relative_absolute(uri)
                yield path, uri if relative is None else relative
        if not page.has_more:
            return
        after = page.entries[-1][0]
        if after.encode() > prefix.encode() and not after.startswith(prefix):
            return


def _before(prefix: str) -> str:
    """Return a path that sorts shortly before everything under a prefix, in UTF-8."""
    before = ord(prefix[-1]) - 1
    if 0xD800 <= before <= 0xDFFF:
        before = 0xD7FF  # what lies between is no character
    return prefix[:-1] + (chr(before) + chr(0x10FFFF) if before > 0 else "")


def _committed(
    run: Run, commits: Iterable[Commit], tables_at: str, prefix: str
) -> Iterator[tuple[Commit, str, str]]:
    """Yield each commit with path and address of its entries under a prefix."""
    named: dict[str, list[Commit]] = {}
    for commit in commits:
        if commit.metarange_id:
            named.setdefault(commit.metarange_id, []).append(commit)
    first = prefix.encode()

    def ranges_of(metarange_id: str) -> list[tuple[str, int]]:
        data = _read(run, f"{tables_at}/{metarange_id}")
        rows = read_metarange(data, name=metarange_id)
        return [
            (row["range_id"], row["count"])
            for row in rows.filter(may_have(rows, [first])).to_pylist()
        ]

    def entries_of(wanted: tuple[str, int]) -> list[tuple[str, str]]:
        range_id, count = wanted
        batch = read_range(
            _read(run, f"{tables_at}/{range_id}"), name=range_id, expected_count=count
        )
        under = batch.filter(pc.starts_with(batch.column("path"), first))
        types = under.column("address_type")
        addresses = under.column("address")
        relative = run.namespace.relative_batch(addresses, types).to_pylist()
        return [
            (path.decode(errors="replace"), where if inside is None else inside)
            for path, where, inside in zip(
                under.column("path").to_pylist(), addresses.to_pylist(), relative, strict=True
            )
        ]

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        of_metarange = dict(zip(named, pool.map(ranges_of, named), strict=True))
        wanted = list(dict.fromkeys(each for found in of_metarange.values() for each in found))
        of_range = dict(zip(wanted, pool.map(entries_of, wanted), strict=True))
    for metarange_id, ranges in of_metarange.items():
        entries = dict.fromkeys(entry for each in ranges for entry in of_range[each])
        for commit in named[metarange_id]:
            for path, address in entries:
                yield commit, path, address


def _read(run: Run, key: str) -> bytes:
    try:
        return run.store.read(key)
    except NotFoundError as missing:
        raise IncompleteReadError(
            f"{key}, a table of a commit of {run.repository.id}, is not in the store: what the "
            "commit had under the prefix is unknown",
            "lakeFS deletes no tables; find out who did.",
        ) from missing
