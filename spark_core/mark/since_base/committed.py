"""Table 4 of an optimized run: the ranges that came, and those that may have a candidate.

A candidate that is in no range which came, and in no sketch of a range that stayed, is in no
retained commit. Where a sketch may have it, the range is read, and its entries decide. Ranges of
heads are also read where an entry may hide a candidate. So the later steps decide about each
candidate as in a full run.

Where the base knew that every entry of a head gives the checksum of its object, this run gets to
know it again. Entries that nobody compared are in ranges that came, or that became a head's. They
are compared with the listing, and looked up where their slice is not listed. Ranges that stayed
are read again where they have an object that is listed again, which may have been written over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.addresses.namespace import slice_batch, slice_of
from spark_core.errors import ChainError, UnsafePlanError
from spark_core.mark.committed import RangesWritten, Targets, keep_ranges, read_figures, write_all
from spark_core.mark.since_base.change import Change, change_since, of_expired_commits
from spark_core.mark.since_base.lookups import look_up
from spark_core.optimized import sketches
from spark_core.optimized.base import MARK_FULL, Base, of_base
from spark_core.optimized.candidates import (
    CANDIDATES,
    Candidates,
    among,
    candidates_of,
    lost_at,
)
from spark_core.records import reading, tables, writing
from spark_core.records.figures import ChangeFigures, CommittedFigures
from spark_core.records.manifest import Manifest, Part
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Receipt, Target, Written
from spark_core.references import expired_entries
from spark_core.references.commits import tables_prefix
from spark_core.references.kept_objects import kept_addresses
from spark_core.references.range_entries import read_whole, resolved
from spark_core.references.ranges import TableReader, tasks_of, work_of_ranges
from spark_core.run import Run
from spark_core.spark.tasks import counting, interleaved, run_tasks

# Bytes of a file of the table that the driver holds until it writes all it holds as one file.
_HELD_BYTES = 2**22
# Bytes of sketches in the base's manifest from which on new ones are stored: each manifest takes
# over those of the one before, and manifests stay for ever.
_MOST_HELD_SKETCHES = 2**18

# Most entries of ranges that came; the driver holds a hash of each.
_MOST_ENTRIES = 20_000_000

# Addresses without an object, beside the objects that were looked up.
ABSENT = schemas.MISSING_ADDRESSES


def committed_since(run: Run, commits: StoredTable, base: Base) -> Draft:
    """Read what retained commits reach of what may be a candidate.

    The cost is that of the ranges that came and left, one pass over the sketches, and the ranges
    that may have a candidate or hide one.

    Args:
        run: The run.
        commits: Table 3.
        base: The run that this one begins from.

    Returns:
        Columns of `schemas.COMMITTED_ADDRESSES`.

    Raises:
        ChainError: If what the base saved contradicts what is there.
        UnsafePlanError: If so many objects changed that a full run is due.
        CorruptTableError: If any table cannot be read whole.
        NotFoundError: If a table is missing from the store.
    """
    began = run.begin(tables.COMMITTED_ADDRESSES)
    run.require_same_instance(commits.manifest)
    reader = TableReader.of(run, tables_prefix(run))
    change = change_since(run, reader, commits, base)
    compares = (
        run.store.tells_content
        and base.compared_checksums
        and _entries_of(change.came, change.stayed(change.new_heads)) <= _MOST_ENTRIES
    )
    targets = Targets.of(run)
    targets = replace(targets, table=replace(targets.table, holds=_HELD_BYTES))
    known = base.table(tables.RETAINED_RANGES).manifest.beside
    held = sum(part.size_bytes for part in known if part.content)
    if targets.sketches is not None and held > _MOST_HELD_SKETCHES:
        targets = replace(targets, sketches=replace(targets.sketches, holds=0))
    reads = _Reading(run, reader, base, change, targets, compares=compares)
    return targets.removed_on_failure(lambda: reads.draft(commits, began))


@dataclass
class _Reading:
    """The reading of one optimized run.

    Attributes:
        run: The run.
        reader: What executors read with.
        base: Its base.
        change: The ranges that came and left.
        targets: Where the tasks write.
        compares: Whether entries of heads are compared with their objects' checksums.
        written: What they wrote so far of ranges of retained commits ...
        left: ... and of ranges that left.
        read: The ranges of retained commits that were read: columns of `ranges.RANGES`.
    """

    run: Run
    reader: TableReader
    base: Base
    change: Change
    targets: Targets
    compares: bool
    written: list[RangesWritten] = field(default_factory=list)
    left: list[Receipt] = field(default_factory=list)
    read: list[pa.Table] = field(default_factory=list)

    def draft(self, commits: StoredTable, began: datetime) -> Draft:
        """Read everything, and return the table."""
        run, change = self.run, self.change
        new_heads = change.stayed(change.new_heads if self.compares else set())
        self._read(pa.concat_tables([change.came, new_heads]), self.targets)
        sketched = [receipts.sketches for receipts in self.written]
        came = _Came.of(run, self.base, self._parts(), with_checksums=self.compares)
        left_behind = self._read_left(came)
        with of_base(self.base):
            collected = candidates_of(run, self.base, left_behind)
        ranges = self.base.table(tables.RETAINED_RANGES)
        left = collected.without(came.hashes)
        answer = self._ask_sketches(
            ranges,
            sketches.Question(
                candidates=sketches.of_hashes(self._compared(left)),
                named=came.elsewhere,
                contents=came.stated,
            ),
        )
        matched = answer.ranges & change.known.keys()
        before = self._parts()
        known = replace(self.targets, sketches=None)
        self._read(change.stayed(matched), known)
        new_parts = [part for part in self._parts() if part not in before]
        left = left.without(among(run, _hashed_parts(new_parts), left.hashes))
        # Each of these addresses was compared with all retained ranges, or is in one that came.
        lost = [name for name in lost_at(self.base) if not self.base.lists(slice_of(name))]
        asked = _Asked.of(left, came.unknown(answer), lost)
        found, looked_up = self._look_up(asked, commits)
        hiding = self._hiding(ranges, left, found)
        self._read(change.stayed(hiding), known)
        stored = keep_ranges(
            run,
            commits,
            change.retained,
            self.targets,
            [Receipt(ranges.manifest.beside, {}), *sketched],
        )
        figures = self._figures(
            None if stored is None else stored.sha256,
            ChangeFigures(
                new_metaranges=change.new_metaranges,
                left_metaranges=change.left_metaranges,
                new_ranges=change.came.num_rows,
                left_ranges=change.left.num_rows,
                known_ranges=len(change.known),
                head_entries=change.head_entries,
                matched_ranges=len(matched),
                hiding_ranges=len(hiding),
                looked_up=len(asked.addresses),
                looked_up_manifest=None if looked_up is None else looked_up.sha256,
                compares_checksums=self.compares,
                spared_ranges=len(change.known.keys() - _ids(self.read)),
                **collected.counts,
            ),
        )
        return Draft(
            tables.COMMITTED_ADDRESSES,
            Written(
                self.targets.table.attempt,
                self._stored(),
                self.left,
                is_all=True,
            ),
            began,
            parents=(commits.manifest,),
            figures=figures,
            encloses=[made for made in (stored, looked_up) if made is not None],
        )

    def _read(self, ranges: pa.Table, targets: Targets) -> None:
        """Read ranges of retained commits into the table."""
        self.read.append(ranges)
        if ranges.num_rows:
            self.written += write_all(self.run, self.reader, targets, ranges)

    def _compared(self, left: Candidates) -> Any:
        """Return the hashes of objects whose ranges are read: candidates, and all that is listed.

        An object that is no candidate by its name is never read for another cause.
        """
        if not self.compares:
            return left.hashes
        batches = self.run.load(tables.NAMESPACE_SLICES).batches(["address_hash"])
        return np.concatenate([left.hashes, *(batch.column(0).to_numpy() for batch in batches)])

    def _parts(self) -> list[Part]:
        """Return the files of the table that were written so far."""
        return [part for receipts in self.written for part in receipts.table.parts]

    def _stored(self) -> list[Receipt]:
        """Write what the driver held of the table as one file, and return all receipts of it."""
        written = [receipts.table for receipts in self.written]
        held = [part for part in self._parts() if part.content]
        if not held:
            return written
        target = replace(self.targets.table, measure=None, holds=0)
        batches = (
            batch
            for part in held
            for batch in reading.read_part(self.run.store, target.schema, part)
        )
        whole = writing.write_parts(target, 0, batches)
        others = [
            replace(receipt, parts=tuple(part for part in receipt.parts if not part.content))
            for receipt in written
        ]
        return [*others, whole]

    def _read_left(self, came: _Came) -> pa.Table:
        """Read the ranges that left: columns of `CANDIDATES`, without what ranges have that came.

        Beside the table lie their entries' paths, for the words of the report.
        """
        left = self.change.left
        with of_expired_commits(self.base):
            receipts = run_tasks(
                lambda: self.run.spark,
                tasks_of(left, self.run.options.range_partitions),
                partial(_read_left, self.reader, self.targets.beside, came.hashes),
                rows=work_of_ranges(left),
            )
        self.left = [receipt for receipt, _ in receipts]
        return pa.concat_tables([CANDIDATES.empty_table(), *(found for _, found in receipts)])

    def _ask_sketches(self, ranges: StoredTable, question: sketches.Question) -> sketches.Answer:
        with of_base(self.base):
            answer = sketches.ask(self.run, ranges.manifest.beside, question)
        lacking = self.change.known.keys() - answer.seen
        if lacking:
            raise ChainError(
                f"run {self.base.key} saved no sketch of {len(lacking)} of its ranges, "
                f"{min(lacking)} among them",
                MARK_FULL,
            )
        return answer

    def _look_up(self, asked: _Asked, commits: StoredTable) -> tuple[pa.Table, Manifest | None]:
        """Look up what is in no listed slice, and store what is there and what is not.

        Returns:
            Columns of `schemas.NAMESPACE_SLICES`, and the manifest, to be enclosed; None for
            nothing.
        """
        run, began = self.run, self.run.now()
        found, requests = look_up(run, asked.addresses)
        if not asked.addresses:
            return found, None
        attempt, where = writing.new_attempt(), tables.folder(tables.LOOKED_UP_OBJECTS, run.key)
        target = Target(
            run.store, where, attempt, schemas.NAMESPACE_SLICES, holds=writing.HELD_BYTES
        )
        aside = replace(target, schema=ABSENT, name="_absent")
        expected = pa.array(asked.expected, pa.string())
        is_there = pc.is_in(expected, value_set=found["address"].combine_chunks())
        rows = pa.table([expected.filter(pc.invert(is_there))], schema=ABSENT)

        def write() -> tuple[Receipt, Receipt]:
            return (
                writing.write_parts(target, 0, iter(found.to_batches())),
                writing.write_parts(aside, 0, iter(rows.to_batches())),
            )

        listed, missing = writing.removed_on_failure(target, write)
        counted = replace(listed, figures=dict(requests))
        draft = Draft(
            tables.LOOKED_UP_OBJECTS,
            Written(attempt, [counted], [missing], is_all=True),
            began,
            parents=(commits.manifest,),
            is_enclosed=True,
        )
        return found, run.keep(draft).manifest

    def _hiding(self, ranges: StoredTable, left: Candidates, found: pa.Table) -> set[str]:
        """Return the ranges of heads that stayed, and of which an entry may hide a candidate.

        The entry then has the candidate's size, lies outside, or has no object.
        """
        known, read = self.change.known, _ids(self.read)
        unread = {name for name, one in known.items() if one.is_head} - read
        sizes = np.concatenate([left.sizes, _candidate_sizes(found)])
        if not unread or not len(sizes):
            return set()
        lost = hashed(pa.array(lost_at(self.base), pa.string())).to_numpy()
        question = sketches.Question(sizes=sketches.of_sizes(sizes), lost=sketches.of_hashes(lost))
        return set(self._ask_sketches(ranges, question).hiding & unread)

    def _figures(
        self, ranges_manifest: str | None, change: ChangeFigures
    ) -> Callable[[Mapping[str, Any], Counter[str]], CommittedFigures]:
        """Compare what had to be read with what was read."""
        ranges = pa.concat_tables(self.read)
        counts = self.change.read + writing.summed([one.table for one in self.written])[1]
        counts.update(writing.summed(self.left)[1])
        metaranges = self.change.metaranges

        def figures(measured: Mapping[str, Any], _: Counter[str]) -> CommittedFigures:
            found = Counter(counts)
            return CommittedFigures(
                ranges=ranges.num_rows,
                entries=pc.sum(ranges["count"]).as_py() or 0,
                head_ranges=pc.sum(ranges["is_head"]).as_py() or 0,
                head_metaranges=sum(metarange.is_head for metarange in metaranges),
                retained_metaranges=len(metaranges),
                metaranges=len(metaranges),
                metarange_rows=self.change.rows,
                expired_ranges=change.left_ranges,
                ranges_manifest=ranges_manifest,
                change=change,
                **read_figures(found),
                **measured,
            )

        return figures


@dataclass(frozen=True)
class _Came:
    """The entries of ranges that came.

    Attributes:
        run: The run.
        parts: Files of table 4 that have them.
        hashes: Hashes of their addresses, sorted, each once.
        elsewhere: Fingerprints of those of them that keep an object below `data/` in a slice that
            is not listed, sorted, each once.
        stated: The same of those with a checksum: hashes of `sketches.of_contents`; none where
            checksums are not compared.
    """

    run: Run
    base: Base
    parts: Sequence[Part]
    hashes: Any
    elsewhere: Any
    stated: Any

    @classmethod
    def of(cls, run: Run, base: Base, parts: Sequence[Part], *, with_checksums: bool) -> _Came:
        """Read their addresses back."""
        rows = sum(part.rows for part in parts)
        if rows > _MOST_ENTRIES:
            raise UnsafePlanError(
                f"repository {run.repository.id}: ranges with {rows:,} entries came since run "
                f"{base.key}, and an optimized run takes {_MOST_ENTRIES:,}",
                MARK_FULL,
            )
        hashes, elsewhere = [np.empty(0, np.int64)], [sketches.of_entries([], [])]
        stated = [sketches.of_hashes([])]
        for batch in _entries(run, parts):
            hashes.append(batch.column("address_hash").to_numpy())
            away = batch.filter(_is_elsewhere(base, batch))
            elsewhere.append(_fingerprints(away))
            stated.append(_stated(away)[0] if with_checksums else stated[0])
        return cls(
            run,
            base,
            parts,
            sorted_once(np.concatenate(hashes)),
            sorted_once(np.concatenate(elsewhere)),
            sorted_once(np.concatenate(stated)),
        )

    def unknown(self, answer: sketches.Answer) -> list[str]:
        """Return the addresses elsewhere of entries that no range of the base had.

        The base did not compare these entries with the listing. An address that it knew counts,
        too, if the entry gives another size than the entries that it knew. Where checksums are
        compared, so does one with another checksum than the entries of heads that were compared.

        Args:
            answer: What the sketches of the base's ranges say.
        """
        wanted = self.elsewhere[~np.isin(self.elsewhere, answer.named)]
        stated = self.stated[~np.isin(self.stated, answer.contents)]
        found: set[str] = set()
        for batch in _entries(self.run, self.parts) if len(wanted) or len(stated) else ():
            is_new = are_among(_fingerprints(batch), wanted)
            contents, has_one = _stated(batch)
            is_new[has_one] |= are_among(contents, stated)
            chosen = batch.filter(pa.array(is_new))
            names = chosen.filter(_is_elsewhere(self.base, chosen)).column("address")
            found.update(names.to_pylist())
        return sorted(found)


@dataclass(frozen=True)
class _Asked:
    """The objects that the store is asked about.

    Attributes:
        addresses: Their addresses, each once.
        expected: Those of them that an entry of a retained commit had, so that they should be
            there.
    """

    addresses: Sequence[str]
    expected: Sequence[str]

    @classmethod
    def of(cls, left: Candidates, named: Sequence[str], lost: Sequence[str]) -> _Asked:
        """Join candidates, entries that the base did not know, and what was missing then."""
        expected = sorted({*named, *lost})
        return cls(sorted({*left.others["address"].to_pylist(), *expected}), expected)


def _read_left(
    reader: TableReader, beside: Target, came: Any, number: int, ranges: pa.Table
) -> tuple[Receipt, pa.Table]:
    """Read ranges that left; runs on an executor."""
    candidates: list[pa.RecordBatch] = []
    figures = Counter[str]()

    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        # As of a head, so that the paths stay.
        entries = resolved(reader.namespace, read_whole(reader, row), is_head=True)
        hashes = entries.column("address_hash")
        is_new = pa.array(~are_among(hashes.to_numpy(), came))
        names = kept_addresses(entries.column("address")).filter(is_new)
        candidates.append(pa.record_batch([names, hashes.filter(is_new)], schema=CANDIDATES))
        newest = pa.repeat(pa.scalar(row["newest"], pa.int32()), entries.num_rows)
        yield expired_entries.entries(
            entries.append_column("newest", newest), with_paths=reader.with_paths
        )

    with counting(figures, reader.store.requests):
        batches = interleaved(ranges.to_pylist(), read, threads=reader.threads)
        written = writing.write_parts(beside, number, batches)
    found = pa.Table.from_batches(candidates, CANDIDATES)
    return replace(written, figures=dict(figures)), found


def _entries(run: Run, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
    """Read entries with the address of the object that each keeps."""
    schema = schemas.COMMITTED_ADDRESSES
    names = ["address", "address_hash", "size_bytes", "checksum"]
    wanted = pa.schema([schema.field(name) for name in names])
    for part in parts:
        for batch in reading.read_part(run.store, wanted, part):
            yield batch.set_column(0, "address", kept_addresses(batch.column("address")))


def _fingerprints(entries: pa.RecordBatch) -> Any:
    return sketches.of_entries(
        entries.column("address_hash").to_numpy(), entries.column("size_bytes").to_numpy()
    )


def _stated(entries: pa.RecordBatch) -> tuple[Any, Any]:
    """Hash the checksums that entries give with their addresses; and say which entries give one."""
    has_one = entries.column("checksum").is_valid()
    some = entries.filter(has_one)
    hashes = sketches.of_contents(some.column("address_hash").to_numpy(), some.column("checksum"))
    return hashes, has_one.to_numpy(zero_copy_only=False)


def _is_elsewhere(base: Base, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Say which addresses lie below `data/` in a slice that is not listed."""
    names = batch.column("address")
    return pc.and_(pc.starts_with(names, "data/"), pc.invert(base.listed(slice_batch(names))))


def _hashed_parts(parts: Sequence[Part]) -> list[tuple[Part, pa.Schema]]:
    return [(part, schemas.COMMITTED_ADDRESSES) for part in parts]


def _candidate_sizes(found: pa.Table) -> Any:
    chosen = found.filter(pc.equal(found["standing"], rule.CANDIDATE))
    return chosen["size_bytes"].to_numpy()


def _ids(some: Sequence[pa.Table]) -> set[str]:
    return {name for ranges in some for name in ranges["range_id"].to_pylist()}


def _entries_of(*several: pa.Table) -> int:
    """Count the entries of ranges: columns of `ranges.RANGES`."""
    return sum(pc.sum(ranges["count"]).as_py() or 0 for ranges in several)
