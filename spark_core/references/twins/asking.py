"""Ask branches what they read under some paths or at all, and the store for contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys
from spark_core.addresses.address_hashes import are_among, hashed
from spark_core.addresses.collectable import own_name
from spark_core.addresses.namespace import AddressType
from spark_core.errors import NotFoundError
from spark_core.lakefs import CallBudget, addresses_on, pages_of
from spark_core.references.head_entries import STATED
from spark_core.references.twins.branch_answers import READ_BY_BRANCH
from spark_core.references.twins.candidates_by_time import halves_of
from spark_core.references.twins.cost_of_asking import LOT
from spark_core.references.twins.questions import KEYS, SIZED, Suspects
from spark_core.run import Run
from spark_core.spark.tasks import deal_out, interleaved
from spark_core.storage import ObjectStore

# What branches show.
SHOWN = pa.schema([READ_BY_BRANCH.field(name) for name in ("address", "path", "branch")])
# Keys, and the first branch that was not asked about their paths.
UNASKED = KEYS.append(pa.field("from_branch", pa.int32(), nullable=False))


@dataclass
class Asking:
    """Asks within a limit of calls, and remembers what was shown and who was asked.

    Attributes:
        run: The run.
        branches: All branches; the one on which something can hide the longest comes first.
        budget: Calls and questions that are left.
        halves: Upper halves of the candidates' hashes, sorted; nothing else is remembered.
        listed: Branches (by number) whose entries were all seen.
        asked: Branches (by number) that were asked.
        unasked: Questions about paths that were not asked: (hides, key) -> first branch, and
            whether the entry lies outside.
        rest: Keys of paths that were not asked about at all; columns of `UNASKED`.
        shown: What branches showed that may be a candidate; columns of `SHOWN`.
    """

    run: Run
    branches: Sequence[str]
    budget: CallBudget
    halves: Any = None
    listed: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    unasked: dict[tuple[int, int], tuple[int, bool]] = field(default_factory=dict)
    rest: list[pa.Table] = field(default_factory=list)
    shown: list[pa.RecordBatch] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def ask_whole(self, numbers: Sequence[int]) -> None:
        """List branches from their first entry to the last, side by side."""
        self.shown += interleaved(numbers, self._whole, threads=self.run.options.branches_at_once)

    def _whole(self, number: int) -> Iterator[pa.RecordBatch]:
        branch, complete = self.branches[number], False
        try:
            for page in pages_of(
                self.run.server, self.run.repository.id, branch, budget=self.budget
            ):
                complete = not page.has_more
                yield self._shown(page.entries, branch)
        except NotFoundError:
            if self._is_there(branch):
                raise
            complete = True
        with self._lock:
            self.asked.add(number)
            if complete:
                self.listed.add(number)

    def ask_around(self, suspects: Suspects, *, scattered: bool) -> None:
        """Ask about single paths, lot after lot; in each lot, all branches side by side.

        If all paths fit, neighbouring paths are asked about together. Otherwise the paths come
        first whose question costs least, because one path that was not asked about keeps every
        candidate of its size.
        """
        left = [number for number in range(len(self.branches)) if number not in self.listed]
        if not left:
            return
        self.rest.append(_unasked_from(suspects.unheld, left[0]))
        is_sized = pc.equal(suspects.questions["hides"], SIZED).cast(pa.int8())
        questions = suspects.questions.append_column("is_sized", is_sized)
        order = [*(("is_sized", "cost", "key") if scattered else ()), "head_path"]
        questions = questions.sort_by([(name, "ascending") for name in order])
        for begin in range(0, questions.num_rows, LOT):
            if self.budget.left <= 0:
                self.rest.append(_unasked_from(questions.slice(begin), left[0]))
                return
            ask = partial(self._around, _Lot.of(questions.slice(begin, LOT), left[0]))
            self.shown += interleaved(left, ask, threads=self.run.options.branches_at_once)

    def _around(self, lot: _Lot, number: int) -> Iterator[pa.RecordBatch]:
        wanted = {
            path: rows for path, rows in lot.paths.items() if any(row[2] > number for row in rows)
        }
        if not wanted:
            return
        branch, unasked = self.branches[number], set[str]()
        try:
            found = addresses_on(
                self.run.server,
                self.run.repository.id,
                branch,
                wanted,
                budget=self.budget,
                unasked=unasked,
            )
            yield self._shown(list(found), branch)
        except NotFoundError:
            if self._is_there(branch):
                raise
            return
        with self._lock:
            self.asked.add(number)
            for path in unasked:
                for hides, key, reach, is_outside in wanted[path]:
                    if reach > number:
                        first, outside = self.unasked.get((hides, key), (number, is_outside))
                        self.unasked[hides, key] = (min(first, number), outside or is_outside)

    def _is_there(self, branch: str) -> bool:
        """Say whether a branch exists although it was not found.

        What was staged on a deleted branch is gone with it.
        """
        return branch in {left.id for left in self.run.server.branches(self.run.repository.id)}

    def _shown(self, entries: Sequence[tuple[str, str]], branch: str) -> pa.RecordBatch:
        """Resolve the entries that a branch shows to their objects' addresses and their paths."""
        uris = pa.array([uri for _, uri in entries], pa.string())
        types = pa.repeat(pa.scalar(int(AddressType.FULL), pa.int32()), len(entries))
        address = self.run.namespace.relative_batch(uris, types)
        if address.null_count:
            outside = address.is_null()
            known = [_known_as(uri) for uri in uris.filter(outside).to_pylist()]
            address = pc.replace_with_mask(address, outside, pa.array(known, pa.string()))
        paths = pa.array([path for path, _ in entries], pa.string())
        shown = pa.record_batch(
            [address, paths, pa.repeat(pa.scalar(branch, pa.string()), len(entries))],
            names=SHOWN.names,
        )
        inside = shown.filter(address.is_valid()).cast(SHOWN)
        halves = halves_of(hashed(inside.column("address")).to_numpy())
        return inside.filter(pa.array(are_among(halves, self.halves)))

    def not_asked(self) -> pa.Table:
        """Return the questions that were not asked: columns of `UNASKED`."""
        rows = [
            (hides, key, first + 1, outside, first)
            for (hides, key), (first, outside) in self.unasked.items()
        ]
        columns = list(zip(*rows, strict=True)) or [()] * len(UNASKED)
        by_path = [pa.array(some, kind.type) for some, kind in zip(columns, UNASKED, strict=True)]
        return pa.concat_tables([pa.table(by_path, schema=UNASKED), *self.rest])


def _unasked_from(keys: pa.Table, number: int) -> pa.Table:
    """Return the keys of which a branch, and those behind it, were not asked: `UNASKED`."""
    left = keys.select(KEYS.names).filter(pc.greater(keys["branches"], number))
    first = pa.repeat(pa.scalar(number, pa.int32()), left.num_rows)
    return left.append_column("from_branch", first).cast(UNASKED)


@dataclass(frozen=True)
class _Lot:
    """Paths that are asked about together.

    They map a path (U+FFFD for what is no UTF-8) -> hides, key, branches, is_outside of each row.
    """

    paths: Mapping[str, list[tuple[int, int, int, bool]]]

    @classmethod
    def of(cls, rows: pa.Table, first: int) -> _Lot:
        """Take the rows that concern the branch `first` or a later one."""
        paths: dict[str, list[tuple[int, int, int, bool]]] = {}
        for row in rows.filter(pc.greater(rows["branches"], first)).to_pylist():
            about = (row["hides"], row["key"], row["branches"], row["is_outside"])
            paths.setdefault(row["head_path"].decode(errors="replace"), []).append(about)
        return cls(paths)


def _known_as(uri: str) -> str | None:
    """Return the object that an outside address may be by another name of the store.

    For an object in quarantine it is the key there.
    """
    begin = uri.rfind(f"{lakegc_keys.QUARANTINE}run_id=")
    return own_name(uri) if begin < 0 else uri[begin:]


def contents_of(store: ObjectStore, addresses: Sequence[str], *, threads: int) -> pa.Table:
    """Ask the store for the MD5s of contents, a request for each object, many at once.

    Args:
        store: Returns the MD5 of a content, or that it is unknown (`ObjectStore.content`).
        addresses: The objects.
        threads: Requests at once.

    Returns:
        Columns of `STATED`, null for what is unknown.
    """
    if not addresses:
        return STATED.empty_table()
    batches = interleaved(deal_out(addresses, threads), partial(_contents, store), threads=threads)
    return pa.Table.from_batches(batches, STATED)


def _contents(store: ObjectStore, addresses: Sequence[str]) -> Iterator[pa.RecordBatch]:
    found = []
    for address in addresses:
        try:
            found.append(store.content(address).checksum)
        except NotFoundError:
            found.append(None)  # gone since; then nothing is lost either way
    md5 = pa.array(found, pa.string())
    hashes = pc.if_else(md5.is_valid(), hashed(md5), None)
    yield pa.record_batch([hashed(pa.array(addresses, pa.string())), hashes], schema=STATED)
