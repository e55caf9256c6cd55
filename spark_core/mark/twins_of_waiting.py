"""The search of a mark for twins: waiting objects that hide under another object's entry.

The scan of staged entries cannot see them, so branches are asked. What the entries of heads say is
compared with the store first, as they may only be taken at their word where it agrees.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from spark_core import schemas
from spark_core.mark import fates_by_answers
from spark_core.mark.fate_rows import Decided
from spark_core.mark.missing import Missing, written_since
from spark_core.mark.seen_again import SeenAgain
from spark_core.records import reading
from spark_core.records.figures import CommittedFigures, ListedFigures
from spark_core.references import twins
from spark_core.references.choosing_entries import Alike
from spark_core.references.head_entries import ADDRESSES, NONE_ABSENT, SIZES, HeadEntries
from spark_core.references.heads import Heads
from spark_core.references.heads_of_mark import HeadsOfMark
from spark_core.references.known_ranges import said_of
from spark_core.references.metaranges import entries_of_heads
from spark_core.references.policy_rows import PolicyRows
from spark_core.references.stated import are_sizes_stated
from spark_core.references.table_reader import TableReader
from spark_core.references.unlisted import hashes_without_object
from spark_core.run import Run
from spark_core.run.chain import Mark
from spark_core.spark.exchange import AnySource, JoinedSource, source_of

_SIZES = pa.schema([schemas.EXPIRED_ADDRESSES.field("size_bytes")])
_CONTENTS = pa.schema([*_SIZES, schemas.NAMESPACE_SLICES.field("checksum")])


def search(
    run: Run, mark: Mark, missing: Missing, seen: SeenAgain, by_policy: PolicyRows | None
) -> twins.Answers:
    """Ask branches about the objects that wait.

    Args:
        run: The run.
        mark: Tables 1 to 4.
        missing: What heads reach without a listed object.
        seen: The decision so far; what waits of it is asked about.
        by_policy: What goes by a policy; None for nothing.
    """
    # If no object is left to go, none can be the twin of an entry.
    if not seen.decided.waiting_parts:
        return twins.NONE
    return _twins(
        run,
        mark,
        _heads(run, mark, missing, seen, by_policy=by_policy is not None),
        fates_by_answers.source_of_waiting(run, seen.decided),
        staged_names=None if by_policy is None else by_policy.staged_names(run),
        # What a policy names has entries of heads as well, which need not say the same.
        said=said_of(run, mark.committed) if by_policy is None else None,
    )


def _heads(
    run: Run, mark: Mark, missing: Missing, seen: SeenAgain, *, by_policy: bool
) -> HeadEntries:
    """Compare the entries of heads with the store; objects written since are not missing.

    Args:
        run: The run.
        mark: Tables 1 to 4.
        missing: What heads reach without a listed object.
        seen: The decision, of which what waits may hide, and what was written over.
        by_policy: Whether a policy names what heads have. Then all entries of heads are read, as
            they must agree on a path.
    """
    decided, lost, later = seen.decided, NONE_ABSENT, missing.later
    if missing.stored is not None:
        entries = reading.source_of_parts(run.store, ADDRESSES, missing.stored.manifest.parts)
        if later is None:
            later = written_since(run, mark.slices, mark.slices.manifest.reading_began, entries)
        lost = hashes_without_object(lambda: run.spark, entries, source_of(later, ADDRESSES))
    # What the index says of an object that was written over speaks for nobody.
    others = [
        source_of(rows, SIZES)
        for rows in (later, seen.changed)
        if rows is not None and rows.num_rows
    ]
    heads = HeadsOfMark(
        run,
        mark.slices,
        mark.committed,
        (lambda: None) if by_policy else partial(_sizes, run, decided),
        lost,
        partial(_alike, run, decided),
        later=JoinedSource(others) if others else None,
    )
    are_sizes_said = decided.other_sizes > 0
    if later is not None and not are_sizes_said:
        are_sizes_said = are_sizes_stated(
            lambda: run.spark, source_of(later, SIZES), heads.sizes_said()
        )
    committed = CommittedFigures.of(mark.committed.manifest)
    return heads.entries(are_sizes_said=are_sizes_said, any_outside=committed.heads_outside > 0)


def _alike(run: Run, decided: Decided) -> Alike:
    """Return what chooses entries that may have the content of what waits."""
    waiting = reading.source_of_parts(run.store, _CONTENTS, decided.waiting_parts)
    return Alike.any_of(waiting.each(lambda: run.spark, Alike.of))


def _sizes(run: Run, decided: Decided) -> Any:
    """Return the sizes of what waits, sorted and once."""
    waiting = reading.source_of_parts(run.store, _SIZES, decided.waiting_parts)
    return twins.sizes_of(lambda: run.spark, waiting)


def _twins(
    run: Run,
    mark: Mark,
    heads: HeadEntries,
    candidates: AnySource,
    *,
    staged_names: AnySource | None,
    said: AnySource | None,
) -> twins.Answers:
    """Search for what the scan cannot see.

    Args:
        run: The run.
        mark: Tables 1 to 4.
        heads: The entries of branch heads.
        candidates: The objects that are left to go.
        staged_names: As for `twins.find`, like the following.
        said: What entries of expired commits say.
    """
    slices, commits = mark.slices.manifest, mark.commits.manifest

    def entries_of() -> Mapping[str, int]:
        table = pa.Table.from_batches(mark.commits.batches(), schemas.RETAINED_COMMITS)
        return entries_of_heads(TableReader.of(run, ListedFigures.of(slices).table_prefix), table)

    return twins.find(
        run,
        candidates,
        heads,
        Heads.of(commits),
        grace=timedelta(seconds=ListedFigures.of(slices).grace_period_seconds),
        objects=ListedFigures.of(slices).objects,
        entries_of=entries_of,
        staged=mark.uncommitted.manifest.rows,
        staged_names=staged_names,
        said=said,
    )
